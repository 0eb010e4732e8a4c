//! Two tasks of a type side by side: their steps in one order, with how long each took, and what differs in what went in and came out.
//! Must not hold what it shows.

use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{state, step_state, task_link};
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use crate::task_history::{SpanKind, StepHistory, TaskHistory};
use crate::time_text::{ago, duration, micros, now};
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::TaskId;
use counterstep_contracts::http::{AuditTrail, Payloads, TaskView};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of fields that are shown because they differ, and of characters of a value.
const FIELDS: usize = 50;
const LONGEST: usize = 120;

/// One of the two.
struct Side {
    task: TaskView,
    story: TaskHistory,
    /// Where the caller may see them.
    payloads: Option<Payloads>,
}

impl Side {
    async fn of(visit: &PageRequest, id: TaskId) -> Result<Self, Failed> {
        let path = format!("/api/tasks/{id}");
        let task = visit.get::<TaskView>(&path).await?;
        let trail = visit.get::<AuditTrail>(&format!("{path}/audit")).await?;
        let story = TaskHistory::of(&task, &trail, None, None, now());
        let payloads = visit.find::<Payloads>(&format!("{path}/payloads")).await;
        Ok(Self {
            task,
            story,
            payloads,
        })
    }

    fn step(&self, name: &str) -> Option<&StepHistory> {
        self.story.steps.iter().find(|it| it.name == name)
    }

    fn took(&self) -> i64 {
        let ended = self.task.finished_at.as_deref().map_or_else(now, micros);
        ended - micros(&self.task.created_at)
    }
}

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let query = Fields::of(request.query_string());
    let id = |name: &str| {
        let text = query.get(name).unwrap_or_default();
        let id = text.trim().parse::<TaskId>();
        id.map_err(|_| {
            let why = format!("`{name}` is the whole id of a task");
            visit.refused(ProblemCode::MalformedParameter, &why)
        })
    };
    let (one, other) = (id("one")?, id("other")?);
    let sides = [Side::of(&visit, one).await?, Side::of(&visit, other).await?];
    if sides[0].task.task_type != sides[1].task.task_type {
        let why =
            "the two tasks are of different types: only tasks of one type have the same steps";
        return Err(visit.refused(ProblemCode::MalformedParameter, why));
    }
    let title = "Two tasks side by side";
    Ok(layout::page(
        &visit.shell,
        Chapter::Tasks,
        title,
        shown(&visit, &sides),
    ))
}

fn shown(visit: &PageRequest, [one, other]: &[Side; 2]) -> Markup {
    let base = &visit.shell.base;
    let head = |side: &Side| {
        html! { (task_link(base, side.task.task_id)) " " (state(side.task.status)) br; span.quiet { "submitted " (ago(&side.task.created_at)) } }
    };
    html! {
        p.up { a href=(visit.at(&format!("/tasks/{}", segment(&one.task.task_id.to_string())))) { "The first task" } }
        h1 { "Two of " (one.task.task_type) }
        div.scroll role="region" aria-label="Steps of both" tabindex="0" {
            table.both {
                thead { tr { th scope="col" { "Step" } th scope="col" { (head(one)) } th scope="col" { (head(other)) } th scope="col" { "Difference" } } }
                tbody {
                    tr {
                        th scope="row" { "Whole task" }
                        td { (duration(one.took())) } td { (duration(other.took())) }
                        td { (difference(one.took(), other.took())) }
                    }
                    @for name in names(one, other) { (row(one, other, &name)) }
                }
            }
        }
        (fields("What went in", one, other, |it| it.request.clone()))
        (fields("What came out", one, other, outputs))
        @if one.payloads.is_none() || other.payloads.is_none() { p.quiet { "What went in and came out of both cannot be read now, or you may not see it." } }
    }
}

/// Those of the first task, and behind them those that the other one has alone.
fn names(one: &Side, other: &Side) -> Vec<String> {
    let own = one.story.steps.iter().map(|it| it.name.clone());
    let mut names: Vec<String> = own.collect();
    let more = other.story.steps.iter();
    let more: Vec<_> = more
        .filter(|it| !names.contains(&it.name))
        .map(|it| it.name.clone())
        .collect();
    names.extend(more);
    names
}

/// How long the attempts of a step took together, and how many there were.
fn work(side: &Side, step: &StepHistory) -> (i64, usize) {
    let spans = step.forward.iter().chain(&step.back);
    let tries: Vec<i64> = spans
        .filter(|span| matches!(span.kind, SpanKind::Attempt(..)))
        .map(|span| span.took(side.story.now))
        .collect();
    (tries.iter().sum(), tries.len())
}

fn row(one: &Side, other: &Side, name: &str) -> Markup {
    let (first, second) = (one.step(name), other.step(name));
    let cell = |side: &Side, step: Option<&StepHistory>| {
        html! {
            td {
                @match step {
                    None => span.quiet { "not a step of it" },
                    Some(step) => {
                        @let (took, tries) = work(side, step);
                        (step_state(step.status)) " "
                        @if tries > 0 { (duration(took)) }
                        @if tries > 1 { " in " (tries) " tries" }
                        @if let Some(error) = &step.error { p.message { (error) } }
                    },
                }
            }
        }
    };
    let both = first.zip(second);
    html! {
        tr {
            th scope="row" { (name) }
            (cell(one, first)) (cell(other, second))
            td {
                @if let Some((first, second)) = both {
                    @if first.status != second.status { b { "another state" } " " }
                    (difference(work(one, first).0, work(other, second).0))
                }
            }
        }
    }
}

