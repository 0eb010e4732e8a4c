//! Many changes and loads at once. However a store sends them on their way, each gets what it would
//! have got alone.

use super::LIMIT;
use super::changes::*;
use counterstep_contracts::{Epoch, Rev, StepNo, StepStatus, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, IdempotencyWrite, Transition};
use counterstep_kernel::ports::{CommitError, Ports, ReceiveOp, Store};
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

async fn commit_all(
    store: &Store,
    changes: &[(Guard, Transition)],
) -> Vec<Result<(), CommitError>> {
    let each = changes
        .iter()
        .map(|(guard, change)| async { commit(store, *guard, change).await.map(drop) });
    join_all(each).await
}

fn with_key(mut change: Transition, key: &str) -> Transition {
    change.idempotency = Some(IdempotencyWrite::Finish {
        tenant: Tenant::default(),
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
        answer: json!({ "task_id": change.task_id }),
        expires_in: MINUTE,
    });
    change
}

pub(crate) async fn of_many_submissions_at_once_each_gets_its_own_answer(ports: &Ports) {
    let store = &ports.store;
    let there = submitted(store, row(new_task())).await.task.id;
    let mut received = Vec::new();
    for _ in 15..40 {
        let task = new_task();
        commit(store, NEW, &begin(task, Duration::ZERO))
            .await
            .unwrap();
        received.push(task);
    }
    let condemned = received[..5].to_vec();
    store
        .receives(&ReceiveOp::Condemn(condemned.clone()))
        .await
        .unwrap();
    let change = |n: usize| match n {
        // One key for ten tasks; a task that is there already; five whose files a sweep has
        // condemned; twenty whose files are there; and those that nothing stands in the way of.
        0..10 => with_key(submit(row(new_task())), "one"),
        10..15 => submit(row(there)),
        15..40 => submit_received(received[n - 15]),
        _ => with_key(submit(row(new_task())), &format!("key-{n}")),
    };
    let changes: Vec<_> = (0..80).map(|n| (NEW, change(n))).collect();
    let results = commit_all(store, &changes).await;

    assert_eq!(
        results[..10].iter().filter(|result| result.is_ok()).count(),
        1,
        "{results:?}"
    );
    assert!(
        results[..10]
            .iter()
            .all(|result| matches!(result, Ok(()) | Err(CommitError::KeyTaken))),
        "{results:?}"
    );
    assert!(
        results[10..15]
            .iter()
            .all(|result| matches!(result, Err(CommitError::Stale))),
        "{results:?}"
    );
    assert!(
        results[15..20]
            .iter()
            .all(|result| matches!(result, Err(CommitError::Condemned))),
        "{results:?}"
    );
    assert!(results[20..].iter().all(Result::is_ok), "{results:?}");
    let left = store.receives(&ReceiveOp::Of(received)).await.unwrap().rows;
    let left: BTreeSet<_> = left.into_iter().map(|row| row.task).collect();
    assert_eq!(
        left,
        condemned.into_iter().collect(),
        "each takes its own files, and no others"
    );
    for ((_, change), result) in changes
        .iter()
        .zip(&results)
        .filter(|((_, change), _)| change.task_id != there)
    {
        let found = store.load(change.task_id).await.unwrap();
        assert_eq!(
            found.is_some(),
            result.is_ok(),
            "a refused change leaves nothing, another one all of it"
        );
        let Some(found) = found else { continue };
        assert_eq!(
            (found.task.change_id, found.steps.len()),
            (change.change_id, 1)
        );
        let history = store.history(change.task_id).await.unwrap();
        assert!(
            history
                .audit
                .iter()
                .all(|entry| entry.change_id == change.change_id)
        );
        assert_eq!(history.audit.len(), 1);
    }
}

