//! The form of a row: what it says, what the names of its events imply, and rows of older programs.

use super::{MINUTE, Story, change, entry, of_step, story};
use counterstep_contracts::{
    Attempt, AuditSeq, Direction, Epoch, Outcome, Rev, StepNo, StepStatus, TaskStatus,
};
use counterstep_kernel::change::transition::{AttemptWrite, ObjectsFate};
use counterstep_kernel::journal::{FORM, JournalError};
use counterstep_kernel::record::{AuditEntry, StepFailure, StepRow, TaskRow};
use counterstep_steps::times::DbTime;

/// Databases are full of such rows: another form needs another number, and a way to read this one.
#[test]
fn the_form_of_a_row_is_fixed() {
    let story = story();
    assert_eq!(FORM, 3);
    assert_eq!(
        story.rows[1].entries,
        r#"{"events":[{"event":"claimed","seq":3,"from":"dispatched","to":"running"},{"event":"step_started","step":1,"sweep_after":60000000}],"lease":{"ttl":60000000}}"#
    );
    assert_eq!(story.rows[1].data, None);
    assert_eq!(
        story.rows[2].data.as_deref(),
        Some(
            r#"{"signals":{"2":{"body":{"secret":"yes"},"actor":"client","at":3000000}},"details":{"0":{"body":{"secret":"yes"}}}}"#
        )
    );
    assert_eq!(
        story.rows[3].entries,
        format!(
            r#"{{"events":[{{"event":"step_succeeded","seq":6,"from":"running","step":1,"kept":"output"}}],"task":{{"goal":"failed"}},"lease":null,"finished":0,"data":"{}"}}"#,
            // SHA-256 of the data below.
            "bd2362595d73bd8b484f7f671bf9d279c364febe2793639d4b94f4dfc905d0a8"
        )
    );
    let data = r#"{"response":{"size":7},"outputs":{"1":"secret of the step"}}"#;
    assert_eq!(story.rows[3].data.as_deref(), Some(data));
}

/// As short as those of a step: what the names of the events imply is not said.
#[test]
fn the_form_of_the_rows_of_an_undo_is_fixed() {
    use StepStatus::{Compensated, Compensating, Completed};
    let (step, direction, attempt) = (StepNo(1), Direction::Undo, Attempt(1));
    let mut story = story();
    let starts = AttemptWrite::Start {
        step,
        direction,
        attempt,
        epoch: Epoch(1),
        sweep_after: MINUTE,
    };
    let ends = AttemptWrite::End {
        step,
        direction,
        attempt,
        outcome: Outcome::Succeeded,
        error: None,
        kept: ObjectsFate::Output,
    };
    for (rev, event, write, from, to) in [
        (5, "undo_started", starts, Completed, Compensating),
        (6, "undo_succeeded", ends, Compensating, Compensated),
    ] {
        let (task, seq) = (story.task().clone(), story.task().audit_seq.next());
        let status = task.status;
        let row = TaskRow {
            audit_seq: seq,
            ..task
        };
        let mut undo = change(row, rev);
        undo.audit = vec![of_step(entry(seq.0, event, Some(status), status), from, to)];
        undo.attempts = vec![write];
        let before = story.record.clone().expect("a task").steps[0].clone();
        undo.steps = vec![StepRow {
            status: to,
            undo_attempts: attempt,
            attempt_open: to == Compensating,
            ..before
        }];
        story.write(rev, undo);
    }
    let entries: Vec<_> = story.rows[4..].iter().map(|row| &row.entries).collect();
    assert_eq!(
        entries,
        [
            r#"{"events":[{"event":"undo_started","seq":7,"from":"running","step":1,"sweep_after":60000000}]}"#,
            r#"{"events":[{"event":"undo_succeeded","seq":8,"from":"running","step":1,"kept":"output"}]}"#,
        ]
    );
    let record = story.record.clone().expect("a task");
    let fold = story.fold().expect("rows that can be read");
    assert_eq!(fold.into_record(record.now), record);
}

#[test]
fn rows_of_form_1_are_read_as_ever() {
    let mut story = story();
    let expected = story.fold().expect("rows that can be read");
    story.rows[1].form = 1;
    story.rows[1].entries = r#"{"events":[{"event":"claimed","seq":3,"from":"dispatched","to":"running"},{"event":"step_started","step":1,"step_to":"running","attempt":1}],"attempts":[{"start":{"step":1,"attempt":1,"sweep_after":60000000}}],"steps":[{"no":1,"started_seq":4}],"lease":{"owner":"worker:1","ttl":60000000}}"#.to_owned();
    assert_eq!(story.fold().expect("rows that can be read"), expected);
    // A step that waits has no attempt, and an event that says none had none.
    story.rows.truncate(2);
    story.rows[1].entries = r#"{"events":[{"event":"claimed","seq":3,"from":"dispatched","to":"running"},{"event":"step_started","step":1,"step_to":"running"},{"event":"step_succeeded","step":1,"step_to":"completed"}],"steps":[{"no":1,"started_seq":4}]}"#.to_owned();
    let past = story
        .fold()
        .expect("rows that can be read")
        .into_history()
        .audit;
    let said: Vec<_> = past[3..]
        .iter()
        .map(|row| (row.entry.step_to, row.entry.attempt))
        .collect();
    assert_eq!(
        said,
        [
            (Some(StepStatus::Running), None),
            (Some(StepStatus::Completed), None)
        ]
    );
}

