//! Submissions that are written together.

use super::changes::*;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::change::transition::{IdempotencyWrite, Transition};
use counterstep_kernel::ports::{CommitError, Ports, Store};
use serde_json::json;
use std::sync::Arc;

fn keyed(task: TaskId, key: Option<&str>) -> Transition {
    let mut change = submit(row(task));
    change.events = vec![event(task, 1)];
    change.idempotency = key.map(|key| IdempotencyWrite::Finish {
        tenant: Tenant::default(),
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
        answer: json!({"task_id": task}),
        expires_in: MINUTE,
    });
    whole(None, change)
}

async fn are_there(store: &Store, changes: &[Arc<Transition>]) -> Vec<bool> {
    let mut found = Vec::new();
    for change in changes {
        found.push(store.load(change.task_id).await.unwrap().is_some());
    }
    found
}

pub(crate) async fn submissions_are_written_all_or_none(ports: &Ports) {
    let store = &ports.store;
    let (one, two, three) = (
        keyed(new_task(), Some("one")),
        keyed(new_task(), None),
        keyed(new_task(), Some("three")),
    );
    let [one, two, three] = [one, two, three].map(Arc::new);
    let first = [one, two.clone(), three.clone()];
    let committed = store.commit_all(&first).await.unwrap();
    for change in &first {
        let record = load(store, change.task_id).await;
        assert_eq!(record.task.created_at, committed.now);
        let history = store.history(change.task_id).await.unwrap();
        assert_eq!(history.changes, [(record.task.rev, change.change_id)]);
    }
    let key = store
        .idempotency(&Tenant::default(), "three")
        .await
        .unwrap();
    assert_eq!(key.map(|key| key.task), Some(three.task_id));

    let (four, taken) = (
        keyed(new_task(), Some("four")),
        keyed(new_task(), Some("one")),
    );
    let [four, taken] = [four, taken].map(Arc::new);
    let refused = store.commit_all(&[four.clone(), taken.clone()]).await;
    assert!(matches!(refused, Err(CommitError::KeyTaken)), "{refused:?}");
    let refused = store.commit_all(&[four.clone(), two]).await;
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    let refused = store.commit_all(&first).await;
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    assert_eq!(are_there(store, &[four, taken]).await, [false, false]);
    let free = store.idempotency(&Tenant::default(), "four").await;
    assert_eq!(free.unwrap(), None);
}

pub(crate) async fn a_batch_of_a_thousand_is_one_change_each(ports: &Ports) {
    let store = &ports.store;
    let keys: Vec<_> = (0..1000).map(|n| format!("k{n}")).collect();
    let new = |key: &String| Arc::new(keyed(new_task(), Some(key)));
    let all: Vec<_> = keys.iter().map(new).collect();
    store.commit_all(&all).await.unwrap();
    assert!(
        are_there(store, &all)
            .await
            .into_iter()
            .all(|is_there| is_there)
    );
}
