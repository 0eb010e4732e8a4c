//! Attempts in the record of a task and in its past: what they did, and whose their objects are.

use super::changes::*;
use counterstep_contracts::{
    Attempt, AuditSeq, Direction, Epoch, Outcome, StepNo, StepStatus, TaskId,
};
use counterstep_kernel::change::intents::overdue;
use counterstep_kernel::change::transition::{AttemptWrite, LeaseChange};
use counterstep_kernel::ports::{Ports, Store};
use counterstep_kernel::record::{Intention, TaskRecord};
use serde_json::json;
use std::time::Duration;

/// Writes attempts of a claimed task under its lease.
async fn write(store: &Store, task: TaskId, attempts: Vec<AttemptWrite>) -> TaskRecord {
    let record = load(store, task).await;
    let mut change = after(&record);
    change.attempts = attempts;
    commit(store, leased(&record), &change).await.unwrap();
    load(store, task).await
}

/// What a sweep may take, by number, in the order of the starts.
fn numbers(record: &TaskRecord) -> Vec<i32> {
    overdue(record)
        .iter()
        .map(|intent| intent.of.expect("an attempt's").2.0)
        .collect()
}

/// Whose the objects of each attempt are.
fn objects(record: &TaskRecord) -> Vec<Intention> {
    record.marks.iter().map(|mark| mark.objects).collect()
}

pub(crate) async fn an_attempt_comes_back_as_it_was_written(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let (step, attempt) = (StepNo(1), Attempt(1));
    let undo = AttemptWrite::Start {
        step,
        direction: Direction::Undo,
        attempt,
        epoch: Epoch(1),
        sweep_after: Duration::ZERO,
    };
    let record = load(store, task).await;
    let mut change = after(&record);
    change.attempts = vec![
        start(1, Epoch(1), MINUTE),
        end(1, Outcome::Failed, false),
        undo,
    ];
    let now = commit(store, leased(&record), &change).await.unwrap().now;
    let record = load(store, task).await;
    let [forward, undo] = record.marks[..] else {
        panic!("{:?}", record.marks)
    };
    assert_eq!(
        (forward.step, forward.direction, forward.attempt),
        (step, Direction::Forward, attempt)
    );
    assert_eq!(
        (forward.epoch, forward.runs, forward.objects),
        (Epoch(1), false, Intention::Open)
    );
    assert_eq!(forward.sweep_at, now.later(MINUTE));
    assert_eq!(
        (undo.direction, undo.attempt, undo.runs),
        (Direction::Undo, attempt, true)
    );
    assert_eq!((undo.objects, undo.sweep_at), (Intention::Open, now));
}

pub(crate) async fn what_a_sweep_says_of_an_attempt_stands_in_the_record(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, Duration::ZERO).await.task.id;
    let before = write(store, task, vec![start(1, Epoch(1), Duration::ZERO)]).await;
    let past = store.history(task).await.unwrap();
    assert_eq!(
        (numbers(&before), objects(&before)),
        (vec![1], vec![Intention::Open])
    );
    let condemned = sweep(store, task, vec![condemn(1)]).await;
    assert_eq!(objects(&condemned), [Intention::Condemned]);
    // A sweep that died here comes back to it.
    assert_eq!(numbers(&condemned), [1]);
    let swept = sweep(store, task, vec![swept(1)]).await;
    assert_eq!(
        (objects(&swept), numbers(&swept)),
        (vec![Intention::Swept], vec![])
    );

    // Each is a change of the task, and none that the audit tells of.
    assert_eq!(swept.task.rev, before.task.rev.next().next());
    assert_eq!(
        (swept.task.audit_seq, swept.task.status),
        (before.task.audit_seq, before.task.status)
    );
    let history = store.history(task).await.unwrap();
    assert_eq!(
        (history.audit, history.attempts),
        (past.audit, past.attempts)
    );
    assert_eq!(history.changes.len(), past.changes.len() + 2);
    // What the owner has decided before that is stale.
    let late = commit(store, leased(&before), &after(&before)).await;
    assert!(
        matches!(late, Err(counterstep_kernel::ports::CommitError::Stale)),
        "{late:?}"
    );
}

