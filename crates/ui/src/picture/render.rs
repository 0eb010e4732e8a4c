//! The picture as SVG: classes and attributes alone, since no style may stand in a page. Must not decide
//! what is shown.

use super::narrow;
use super::{Bracket, Column, End, Ghost, Look, Picture, Segment, Track};
use crate::markup::{glyph_at, sign_of};
use counterstep_contracts::TaskStatus;
use maud::{Markup, html};

const AXIS: i32 = 14;
const FORWARD: i32 = 44;
const NAME: i32 = 84;
const CAPTION: i32 = 101;
const BACK: i32 = 136;
const BACK_AXIS: i32 = 172;
const HEIGHT: i32 = 182;
/// Above the axis, where steps run side by side.
const BRACKET: i32 = 20;
const BOX: i32 = 26;

/// The picture of a task in this state.
pub(crate) fn draw(picture: &Picture, status: TaskStatus) -> Markup {
    let above = if picture.brackets.is_empty() {
        0
    } else {
        BRACKET
    };
    let (width, height) = (picture.width, HEIGHT + above);
    let view = format!("0 {} {width} {height}", -above);
    html! {
        div.picture role="region" aria-label="Picture of the task" tabindex="0" {
            svg.wide viewBox=(view) width=(width) height=(height) role="group"
                aria-label="Each step, forward above and its way back below" {
                (ways(picture, status))
                @for bracket in &picture.brackets { (self::bracket(bracket)) }
                @for column in &picture.columns { (self::column(column)) }
            }
            (narrow::draw(picture, status))
        }
    }
}

/// The two lanes behind the steps: as far as the task has come, and as far as it may go.
fn ways(picture: &Picture, status: TaskStatus) -> Markup {
    let (start, right) = (22, picture.width - 22);
    let turn = picture.turn.x;
    let is_turned = picture.turn.why.is_some();
    let curve = format!("M {turn} {FORWARD} c 46 0 46 {0} 0 {0}", BACK - FORWARD);
    let last = picture.columns.last().map_or(start, |it| it.x + it.width);
    let forward_end = if is_turned { last } else { right };
    let back = picture.back_to.map(|x| x.clamp(start, turn));
    html! {
        g.ways {
            line.way.ahead x1=(start) y1=(FORWARD) x2=(forward_end) y2=(FORWARD) {}
            line.way.ahead x1=(start) y1=(BACK) x2=(turn) y2=(BACK) {}
            line.way.gone x1=(start) y1=(FORWARD) x2=(picture.forward_to) y2=(FORWARD) {}
            path.way.turn.gone[is_turned].ahead[!is_turned] d=(curve) {}
            @if let Some(back) = back {
                line.way.back x1=(turn) y1=(BACK) x2=(back) y2=(BACK) {}
            }
            @if let Some(why) = &picture.turn.why {
                @for (at, line) in lines(why, 12).iter().enumerate() {
                    text.why x=(turn + 42) y=(86 + 13 * i32::try_from(at).unwrap_or(0)) { (line) }
                }
            }
            circle.dot x="0" cx=(start) cy=(FORWARD) r="6" {}
            (end(picture, status, start, right))
        }
    }
}

fn end(picture: &Picture, status: TaskStatus, start: i32, right: i32) -> Markup {
    let (glyph, tone) = sign_of(status);
    match picture.end {
        Some(End::Forward) => html! {
            g class={ "end " (tone) } { circle cx=(right) cy=(FORWARD) r="11" {} (glyph_at(glyph, right - 8, FORWARD - 8)) }
        },
        Some(End::Back) => html! {
            g class={ "end " (tone) } { circle cx=(start) cy=(BACK) r="11" {} (glyph_at(glyph, start - 8, BACK - 8)) }
        },
        None => html! {
            @if picture.turn.why.is_none() { circle.dot.open cx=(right) cy=(FORWARD) r="6" {} }
            circle.dot.open cx=(start) cy=(BACK) r="6" {}
        },
    }
}

/// A text in at most three lines of at most `most` letters each.
pub(super) fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    for line in &mut lines {
        if line.chars().count() > most + 1 {
            *line = line.chars().take(most).chain(['…']).collect();
        }
    }
    lines.truncate(3);
    lines
}

