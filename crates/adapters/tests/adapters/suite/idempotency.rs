//! The rows of clients' idempotency keys.

use super::changes::*;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::change::transition::IdempotencyWrite;
use counterstep_kernel::ports::{CommitError, IdempotencyRow, Ports, Store};
use serde_json::json;
use std::time::Duration;

const OWNER: &str = "api:0123456789ab";

fn begin(expires_in: Duration) -> IdempotencyWrite {
    IdempotencyWrite::Begin {
        tenant: Tenant::default(),
        key: "key".to_owned(),
        owner: OWNER.to_owned(),
        expires_in,
    }
}

fn finish(expires_in: Duration) -> IdempotencyWrite {
    IdempotencyWrite::Finish {
        tenant: Tenant::default(),
        key: "key".to_owned(),
        fingerprint: "f".to_owned(),
        answer: json!({"task_id": "x"}),
        expires_in,
    }
}

async fn write(store: &Store, task: TaskId, write: IdempotencyWrite) -> Result<(), CommitError> {
    let mut change = nothing(task);
    change.idempotency = Some(write);
    commit(store, NEW, &change).await.map(drop)
}

async fn find(store: &Store) -> Option<IdempotencyRow> {
    store.idempotency(&Tenant::default(), "key").await.unwrap()
}

fn in_progress(task: TaskId) -> Option<IdempotencyRow> {
    Some(IdempotencyRow {
        task,
        owner: Some(OWNER.to_owned()),
        finished: None,
    })
}

fn finished(task: TaskId) -> Option<IdempotencyRow> {
    Some(IdempotencyRow {
        task,
        owner: None,
        finished: Some(("f".to_owned(), json!({"task_id": "x"}))),
    })
}

pub(crate) async fn a_key_in_progress_belongs_to_its_first_task(ports: &Ports) {
    let store = &ports.store;
    let (first, second) = (new_task(), new_task());
    assert_eq!(find(store).await, None);
    write(store, first, begin(MINUTE)).await.unwrap();
    assert_eq!(find(store).await, in_progress(first));
    for other in [begin(MINUTE), finish(MINUTE)] {
        let taken = write(store, second, other).await;
        assert!(matches!(taken, Err(CommitError::KeyTaken)), "{taken:?}");
    }
    assert_eq!(find(store).await, in_progress(first));
}

pub(crate) async fn a_finished_key_gives_its_answer(ports: &Ports) {
    let store = &ports.store;
    let (first, second) = (new_task(), new_task());
    write(store, first, begin(MINUTE)).await.unwrap();
    let mut change = submit(row(first));
    change.idempotency = Some(finish(MINUTE));
    commit(store, NEW, &change).await.unwrap();
    assert_eq!(find(store).await, finished(first));
    let taken = write(store, second, finish(MINUTE)).await;
    assert!(matches!(taken, Err(CommitError::KeyTaken)), "{taken:?}");
}

pub(crate) async fn an_abandoned_key_is_free_again(ports: &Ports) {
    let store = &ports.store;
    let (first, second) = (new_task(), new_task());
    let abandon = || IdempotencyWrite::Abandon {
        tenant: Tenant::default(),
        key: "key".to_owned(),
    };
    write(store, first, begin(MINUTE)).await.unwrap();
    // Only by its owner.
    write(store, second, abandon()).await.unwrap();
    assert_eq!(find(store).await, in_progress(first));
    write(store, first, abandon()).await.unwrap();
    assert_eq!(find(store).await, None);
    write(store, second, finish(MINUTE)).await.unwrap();
    assert_eq!(find(store).await, finished(second));
    // Not once it has its answer.
    write(store, second, abandon()).await.unwrap();
    assert_eq!(find(store).await, finished(second));
}

pub(crate) async fn an_expired_key_is_free_again(ports: &Ports) {
    let store = &ports.store;
    let (first, second) = (new_task(), new_task());
    write(store, first, begin(Duration::ZERO)).await.unwrap();
    assert_eq!(find(store).await, None);
    write(store, second, begin(MINUTE)).await.unwrap();
    assert_eq!(find(store).await, in_progress(second));
    // The first request took longer than its row: the key is the second one's now.
    let late = write(store, first, finish(MINUTE)).await;
    assert!(matches!(late, Err(CommitError::KeyTaken)), "{late:?}");
    write(store, second, finish(Duration::ZERO)).await.unwrap();
    assert_eq!(find(store).await, None);
    write(store, first, begin(MINUTE)).await.unwrap();
    assert_eq!(find(store).await, in_progress(first));
}

pub(crate) async fn keys_of_two_tenants_do_not_meet(ports: &Ports) {
    let store = &ports.store;
    let (first, second) = (new_task(), new_task());
    write(store, first, begin(MINUTE)).await.unwrap();
    let acme = Tenant("acme".to_owned());
    let owner = OWNER.to_owned();
    let other = IdempotencyWrite::Begin {
        tenant: acme.clone(),
        key: "key".to_owned(),
        owner,
        expires_in: MINUTE,
    };
    write(store, second, other).await.unwrap();
    assert_eq!(find(store).await, in_progress(first));
    assert_eq!(
        store.idempotency(&acme, "key").await.unwrap(),
        in_progress(second)
    );
}
