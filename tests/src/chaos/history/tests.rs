//! Each rule is broken by a history, and none by one that is sound.

use super::*;

/// A task that an API process accepts and another one shows, until it has completed; its late cancel and an operator's retry are
/// refused.
fn sound() -> (Vec<Call>, Journal) {
    use StepStatus::{Completed as Done, Pending, Running};
    let refused = |code| Got::Refused(code);
    let calls = vec![
        call(0, 10, 0, Asked::Submit, Got::Open),
        call(
            12,
            20,
            1,
            Asked::Submit,
            Got::Accepted(Some(TaskStatus::Dispatched)),
        ),
        call(
            21,
            25,
            0,
            Asked::Read,
            shows(1, TaskStatus::Dispatched, &[Done, Pending]),
        ),
        // Two at a time: either may see the change.
        call(
            30,
            50,
            0,
            Asked::Read,
            shows(2, TaskStatus::Running, &[Done, Running]),
        ),
        call(
            31,
            51,
            1,
            Asked::Read,
            shows(1, TaskStatus::Dispatched, &[Done, Pending]),
        ),
        call(
            60,
            61,
            1,
            Asked::Read,
            shows(2, TaskStatus::Running, &[Done, Running]),
        ),
        call(
            70,
            71,
            1,
            Asked::Read,
            shows(4, TaskStatus::Completed, &[Done, Done]),
        ),
        call(
            80,
            81,
            0,
            Asked::Cancel,
            refused(ProblemCode::AlreadyCompleted),
        ),
        call(82, 83, 0, Asked::Retry, refused(ProblemCode::NotParked)),
        call(
            90,
            91,
            0,
            Asked::Read,
            shows(4, TaskStatus::Completed, &[Done, Done]),
        ),
    ];
    let states = [
        TaskStatus::Dispatched,
        TaskStatus::Running,
        TaskStatus::Running,
        TaskStatus::Completed,
    ];
    let events = ["submitted", "claimed", "completed"];
    let journal = Journal {
        states: (1..).zip(states).collect(),
        events: events.map(str::to_owned).into(),
    };
    (calls, journal)
}

/// A task that is cancelled while a host runs it.
fn cancelled() -> (Vec<Call>, Journal) {
    use StepStatus::{Compensated, Running};
    let mut read = shows(3, TaskStatus::Running, &[Running]);
    let mut end = shows(5, TaskStatus::Cancelled, &[Compensated]);
    for got in [&mut read, &mut end] {
        if let Got::Shown(shown) = got {
            shown.cancel_requested = true;
        }
    }
    let calls = vec![
        call(
            0,
            9,
            0,
            Asked::Submit,
            Got::Accepted(Some(TaskStatus::Dispatched)),
        ),
        call(
            10,
            11,
            0,
            Asked::Read,
            shows(2, TaskStatus::Running, &[Running]),
        ),
        call(
            12,
            13,
            1,
            Asked::Cancel,
            Got::Accepted(Some(TaskStatus::Running)),
        ),
        call(14, 15, 0, Asked::Read, read),
        call(16, 17, 1, Asked::Read, end),
    ];
    let states = [
        TaskStatus::Dispatched,
        TaskStatus::Running,
        TaskStatus::Running,
        TaskStatus::Compensating,
        TaskStatus::Cancelled,
    ];
    let journal = Journal {
        states: (1..).zip(states).collect(),
        events: ["submitted", "cancel_requested"].map(str::to_owned).into(),
    };
    (calls, journal)
}

fn call(began: u64, ended: u64, api: usize, asked: Asked, got: Got) -> Call {
    Call {
        began: Duration::from_millis(began),
        ended: Duration::from_millis(ended),
        api,
        asked,
        got,
    }
}

fn shows(revision: i64, status: TaskStatus, steps: &[StepStatus]) -> Got {
    Got::Shown(Shown {
        revision,
        status,
        cancel_requested: false,
        steps: steps.to_vec(),
    })
}

fn shown(call: &mut Call) -> &mut Shown {
    match &mut call.got {
        Got::Shown(shown) => shown,
        other => panic!("no read: {other:?}"),
    }
}

fn found((calls, journal): &(Vec<Call>, Journal)) -> Vec<String> {
    contradictions(calls, Some(journal), Excepted::default())
}

/// The only thing that is found begins with this.
fn assert_found(history: &(Vec<Call>, Journal), what: &str) {
    let found = found(history);
    assert!(
        found.len() == 1 && found[0].starts_with(what),
        "instead of {what}: {found:#?}"
    );
}

#[test]
fn what_a_sound_history_shows_contradicts_nothing() {
    assert_eq!(found(&sound()), [""; 0]);
    assert_eq!(found(&cancelled()), [""; 0]);
    let counted = compared(&sound().0);
    assert_eq!(
        (counted.reads, counted.accepted, counted.refused),
        (6, 1, 2)
    );
    // Of fifteen pairs two reads overlap.
    assert_eq!(counted.pairs, 14);
}

