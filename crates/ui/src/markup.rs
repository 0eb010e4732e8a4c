//! What pages are made of: signs, states, ids, times, tables. Must not call the interface.

use crate::shell::Shell;
use counterstep_contracts::access::Role;
use counterstep_contracts::search::Term;
use counterstep_contracts::{Labels, Outcome, StepStatus, TaskId, TaskStatus};
use maud::{Markup, Render, html};
use serde_json::Value;

/// Signs, 16 pixels wide, once in each page.
pub(crate) fn signs() -> Markup {
    let signs = [
        ("check", "M3.5 8.5l3 3 6-7"),
        ("cross", "M4 4l8 8M12 4l-8 8"),
        (
            "question",
            "M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.4-1 .8-1 1.6M8 12.4v.2",
        ),
        ("dash", "M4 8h8"),
        ("play", "M5.5 3.8v8.4l6.5-4.2z"),
        (
            "clock",
            "M8 4.6V8l2.3 1.6M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2z",
        ),
        (
            "back",
            "M6.5 3.5L3 7l3.500 3.500M3.200 7H9.500a3.200 3.200 0 0 1 0 6.400H7",
        ),
        (
            "person",
            "M8 7.600a2.600 2.600 0 1 0 0-5.200 2.600 2.600 0 0 0 0 5.200zM3 14c.4-3 2.400-4.600 5-4.600s4.600 1.600 5 4.600",
        ),
        ("skip", "M3.500 8h7.500M8.500 5l3 3-3 3"),
        ("dots", "M3.500 8h.1M8 8h.1M12.500 8h.1"),
        (
            "dot",
            "M8 6.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3z",
        ),
        ("copy", "M5.500 5.500v-3h8v8h-3M2.500 5.500h8v8h-8z"),
        ("pause", "M5.500 4v8M10.500 4v8"),
    ];
    html! {
        svg.signs aria-hidden="true" width="0" height="0" {
            defs {
                pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.hatch-ground width="6" height="6" {}
                    rect.hatch-line width="2" height="6" {}
                }
            }
            @for (name, path) in signs {
                symbol id={ "s-" (name) } viewBox="0 0 16 16" { path d=(path) {} }
            }
        }
    }
}

/// A sign in a line of text.
pub(crate) fn glyph(name: &str) -> Markup {
    html! { svg.sign width="16" height="16" aria-hidden="true" { use href={ "#s-" (name) } {} } }
}

/// A sign in a picture.
pub(crate) fn glyph_at(name: &str, x: i32, y: i32) -> Markup {
    html! { use.sign href={ "#s-" (name) } x=(x) y=(y) width="16" height="16" {} }
}

/// The sign of a state, and its tone.
pub(crate) const fn sign_of(status: TaskStatus) -> (&'static str, &'static str) {
    match status {
        TaskStatus::Submitted => ("dot", "wait"),
        TaskStatus::Dispatched | TaskStatus::Waiting => ("clock", "wait"),
        TaskStatus::Running => ("play", "run"),
        TaskStatus::Completed => ("check", "ok"),
        TaskStatus::Compensating => ("back", "undo"),
        TaskStatus::CompensationFailed | TaskStatus::DeadLettered => ("person", "person"),
        TaskStatus::Failed => ("cross", "bad"),
        TaskStatus::Cancelled => ("dash", "still"),
        TaskStatus::Resolved => ("check", "still"),
    }
}

const fn sign_of_step(status: StepStatus) -> (&'static str, &'static str) {
    match status {
        StepStatus::Pending => ("dot", "still"),
        StepStatus::Running => ("play", "run"),
        StepStatus::Waiting => ("clock", "wait"),
        StepStatus::Completed => ("check", "ok"),
        StepStatus::Skipped => ("skip", "still"),
        StepStatus::Failed => ("cross", "bad"),
        StepStatus::InDoubt => ("question", "doubt"),
        StepStatus::Compensating | StepStatus::Compensated => ("back", "undo"),
        StepStatus::CompensationFailed => ("person", "person"),
        StepStatus::Resolved => ("check", "still"),
    }
}

const fn sign_of_outcome(outcome: Option<Outcome>) -> (&'static str, &'static str) {
    match outcome {
        None => ("play", "run"),
        Some(Outcome::Succeeded) => ("check", "ok"),
        Some(Outcome::Failed) => ("cross", "bad"),
        Some(Outcome::InDoubt) => ("question", "doubt"),
        Some(Outcome::Cancelled) => ("dash", "still"),
    }
}

/// A word with a sign and a tone.
pub(crate) fn chip(glyph: &str, tone: &str, text: &str) -> Markup {
    html! { span class={ "chip " (tone) } { (self::glyph(glyph)) (text) } }
}

/// The state of a task.
pub(crate) fn state(status: TaskStatus) -> Markup {
    let (glyph, tone) = sign_of(status);
    chip(glyph, tone, &plain(status.as_str()))
}

/// The state of a step.
pub(crate) fn step_state(status: StepStatus) -> Markup {
    let (glyph, tone) = sign_of_step(status);
    chip(glyph, tone, &plain(status.as_str()))
}

/// How a try ended.
pub(crate) fn outcome(of: Option<Outcome>) -> Markup {
    let (glyph, tone) = sign_of_outcome(of);
    chip(glyph, tone, &plain(of.map_or("running", |it| it.as_str())))
}

