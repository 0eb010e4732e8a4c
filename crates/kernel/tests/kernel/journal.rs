//! The rows of a journal: their form, which released programs have written, and what is read back
//! from them.

mod chain;
mod encrypted;
mod form;
mod later_rows;
mod sweeps;

use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, Outcome, Rev, StepNo, StepStatus,
    TaskId, TaskStatus, Tenant,
};
use counterstep_kernel::audit::{ContentHash, EntryHash, seal};
use counterstep_kernel::change::transition::Written;
use counterstep_kernel::change::transition::{
    AttemptWrite, LeaseChange, ObjectsFate, TaskWrite, Time, Transition,
};
use counterstep_kernel::journal::{FORM, Fold, JournalError, JournalRow};
use counterstep_kernel::record::{
    AuditEntry, Intention, SignalRow, StepRow, TaskRecord, TaskRow, UndoGoal,
};
use counterstep_steps::times::DbTime;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

const TASK: TaskId = TaskId(Uuid::from_u128(0x0198_1a2b_3c4d_7e5f_8a9b_0c1d_2e3f_4a5b));
const MINUTE: Duration = Duration::from_secs(60);

/// A task and its journal, change by change.
struct Story {
    record: Option<TaskRecord>,
    rows: Vec<JournalRow>,
}

impl Story {
    /// Writes a change at a second, and says what a store would keep of it.
    fn write(&mut self, at: i64, change: Transition) -> &JournalRow {
        let change = change.with_journal(self.record.as_ref(), "worker:1");
        let now = DbTime(at * 1_000_000);
        let Written {
            actor,
            form,
            entries,
            data,
            link,
            ..
        } = change.journal.clone().expect("a row");
        let write = change.task.as_ref().expect("a task");
        let mut before = self.record.take().unwrap_or_else(|| TaskRecord {
            task: Box::new(TaskRow {
                created_at: now,
                ..*write.row.clone()
            }),
            steps: change.steps.clone(),
            marks: Vec::new(),
            payload_key: None,
            now,
        });
        before.now = now;
        let mut left = before.clone();
        left.task = write.row.clone();
        for step in &change.steps {
            let row = left.steps.iter_mut().find(|row| row.no == step.no);
            row.expect("a step").clone_from(step);
        }
        let after = counterstep_kernel::draft::after_commit(&before, left, &change, now);
        self.record = Some(after);
        let sealed = seal(&link.0, now);
        let (rev, epoch) = (write.row.rev, write.row.epoch);
        let row = JournalRow {
            rev,
            epoch,
            at: now,
            change_id: change.change_id,
            actor,
            form,
            entries,
            data,
            link,
            seal: sealed,
        };
        self.rows.push(row);
        self.rows.last().expect("it was pushed")
    }

    fn task(&self) -> &TaskRow {
        &self.record.as_ref().expect("a task").task
    }

    fn fold(&self) -> Result<Fold, JournalError> {
        let mut fold = Fold::with_history(TASK);
        self.rows.iter().try_for_each(|row| fold.push(row))?;
        Ok(fold)
    }
}

fn change(row: TaskRow, rev: i64) -> Transition {
    let change_id = ChangeId(Uuid::from_u128(u128::try_from(rev).expect("a revision")));
    let write = TaskWrite::new(TaskRow {
        rev: Rev(rev),
        change_id,
        ..row
    });
    Transition {
        task: Some(write),
        ..Transition::new(change_id, TASK)
    }
}

fn entry(seq: i64, event: &str, from: Option<TaskStatus>, to: TaskStatus) -> AuditEntry {
    AuditEntry {
        seq: AuditSeq(seq),
        event: event.to_owned(),
        from,
        to,
        step: None,
        step_from: None,
        step_to: None,
        attempt: None,
        epoch: Epoch(0),
        actor: "worker:1".to_owned(),
        details: Value::Null,
    }
}

fn of_step(entry: AuditEntry, from: StepStatus, to: StepStatus) -> AuditEntry {
    let (step, attempt) = (Some(StepNo(1)), Some(Attempt(1)));
    AuditEntry {
        step,
        step_from: Some(from),
        step_to: Some(to),
        attempt,
        epoch: Epoch(1),
        ..entry
    }
}

