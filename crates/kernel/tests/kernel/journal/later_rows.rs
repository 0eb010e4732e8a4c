//! What later rows take back, move or leave alone: what is read back from them is what the engine works out for itself.

use super::{MINUTE, Story, TASK, change, entry, of_step, story};
use counterstep_contracts::{Attempt, AuditSeq, StepNo, StepStatus, TaskStatus};
use counterstep_kernel::change::transition::{LeaseChange, Time, Transition};
use counterstep_kernel::journal::{Fold, JournalError};
use counterstep_kernel::record::{AuditEntry, StepRow, TaskRow};
use counterstep_steps::times::DbTime;
use serde_json::json;

/// The fold of the rows, which is the task as the engine has it.
fn folded(story: &Story) -> Fold {
    let fold = story.fold().expect("rows that can be read");
    let record = story.record.clone().expect("a task");
    assert_eq!(fold.clone().into_record(record.now), record);
    fold
}

/// The next change, with one event of the task.
fn next(story: &Story, event: &str) -> Transition {
    let task = story.task();
    let (rev, seq) = (task.rev.next(), task.audit_seq.next());
    let row = TaskRow {
        audit_seq: seq,
        ..task.clone()
    };
    let mut next = change(row, rev.0);
    next.audit = vec![entry(seq.0, event, Some(task.status), task.status)];
    next
}

#[test]
fn a_cancel_that_was_accepted_stays_with_each_later_row() {
    let mut story = story();
    let mut cancel = next(&story, "cancel_requested");
    cancel.task.as_mut().expect("a task").cancel_requested = Time::In(MINUTE);
    story.write(5, cancel);
    for second in [6, 7] {
        story.write(second, next(&story, "offered_again"));
        let asked = folded(&story).record().task.cancel_requested_at;
        assert_eq!(asked, Some(DbTime(65_000_000)));
    }
}

#[test]
fn times_and_the_lease_are_moved_and_cleared() {
    let mut story = story();
    let mut moved = next(&story, "waits");
    let write = moved.task.as_mut().expect("a task");
    (write.due, write.deadline) = (Time::In(MINUTE), Time::In(2 * MINUTE));
    write.lease = LeaseChange::Take {
        owner: "worker:2".to_owned(),
        ttl: MINUTE,
    };
    story.write(5, moved);
    let task = &folded(&story).record().task.clone();
    let minute = |minutes: i64| Some(DbTime(5_000_000 + minutes * 60_000_000));
    assert_eq!((task.due_at, task.deadline_at), (minute(1), minute(2)));
    assert_eq!(task.lease_owner.as_deref(), Some("worker:2"));
    let mut cleared = next(&story, "claimed");
    let write = cleared.task.as_mut().expect("a task");
    (write.due, write.deadline) = (Time::Clear, Time::Clear);
    write.lease = LeaseChange::Release;
    story.write(6, cleared);
    let task = &folded(&story).record().task.clone();
    assert_eq!((task.due_at, task.deadline_at), (None, None));
    assert_eq!((&task.lease_owner, task.lease_expires_at), (&None, None));
}

#[test]
fn an_output_and_a_signal_that_are_taken_back_are_gone() {
    let mut story = story();
    let mut lost = next(&story, "step_scratch_lost");
    let (from, to) = (StepStatus::Completed, StepStatus::Pending);
    lost.audit = vec![AuditEntry {
        attempt: None,
        ..of_step(lost.audit[0].clone(), from, to)
    }];
    let before = story.record.clone().expect("a task").steps;
    lost.steps = before
        .iter()
        .map(|step| StepRow {
            status: to,
            output: None,
            signal: None,
            ..step.clone()
        })
        .collect();
    story.write(5, lost);
    let mut fold = folded(&story);
    assert!(before[0].output.is_some() && before[1].signal.is_some());
    let steps = &fold.record().steps;
    assert_eq!((&steps[0].output, &steps[1].signal), (&None, &None));
    assert_eq!(fold.take_replaced_outputs(), [StepNo(1)]);
    assert_eq!(fold.take_replaced_outputs(), []);
}