/// A name of states and events as words.
pub(crate) fn plain(name: &str) -> String {
    name.replace(['_', '-'], " ")
}

/// The id of a task as a link to its page: its end, which differs most, and the whole as its title.
pub(crate) fn task_link(base: &str, task: TaskId) -> Markup {
    let id = task.to_string();
    html! { a.id href={ (base) "/tasks/" (id) } title=(id) { (short(&id)) } }
}

/// The same with its type before it.
pub(crate) fn task_of_type(base: &str, task: TaskId, task_type: &str) -> Markup {
    let id = task.to_string();
    html! {
        a.task href={ (base) "/tasks/" (id) } title=(id) {
            span.type { (breakable(task_type)) } " " span.id { (short(&id)) }
        }
    }
}

/// A name of several words that may be broken before each of them.
fn breakable(name: &str) -> Markup {
    let mut parts: Vec<String> = Vec::new();
    for letter in name.chars() {
        match parts.last_mut() {
            Some(part) if !letter.is_uppercase() => part.push(letter),
            _ => parts.push(letter.to_string()),
        }
    }
    html! { @for (at, part) in parts.iter().enumerate() { @if at > 0 { wbr; } (part) } }
}

/// The end of an id. Ids of one time begin alike.
pub(crate) fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// Labels as links to the tasks that have them.
pub(crate) fn labels(of: &Labels, to: impl Fn(Term) -> String) -> Markup {
    let to = |name: &str, value: &str| to(Term::Label(name.to_owned(), value.to_owned()));
    html! {
        @if !of.is_empty() {
            span.labels { @for (name, value) in of.iter() { a.label href=(to(name, value)) { (name) "=" (value) } " " } }
        }
    }
}

/// Lines and characters up to which a part of a page is open when the page comes.
const SHORT: (usize, usize) = (12, 600);

/// Whether a part of a page with so many lines and characters is open when the page comes.
pub(crate) const fn is_short(lines: usize, characters: usize) -> bool {
    lines <= SHORT.0 && characters <= SHORT.1
}

/// JSON as a text that is read and copied.
pub(crate) fn json_text(value: &Value) -> String {
    format!("{value:#}")
}

/// JSON as it is read.
pub(crate) fn json(value: &Value) -> Markup {
    html! { pre.json tabindex="0" { (json_text(value)) } }
}

/// JSON of a task, with a button that copies it and a link to the JSON itself; what is null has neither: it was erased, or there is
/// nothing in it. `what`: its name, as `the request`.
pub(crate) fn json_with(what: &str, value: &Value, raw: &str) -> Markup {
    if value.is_null() {
        return json(value);
    }
    html! {
        div.json-of {
            (json(value))
            (copy(what))
            a href=(raw) aria-label={ "Raw JSON of " (what) } { "Raw" }
        }
    }
}

/// The same in a section, which is open where it is short.
pub(crate) fn json_section(title: &Markup, what: &str, value: &Value, raw: &str) -> Markup {
    let text = json_text(value);
    let is_open = !value.is_null() && is_short(text.lines().count(), text.len());
    html! {
        details open[is_open] { summary { (title) } (json_with(what, value, raw)) }
    }
}

/// A text that can be copied.
pub(crate) fn copied(text: &str) -> Markup {
    html! { span.copied { code { (text) } (copy(text)) } }
}

/// The button that copies the text of the element right before it; it is the script's.
fn copy(what: &str) -> Markup {
    html! { button.copy type="button" hidden aria-label={ "Copy " (what) } { (glyph("copy")) } }
}

/// A table that scrolls by itself where it is wider than the page.
pub(crate) fn table(label: &str, head: &[&str], rows: &[Markup]) -> Markup {
    table_of(None, label, head, rows)
}

/// The same, or a text where it has no row. On a phone each row is a block, and stands without its heads: cells have their own as
/// `data-head`.
pub(crate) fn stacked(label: &str, head: &[&str], rows: &[Markup], none: impl Render) -> Markup {
    match rows {
        [] => empty(none),
        rows => table_of(Some("stack"), label, head, rows),
    }
}

fn table_of(class: Option<&str>, label: &str, head: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table class=[class] {
                thead { tr { @for it in head { @if it.is_empty() { td {} } @else { th scope="col" { (it) } } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// The same, or a text where it has no row.
pub(crate) fn list(label: &str, head: &[&str], rows: &[Markup], none: impl Render) -> Markup {
    match rows {
        [] => empty(none),
        rows => table(label, head, rows),
    }
}

/// What stands where a list is empty.
pub(crate) fn empty(text: impl Render) -> Markup {
    html! { div.empty { (text) } }
}

/// What stands where a list is empty because nothing has made its first row yet: what would be here, how it comes about, and the one
/// link or command that makes the first.
pub(crate) fn teach(what: &str, first: &Markup) -> Markup {
    html! { p { (what) } p { (first) } }
}

/// A link of such a text, for those who may follow it.
pub(crate) fn way(shell: &Shell, needed: Role, path: &str, text: &str) -> Markup {
    html! { @if shell.may(needed) { a.button href={ (shell.base) (path) } { (text) } " " } }
}

/// A command of such a text.
pub(crate) fn command(words: &str) -> Markup {
    copied(&format!("counterstep {words}"))
}

pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_ids_end_differently() {
        assert_eq!(
            (number(0), number(999), number(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!(
            short("01930d2c-6c4b-7d5e-8f00-0123456789ab"),
            "0123456789ab"
        );
    }
}
