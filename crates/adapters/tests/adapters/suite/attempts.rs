//! Attempts as claims of an execution and as intents of objects, and the sweep's side of them.

use super::changes::*;
use counterstep_contracts::{Attempt, AuditSeq, Direction, Epoch, Outcome, StepNo, StepStatus, TaskId};
use counterstep_kernel::ports::{CommitError, Intent, IntentOp, Ports, Store, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::transition::{AttemptWrite, LeaseChange};
use serde_json::json;
use std::time::Duration;

/// Writes attempts of a claimed task under its lease.
async fn write(store: &dyn Store, task: TaskId, attempts: Vec<AttemptWrite>) -> Result<TaskRecord, CommitError> {
    let record = load(store, task).await;
    let mut change = after(&record);
    change.attempts = attempts;
    commit(store, leased(&record), &change).await?;
    Ok(load(store, task).await)
}

async fn overdue(store: &dyn Store) -> Vec<Intent> {
    store.intents(IntentOp::Overdue { limit: 100 }).await.unwrap()
}

async fn condemn(store: &dyn Store, intents: &[Intent]) -> Vec<Intent> {
    store.intents(IntentOp::Condemn(intents.to_vec())).await.unwrap()
}

fn intent(task: TaskId, attempt: i32) -> Intent {
    Intent {
        task,
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
        prefix: format!("t/default/x/zip/e1.{attempt}/"),
        overdue: Duration::ZERO,
    }
}

fn numbers(intents: &[Intent]) -> Vec<i32> {
    intents.iter().map(|intent| intent.attempt.0).collect()
}

pub(crate) async fn an_attempt_starts_once(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    write(store, task, vec![start(1, Epoch(1), MINUTE)]).await.unwrap();
    let again = write(store, task, vec![start(1, Epoch(1), MINUTE)]).await;
    assert!(matches!(again, Err(CommitError::Stale)), "{again:?}");
    let undo = AttemptWrite::Start {
        step: StepNo(1),
        direction: Direction::Undo,
        attempt: Attempt(1),
        epoch: Epoch(1),
        prefix: "t/default/x/zip.undo/e1.1/".to_owned(),
        sweep_after: MINUTE,
    };
    write(store, task, vec![undo]).await.unwrap();
}

pub(crate) async fn only_an_open_attempt_can_end(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let never = write(store, task, vec![end(1, Outcome::Failed, false)]).await;
    assert!(matches!(never, Err(CommitError::Store(StoreError::Corrupt(_)))), "{never:?}");
    write(store, task, vec![start(1, Epoch(1), MINUTE), end(1, Outcome::Failed, false)]).await.unwrap();
    let twice = write(store, task, vec![end(1, Outcome::Succeeded, true)]).await;
    assert!(matches!(twice, Err(CommitError::Store(StoreError::Corrupt(_)))), "{twice:?}");
}

pub(crate) async fn a_condemned_attempt_cannot_succeed(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, Duration::ZERO).await.task.id;
    write(store, task, vec![start(1, Epoch(1), Duration::ZERO)]).await.unwrap();
    let found = overdue(store).await;
    assert_eq!(condemn(store, &found).await, found);
    let before = load(store, task).await;
    for swept in [false, true] {
        if swept {
            store.intents(IntentOp::Swept(found.clone())).await.unwrap();
        }
        let late = write(store, task, vec![end(1, Outcome::Succeeded, true)]).await;
        assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
        assert_eq!(load(store, task).await.task, before.task);
        assert_eq!(store.history(task).await.unwrap().attempts[0].outcome, None);
    }
    write(store, task, vec![end(1, Outcome::InDoubt, false)]).await.unwrap();
}

