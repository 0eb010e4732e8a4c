//! What the rows say of the objects of attempts, and when a sweep may take them.

use super::{TASK, change, story};
use counterstep_contracts::{Attempt, Direction, Epoch, Outcome, StepNo};
use counterstep_kernel::change::intents;
use counterstep_kernel::change::transition::AttemptWrite;
use counterstep_kernel::journal::Fold;
use counterstep_kernel::record::Intention;
use counterstep_steps::times::DbTime;
use std::time::Duration;

/// What each row makes of the objects of the story's attempt, and when a sweep is to look at the
/// task then.
#[test]
fn what_a_sweep_does_is_a_row_without_an_event() {
    let (step, direction, attempt) = (StepNo(1), Direction::Forward, Attempt(1));
    let mut story = story();
    for (rev, write, entries, objects, sweep_at) in [
        (
            5,
            AttemptWrite::Release { step },
            r#"{"attempts":[{"release":{"step":1}}]}"#,
            Intention::Open,
            Some(DbTime(5_000_000)),
        ),
        (
            6,
            AttemptWrite::Condemn {
                step,
                direction,
                attempt,
            },
            r#"{"attempts":[{"condemn":{"step":1,"attempt":1}}]}"#,
            Intention::Condemned,
            Some(DbTime(5_000_000)),
        ),
        (
            7,
            AttemptWrite::Swept {
                step,
                direction,
                attempt,
            },
            r#"{"attempts":[{"swept":{"step":1,"attempt":1}}]}"#,
            Intention::Swept,
            None,
        ),
    ] {
        let mut next = change(story.task().clone(), rev);
        next.attempts = vec![write];
        story.write(rev, next);
        let row = story.rows.last().expect("it was pushed");
        assert_eq!((row.entries.as_str(), &row.data), (entries, &None));
        let fold = story.fold().expect("rows that can be read");
        let record = fold.record();
        let [mark] = record.marks[..] else {
            panic!("{:?}", record.marks)
        };
        assert_eq!(
            (mark.objects, record.task.sweep_at),
            (objects, sweep_at),
            "row {rev}"
        );
        assert_eq!(
            record.marks,
            story.record.as_ref().expect("a task").marks,
            "as the engine works it out for itself"
        );
        assert_eq!(
            record.task.updated_at,
            DbTime(4_000_000),
            "it is no change that people look for"
        );
        assert_eq!(
            fold.attempts()[0].outcome,
            Some(Outcome::Succeeded),
            "how it ended stays"
        );
        assert_eq!(fold.into_history().audit.len(), 6, "no entry of the audit");
    }
}

#[test]
fn a_sweep_may_take_what_is_open_once_its_time_has_come_and_no_live_lease_has_it() {
    let story = story();
    let (step, direction, attempt) = (StepNo(1), Direction::Forward, Attempt(1));
    let second = |seconds: i64| DbTime(seconds * 1_000_000);
    // Its attempt runs; its time comes a minute after its start, and so does the end of the lease.
    let running = |now: DbTime| {
        let mut fold = Fold::new(TASK);
        story.rows[..2]
            .iter()
            .try_for_each(|row| fold.push(row))
            .expect("rows that can be read");
        fold.into_record(now)
    };
    assert_eq!(intents::overdue(&running(second(61))), []);
    let longer = |epoch| {
        let mut record = running(second(70));
        record.task.lease_expires_at = Some(second(90));
        record.task.epoch = epoch;
        record
    };
    assert_eq!(
        intents::overdue(&longer(Epoch(1))),
        [],
        "it runs under the lease"
    );
    assert_eq!(
        intents::overdue(&longer(Epoch(2))).len(),
        1,
        "the lease is another host's"
    );
    let [intent] = &intents::overdue(&running(second(70)))[..] else {
        panic!("one intent")
    };
    assert_eq!(
        (intent.of, intent.task, intent.task_type.as_deref()),
        (Some((step, direction, attempt)), TASK, Some("Zip"))
    );
    assert_eq!(intent.prefix, format!("t/acme/{TASK}/zip/e1.1/"));
    assert_eq!(intent.overdue, Duration::from_secs(8));
    // At the end it is an output.
    let ended = story
        .fold()
        .expect("rows that can be read")
        .into_record(second(1_000));
    assert_eq!(
        (intents::overdue(&ended), ended.task.sweep_at),
        (Vec::new(), None)
    );
}
