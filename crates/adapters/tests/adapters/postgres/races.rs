//! What two that come at the same moment may do to each other: never both.

use super::{fixture, number, raw};
use crate::suite::changes::*;
use counterstep_contracts::{Attempt, Direction, Epoch, Outcome, StepNo, Tenant};
use counterstep_kernel::ports::{CommitError, Intent, IntentOp};
use counterstep_kernel::transition::IdempotencyWrite;
use futures::future::join_all;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_and_a_sweep_never_both_get_the_objects() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let (mut kept, mut condemned) = (0, 0);
    // How much later the sweep is asked for; less than nothing: how much sooner. It comes sooner after it was too late and
    // later after it was first, so that both stay close together on a fast machine and on a busy one.
    let mut behind: i64 = 0;
    for _ in 0..120 {
        let record = claimed(store, Duration::ZERO).await;
        let mut change = after(&record);
        change.attempts = vec![start(1, Epoch(1), Duration::ZERO)];
        commit(store, leased(&record), &change).await.unwrap();
        let record = load(store, record.task.id).await;
        let mut success = after(&record);
        success.attempts = vec![end(1, Outcome::Succeeded, true)];
        success.steps = record.steps.clone();
        let intent = Intent {
            task: record.task.id,
            step: StepNo(1),
            direction: Direction::Forward,
            attempt: Attempt(1),
            prefix: String::new(),
            overdue: Duration::ZERO,
        };
        let wait = |micros: i64| tokio::time::sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
        let sweep = async {
            wait(behind).await;
            store.intents(IntentOp::Condemn(vec![intent.clone()])).await
        };
        let success = async {
            wait(-behind).await;
            commit(store, leased(&record), &success).await
        };
        let (succeeded, swept) = futures::join!(success, sweep);
        match (succeeded, swept.unwrap().len()) {
            (Ok(_), 0) => {
                kept += 1;
                behind -= 300;
            }
            (Err(CommitError::Condemned), 1) => {
                condemned += 1;
                behind += 300;
                assert_eq!(load(store, record.task.id).await.task, record.task);
            }
            both => panic!("{both:?}"),
        }
    }
    assert!(kept > 0 && condemned > 0, "there was no race: {kept} kept, {condemned} condemned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_between_the_commits_view_and_its_lock_condemns_it() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    change.attempts = vec![start(1, Epoch(1), Duration::ZERO)];
    commit(store, leased(&record), &change).await.unwrap();
    let record = load(store, record.task.id).await;
    let other = raw(&fixture.url).await;
    other.batch_execute("BEGIN; UPDATE attempts SET intent = 'condemned'").await.unwrap();
    let mut success = after(&record);
    success.attempts = vec![end(1, Outcome::Succeeded, true)];
    let sweep = async {
        super::waiting(&other).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (late, ()) = futures::join!(commit(store, leased(&record), &success), sweep);
    assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
    assert_eq!(load(store, record.task.id).await.task, record.task);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_first_requests_with_a_key_one_gets_it() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let begin = |n: usize| {
        let mut change = nothing(new_task());
        change.idempotency = Some(IdempotencyWrite::Begin {
            tenant: Tenant::default(),
            key: format!("key-{n}"),
            owner: "api:1".to_owned(),
            expires_in: MINUTE,
        });
        change
    };
    for n in 0..5 {
        let changes: Vec<_> = (0..12).map(|_| begin(n)).collect();
        let results = join_all(changes.iter().map(|change| commit(store, NEW, change))).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(CommitError::KeyTaken))), "{results:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_equal_starts_and_of_many_equal_tasks_one_is_written() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let task = new_task();
    let submits: Vec<_> = (0..12).map(|_| submit(row(task))).collect();
    let receives: Vec<_> = (0..12)
        .map(|_| {
            let mut receive = nothing(task);
            receive.attempts = vec![start(1, Epoch(0), MINUTE)];
            receive
        })
        .collect();
    for changes in [receives, submits] {
        let results = join_all(changes.iter().map(|change| commit(store, NEW, change))).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(CommitError::Stale))), "{results:?}");
    }
    let raw = raw(&fixture.url).await;
    assert_eq!(number(&raw, "SELECT count(*) FROM journal").await, 1);
    assert_eq!(number(&raw, "SELECT count(*) FROM attempts").await, 1);
}