pub(crate) async fn what_did_not_end_well_is_kept_when_somebody_says_so(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, Duration::ZERO).await.task.id;
    let keep = |attempt| vec![AttemptWrite::Keep { step: StepNo(1), attempt: Attempt(attempt) }];
    let in_doubt = |attempt| [start(attempt, Epoch(1), Duration::ZERO), end(attempt, Outcome::InDoubt, false)];
    write(store, task, in_doubt(1).to_vec()).await.unwrap();
    write(store, task, in_doubt(2).to_vec()).await.unwrap();
    assert_eq!(numbers(&overdue(store).await), [1, 2]);
    write(store, task, keep(1)).await.unwrap();
    write(store, task, keep(1)).await.expect("once more does no harm");
    let found = overdue(store).await;
    assert_eq!(numbers(&found), [2]);
    assert_eq!(condemn(store, &[intent(task, 1)]).await, [], "it is an output");
    // The other one was faster in this case.
    assert_eq!(condemn(store, &found).await, found);
    let before = load(store, task).await;
    let late = write(store, task, keep(2)).await;
    assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
    assert_eq!(load(store, task).await.task, before.task);
    let never = write(store, task, keep(3)).await;
    assert!(matches!(never, Err(CommitError::Store(StoreError::Corrupt(_)))), "{never:?}");
    // When the step is undone, it is as if the attempt had succeeded.
    write(store, task, vec![AttemptWrite::Release { step: StepNo(1) }]).await.unwrap();
    let mut all = numbers(&overdue(store).await);
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

pub(crate) async fn what_a_success_kept_is_swept_after_its_release(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let ended = vec![start(1, Epoch(1), Duration::ZERO), end(1, Outcome::Succeeded, true)];
    write(store, task, ended).await.unwrap();
    assert_eq!(overdue(store).await, []);
    assert_eq!(condemn(store, &[intent(task, 1)]).await, []);
    write(store, task, vec![AttemptWrite::Release { step: StepNo(2) }]).await.unwrap();
    assert_eq!(overdue(store).await, []);

    write(store, task, vec![AttemptWrite::Release { step: StepNo(1) }]).await.unwrap();
    let found = overdue(store).await;
    assert_eq!((numbers(&found), found[0].task), (vec![1], task));
    assert_eq!(found[0].prefix, "t/default/x/zip/e1.1/");
    // Not condemned yet, so nothing can be closed.
    store.intents(IntentOp::Swept(found.clone())).await.unwrap();
    assert_eq!(numbers(&overdue(store).await), [1]);
    assert_eq!(numbers(&condemn(store, &found).await), [1]);
    // A sweep that died here comes back to it.
    assert_eq!(numbers(&overdue(store).await), [1]);
    assert_eq!(numbers(&condemn(store, &found).await), [1]);
    assert_eq!(store.intents(IntentOp::Swept(found.clone())).await.unwrap(), []);
    assert_eq!(overdue(store).await, []);
    assert_eq!(condemn(store, &found).await, []);
}

pub(crate) async fn what_failed_is_swept_and_what_kept_nothing_is_not(ports: &Ports) {
    let store = &*ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let outcomes = [Outcome::Succeeded, Outcome::Failed, Outcome::InDoubt, Outcome::Cancelled];
    for (n, outcome) in (1..).zip(outcomes) {
        write(store, task, vec![start(n, Epoch(1), Duration::ZERO), end(n, outcome, false)]).await.unwrap();
    }
    let mut found = numbers(&overdue(store).await);
    found.sort_unstable();
    assert_eq!(found, [2, 3, 4]);
    // Their time has not come.
    write(store, task, vec![start(5, Epoch(1), MINUTE), end(5, Outcome::Failed, false)]).await.unwrap();
    assert_eq!(condemn(store, &[intent(task, 5)]).await, []);
}

pub(crate) async fn an_attempt_under_a_live_lease_is_never_condemned(ports: &Ports) {
    let store = &*ports.store;
    let record = claimed(store, MINUTE).await;
    let task = record.task.id;
    // One of the current epoch, and one that an older epoch left open.
    let attempts = vec![start(1, Epoch(1), Duration::ZERO), start(2, Epoch(0), Duration::ZERO)];
    write(store, task, attempts).await.unwrap();
    assert_eq!(numbers(&overdue(store).await), [2]);
    assert_eq!(numbers(&condemn(store, &[intent(task, 1), intent(task, 2)]).await), [2]);

    // The lease ends: it may go.
    let record = load(store, task).await;
    let mut change = after(&record);
    write_of(&mut change).lease = LeaseChange::Release;
    commit(store, leased(&record), &change).await.unwrap();
    assert_eq!(numbers(&condemn(store, &[intent(task, 1)]).await), [1]);
}

