//! Transitions for the cases, as small as they can be.

use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, Outcome, QueueName, Rev,
    StatusChange, StepNo, TaskEvent, TaskId, TaskStatus, Tenant, WorkerMessage,
};
use counterstep_kernel::change::intents;
use counterstep_kernel::change::transition::{
    AttemptWrite, Guard, LeaseChange, ObjectsFate, ReceiveWrite, TaskWrite, Time, Transition, Work,
};
use counterstep_kernel::draft::after_commit;
use counterstep_kernel::payloads::encrypt_row;
use counterstep_kernel::ports::{CommitError, Committed, KnownType, Store};
use counterstep_kernel::record::{AuditEntry, StepFailure, StepRow, TaskRecord, TaskRow};
use counterstep_steps::times::DbTime;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What the cases' own tasks are.
pub(crate) fn known() -> Vec<KnownType> {
    vec![KnownType {
        name: "Zip".to_owned(),
        version: 1,
        definition: "hash".to_owned(),
    }]
}

pub(crate) fn new_task() -> TaskId {
    TaskId(Uuid::now_v7())
}

pub(crate) fn new_change() -> ChangeId {
    ChangeId(Uuid::now_v7())
}

pub(crate) fn message(task: TaskId, rev: i64) -> WorkerMessage {
    WorkerMessage {
        task,
        tenant: None,
        task_type: "Zip".to_owned(),
        version: 1,
        rev: Rev(rev),
        traceparent: None,
        outputs: serde_json::Map::new(),
    }
}

pub(crate) fn event(task: TaskId, seq: i64) -> TaskEvent {
    TaskEvent {
        task,
        task_type: "Zip".to_owned(),
        version: 1,
        tenant: Tenant::default(),
        seq: AuditSeq(seq),
        event: "step_succeeded".to_owned(),
        status: StatusChange {
            from: Some(TaskStatus::Running),
            to: TaskStatus::Running,
        },
        step: None,
        attempt: Some(Attempt(1)),
        epoch: Epoch(1),
        actor: "test".to_owned(),
        traceparent: None,
        labels: Labels::new(),
    }
}

pub(crate) fn row(id: TaskId) -> TaskRow {
    TaskRow {
        parent: None,
        webhook: None,
        place_key: None,
        place_no: None,
        id,
        tenant: Tenant::default(),
        task_type: "Zip".to_owned(),
        version: 1,
        definition_hash: "hash".to_owned(),
        status: TaskStatus::Dispatched,
        waiting: None,
        host: Host::Worker,
        queue: "files".to_owned(),
        rev: Rev(1),
        epoch: Epoch(0),
        lease_owner: None,
        lease_expires_at: None,
        due_at: None,
        deadline_at: None,
        cancel_requested_at: None,
        goal: None,
        recovery_attempts: 0,
        audit_seq: AuditSeq(1),
        audit_seal: None,
        request: json!({"files": 2}),
        client_key: Some("order-4711".to_owned()),
        response: None,
        failure: None,
        residue: false,
        settled: None,
        earlier_requests: Vec::new(),
        traceparent: None,
        labels: Labels::new(),
        created_at: DbTime(0),
        updated_at: DbTime(0),
        finished_at: None,
        sweep_at: None,
        change_id: new_change(),
    }
}

pub(crate) fn audit(row: &TaskRow, event: &str) -> AuditEntry {
    AuditEntry {
        seq: row.audit_seq,
        event: event.to_owned(),
        from: None,
        to: row.status,
        step: None,
        step_from: None,
        step_to: None,
        attempt: None,
        epoch: row.epoch,
        actor: "test".to_owned(),
        details: Value::Null,
    }
}

/// Of no task yet.
pub(crate) fn nothing(task: TaskId) -> Transition {
    Transition::new(new_change(), task)
}

/// The begin of a request with files, which a sweep may take from then on.
pub(crate) fn begin(task: TaskId, sweep_after: Duration) -> Transition {
    let tenant = Tenant::default();
    Transition {
        receive: Some(ReceiveWrite::Begun {
            tenant,
            sweep_after,
        }),
        ..nothing(task)
    }
}

/// That writes this row, and nothing else.
pub(crate) fn of(row: TaskRow) -> Transition {
    Transition {
        task: Some(TaskWrite::new(row.clone())),
        ..nothing(row.id)
    }
}

/// A new task with a step, its first audit entry and its message.
pub(crate) fn submit(row: TaskRow) -> Transition {
    let mut change = of(row.clone());
    change.steps = vec![StepRow::pending(StepNo(1), "zip")];
    change.audit = vec![audit(&row, "submitted")];
    let queue = QueueName(row.queue.clone());
    change.work = vec![Work {
        queue,
        message: message(row.id, row.rev.0),
    }];
    change
}

/// The same, of a request with files.
pub(crate) fn submit_received(task: TaskId) -> Transition {
    Transition {
        receive: Some(ReceiveWrite::Taken),
        ..submit(row(task))
    }
}

/// The next change of a task, with the revision that it must have.
pub(crate) fn after(record: &TaskRecord) -> Transition {
    let mut row = TaskRow::clone(&record.task);
    row.rev = row.rev.next();
    of(row)
}

