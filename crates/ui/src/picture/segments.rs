//! The boxes of a lane: how wide each is, how it looks, and what is left out where there are too many. Must
//! not know where a lane lies.

use crate::task_history::{Span, SpanKind, StepHistory};
use crate::time_text::duration;
use counterstep_contracts::{Outcome, StepStatus};

const BETWEEN: i32 = 4;
/// More than these are folded in the middle.
const MOST: usize = 7;
const FIRST: usize = 2;
const LAST: usize = 4;

/// A box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) x: i32,
    pub(crate) width: i32,
    pub(crate) look: Look,
    /// What stands in it, where there is room.
    pub(crate) label: Option<String>,
    /// All of it.
    pub(crate) title: String,
    /// How far it is, of one that says so.
    pub(crate) percent: Option<u8>,
}

/// Each has a colour, a shape and a sign of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Succeeded,
    Failed,
    InDoubt,
    Cancelled,
    Running,
    Waiting,
    Skipped,
    Undone,
    UndoRunning,
    Settled,
    Folded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Forward,
    Back,
}

pub(super) fn of(spans: &[Span], step: &StepHistory, now: i64, lane: Lane) -> Vec<Segment> {
    let all: Vec<Segment> = spans
        .iter()
        .enumerate()
        .map(|(at, span)| segment(span, at + 1 == spans.len(), step, now, lane))
        .collect();
    if all.len() <= MOST {
        return all;
    }
    let folded = all.len() - FIRST - LAST;
    let fold = Segment {
        x: 0,
        width: 46,
        look: Look::Folded,
        label: Some(format!("+{folded}")),
        title: format!("{folded} tries and waits more: they are in the list of tries"),
        percent: None,
    };
    let (first, last) = (&all[..FIRST], &all[all.len() - LAST..]);
    [first, &[fold], last].concat()
}

pub(super) fn width(segments: &[Segment]) -> i32 {
    let boxes: i32 = segments.iter().map(|it| it.width).sum();
    boxes + BETWEEN * i32::try_from(segments.len().saturating_sub(1)).unwrap_or(0)
}

/// One behind the other.
pub(super) fn placed(mut segments: Vec<Segment>, from: i32) -> Vec<Segment> {
    let mut x = from;
    for segment in &mut segments {
        segment.x = x;
        x += segment.width + BETWEEN;
    }
    segments
}

fn segment(span: &Span, is_last: bool, step: &StepHistory, now: i64, lane: Lane) -> Segment {
    let took = span.took(now);
    let look = look(span, lane);
    let shown = duration(took);
    let percent = step.progress.as_ref().and_then(|it| it.percent);
    let percent = percent.filter(|_| is_last && span.end.is_none() && look != Look::Waiting);
    let width = match look {
        Look::Waiting => grown(62, 7, took, 100_000, 110),
        Look::Skipped | Look::Settled | Look::Folded => 26,
        _ if matches!(span.kind, SpanKind::Point(_)) => 26,
        _ => grown(70, 10, took, 20_000, 150),
    };
    let label = match percent {
        Some(percent) => Some(format!("{percent} %")),
        None => Some(shown.clone()),
    };
    // The sign takes 24 pixels, a letter 7.
    let room = |label: &String| 24 + i32::try_from(label.chars().count()).unwrap_or(0) * 7 <= width;
    Segment {
        x: 0,
        width,
        look,
        label: label
            .filter(|_| !matches!(look, Look::Skipped | Look::Settled))
            .filter(room),
        title: title(span, lane, &shown),
        percent,
    }
}

/// From `least`, by `step` pixels for each doubling of the time beyond `unit`.
fn grown(least: i32, step: i32, micros: i64, unit: i64, most: i32) -> i32 {
    let doublings = (micros.max(0) / unit + 1).ilog2();
    (least + step * i32::try_from(doublings).unwrap_or(0)).min(most)
}

fn look(span: &Span, lane: Lane) -> Look {
    match (&span.kind, lane) {
        (SpanKind::Wait(_), _) => Look::Waiting,
        (SpanKind::Attempt(_, None), Lane::Forward) => Look::Running,
        (SpanKind::Attempt(_, None), Lane::Back) => Look::UndoRunning,
        (SpanKind::Attempt(_, Some(Outcome::Succeeded)), Lane::Forward) => Look::Succeeded,
        (SpanKind::Attempt(_, Some(Outcome::Succeeded)), Lane::Back) => Look::Undone,
        (SpanKind::Attempt(_, Some(Outcome::Failed)), _) => Look::Failed,
        (SpanKind::Attempt(_, Some(Outcome::InDoubt)), _) => Look::InDoubt,
        (SpanKind::Attempt(_, Some(Outcome::Cancelled)), _) => Look::Cancelled,
        (SpanKind::Point(StepStatus::Failed), _) => Look::Failed,
        (SpanKind::Point(StepStatus::Resolved), _) => Look::Settled,
        (SpanKind::Point(StepStatus::Skipped), _) => Look::Skipped,
        (SpanKind::Point(_), _) => Look::Succeeded,
    }
}

fn title(span: &Span, lane: Lane, took: &str) -> String {
    let of = match lane {
        Lane::Forward => "try",
        Lane::Back => "undo, try",
    };
    let mut title = match &span.kind {
        SpanKind::Attempt(no, outcome) => {
            let outcome = outcome
                .map_or("running", |it| it.as_str())
                .replace('_', " ");
            format!("{of} {no}: {outcome}, {took}")
        }
        SpanKind::Wait(of) => format!("waits for {of}, {took}"),
        SpanKind::Point(StepStatus::Resolved) => "settled by hand".to_owned(),
        SpanKind::Point(status) => status.as_str().replace('_', " "),
    };
    if let Some(by) = &span.by {
        title += &format!(", by {by}");
    }
    if let Some(error) = &span.error {
        title += &format!("\n{error}");
    }
    title
}