pub(crate) async fn an_upload_that_never_became_a_task_is_swept(ports: &Ports) {
    let store = &*ports.store;
    let mut receive = nothing(new_task());
    receive.attempts = vec![start(1, Epoch(0), Duration::ZERO), start(2, Epoch(0), MINUTE)];
    commit(store, NEW, &receive).await.unwrap();
    let found = overdue(store).await;
    assert_eq!((numbers(&found), found[0].task), (vec![1], receive.task_id));
    assert_eq!(condemn(store, &found).await, found);
    // The request arrives after all, too late.
    let mut submit = submit(row(receive.task_id));
    submit.attempts = vec![end(1, Outcome::Succeeded, true)];
    let late = commit(store, NEW, &submit).await;
    assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
    assert_eq!(store.load(receive.task_id).await.unwrap(), None);
    submit.attempts = vec![end(2, Outcome::Succeeded, true)];
    commit(store, NEW, &submit).await.unwrap();
}

pub(crate) async fn the_oldest_intents_come_first(ports: &Ports) {
    let store = &*ports.store;
    let mut expected = Vec::new();
    // No two of them can fall on the same microsecond, whatever whole milliseconds lie between the commits.
    for micros in [3003, 1001, 2002] {
        let mut receive = nothing(new_task());
        receive.attempts = vec![start(micros, Epoch(0), Duration::from_micros(u64::try_from(micros).unwrap()))];
        let now = commit(store, NEW, &receive).await.unwrap().now;
        expected.push((now.0 + i64::from(micros), micros));
    }
    expected.sort_unstable();
    let all = super::eventually("three overdue intents", || async {
        Some(overdue(store).await).filter(|found| found.len() == 3)
    });
    let all = all.await;
    assert_eq!(numbers(&all), expected.iter().map(|(_, n)| *n).collect::<Vec<_>>());
    assert!(all[0].overdue >= all[2].overdue);
    assert_eq!(store.intents(IntentOp::Overdue { limit: 2 }).await.unwrap().len(), 2);
}

pub(crate) async fn history_comes_back_in_order(ports: &Ports) {
    let store = &*ports.store;
    let record = claimed(store, MINUTE).await;
    let task = record.task.id;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.audit_seq = AuditSeq(3);
    let second = audit(&write.row, "step-started");
    let mut first = second.clone();
    first.seq = AuditSeq(2);
    first.event = "claimed".to_owned();
    first.from = Some(counterstep_contracts::TaskStatus::Dispatched);
    first.step = Some(StepNo(1));
    first.step_from = Some(StepStatus::Pending);
    first.step_to = Some(StepStatus::Running);
    first.attempt = Some(Attempt(2));
    first.details = json!({"why": ["x"]});
    change.audit = vec![first.clone(), second.clone()];
    // Higher numbers first: the order is that of the start, in one change too.
    change.attempts = vec![start(2, Epoch(1), MINUTE), start(1, Epoch(1), MINUTE), end(2, Outcome::Failed, false)];
    let now = commit(store, leased(&record), &change).await.unwrap().now;

    let history = store.history(task).await.unwrap();
    assert_eq!(history.audit.iter().map(|row| row.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((&history.audit[1].entry, &history.audit[2].entry), (&first, &second));
    assert_eq!((history.audit[2].change_id, history.audit[2].at), (change.change_id, now));
    let [two, one] = &history.attempts[..] else { panic!("{:?}", history.attempts) };
    assert_eq!((two.attempt, two.outcome, two.error.as_deref()), (Attempt(2), Some(Outcome::Failed), Some("it broke")));
    assert_eq!((two.started_at, two.ended_at, two.change_id), (now, Some(now), change.change_id));
    assert_eq!((one.attempt, one.outcome, one.ended_at, one.epoch), (Attempt(1), None, None, Epoch(1)));
    assert_eq!(one.prefix, "t/default/x/zip/e1.1/");
}