/// How much longer the second took; nothing where it is hardly any.
fn difference(first: i64, second: i64) -> String {
    let by = second - first;
    match by.abs() * 10 >= first.max(second) && by.abs() >= 1_000 {
        true if by > 0 => format!("{} longer", duration(by)),
        true => format!("{} shorter", duration(-by)),
        false => String::new(),
    }
}

fn outputs(of: &Payloads) -> Value {
    let outputs = of.outputs.iter();
    let outputs = outputs.map(|it| (it.step.clone(), it.output.clone()));
    Value::Object(outputs.collect())
}

fn fields(title: &str, one: &Side, other: &Side, of: fn(&Payloads) -> Value) -> Markup {
    let (Some(first), Some(second)) = (&one.payloads, &other.payloads) else {
        return html! {};
    };
    let (first, second) = (of(first), of(second));
    let is_erased = first.is_null() || second.is_null();
    let (differing, are_all) = differing(&first, &second);
    html! {
        section {
            h2 { (title) }
            @if is_erased { p.quiet { "Erased." } }
            @else if differing.is_empty() { p.quiet { "The same." } }
            @else {
                div.scroll role="region" aria-label=(title) tabindex="0" {
                    table.both {
                        thead { tr { th scope="col" { "Field" } th scope="col" { "First" } th scope="col" { "Second" } } }
                        tbody { @for (name, values) in &differing {
                            tr { th scope="row" { code { (name) } } @for value in values { td { code { (value) } } } }
                        } }
                    }
                }
            }
            @if !are_all { p.quiet { "More fields differ." } }
        }
    }
}

/// A field that differs: its JSON pointer, and its values as JSON.
type Differs = (String, [String; 2]);

/// The first fields whose values are not the same, and whether these are all.
fn differing(one: &Value, other: &Value) -> (Vec<Differs>, bool) {
    let mut found = Vec::new();
    let are_all = walk(Some(one), Some(other), "", &mut found);
    (found, are_all)
}

/// Descends where the two differ. Whether there was room for all.
fn walk(one: Option<&Value>, other: Option<&Value>, path: &str, found: &mut Vec<Differs>) -> bool {
    if one == other {
        return true;
    }
    let below = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    let is_long = path.len() > LONGEST;
    match (one, other) {
        (Some(Value::Object(first)), Some(Value::Object(second))) if !is_long => {
            let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
            let mut names = names.into_iter();
            names.all(|name| walk(first.get(name), second.get(name), &below(name), found))
        }
        (Some(Value::Array(first)), Some(Value::Array(second))) if !is_long => {
            let mut places = 0..first.len().max(second.len());
            places.all(|at| {
                walk(
                    first.get(at),
                    second.get(at),
                    &below(&at.to_string()),
                    found,
                )
            })
        }
        _ if found.len() == FIELDS => false,
        _ => {
            let name = match path {
                "" => "all of it",
                path => path,
            };
            found.push((short(name), [text(one), text(other)]));
            true
        }
    }
}

fn text(of: Option<&Value>) -> String {
    of.map_or_else(|| "–".to_owned(), |value| short(&value.to_string()))
}

fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_differ_are_named_by_their_pointers() {
        let one =
            json!({"seat": "4A", "card": {"id": 1, "limits": [1, 2]}, "a/b": 1, "same": true});
        let other = json!({"seat": "4B", "card": {"id": 1, "limits": [1, 3, 4]}, "a/b": "1", "same": true, "new": null});
        let (found, are_all) = differing(&one, &other);
        let found: Vec<_> = found
            .iter()
            .map(|(name, [a, b])| (name.as_str(), a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("/a~1b", "1", "\"1\""),
                ("/card/limits/1", "2", "3"),
                ("/card/limits/2", "–", "4"),
                ("/new", "–", "null"),
                ("/seat", "\"4A\"", "\"4B\""),
            ]
        );
        assert!(are_all);
    }

    #[test]
    fn of_many_that_differ_the_first_are_named_and_no_name_is_long() {
        let long = "k".repeat(10_000);
        let of = |from: u64| json!({&long: (from..from + 200).collect::<Vec<_>>()});
        let (found, are_all) = differing(&of(0), &of(1));
        assert_eq!(
            (found.len(), are_all),
            (1, true),
            "it is not descended into"
        );
        let of = |from: u64| json!({"k": (from..from + 200).collect::<Vec<_>>()});
        let (found, are_all) = differing(&of(0), &of(1));
        assert_eq!((found.len(), are_all), (FIELDS, false));
        let cut = found.iter().flat_map(|(name, [a, b])| [name, a, b]);
        assert!(cut.into_iter().all(|it| it.chars().count() <= LONGEST + 1));
    }

    #[test]
    fn a_difference_is_said_where_it_is_more_than_a_tenth() {
        assert_eq!(difference(1_000_000, 1_050_000), "");
        assert_eq!(difference(1_000_000, 3_000_000), "2.0 s longer");
        assert_eq!(difference(3_000_000, 1_000_000), "2.0 s shorter");
        assert_eq!(difference(1_000, 3_000), "2 ms longer");
    }
}