/// The story up to the second row, and a change in which its open attempt fails.
fn a_failed_attempt() -> Story {
    let mut story = story();
    story.rows.truncate(2);
    let before = story.fold().expect("rows that can be read");
    story.record = Some(before.into_record(DbTime(3_000_000)));
    let error = Some(StepFailure {
        class: "transient".to_owned(),
        message: "the disk is full (again)".to_owned(),
        ..StepFailure::default()
    });
    let mut failed = change(story.task().clone(), 3);
    failed.attempts = vec![AttemptWrite::End {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(1),
        outcome: Outcome::Failed,
        error: error.clone(),
        kept: ObjectsFate::Nothing,
    }];
    failed.steps = vec![StepRow {
        error,
        attempt_open: false,
        ..story.record.as_ref().unwrap().steps[0].clone()
    }];
    story.write(3, failed);
    story
}

#[test]
fn an_error_is_kept_as_its_class_and_its_message() {
    let story = a_failed_attempt();
    assert_eq!(
        story.rows[2].entries,
        r#"{"attempts":[{"end":{"step":1,"attempt":1,"outcome":"failed","error":{"class":"transient","message":"the disk is full (again)"},"kept":"nothing"}}]}"#
    );
    let fold = story.fold().expect("rows that can be read");
    assert_eq!(
        fold.record().steps,
        story.record.as_ref().expect("a task").steps
    );
    let error = fold.attempts()[0].error.as_ref().expect("an error");
    assert_eq!(error.to_string(), "the disk is full (again) (transient)");
}

#[test]
fn a_row_of_form_2_whose_error_is_one_text_is_refused() {
    let mut story = a_failed_attempt();
    let row = &mut story.rows[2];
    row.form = 2;
    row.entries = row.entries.replace(
        r#"{"class":"transient","message":"the disk is full (again)"}"#,
        r#""the disk is full (again) (transient)""#,
    );
    assert!(matches!(
        story.fold(),
        Err(JournalError::Broken {
            rev: Rev(3),
            text: "entries",
            ..
        })
    ));
}

#[test]
fn what_an_event_does_beside_what_it_implies_is_said() {
    let mut story = story();
    story.rows.truncate(2);
    story.record = Some(
        story
            .fold()
            .expect("rows that can be read")
            .into_record(DbTime(3_000_000)),
    );
    let mut again = change(
        TaskRow {
            audit_seq: AuditSeq(6),
            ..story.task().clone()
        },
        3,
    );
    let entry_of = |seq, event| entry(seq, event, Some(TaskStatus::Running), TaskStatus::Running);
    // Skips an attempt and ends in another state than it should.
    let odd = of_step(
        entry_of(5, "step_started"),
        StepStatus::Running,
        StepStatus::InDoubt,
    );
    let none = AuditEntry {
        step: Some(StepNo(1)),
        epoch: Epoch(1),
        ..entry_of(6, "step_succeeded")
    };
    again.audit = vec![
        AuditEntry {
            attempt: Some(Attempt(7)),
            ..odd
        },
        none,
    ];
    let start = |attempt| AttemptWrite::Start {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(attempt),
        epoch: Epoch(1),
        sweep_after: MINUTE,
    };
    // What an event could say stands behind what none says: the order decides what a sweep may
    // take.
    again.attempts = vec![AttemptWrite::Release { step: StepNo(1) }, start(7)];
    let of = StepRow {
        attempts: Attempt(7),
        status: StepStatus::InDoubt,
        ..story.record.as_ref().unwrap().steps[0].clone()
    };
    again.steps = vec![of];
    let row = story.write(3, again.clone());
    assert!(
        row.entries
            .contains(r#""attempts":[{"release":{"step":1}},{"start":{"step":1,"attempt":7,"#),
        "{row:?}"
    );
    let fold = story.fold().expect("rows that can be read");
    assert_eq!(
        fold.clone().into_record(DbTime(3_000_000)),
        story.record.clone().expect("a task")
    );
    let past: Vec<_> = fold
        .into_history()
        .audit
        .into_iter()
        .map(|row| row.entry)
        .collect();
    assert_eq!(past[4..], again.audit);
}