#[test]
fn a_later_read_of_an_older_revision_is_found_with_both_reads() {
    let mut history = sound();
    // Another process has not heard of it.
    *shown(&mut history.0[5]) = shown(&mut history.0[2]).clone();
    assert_eq!(
        found(&history),
        ["a later read shows an older revision
          0.030 to     0.050 s  API 0  read: revision 2, running; steps completed running
          0.060 to     0.061 s  API 1  read: revision 1, dispatched; steps completed pending"]
    );
    // It began before the other one ended: it may.
    history.0[5].began = Duration::from_millis(50);
    assert_eq!(found(&history), [""; 0]);
}

#[test]
fn what_was_acknowledged_and_is_gone_is_found() {
    const FORGOTTEN: &str = "a later read does not have what was acknowledged";
    let no_task = Got::Refused(ProblemCode::NoSuchTask);
    let mut lost = sound();
    lost.0[2].got = no_task.clone();
    assert_found(&lost, FORGOTTEN);
    let mut lost = sound();
    lost.0[8].got = no_task.clone();
    assert_found(&lost, FORGOTTEN);
    // Before it was accepted there may be none.
    let mut early = sound();
    early.0[2].began = Duration::from_millis(19);
    early.0[2].got = no_task;
    assert_eq!(found(&early), [""; 0]);

    let mut cancel = cancelled();
    shown(&mut cancel.0[3]).cancel_requested = false;
    assert_found(&cancel, FORGOTTEN);
    let mut cancel = cancelled();
    shown(&mut cancel.0[4]).status = TaskStatus::Completed;
    cancel.1.states.insert(5, TaskStatus::Completed);
    assert!(found(&cancel)[0].starts_with(FORGOTTEN));
    let mut completed = sound();
    completed.0[9].got = shows(5, TaskStatus::Failed, &[StepStatus::Completed; 2]);
    completed.1.states.insert(5, TaskStatus::Failed);
    assert!(found(&completed)[0].starts_with(FORGOTTEN));
}

#[test]
fn states_without_a_path_between_them_are_found() {
    let mut history = sound();
    // Not even where the two reads overlap: the revisions order them.
    history.0[3].got = shows(
        2,
        TaskStatus::Submitted,
        &[StepStatus::Completed, StepStatus::Pending],
    );
    history.0[5].got = history.0[3].got.clone();
    history.1.states.insert(2, TaskStatus::Submitted);
    assert_found(&history, NO_PATH);

    let mut step = sound();
    for at in [3, 5] {
        shown(&mut step.0[at]).steps[1] = StepStatus::Skipped;
    }
    assert_found(&step, NO_PATH);

    let mut answer = cancelled();
    answer.0[2].got = Got::Accepted(Some(TaskStatus::Submitted));
    assert_found(&answer, NO_PATH);
    let mut accepted = sound();
    accepted.0[1].got = Got::Accepted(Some(TaskStatus::Completed));
    assert_found(&accepted, NO_PATH);
}

#[test]
fn a_revision_that_was_shown_in_two_ways_or_never_written_is_found() {
    let mut history = sound();
    shown(&mut history.0[5]).steps[1] = StepStatus::Waiting;
    assert_found(&history, "one revision was shown in two ways");
    let mut history = sound();
    history.1.states.insert(2, TaskStatus::Waiting);
    assert_found(&history, "a read shows what was not written");
    let mut history = sound();
    history.1.states.remove(&2);
    assert_found(&history, "a read shows what was not written");
}

#[test]
fn a_trace_of_a_refused_change_is_found() {
    const TRACE: &str = "a refused change has left a trace";
    let mut seen = sound();
    for at in [6, 9] {
        shown(&mut seen.0[at]).cancel_requested = true;
    }
    assert_found(&seen, TRACE);
    for event in ["cancel_requested", "operator_redrove"] {
        let mut written = sound();
        written.1.events.insert(event.to_owned());
        assert_found(&written, TRACE);
        // An earlier one without an answer may have been written.
        let asked = match event {
            "cancel_requested" => Asked::Cancel,
            _ => Asked::Retry,
        };
        written.0.push(call(72, 79, 1, asked, Got::Open));
        assert_eq!(found(&written), [""; 0]);
    }
}

#[test]
fn what_the_docs_except_is_excepted_and_nothing_else() {
    let (mut calls, journal) = sound();
    *shown(&mut calls[5]) = shown(&mut calls[2]).clone();
    let left_behind = |api| Excepted {
        left_behind: Some(api),
        ..Excepted::default()
    };
    let found = |calls: &[Call], excepted| contradictions(calls, Some(&journal), excepted).len();
    assert_eq!(found(&calls, left_behind(1)), 0);
    assert_eq!(found(&calls, left_behind(0)), 1);

    // Seen going on at 0.060 s for the last time, and gone at 0.091 s.
    let (mut calls, _) = sound();
    calls[9].got = Got::Refused(ProblemCode::NoSuchTask);
    let deleted_after = |millis| Excepted {
        deleted_after: Some(Duration::from_millis(millis)),
        ..Excepted::default()
    };
    assert_eq!(found(&calls, deleted_after(31)), 0);
    assert_eq!(found(&calls, deleted_after(32)), 1);
}
