//! The geometry of the picture.

use super::*;
use crate::task_history::{Span, Turn};
use counterstep_contracts::Outcome;

fn attempt(no: i32, from_ms: i64, to_ms: i64, outcome: Outcome) -> Span {
    Span {
        begin: from_ms * 1_000,
        end: Some(to_ms * 1_000),
        kind: SpanKind::Attempt(no, Some(outcome)),
        by: Some("worker:1".to_owned()),
        error: None,
    }
}

fn step(no: i32, name: &str, status: StepStatus) -> StepHistory {
    StepHistory {
        no,
        name: name.to_owned(),
        status,
        group: None,
        forward: Vec::new(),
        back: Vec::new(),
        way_back: WayBack::Undo("undo".to_owned()),
        progress: None,
        error: None,
    }
}

fn story(status: TaskStatus, steps: Vec<StepHistory>) -> TaskHistory {
    TaskHistory {
        status,
        created: 0,
        now: 10_000_000,
        steps,
        turn: None,
    }
}

/// Two steps that ran, the second failed, and the first was undone; a third never began.
fn undone() -> TaskHistory {
    let mut first = step(1, "reserve", StepStatus::Compensated);
    first.forward = vec![attempt(1, 0, 100, Outcome::Succeeded)];
    first.back = vec![
        attempt(1, 900, 950, Outcome::Failed),
        attempt(2, 1_200, 1_300, Outcome::Succeeded),
    ];
    let mut second = step(2, "charge", StepStatus::Failed);
    second.forward = vec![attempt(1, 200, 800, Outcome::Failed)];
    let third = step(3, "ship", StepStatus::Pending);
    let mut story = story(TaskStatus::Failed, vec![first, second, third]);
    story.turn = Some(Turn {
        at: 850_000,
        why: "charge gave up".to_owned(),
    });
    story
}

fn looks(track: &Track) -> Vec<Look> {
    match track {
        Track::Segments(all) => all.iter().map(|it| it.look).collect(),
        Track::Ghost { .. } => Vec::new(),
    }
}

#[test]
fn columns_stand_side_by_side_and_the_turn_has_room_behind_the_last_that_began() {
    let picture = picture(&undone());
    for pair in picture.columns.windows(2) {
        assert!(pair[0].x + pair[0].width < pair[1].x, "{pair:?}");
    }
    let (second, third) = (&picture.columns[1], &picture.columns[2]);
    assert!(picture.turn.x > second.x + second.width);
    assert!(
        third.x - (second.x + second.width) >= TURN,
        "the reason has its room"
    );
    assert_eq!(picture.turn.why.as_deref(), Some("charge gave up"));
    assert!(third.x + third.width < picture.width);
}

#[test]
fn the_way_back_runs_to_the_left() {
    let picture = picture(&undone());
    let first = &picture.columns[0];
    // The later try stands left of the one before it, and the first ends with its column.
    assert_eq!(looks(&first.back), [Look::Undone, Look::Failed]);
    let Track::Segments(back) = &first.back else {
        panic!("{first:?}")
    };
    let last = &back[1];
    assert_eq!(last.x + last.width, first.x + first.width);
    assert_eq!(looks(&first.forward), [Look::Succeeded]);
    assert_eq!(
        (first.began.as_deref(), first.back_began.as_deref()),
        (Some("+0 ms"), Some("+900 ms"))
    );
}

#[test]
fn a_task_that_has_ended_ends_on_the_lane_on_which_it_did() {
    let gone = picture(&undone());
    assert_eq!((gone.end, gone.back_to), (Some(End::Back), Some(0)));
    let mut only = step(1, "reserve", StepStatus::Completed);
    only.forward = vec![attempt(1, 0, 10, Outcome::Succeeded)];
    let done = picture(&story(TaskStatus::Completed, vec![only]));
    assert_eq!((done.end, done.back_to), (Some(End::Forward), None));
    assert_eq!(done.forward_to, done.turn.x);
}

#[test]
fn before_it_turns_the_undo_of_each_step_stands_ready() {
    let mut first = step(1, "reserve", StepStatus::Completed);
    first.forward = vec![attempt(1, 0, 10, Outcome::Succeeded)];
    let mut second = step(2, "label", StepStatus::Running);
    second.way_back = WayBack::Waived("only paper".to_owned());
    second.forward = vec![Span {
        end: None,
        kind: SpanKind::Attempt(1, None),
        ..attempt(1, 20, 30, Outcome::Succeeded)
    }];
    let picture = picture(&story(TaskStatus::Running, vec![first, second]));
    let ghost = |at: usize| match &picture.columns[at].back {
        Track::Ghost { look, text } => (*look, text.clone()),
        Track::Segments(all) => panic!("{all:?}"),
    };
    assert_eq!(ghost(0), (Ghost::Ready, "undo".to_owned()));
    assert_eq!(ghost(1), (Ghost::Nothing, "undo waived".to_owned()));
    assert_eq!(looks(&picture.columns[1].forward), [Look::Running]);
    assert_eq!(picture.end, None);
}

#[test]
fn days_take_no_more_room_than_a_box_may() {
    let mut waits = step(1, "approval", StepStatus::Waiting);
    waits.forward = vec![Span {
        begin: 0,
        end: Some(3 * 86_400_000_000),
        kind: SpanKind::Wait("a signal".to_owned()),
        by: None,
        error: None,
    }];
    let mut short = step(2, "charge", StepStatus::Completed);
    short.forward = vec![attempt(1, 0, 200, Outcome::Succeeded)];
    let picture = picture(&story(TaskStatus::Running, vec![waits, short]));
    let width = |at: usize| match &picture.columns[at].forward {
        Track::Segments(all) => all[0].width,
        Track::Ghost { .. } => 0,
    };
    assert!(width(0) <= 114, "{}", width(0));
    assert!(width(1) >= 50, "{}", width(1));
}

#[test]
fn many_tries_are_folded_in_the_middle() {
    let mut many = step(1, "charge", StepStatus::Failed);
    many.forward = (1..=40)
        .map(|no| {
            attempt(
                no,
                i64::from(no) * 10,
                i64::from(no) * 10 + 5,
                Outcome::Failed,
            )
        })
        .collect();
    let picture = picture(&story(TaskStatus::Running, vec![many]));
    let Track::Segments(all) = &picture.columns[0].forward else {
        panic!("{picture:?}")
    };
    assert_eq!(all.len(), 7);
    assert_eq!(
        (all[2].look, all[2].label.as_deref()),
        (Look::Folded, Some("+34"))
    );
}

#[test]
fn steps_of_a_group_have_a_bracket() {
    let mut steps: Vec<_> = ["a", "b", "c"]
        .iter()
        .zip(1..)
        .map(|(name, no)| step(no, name, StepStatus::Pending))
        .collect();
    steps[0].group = Some("pair".to_owned());
    steps[1].group = Some("pair".to_owned());
    let picture = picture(&story(TaskStatus::Dispatched, steps));
    assert_eq!(picture.brackets.len(), 1);
    let (first, second) = (&picture.columns[0], &picture.columns[1]);
    let bracket = &picture.brackets[0];
    assert_eq!(
        (bracket.x, bracket.x + bracket.width),
        (first.x, second.x + second.width)
    );
}

#[test]
fn each_column_says_all_of_it_in_words() {
    let picture = picture(&undone());
    assert_eq!(
        picture.columns[0].words,
        "Step 1, reserve: undone · 3 tries, 1 try in 100 ms. Way back: 2 tries in 400 ms"
    );
}