#[test]
fn the_response_of_a_child_goes_with_its_undo() {
    let mut story = story();
    let mut undone = next(&story, "parent_undone");
    let write = undone.task.as_mut().expect("a task");
    (write.row.status, write.row.response) = (TaskStatus::Compensating, None);
    undone.audit[0].to = TaskStatus::Compensating;
    story.write(5, undone);
    assert_eq!(folded(&story).record().task.response, None);
}

#[test]
fn a_request_that_an_operator_changes_keeps_the_ones_before_it() {
    let mut story = story();
    for (second, files) in [(5, 3), (6, 4)] {
        let mut edited = next(&story, "operator_redrove");
        let row = &mut edited.task.as_mut().expect("a task").row;
        row.earlier_requests.push(row.request.clone());
        row.request = json!({ "files": files });
        story.write(second, edited);
    }
    let task = &folded(&story).record().task.clone();
    assert_eq!(task.request, json!({"files": 4}));
    let earlier = [json!({"files": 2}), json!({"files": 3})];
    assert_eq!(task.earlier_requests, earlier);
}

#[test]
fn a_row_that_cannot_be_read_leaves_what_ran_in_doubt_until_a_later_row_says_how_it_ended() {
    let story = story();
    let mut fold = Fold::new(TASK);
    for row in &story.rows[..2] {
        fold.push_damaged(row).expect("a row that is whole");
    }
    assert_eq!(fold.record().steps[0].status, StepStatus::Running);
    let mut broken = story.rows[2].clone();
    broken.entries = "no JSON".to_owned();
    let error = fold.push_damaged(&broken).expect_err("no JSON");
    assert!(
        matches!(
            error,
            JournalError::Broken {
                text: "entries",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fold.record().steps[0].status, StepStatus::InDoubt);
    fold.push_damaged(&story.rows[3])
        .expect("a row that is whole");
    assert_eq!(fold.record().steps[0].status, StepStatus::Completed);

    // The same where a row is missing and the next one says nothing of the step.
    let mut fold = Fold::new(TASK);
    for row in &story.rows[..2] {
        fold.push_damaged(row).expect("a row that is whole");
    }
    let mut later = story.rows[2].clone();
    later.rev = later.rev.next();
    let error = fold.push_damaged(&later).expect_err("a gap");
    assert!(matches!(error, JournalError::Gap { .. }), "{error}");
    assert_eq!(fold.record().steps[0].status, StepStatus::InDoubt);
    assert_eq!(fold.record().task.audit_seq, AuditSeq(5));
    assert_eq!(fold.record().steps[0].attempts, Attempt(1));
}

#[test]
fn data_are_held_against_their_digest_where_a_task_is_to_run() {
    let story = story();
    let read = |mut fold: Fold, data: Option<&str>| {
        let mut rows = story.rows.clone();
        rows[3].data = data.map(str::to_owned);
        rows.iter().try_for_each(|row| fold.push(row))
    };
    let whole = story.rows[3].data.as_deref();
    let other = r#"{"response":{"size":8},"outputs":{"1":"another output"}}"#;
    for (data, says) in [
        (whole, None),
        (Some(other), Some("is not what its digest")),
        (None, Some("is gone")),
    ] {
        let told = read(Fold::holding_digests(TASK), data);
        match (told, says) {
            (Ok(()), None) => {}
            (Err(error), Some(says)) => assert!(error.to_string().contains(says), "{error}"),
            (told, _) => panic!("{data:?}: {told:?}"),
        }
        read(Fold::new(TASK), data).expect("who only looks does without");
    }
    // And data of which the entries say nothing.
    let mut rows = story.rows.clone();
    rows[1].data = Some("{}".to_owned());
    let mut fold = Fold::holding_digests(TASK);
    let told = rows.iter().try_for_each(|row| fold.push(row));
    assert!(
        matches!(told, Err(JournalError::Broken { text: "data", .. })),
        "{told:?}"
    );
}