/// A claim of a task.
pub(crate) fn claim(record: &TaskRecord, owner: &str, ttl: Duration) -> Transition {
    let mut change = after(record);
    let write = write_of(&mut change);
    write.row.epoch = write.row.epoch.next();
    if write.row.status != TaskStatus::Compensating {
        write.row.status = TaskStatus::Running;
    }
    write.row.waiting = None;
    write.due = Time::Clear;
    write.lease = LeaseChange::Take {
        owner: owner.to_owned(),
        ttl,
    };
    change
}

pub(crate) fn write_of(change: &mut Transition) -> &mut TaskWrite {
    change.task.as_mut().expect("a change of a task")
}

pub(crate) fn start(attempt: i32, epoch: Epoch, sweep_after: Duration) -> AttemptWrite {
    AttemptWrite::Start {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
        epoch,
        sweep_after,
    }
}

pub(crate) fn end(attempt: i32, outcome: Outcome, keeps_objects: bool) -> AttemptWrite {
    AttemptWrite::End {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
        outcome,
        error: (outcome != Outcome::Succeeded).then(|| StepFailure {
            class: "permanent".into(),
            message: "it broke".into(),
            ..StepFailure::default()
        }),
        kept: ObjectsFate::when(keeps_objects),
    }
}

pub(crate) fn condemn(attempt: i32) -> AttemptWrite {
    AttemptWrite::Condemn {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
    }
}

pub(crate) fn swept(attempt: i32) -> AttemptWrite {
    AttemptWrite::Swept {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
    }
}

pub(crate) const NEW: Guard = Guard::Free { rev: Rev(0) };

pub(crate) fn free(record: &TaskRecord) -> Guard {
    Guard::Free {
        rev: record.task.rev,
    }
}

pub(crate) fn leased(record: &TaskRecord) -> Guard {
    Guard::Lease {
        epoch: record.task.epoch,
        rev: record.task.rev,
    }
}

pub(crate) async fn load(store: &Store, task: TaskId) -> TaskRecord {
    store
        .load(task)
        .await
        .expect("a store that answers")
        .expect("a task that is there")
}

/// With what the engine gives each change: the time at which a sweep is to look at the task, and
/// its row in the journal.
pub(crate) fn whole(before: Option<&TaskRecord>, mut change: Transition) -> Transition {
    let actor = change
        .audit
        .first()
        .map_or_else(|| "test".to_owned(), |entry| entry.actor.clone());
    if let Some(write) = &change.task {
        let (task, steps) = (write.row.clone(), change.steps.clone());
        let blank = TaskRecord {
            task,
            steps,
            marks: Vec::new(),
            payload_key: None,
            now: DbTime(0),
        };
        let before = before.unwrap_or(&blank);
        let after = once_committed(before, &change, before.now);
        let is_leased = after.task.lease_owner.is_some();
        write_of(&mut change).row.sweep_at = if is_leased {
            None
        } else {
            intents::sweep_at(&after.marks)
        };
    }
    change.with_journal(before, &actor)
}

/// The task after a change that no draft has made.
pub(crate) fn once_committed(before: &TaskRecord, change: &Transition, now: DbTime) -> TaskRecord {
    let mut left = before.clone();
    if let Some(write) = &change.task {
        left.task.clone_from(&write.row);
    }
    for step in &change.steps {
        if let Some(row) = left.steps.iter_mut().find(|row| row.no == step.no) {
            row.clone_from(step);
        }
    }
    after_commit(before, left, change, now)
}

/// With its row in the journal, as the engine hands it to this store.
pub(crate) fn recorded(
    store: &Store,
    change: Transition,
    before: Option<&TaskRecord>,
) -> Transition {
    let mut change = change.with_journal(before, "test");
    encrypt_row(store.payload_codec(), &mut change).expect("a key");
    change
}

/// Writes a change as the engine does, or as it is where it has its row in the journal already. One
/// of a task that is there gets an entry of the audit where it has none: without one it would be a
/// sweep's.
pub(crate) async fn commit(
    store: &Store,
    guard: Guard,
    change: &Transition,
) -> Result<Committed, CommitError> {
    if change.journal.is_some() {
        return store.commit(guard, change.clone()).await;
    }
    let before = if guard == NEW {
        None
    } else {
        store.load(change.task_id).await.unwrap_or_default()
    };
    let mut change = change.clone();
    if change.audit.is_empty()
        && let (Some(write), Some(before)) = (&mut change.task, &before)
    {
        write.row.audit_seq = write.row.audit_seq.next();
        change.audit = vec![AuditEntry {
            from: Some(before.task.status),
            ..audit(&write.row, "changed")
        }];
    }
    store.commit(guard, whole(before.as_ref(), change)).await
}

/// Writes what a sweep says of attempts, and nothing else.
pub(crate) async fn sweep(store: &Store, task: TaskId, attempts: Vec<AttemptWrite>) -> TaskRecord {
    let record = load(store, task).await;
    let change = Transition {
        attempts,
        ..after(&record)
    };
    store
        .commit(free(&record), whole(Some(&record), change))
        .await
        .expect("a sweep");
    load(store, task).await
}

/// Writes a new row, and reads it back.
pub(crate) async fn submitted(store: &Store, row: TaskRow) -> TaskRecord {
    commit(store, NEW, &submit(row.clone()))
        .await
        .expect("a new task");
    load(store, row.id).await
}

/// A running task under a lease.
pub(crate) async fn claimed(store: &Store, ttl: Duration) -> TaskRecord {
    let record = submitted(store, row(new_task())).await;
    commit(store, free(&record), &claim(&record, "one", ttl))
        .await
        .expect("a claim");
    load(store, record.task.id).await
}