fn submitted() -> TaskRow {
    TaskRow {
        parent: None,
        webhook: None,
        place_key: None,
        place_no: None,
        id: TASK,
        tenant: Tenant("acme".to_owned()),
        task_type: "Zip".to_owned(),
        version: 1,
        definition_hash: "abc".to_owned(),
        status: TaskStatus::Dispatched,
        waiting: None,
        host: Host::Worker,
        queue: "files".to_owned(),
        rev: Rev(0),
        epoch: Epoch(0),
        lease_owner: None,
        lease_expires_at: None,
        due_at: None,
        deadline_at: None,
        cancel_requested_at: None,
        goal: None,
        recovery_attempts: 0,
        audit_seq: AuditSeq(2),
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
        change_id: ChangeId(Uuid::nil()),
    }
}

/// Submitted; claimed, with its step's first attempt; a signal; the end.
fn story() -> Story {
    use StepStatus::{Completed, Pending, Running};
    let mut story = Story {
        record: None,
        rows: Vec::new(),
    };
    let mut first = change(submitted(), 1);
    first.audit = vec![
        entry(1, "submitted", None, TaskStatus::Submitted),
        entry(
            2,
            "dispatched",
            Some(TaskStatus::Submitted),
            TaskStatus::Dispatched,
        ),
    ];
    first.steps = vec![
        StepRow::pending(StepNo(1), "zip"),
        StepRow::pending(StepNo(2), "approve"),
    ];
    first.task.as_mut().expect("a task").deadline = Time::In(10 * MINUTE);
    story.write(1, first);

    let row = TaskRow {
        status: TaskStatus::Running,
        epoch: Epoch(1),
        audit_seq: AuditSeq(4),
        ..story.task().clone()
    };
    let mut claim = change(row, 2);
    claim.task.as_mut().expect("a task").lease = LeaseChange::Take {
        owner: "worker:1".to_owned(),
        ttl: MINUTE,
    };
    let claimed = entry(
        3,
        "claimed",
        Some(TaskStatus::Dispatched),
        TaskStatus::Running,
    );
    let started = entry(
        4,
        "step_started",
        Some(TaskStatus::Running),
        TaskStatus::Running,
    );
    claim.audit = vec![
        AuditEntry {
            epoch: Epoch(1),
            ..claimed
        },
        of_step(started, Pending, Running),
    ];
    claim.attempts = vec![AttemptWrite::Start {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(1),
        epoch: Epoch(1),
        sweep_after: MINUTE,
    }];
    let begun = Some(AuditSeq(4));
    claim.steps = vec![StepRow {
        status: Running,
        attempts: Attempt(1),
        attempt_open: true,
        started_seq: begun,
        ..StepRow::pending(StepNo(1), "zip")
    }];
    story.write(2, claim);

    let signal = SignalRow {
        body: json!({"secret": "yes"}),
        actor: "client".to_owned(),
        at: DbTime(3_000_000),
    };
    let mut heard = change(
        TaskRow {
            audit_seq: AuditSeq(5),
            ..story.task().clone()
        },
        3,
    );
    let received = entry(
        5,
        "signal_received",
        Some(TaskStatus::Running),
        TaskStatus::Running,
    );
    let (step, pending) = (Some(StepNo(2)), Some(Pending));
    heard.audit = vec![AuditEntry {
        step,
        step_from: pending,
        step_to: pending,
        epoch: Epoch(1),
        details: json!({"body": {"secret": "yes"}}),
        ..received
    }];
    heard.steps = vec![StepRow {
        signal: Some(signal),
        ..StepRow::pending(StepNo(2), "approve")
    }];
    story.write(3, heard);

    let response = Some(json!({"size": 7}));
    let row = TaskRow {
        audit_seq: AuditSeq(6),
        response,
        goal: Some(UndoGoal::Failed),
        ..story.task().clone()
    };
    let mut end = change(row, 4);
    let task = end.task.as_mut().expect("a task");
    (task.lease, task.finished) = (LeaseChange::Release, Time::In(Duration::ZERO));
    let succeeded = entry(
        6,
        "step_succeeded",
        Some(TaskStatus::Running),
        TaskStatus::Running,
    );
    end.audit = vec![of_step(succeeded, Running, Completed)];
    end.attempts = vec![AttemptWrite::End {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(1),
        outcome: Outcome::Succeeded,
        error: None,
        kept: ObjectsFate::Output,
    }];
    end.steps = vec![StepRow {
        status: Completed,
        attempts: Attempt(1),
        output: Some(json!("secret of the step")),
        started_seq: begun,
        ..StepRow::pending(StepNo(1), "zip")
    }];
    story.write(4, end);
    story
}

