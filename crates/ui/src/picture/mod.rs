//! The picture of a task: its steps as columns, what happened to them above, and below it the way back under
//! the same columns, from right to left. Geometry as data, from a [`TaskHistory`]; must not draw.
//!
//! Time runs along both lanes, to the right above and to the left below. It is compressed: a wait of days
//! must not hide seconds of work, so a box grows with the logarithm of what it took.

mod narrow;
mod render;
mod segments;

pub(crate) use render::draw;
pub(crate) use segments::{Look, Segment};

use crate::task_history::{SpanKind, StepHistory, TaskHistory, WayBack};
use crate::time_text::duration;
use counterstep_contracts::{StepStatus, TaskStatus};

/// Left of the first column, for the begin of the way and for its end.
const LEFT: i32 = 40;
/// Right of the last.
const RIGHT: i32 = 44;
const GAP: i32 = 20;
const NARROWEST: i32 = 126;
/// Where the way turns, between two columns.
const TURN: i32 = 144;

/// The whole of it, in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) width: i32,
    pub(crate) columns: Vec<Column>,
    pub(crate) brackets: Vec<Bracket>,
    /// Where the way turns back, and why; where it has not, the end of the columns.
    pub(crate) turn: TurnMark,
    /// How far the task has come on the way forward, and on the way back.
    pub(crate) forward_to: i32,
    pub(crate) back_to: Option<i32>,
    /// How it ended, on the lane on which it did.
    pub(crate) end: Option<End>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnMark {
    pub(crate) x: i32,
    pub(crate) why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Forward,
    Back,
}

/// Steps that run side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bracket {
    pub(crate) x: i32,
    pub(crate) width: i32,
    pub(crate) name: String,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) x: i32,
    pub(crate) width: i32,
    pub(crate) no: i32,
    pub(crate) name: String,
    pub(crate) status: StepStatus,
    pub(crate) caption: String,
    pub(crate) forward: Track,
    pub(crate) back: Track,
    /// Since the submission, when it began and when its undo did.
    pub(crate) began: Option<String>,
    pub(crate) back_began: Option<String>,
    /// All of it as text.
    pub(crate) words: String,
}