fn bracket(bracket: &Bracket) -> Markup {
    let (left, right) = (bracket.x, bracket.x + bracket.width);
    let path = format!("M {left} -2 v -5 H {right} v 5");
    html! {
        g.bracket {
            path d=(path) {}
            text x=(left + bracket.width / 2) y="-11" text-anchor="middle" { "side by side · " (bracket.name) }
        }
    }
}

fn column(column: &Column) -> Markup {
    let middle = column.x + column.width / 2;
    let right = column.x + column.width;
    let letters = usize::try_from((column.width - 8) / 7).unwrap_or(0);
    let name: String = match column.name.chars().count() > letters {
        true => column
            .name
            .chars()
            .take(letters.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => column.name.clone(),
    };
    html! {
        a.column href={ "#step-" (column.no) } {
            title { (column.words) }
            rect.focus x=(column.x - 8) y="0" width=(column.width + 16) height=(HEIGHT) rx="8" {}
            @if let Some(began) = &column.began {
                text.axis aria-hidden="true" x=(column.x) y=(AXIS) { (began) }
            }
            g aria-hidden="true" { (track(&column.forward, column, FORWARD)) }
            text.name x=(middle) y=(NAME) text-anchor="middle" {
                @if name != column.name { title { (column.name) } }
                (name)
            }
            text.caption aria-hidden="true" x=(middle) y=(CAPTION) text-anchor="middle" { (column.caption) }
            g aria-hidden="true" { (track(&column.back, column, BACK)) }
            @if let Some(began) = &column.back_began {
                text.axis aria-hidden="true" x=(right) y=(BACK_AXIS) text-anchor="end" { (began) }
            }
        }
    }
}

fn track(track: &Track, column: &Column, y: i32) -> Markup {
    match track {
        Track::Segments(all) => html! { @for it in all { (boxed(it, y)) } },
        Track::Ghost { text, .. } if text.is_empty() => html! {},
        Track::Ghost { look, text } => ghost(*look, text, column.x, column.width, y),
    }
}

/// What has not happened.
pub(super) fn ghost(look: Ghost, text: &str, x: i32, width: i32, y: i32) -> Markup {
    let class = match look {
        Ghost::Ahead => "ahead",
        Ghost::Ready => "ready",
        Ghost::Due => "due",
        Ghost::Nothing => "nothing",
        Ghost::Settled => "settled",
    };
    html! {
        g class={ "ghost " (class) } {
            rect x=(x) y=(y - BOX / 2) width=(width) height=(BOX) rx="6" {}
            text x=(x + width / 2) y=(y + 4) text-anchor="middle" { (text) }
        }
    }
}

/// A box.
pub(super) fn boxed(it: &Segment, y: i32) -> Markup {
    let (class, glyph) = match it.look {
        Look::Succeeded => ("ok", "check"),
        Look::Failed => ("bad", "cross"),
        Look::InDoubt => ("doubt", "question"),
        Look::Cancelled => ("cancelled", "dash"),
        Look::Running => ("run", "play"),
        Look::Waiting => ("wait", "clock"),
        Look::Skipped => ("skipped", "skip"),
        Look::Undone => ("undone", "back"),
        Look::UndoRunning => ("undo-run", "back"),
        Look::Settled => ("settled", "person"),
        Look::Folded => ("folded", "dots"),
    };
    let top = y - BOX / 2;
    let done = it
        .percent
        .map(|percent| it.width * i32::from(percent) / 100);
    html! {
        g class={ "segment " (class) } {
            title { (it.title) }
            @let hatch = (it.look == Look::Waiting).then_some("url(#hatch)");
            rect.box x=(it.x) y=(top) width=(it.width) height=(BOX) rx="6" fill=[hatch] {}
            @if let Some(done) = done {
                rect.done x=(it.x) y=(top + BOX - 5) width=(done) height="5" rx="2" {}
            }
            (glyph_at(glyph, it.x + 5, y - 8))
            @if let Some(label) = &it.label {
                text x=(it.x + 24) y=(y + 4) { (label) }
            }
        }
    }
}