#[test]
fn rows_fold_to_the_task_its_attempts_and_its_past() {
    let story = story();
    let fold = story.fold().expect("rows that can be read");
    let [attempt] = fold.attempts() else {
        panic!("{:?}", fold.attempts())
    };
    assert_eq!(attempt.prefix, format!("t/acme/{TASK}/zip/e1.1/"));
    assert_eq!(
        (attempt.outcome, attempt.ended_at),
        (Some(Outcome::Succeeded), Some(DbTime(4_000_000)))
    );
    let [mark] = fold.record().marks[..] else {
        panic!("{:?}", fold.record().marks)
    };
    assert_eq!(
        (mark.objects, mark.runs, mark.sweep_at),
        (Intention::Kept, false, DbTime(62_000_000))
    );
    let record = story.record.clone().expect("a task");
    assert_eq!(fold.clone().into_record(record.now), record);
    let past = fold.into_history().audit;
    assert_eq!(
        past.iter().map(|row| row.seq.0).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    assert_eq!(
        past[0].entry,
        entry(1, "submitted", None, TaskStatus::Submitted)
    );
    assert_eq!(past[3].entry.step_from, Some(StepStatus::Pending));
    assert_eq!(past[4].entry.details, json!({"body": {"secret": "yes"}}));
    assert_eq!(
        (past[5].at, past[5].change_id),
        (DbTime(4_000_000), story.rows[3].change_id)
    );
}

#[test]
fn nothing_that_was_handed_in_stands_in_the_entries_and_the_fold_does_without() {
    let mut story = story();
    for row in &mut story.rows {
        assert!(
            !["secret", "size", "order-4711"]
                .iter()
                .any(|text| row.entries.contains(text)),
            "{}",
            row.entries
        );
        row.data = None;
    }
    let record = story
        .fold()
        .expect("rows that can be read")
        .into_record(DbTime(0));
    assert_eq!(
        (
            record.task.request,
            record.task.client_key,
            record.task.response
        ),
        (Value::Null, None, None)
    );
    assert_eq!(
        (record.steps[0].status, record.steps[0].output.clone()),
        (StepStatus::Completed, None)
    );
}

#[test]
fn a_row_of_a_newer_form_a_missing_one_and_a_broken_one_are_told_apart() {
    let mut newer = story();
    newer.rows[2].form = FORM + 1;
    newer.rows[2].entries = "[another form]".to_owned();
    assert_eq!(
        newer.fold().unwrap_err(),
        JournalError::Newer {
            rev: Rev(3),
            form: FORM + 1
        }
    );
    let mut gap = story();
    gap.rows.remove(1);
    assert_eq!(
        gap.fold().unwrap_err(),
        JournalError::Gap {
            expected: Rev(2),
            found: Rev(3)
        }
    );
    let mut broken = story();
    broken.rows[3].entries.push('}');
    assert!(matches!(
        broken.fold(),
        Err(JournalError::Broken {
            rev: Rev(4),
            text: "entries",
            ..
        })
    ));
    let mut broken = story();
    broken.rows[3].data = Some("secret".to_owned());
    let told = broken.fold().unwrap_err().to_string();
    assert!(told.contains("row 4") && !told.contains("secret"), "{told}");
}

#[test]
fn a_row_is_bound_to_the_one_before_it() {
    let story = story();
    let links: Vec<&ContentHash> = story.rows.iter().map(|row| &row.link).collect();
    assert!(
        links
            .iter()
            .all(|link| link.0.len() == 33 && link.0[0] == 2),
        "{links:?}"
    );
    let mut other = story;
    let record = other.record.as_mut().expect("a task");
    record.task.audit_seal = Some(EntryHash(vec![0]));
    let next = change(
        TaskRow {
            ..*record.task.clone()
        },
        5,
    );
    let (here, there) = (next.clone().with_journal(Some(record), "test"), {
        record.task.audit_seal = Some(EntryHash(vec![1]));
        next.with_journal(Some(record), "test")
    });
    assert_ne!(here.journal, there.journal);
}

/// A reader of the audit and the fold read them from one place.
#[test]
fn labels_stand_in_the_details_of_the_submission_and_fold_from_there() {
    let mut labels = Labels::new();
    labels.add("order", "4711").expect("a label");
    let row = TaskRow {
        labels: labels.clone(),
        ..submitted()
    };
    let mut first = change(row, 1);
    first.audit = vec![AuditEntry {
        details: json!({ "labels": labels }),
        ..entry(1, "submitted", None, TaskStatus::Submitted)
    }];
    let mut story = Story {
        record: None,
        rows: Vec::new(),
    };
    let entries = story.write(1, first).entries.clone();
    assert_eq!(entries.matches("4711").count(), 1, "{entries}");
    let fold = story.fold().expect("a journal");
    assert_eq!(fold.record().task.labels, labels);
    assert_eq!(fold.record().task.labels, story.task().labels);
}