pub(crate) async fn what_did_not_end_well_is_kept_when_somebody_says_so(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, Duration::ZERO).await.task.id;
    let keep = |attempt| {
        vec![AttemptWrite::Keep {
            step: StepNo(1),
            attempt: Attempt(attempt),
        }]
    };
    let in_doubt = |attempt| {
        vec![
            start(attempt, Epoch(1), Duration::ZERO),
            end(attempt, Outcome::InDoubt, false),
        ]
    };
    write(store, task, in_doubt(1)).await;
    let record = write(store, task, in_doubt(2)).await;
    assert_eq!(numbers(&record), [1, 2]);
    write(store, task, keep(1)).await;
    let record = write(store, task, keep(1)).await;
    assert_eq!(
        (numbers(&record), objects(&record)),
        (vec![2], vec![Intention::Kept, Intention::Open])
    );
    // When the step is undone, it is as if the attempt had succeeded.
    let record = write(store, task, vec![AttemptWrite::Release { step: StepNo(1) }]).await;
    assert_eq!(numbers(&record), [1, 2]);
}

pub(crate) async fn what_a_success_kept_is_swept_after_its_release(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let record = write(
        store,
        task,
        vec![
            start(1, Epoch(1), Duration::ZERO),
            end(1, Outcome::Succeeded, true),
        ],
    )
    .await;
    assert_eq!(
        (numbers(&record), objects(&record)),
        (vec![], vec![Intention::Kept])
    );
    let record = write(store, task, vec![AttemptWrite::Release { step: StepNo(2) }]).await;
    assert!(numbers(&record).is_empty(), "another step's: {record:?}");

    let record = write(store, task, vec![AttemptWrite::Release { step: StepNo(1) }]).await;
    let [found] = &overdue(&record)[..] else {
        panic!("{record:?}")
    };
    assert_eq!(
        (found.task, found.task_type.as_deref()),
        (task, Some("Zip"))
    );
    assert_eq!(found.of, Some((StepNo(1), Direction::Forward, Attempt(1))));
    assert_eq!(found.prefix, format!("t/default/{task}/zip/e1.1/"));
    sweep(store, task, vec![condemn(1)]).await;
    assert!(numbers(&sweep(store, task, vec![swept(1)]).await).is_empty());
}

pub(crate) async fn what_failed_is_swept_and_what_kept_nothing_is_not(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::InDoubt,
        Outcome::Cancelled,
    ];
    for (n, outcome) in (1..).zip(outcomes) {
        write(
            store,
            task,
            vec![start(n, Epoch(1), Duration::ZERO), end(n, outcome, false)],
        )
        .await;
    }
    // The time of the last has not come.
    let record = write(
        store,
        task,
        vec![start(5, Epoch(1), MINUTE), end(5, Outcome::Failed, false)],
    )
    .await;
    assert_eq!(numbers(&record), [2, 3, 4]);
    assert_eq!(objects(&record)[0], Intention::Swept);
}

pub(crate) async fn an_attempt_under_a_live_lease_is_left_alone(ports: &Ports) {
    let store = &ports.store;
    let task = claimed(store, MINUTE).await.task.id;
    // One of the current epoch, and one that an older epoch left open.
    let attempts = vec![
        start(1, Epoch(1), Duration::ZERO),
        start(2, Epoch(0), Duration::ZERO),
    ];
    let record = write(store, task, attempts).await;
    assert_eq!(numbers(&record), [2]);

    // The lease ends: it may go.
    let mut change = after(&record);
    write_of(&mut change).lease = LeaseChange::Release;
    commit(store, leased(&record), &change).await.unwrap();
    assert_eq!(numbers(&load(store, task).await), [1, 2]);
}

pub(crate) async fn history_comes_back_in_order(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    let task = record.task.id;
    let mut change = claim(&record, "one", MINUTE);
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
    change.attempts = vec![
        start(2, Epoch(1), MINUTE),
        start(1, Epoch(1), MINUTE),
        end(2, Outcome::Failed, false),
    ];
    let now = commit(store, free(&record), &change).await.unwrap().now;

    let history = store.history(task).await.unwrap();
    assert_eq!(
        history
            .audit
            .iter()
            .map(|row| row.seq.0)
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(
        (&history.audit[1].entry, &history.audit[2].entry),
        (&first, &second)
    );
    assert_eq!(
        (history.audit[2].change_id, history.audit[2].at),
        (change.change_id, now)
    );
    let [two, one] = &history.attempts[..] else {
        panic!("{:?}", history.attempts)
    };
    let error = two.error.as_ref().map(ToString::to_string);
    assert_eq!(
        (two.attempt, two.outcome, error.as_deref()),
        (
            Attempt(2),
            Some(Outcome::Failed),
            Some("it broke (permanent)")
        )
    );
    assert_eq!(
        (two.started_at, two.ended_at, two.change_id),
        (now, Some(now), change.change_id)
    );
    assert_eq!(
        (one.attempt, one.outcome, one.ended_at, one.epoch),
        (Attempt(1), None, None, Epoch(1))
    );
    assert_eq!(one.prefix, format!("t/default/{task}/zip/e1.1/"));
}
