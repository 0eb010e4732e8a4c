//! The head of a task: what it is, where it stands, and what it waits for.

use super::task_data::Found;
use crate::markup::{chip, copied, labels, state, task_link};
use crate::page_request::PageRequest;
use crate::pages::search::tasks_with;
use crate::query::Address;
use crate::time_text::{ago, duration, exact, micros, now, rfc3339};
use counterstep_contracts::durations::Percentiles;
use maud::{Markup, html};

pub(super) fn of(visit: &PageRequest, found: &Found) -> Markup {
    let task = &found.task;
    let base = &visit.shell.base;
    let id = task.task_id.to_string();
    let ended = task.finished_at.as_deref();
    html! {
        div.head data-title={ (crate::markup::plain(task.status.as_str())) " · " (task.task_type) } {
            div {
                h1 { (task.task_type) " " span.quiet { "v" (task.version) } }
                p { (copied(&id)) }
            }
            div.standing {
                (state(task.status))
                @if task.cancel_requested && !task.status.is_terminal() { (chip("dash", "still", "cancel requested")) }
                @if task.residue { (chip("question", "doubt", "residue: effects are left")) }
            }
        }
        dl.facts {
            div { dt { "Submitted" } dd { (ago(&task.created_at)) } }
            @if let Some(ended) = ended {
                div { dt { "Ended" } dd { (ago(ended)) " " span.quiet { "after " (duration(micros(ended) - micros(&task.created_at))) (slower_than(found)) } } }
            } @else {
                @if let Some(end) = expected_end(found) { div { dt { "Expected end" } dd { (end) } } }
                div { dt { "Changed" } dd { (ago(&task.updated_at)) } }
            }
            div { dt { "Steps" } dd { (task.progress.done) " of " (task.progress.total) " done" } }
            @if task.recovery_attempts > 0 {
                div { dt { "Consecutive host losses" } dd { (task.recovery_attempts) } }
            }
            @if let Some(parent) = &task.parent {
                div { dt { "Parent" } dd { (task_link(base, parent.task_id)) } }
            }
            @if let Some(before) = &task.predecessor {
                div {
                    dt { "Runs again" }
                    dd {
                        (task_link(base, before.task_id))
                        @if let Some(from) = &before.from { " " span.quiet { "from " (from) } }
                        " " a href=(Address::new(visit.at("/compare")).with("one", before.task_id).with("other", task.task_id).text()) { "side by side" }
                    }
                }
            }
            @if let Some(trace) = &task.trace_id {
                div { dt { "Trace" } dd { (copied(trace)) } }
            }
            @if !task.labels.is_empty() {
                div { dt { "Labels" } dd { (labels(&task.labels, |label| tasks_with(visit, &label))) } }
            }
            @for children in &task.children {
                div {
                    dt { "Tasks of " (children.step) }
                    dd { @for (status, count) in &children.by_status { (state(*status)) " " (count) " " } }
                }
            }
        }
        (failure(found))
        (waits(visit, found))
    }
}

/// Maximum of measured tasks below which they say nothing of another one.
const FEW: u64 = 10;

fn measured(found: &Found) -> Option<Percentiles> {
    let tasks = found.typical.as_ref()?.tasks;
    tasks.filter(|it| it.count >= FEW)
}

fn slower_than(found: &Found) -> String {
    let share = found.typical.as_ref().and_then(|it| it.slower_than);
    let share = share.filter(|_| measured(found).is_some());
    share.map_or_else(String::new, |share| {
        format!(", slower than {share} of 100 of its type in the last 24 hours")
    })
}

/// By how long other tasks of its type took.
fn expected_end(found: &Found) -> Option<Markup> {
    let it = measured(found)?;
    let begin = micros(&found.task.created_at);
    let so_far = now() - begin;
    let [half, most] = [it.p50_ms, it.p95_ms]
        .map(|millis| i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX));
    Some(match so_far {
        _ if so_far < half => {
            html! { (at(begin, half)) " " span.quiet { "as half of its type in the last 24 hours" } }
        }
        _ if so_far < most => {
            html! { "by " (at(begin, most)) " " span.quiet { "as 95 of 100 of its type" } }
        }
        _ => {
            html! { "overdue " span.quiet { "95 of 100 of its type took no longer than " (duration(most)) } }
        }
    })
}

fn at(begin: i64, took: i64) -> Markup {
    let text = rfc3339(begin.saturating_add(took));
    html! { time datetime=(text) { (exact(&text)) } }
}

fn failure(found: &Found) -> Markup {
    let Some(failure) = &found.task.failure else {
        return html! {};
    };
    html! {
        div.failure role="note" {
            p {
                b { (crate::markup::plain(&failure.class)) }
                @if let Some(step) = &failure.step { " in " code { (step) } }
            }
            p.message { (failure.message) }
            @if let Some(by) = &failure.blocked_by {
                p { b { "blocked by the undo" } @if let Some(step) = &by.step { " of " code { (step) } } }
                p.message { (by.message) }
            }
        }
    }
}

fn waits(visit: &PageRequest, found: &Found) -> Markup {
    let Some(why) = found.why.as_ref().filter(|why| !why.because.is_empty()) else {
        return html! {};
    };
    if found.task.status.is_terminal() {
        return html! {};
    }
    html! {
        section.why aria-labelledby="why" {
            h2 #why { "Why it stands where it does" }
            ul {
                @for reason in &why.because {
                    li {
                        (reason.detail)
                        @if let Some(until) = &reason.until { " " span.quiet { "· " (ago(until)) } }
                        @if !reason.tasks.is_empty() {
                            " " @for task in &reason.tasks { (task_link(&visit.shell.base, *task)) " " }
                        }
                    }
                }
            }
            // What the page has a form for stands below, with the decisions about the task.
            @let moves: Vec<_> = why.operator_can.iter().filter(|can| can.ends.is_some()).collect();
            @if !moves.is_empty() {
                h3 { "What ends it" }
                ul.moves {
                    @for can in moves {
                        li { code { (can.line("counterstep", None)) } " " (can.does) }
                    }
                }
            }
        }
    }
}