/// What one lane shows of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Track {
    /// What happened, in the order of the picture: from the left.
    Segments(Vec<Segment>),
    /// What is to happen, or is not.
    Ghost { look: Ghost, text: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ghost {
    /// It has not begun.
    Ahead,
    /// It stands ready, should the task turn back.
    Ready,
    /// Its turn comes.
    Due,
    /// It is not needed.
    Nothing,
    /// A person has settled it, or it stays as it is.
    Settled,
}

pub(crate) fn picture(story: &TaskHistory) -> Picture {
    let turned_after = story.turn.as_ref().and_then(|_| last_begun(story));
    let mut columns = Vec::new();
    let mut x = LEFT;
    let mut turn_x = None;
    for (at, step) in story.steps.iter().enumerate() {
        let column = column(story, step, x);
        x += column.width + GAP;
        columns.push(column);
        if turned_after == Some(at) {
            turn_x = Some(x - GAP + 8);
            if at + 1 < story.steps.len() {
                x += TURN - GAP;
            }
        }
    }
    let right = x - GAP;
    // Behind the last column the turn, with its reason, is wider than the margin.
    let is_last = turned_after.is_some_and(|at| at + 1 == story.steps.len());
    let width = right + if is_last { TURN } else { RIGHT };
    let turn = TurnMark {
        x: turn_x.unwrap_or(right + 8),
        why: story.turn.as_ref().map(|turn| turn.why.clone()),
    };
    Picture {
        width,
        brackets: brackets(story, &columns),
        forward_to: forward_to(story, &columns, &turn),
        back_to: back_to(story, &columns),
        end: end(story),
        columns,
        turn,
    }
}

fn last_begun(story: &TaskHistory) -> Option<usize> {
    let begun = |step: &StepHistory| !step.forward.is_empty() || !step.back.is_empty();
    story.steps.iter().rposition(begun)
}

fn end(story: &TaskHistory) -> Option<End> {
    match (story.status, &story.turn) {
        (TaskStatus::Completed, _) => Some(End::Forward),
        (status, Some(_)) if status.is_terminal() => Some(End::Back),
        (status, None) if status.is_terminal() => Some(End::Forward),
        _ => None,
    }
}

fn forward_to(story: &TaskHistory, columns: &[Column], turn: &TurnMark) -> i32 {
    match (story.status, last_begun(story)) {
        _ if story.turn.is_some() => turn.x,
        (TaskStatus::Completed, _) => turn.x,
        (_, Some(at)) => match &columns[at].forward {
            Track::Segments(all) => all.last().map_or(LEFT, |last| last.x + last.width),
            Track::Ghost { .. } => columns[at].x,
        },
        (_, None) => LEFT,
    }
}

fn back_to(story: &TaskHistory, columns: &[Column]) -> Option<i32> {
    story.turn.as_ref()?;
    if end(story) == Some(End::Back) {
        return Some(0);
    }
    let begun = story.steps.iter().position(|step| !step.back.is_empty());
    Some(begun.map_or(i32::MAX, |at| columns[at].x))
}

fn brackets(story: &TaskHistory, columns: &[Column]) -> Vec<Bracket> {
    let steps: Vec<_> = story.steps.iter().zip(columns).collect();
    let same = |a: &(&StepHistory, &Column), b: &(&StepHistory, &Column)| {
        a.0.group.is_some() && a.0.group == b.0.group
    };
    let groups = steps.chunk_by(same).filter(|of| of.len() > 1);
    groups
        .map(|of| {
            let (first, last) = (of[0].1, of[of.len() - 1].1);
            Bracket {
                x: first.x,
                width: last.x + last.width - first.x,
                name: of[0].0.group.clone().unwrap_or_default(),
            }
        })
        .collect()
}

fn column(story: &TaskHistory, step: &StepHistory, x: i32) -> Column {
    let forward = segments::of(&step.forward, step, story.now, segments::Lane::Forward);
    let back = segments::of(&step.back, step, story.now, segments::Lane::Back);
    // A letter of a name is about seven pixels wide.
    let name = i32::try_from(step.name.chars().count())
        .unwrap_or(0)
        .min(26)
        * 7
        + 22;
    let width = segments::width(&forward)
        .max(segments::width(&back))
        .max(name)
        .max(NARROWEST);
    let since = |spans: &[crate::task_history::Span]| {
        let first = spans.first()?;
        Some(format!("+{}", duration(first.begin - story.created)))
    };
    Column {
        x,
        width,
        no: step.no,
        name: step.name.clone(),
        status: step.status,
        caption: caption(step),
        began: since(&step.forward),
        back_began: since(&step.back),
        words: words(story, step),
        forward: match step.forward.is_empty() {
            false => Track::Segments(segments::placed(forward, x)),
            true => ghost_forward(step),
        },
        back: match step.back.is_empty() {
            // The first undo is the rightmost: the way back runs to the left.
            false => {
                let mut reversed = back;
                reversed.reverse();
                let from = x + width - segments::width(&reversed);
                Track::Segments(segments::placed(reversed, from))
            }
            true => ghost_back(story, step),
        },
    }
}

fn ghost_forward(step: &StepHistory) -> Track {
    let (look, text) = match step.status {
        StepStatus::Skipped => (Ghost::Nothing, "skipped"),
        StepStatus::Pending => (Ghost::Ahead, "not begun"),
        _ => (Ghost::Nothing, "no tries"),
    };
    Track::Ghost {
        look,
        text: text.to_owned(),
    }
}

fn ghost_back(story: &TaskHistory, step: &StepHistory) -> Track {
    let begun = !step.forward.is_empty() && step.status != StepStatus::Skipped;
    let ghost = |look, text: &str| Track::Ghost {
        look,
        text: text.to_owned(),
    };
    match (&step.way_back, step.status) {
        (_, StepStatus::Resolved) => ghost(Ghost::Settled, "settled by hand"),
        (_, StepStatus::Compensated) => ghost(Ghost::Settled, "undone"),
        (_, StepStatus::Skipped) => ghost(Ghost::Nothing, "nothing to undo"),
        (WayBack::Pure, _) => ghost(Ghost::Nothing, "no effects"),
        (WayBack::Waived(_), _) => ghost(Ghost::Nothing, "undo waived"),
        (WayBack::Undo(undo), _) if !begun => {
            let text = if undo == "built-in" { "undo" } else { undo };
            ghost(
                Ghost::Nothing,
                if story.turn.is_some() {
                    "nothing to undo"
                } else {
                    text
                },
            )
        }
        (WayBack::Undo(_), _) if story.status == TaskStatus::Completed => {
            ghost(Ghost::Settled, "kept")
        }
        (WayBack::Undo(_), _) if story.status.is_terminal() => {
            ghost(Ghost::Settled, "left as it is")
        }
        (WayBack::Undo(undo), _) => {
            let look = if story.turn.is_some() {
                Ghost::Due
            } else {
                Ghost::Ready
            };
            ghost(look, if undo == "built-in" { "undo" } else { undo })
        }
        (WayBack::Unknown, _) => ghost(Ghost::Nothing, ""),
    }
}

fn tries(spans: &[crate::task_history::Span]) -> usize {
    let is_try = |span: &&crate::task_history::Span| matches!(span.kind, SpanKind::Attempt(..));
    spans.iter().filter(is_try).count()
}

fn counted(tries: usize) -> String {
    match tries {
        1 => "1 try".to_owned(),
        many => format!("{many} tries"),
    }
}

fn caption(step: &StepHistory) -> String {
    let state = step.status.as_str().replace('_', " ");
    let state = match step.status {
        StepStatus::Compensated => "undone".to_owned(),
        StepStatus::Compensating => "being undone".to_owned(),
        StepStatus::CompensationFailed => "undo gave up".to_owned(),
        StepStatus::Resolved => "settled by hand".to_owned(),
        StepStatus::Pending => return "not begun".to_owned(),
        _ => state,
    };
    let all = tries(&step.forward) + tries(&step.back);
    match all {
        0 | 1 => state,
        all => format!("{state} · {}", counted(all)),
    }
}

fn words(story: &TaskHistory, step: &StepHistory) -> String {
    let took = |spans: &[crate::task_history::Span]| {
        let (first, last) = (spans.first()?, spans.last()?);
        Some(duration(last.end.unwrap_or(story.now) - first.begin))
    };
    let mut words = format!("Step {}, {}: {}", step.no, step.name, caption(step));
    if let Some(took) = took(&step.forward) {
        words += &format!(", {} in {took}", counted(tries(&step.forward)));
    }
    words += ". Way back: ";
    words += &match (&step.way_back, took(&step.back)) {
        (_, Some(took)) => format!("{} in {took}", counted(tries(&step.back))),
        (WayBack::Undo(undo), None) => undo.clone(),
        (WayBack::Pure, None) => "no effects".to_owned(),
        (WayBack::Waived(reason), None) => format!("waived, {reason}"),
        (WayBack::Unknown, None) => "unknown".to_owned(),
    };
    words
}

#[cfg(test)]
mod tests;
