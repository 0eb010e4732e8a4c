//! The picture for a phone: steps below each other, the way forward down the left side and the way back up the
//! right one. Of each step and direction the last try is shown. Must not decide what is shown.

use super::render::{boxed, ghost, lines};
use super::{Column, End, Picture, Segment, Track};
use crate::markup::{glyph_at, sign_of};
use counterstep_contracts::TaskStatus;
use maud::{Markup, html};

const WIDTH: i32 = 340;
const ROW: i32 = 62;
const TOP: i32 = 30;
const BOX: i32 = 74;
/// Where the two ways run.
const DOWN: i32 = 8 + BOX / 2;
const UP: i32 = WIDTH - 8 - BOX / 2;

pub(super) fn draw(picture: &Picture, status: TaskStatus) -> Markup {
    let rows = i32::try_from(picture.columns.len()).unwrap_or(0);
    let turned = turned_after(picture);
    let reason = if turned.is_some() { ROW } else { 0 };
    let height = TOP + rows * ROW + reason + 34;
    let row_of = |at: i32| {
        TOP + at * ROW
            + if turned.is_some_and(|turn| at > turn) {
                reason
            } else {
                0
            }
    };
    let is_whole = turned == Some(rows - 1);
    let last = turned.unwrap_or(rows - 1);
    let bottom = TOP + (last + 1) * ROW + 6;
    let end = height - 18;
    html! {
        svg.narrow viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="group"
            aria-label="Each step, forward on the left and its way back on the right" {
            g.ways {
                line.way.ahead x1=(DOWN) y1="10" x2=(DOWN) y2=(if is_whole { bottom } else { end }) {}
                line.way.ahead x1=(UP) y1="10" x2=(UP) y2=(bottom) {}
                line.way.gone x1=(DOWN) y1="10" x2=(DOWN) y2=(reached(picture, bottom, end)) {}
                path.way.turn.gone[turned.is_some()].ahead[turned.is_none()]
                    d={ "M " (DOWN) " " (bottom) " c 0 30 " (UP - DOWN) " 30 " (UP - DOWN) " 0" } {}
                @if turned.is_some() {
                    line.way.back x1=(UP) y1=(bottom) x2=(UP) y2=(back_to(picture, &row_of)) {}
                }
                @if let Some(why) = &picture.turn.why {
                    text.why x=(WIDTH / 2) y=(bottom + 40) text-anchor="middle" { (lines(why, 34).join(" ")) }
                }
                circle.dot cx=(DOWN) cy="10" r="6" {}
                (ends(picture, status, (!is_whole).then_some(end)))
            }
            @for (at, column) in (0..).zip(&picture.columns) { (row(column, row_of(at))) }
        }
    }
}

/// The row behind which it turned.
fn turned_after(picture: &Picture) -> Option<i32> {
    picture.turn.why.as_ref()?;
    let at = picture
        .columns
        .iter()
        .rposition(|it| it.x + it.width <= picture.turn.x)?;
    i32::try_from(at).ok()
}

fn reached(picture: &Picture, bottom: i32, end: i32) -> i32 {
    if picture.turn.why.is_some() {
        return bottom;
    }
    if picture.end == Some(End::Forward) {
        return end;
    }
    let begun = picture
        .columns
        .iter()
        .rposition(|it| matches!(it.forward, Track::Segments(_)));
    begun.map_or(10, |at| {
        TOP + i32::try_from(at).unwrap_or(0) * ROW + ROW / 2
    })
}

fn back_to(picture: &Picture, row_of: &impl Fn(i32) -> i32) -> i32 {
    if picture.end == Some(End::Back) {
        return 10;
    }
    let begun = picture
        .columns
        .iter()
        .position(|it| matches!(it.back, Track::Segments(_)));
    let turned = turned_after(picture).unwrap_or(0);
    let at = begun.and_then(|at| i32::try_from(at).ok());
    at.map_or_else(|| row_of(turned) + ROW, |at| row_of(at) + ROW / 2)
}

/// The marks at the ends of the forward and the undo lane; `end`: where the forward lane ends, unless the task turned to undo behind the last step.
fn ends(picture: &Picture, status: TaskStatus, end: Option<i32>) -> Markup {
    let (glyph, tone) = sign_of(status);
    let mark = |x: i32, y: i32| {
        html! { g class={ "end " (tone) } { circle cx=(x) cy=(y) r="11" {} (glyph_at(glyph, x - 8, y - 8)) } }
    };
    match picture.end {
        Some(End::Forward) => mark(DOWN, end.unwrap_or(0)),
        Some(End::Back) => mark(UP, 12),
        None => html! {
            @if let Some(end) = end { circle.dot.open cx=(DOWN) cy=(end) r="6" {} }
            circle.dot.open cx=(UP) cy="10" r="6" {}
        },
    }
}

fn row(column: &Column, top: i32) -> Markup {
    let middle = top + ROW / 2;
    html! {
        a.column href={ "#step-" (column.no) } {
            title { (column.words) }
            rect.focus x="2" y=(top + 3) width=(WIDTH - 4) height=(ROW - 6) rx="8" {}
            g aria-hidden="true" { (side(&column.forward, 8, middle, Last::Right)) }
            text.name x=(WIDTH / 2) y=(middle - 1) text-anchor="middle" { (lines(&column.name, 20).concat()) }
            text.caption aria-hidden="true" x=(WIDTH / 2) y=(middle + 14) text-anchor="middle" { (column.caption) }
            g aria-hidden="true" { (side(&column.back, WIDTH - 8 - BOX, middle, Last::Left)) }
        }
    }
}

/// Where the last try of a lane stands in the wide picture.
enum Last {
    Left,
    Right,
}

fn side(track: &Track, x: i32, y: i32, last: Last) -> Markup {
    match track {
        Track::Segments(all) => {
            let shown = match last {
                Last::Left => all.first(),
                Last::Right => all.last(),
            };
            let Some(shown) = shown else { return html! {} };
            let label = shown.label.clone();
            let segment = Segment {
                x,
                width: BOX,
                label,
                ..shown.clone()
            };
            boxed(&segment, y)
        }
        Track::Ghost { text, .. } if text.is_empty() => html! {},
        Track::Ghost { look, text } => {
            let short = match text.as_str() {
                "nothing to undo" => "–".to_owned(),
                text => lines(text, 11).into_iter().next().unwrap_or_default(),
            };
            ghost(*look, &short, x, BOX, y)
        }
    }
}
