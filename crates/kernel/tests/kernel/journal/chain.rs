//! The chain of a task's rows: what a walk along it notices.

use super::{Story, TASK, change, entry, story};
use counterstep_contracts::{AuditSeq, TaskStatus};
use counterstep_kernel::audit::{Walk, link, origin, seal};
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::journal::FORM;
use counterstep_kernel::ports::{ChainRow, ChainTip};
use counterstep_kernel::record::TaskRow;
use counterstep_steps::times::DbTime;

/// The rows as they lie in a database, each with what the task's row says.
fn chain(story: &Story) -> Vec<ChainRow> {
    let last = story.rows.last().expect("a row");
    let tip = ChainTip {
        task: TASK.to_string(),
        status: story.task().status.as_str().to_owned(),
        rev: last.rev.0,
        seal: last.seal.0.clone(),
        has_rows: true,
    };
    let row = |row: &counterstep_kernel::journal::JournalRow| ChainRow {
        task: TASK.to_string(),
        rev: row.rev.0,
        at: row.at,
        change_id: row.change_id.to_string(),
        epoch: row.epoch.0,
        actor: row.actor.clone(),
        form: row.form.into(),
        entries: row.entries.clone(),
        data: row.data.clone(),
        link: row.link.0.clone(),
        seal: row.seal.0.clone(),
        tip: Some(tip.clone()),
    };
    story.rows.iter().map(row).collect()
}

fn is_whole(rows: &[ChainRow]) -> bool {
    let mut walk = Walk::default();
    rows.iter().for_each(|row| walk.step(row));
    assert_eq!(walk.rows(), rows.len() as u64);
    walk.is_whole()
}

/// Links and seals made anew, and the tip with them: as by someone who can write to the database.
fn bind_anew(rows: &mut [ChainRow]) {
    let mut before = origin(&TASK.to_string()).0;
    for row in rows.iter_mut() {
        row.link = link(&before, &row.facts()).0;
        row.seal = seal(&row.link, row.at).0;
        before.clone_from(&row.seal);
    }
    for row in rows {
        row.tip.as_mut().expect("a tip").seal.clone_from(&before);
    }
}

#[test]
fn whatever_is_changed_in_a_row_or_in_the_task_is_noticed() {
    let whole = chain(&story());
    assert!(is_whole(&whole));
    assert!(is_whole(&[]), "no task");
    type Change = (&'static str, fn(&mut Vec<ChainRow>));
    let changes: [Change; 14] = [
        ("its time", |rows| rows[1].at = DbTime(2_000_001)),
        ("its time, and its seal with it", |rows| {
            rows[1].at = DbTime(2_000_001);
            rows[1].seal = seal(&rows[1].link, rows[1].at).0;
        }),
        ("its actor", |rows| rows[1].actor = "client".to_owned()),
        ("its epoch", |rows| rows[1].epoch = 7),
        ("its change", |rows| {
            rows[1].change_id = rows[0].change_id.clone()
        }),
        ("what happened", |rows| {
            rows[1].entries = rows[1].entries.replace("60000000", "60000001");
        }),
        ("what was handed in", |rows| {
            let data = rows[3].data.as_mut().expect("data");
            *data = data.replace('7', "8");
        }),
        ("its link", |rows| rows[1].link[5] ^= 1),
        ("its seal", |rows| rows[1].seal[5] ^= 1),
        ("a row in the middle is gone", |rows| drop(rows.remove(1))),
        ("the first row is gone", |rows| drop(rows.remove(0))),
        ("two rows are exchanged", |rows| rows.swap(1, 2)),
        ("the last row is gone", |rows| drop(rows.pop())),
        ("the state of the task", |rows| {
            let tip = rows.last_mut().and_then(|row| row.tip.as_mut());
            tip.expect("a tip").status = "completed".to_owned();
        }),
    ];
    for (what, change) in changes {
        let mut rows = whole.clone();
        change(&mut rows);
        assert!(!is_whole(&rows), "{what}");
    }
}

#[test]
fn a_chain_that_is_bound_anew_has_to_be_one_story_and_end_where_the_task_is() {
    let whole = chain(&story());
    let mut rows = whole.clone();
    bind_anew(&mut rows);
    assert_eq!(rows, whole, "the test binds as the program does");
    // The tail is cut off, and the tip is bound to what is left.
    rows.pop();
    bind_anew(&mut rows);
    assert!(!is_whole(&rows), "the revision of the task says more");
    // A row is another one, with all links as they have to be.
    for (from, to) in [
        (r#""seq":3"#, r#""seq":4"#),
        (r#""from":"dispatched""#, r#""from":"submitted""#),
    ] {
        let mut rows = whole.clone();
        assert!(rows[1].entries.contains(from));
        rows[1].entries = rows[1].entries.replace(from, to);
        bind_anew(&mut rows);
        assert!(!is_whole(&rows), "{to}");
    }
    // Data of which the entries have no digest.
    let mut rows = whole.clone();
    rows[1].data = Some("{}".to_owned());
    assert!(!is_whole(&rows));
}

#[test]
fn erased_data_are_no_damage_and_are_counted() {
    let mut rows = chain(&story());
    rows[2].data = None;
    let mut walk = Walk::default();
    rows.iter().for_each(|row| walk.step(row));
    assert!(walk.is_whole());
    assert_eq!(walk.erased(), 1);
}

#[test]
fn behind_a_row_of_a_newer_program_the_links_alone_are_checked() {
    let mut story = story();
    let row = TaskRow {
        audit_seq: AuditSeq(8),
        status: TaskStatus::Completed,
        ..story.task().clone()
    };
    let ended = entry(
        8,
        "completed",
        Some(TaskStatus::Running),
        TaskStatus::Completed,
    );
    let end = Transition {
        audit: vec![ended],
        ..change(row, 5)
    };
    story.write(5, end);
    let mut rows = chain(&story);
    assert!(!is_whole(&rows), "an event is missing");
    // It may stand in a row that this program cannot read.
    rows[3].form = i64::from(FORM) + 1;
    rows[3].entries = "[another form]".to_owned();
    bind_anew(&mut rows);
    assert!(is_whole(&rows));
}