pub(crate) async fn of_many_changes_at_once_each_gets_its_own_answer(ports: &Ports) {
    let store = &ports.store;
    let mut records = Vec::new();
    for _ in 0..60 {
        records.push(claimed(store, MINUTE).await);
    }
    let change = |(n, record)| {
        let mut change = after(record);
        change.steps = record.steps.clone();
        change.steps[0].status = StepStatus::Running;
        change.steps[0].output = Some(json!({ "n": n }));
        let mut guard = leased(record);
        let epoch = record.task.epoch;
        match n {
            0..5 => {
                guard = Guard::Lease {
                    epoch,
                    rev: Rev(record.task.rev.0 - 1),
                }
            }
            5..10 => {
                guard = Guard::Lease {
                    epoch: Epoch(epoch.0 - 1),
                    rev: record.task.rev,
                }
            }
            10..15 => change = claim(record, "another host", MINUTE),
            _ => change.attempts = vec![start(1, epoch, MINUTE)],
        }
        if (10..15).contains(&n) {
            guard = free(record);
        }
        (guard, change)
    };
    let changes: Vec<_> = records.iter().enumerate().map(change).collect();
    let results = commit_all(store, &changes).await;

    for (n, result) in results.iter().enumerate() {
        let as_alone = match n {
            0..5 | 10..15 => matches!(result, Err(CommitError::Stale)),
            5..10 => matches!(result, Err(CommitError::Fenced { .. })),
            _ => result.is_ok(),
        };
        assert!(as_alone, "{n}: {result:?}");
    }
    let loaded = join_all(changes.iter().map(|(_, change)| store.load(change.task_id))).await;
    for (n, (found, record)) in loaded.into_iter().zip(&records).enumerate() {
        let found = found.unwrap().unwrap();
        if n < 15 {
            assert_eq!(
                (&found.task, &found.steps),
                (&record.task, &record.steps),
                "{n}"
            );
        } else {
            assert_eq!(found.task.rev, record.task.rev.next());
            assert_eq!(
                found.steps[0].output,
                Some(json!({ "n": n })),
                "the rows of one task are not another's"
            );
            assert_eq!(
                store.history(found.task.id).await.unwrap().attempts.len(),
                1
            );
        }
    }
}

pub(crate) async fn two_changes_of_one_task_at_once_do_not_both_happen(ports: &Ports) {
    let store = &ports.store;
    let mut changes = Vec::new();
    for _ in 0..20 {
        let record = claimed(store, MINUTE).await;
        changes.push((leased(&record), after(&record)));
        changes.push((free(&record), after(&record)));
    }
    let results = commit_all(store, &changes).await;
    for pair in results.chunks(2) {
        assert_eq!(
            pair.iter().filter(|result| result.is_ok()).count(),
            1,
            "{pair:?}"
        );
        assert!(
            pair.iter()
                .all(|result| matches!(result, Ok(()) | Err(CommitError::Stale))),
            "{pair:?}"
        );
    }
}

pub(crate) async fn of_many_loads_at_once_each_gets_its_own_task(ports: &Ports) {
    let store = &ports.store;
    let mut ids: Vec<TaskId> = Vec::new();
    for n in 0..20 {
        let mut row = row(new_task());
        row.request = json!({ "n": n });
        ids.push(submitted(store, row).await.task.id);
    }
    let unknown = new_task();
    let asked: Vec<TaskId> = (0..100)
        .map(|n| if n % 5 == 4 { unknown } else { ids[n % 20] })
        .collect();
    let found = join_all(asked.iter().map(|id| store.load(*id))).await;
    for (id, found) in asked.iter().zip(found) {
        let found = found.unwrap();
        assert_eq!(
            found.as_ref().map(|record| record.task.id),
            (*id != unknown).then_some(*id)
        );
        let Some(found) = found else { continue };
        assert_eq!(
            found.steps.iter().map(|step| step.no).collect::<Vec<_>>(),
            [StepNo(1)]
        );
        assert_eq!(
            Some(found.task.id),
            ids.get(found.task.request["n"].as_u64().unwrap() as usize)
                .copied()
        );
    }
}

pub(crate) async fn a_change_is_not_lost_when_its_neighbour_goes_away(ports: &Ports) {
    let store = &ports.store;
    let changes: Vec<_> = (0..60).map(|_| submit(row(new_task()))).collect();
    // The caller of every second one does not wait to the end.
    let each = changes.iter().enumerate().map(|(n, change)| async move {
        let patience = if n % 2 == 0 {
            Duration::from_micros(50)
        } else {
            LIMIT
        };
        tokio::time::timeout(patience, commit(store, NEW, change)).await
    });
    for (n, result) in join_all(each)
        .await
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % 2 == 1)
    {
        result.expect("an answer").unwrap();
        assert!(store.load(changes[n].task_id).await.unwrap().is_some());
    }
}
