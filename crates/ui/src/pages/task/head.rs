//! The head of a task: what it is, where it stands, and what it waits for.

use super::task_data::Found;
use crate::markup::{chip, copied, labels, state, task_link};
use crate::page_request::PageRequest;
use crate::time_text::{ago, duration, micros};
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
                div { dt { "Ended" } dd { (ago(ended)) " " span.quiet { "after " (duration(micros(ended) - micros(&task.created_at))) } } }
            } @else {
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
                    }
                }
            }
            @if let Some(trace) = &task.trace_id {
                div { dt { "Trace" } dd { (copied(trace)) } }
            }
            @if !task.labels.is_empty() {
                div { dt { "Labels" } dd { (labels(&visit.shell.base, &task.labels)) } }
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
