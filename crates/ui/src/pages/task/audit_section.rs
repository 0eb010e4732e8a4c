//! The audit of a task: each entry with its actor, and whether the chain that binds them holds.

use super::task_data::Found;
use crate::markup::{chip, glyph, plain, step_state};
use crate::page_request::PageRequest;
use crate::time_text::{clock, exact};
use counterstep_contracts::http::AuditView;
use maud::{Markup, html};
use serde_json::Value;

/// Maximum number of entries that the page of a task shows: the last ones.
const SHOWN: usize = 60;

pub(super) fn of(visit: &PageRequest, found: &Found) -> Markup {
    let all = &found.trail.entries;
    let more = all.len().saturating_sub(SHOWN);
    let page = visit.at(&format!("/tasks/{}/audit", found.task.task_id));
    html! {
        section.past aria-labelledby="audit" {
            h2 #audit { "Audit " (chain(found)) }
            details {
                summary { (all.len()) " entries" }
                p { a href=(visit.at(&format!("/tasks/{}/at", found.task.task_id))) { "The task as it stood at each of them" } }
                @if more > 0 { p { a href=(page) { "All entries" } ", " (more) " before these" } }
                (table(&all[more..]))
            }
        }
    }
}

/// Whether the rows are bound to each other as they were written.
fn chain(found: &Found) -> Markup {
    match &found.chain {
        Some(chain) if chain.whole => html! {
            span.chip.ok title={ "head " (chain.head) } { (glyph("check")) "chain verified, " (chain.changes) " changes" }
        },
        Some(_) => chip(
            "cross",
            "bad",
            "the chain is broken: see counterstep audit verify",
        ),
        None => html! {},
    }
}

pub(super) fn table(entries: &[AuditView]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Entries of the audit" tabindex="0" {
            table.audit {
                thead { tr {
                    th scope="col" { "No" } th scope="col" { "Time, UTC" } th scope="col" { "What" }
                    th scope="col" { "Step" } th scope="col" { "By" } th scope="col" { "More" }
                } }
                tbody { @for entry in entries { (row(entry)) } }
            }
        }
    }
}

fn row(entry: &AuditView) -> Markup {
    let moved = entry.from.filter(|from| *from != entry.to);
    html! {
        tr {
            td.number { (entry.seq) }
            td { time datetime=(entry.at) title=(exact(&entry.at)) { (clock(&entry.at)) } }
            td {
                (plain(&entry.event))
                @if let Some(from) = moved { br; span.quiet { (plain(from.as_str())) " → " (plain(entry.to.as_str())) } }
            }
            td {
                @if let Some(step) = &entry.step {
                    (step)
                    @if let Some(attempt) = entry.attempt { span.quiet { " try " (attempt) } }
                    @if let Some(to) = entry.step_to { br; (step_state(to)) }
                }
            }
            td { (entry.actor) }
            td.details { @if !entry.details.is_null() { (details(&entry.details)) } }
        }
    }
}

/// What an entry says more, a line a field.
fn details(value: &Value) -> Markup {
    let fields = value.as_object();
    html! {
        @for (name, value) in fields.into_iter().flatten() {
            div {
                span.quiet { (name) ": " }
                @match value.as_str() { Some(text) => (text), None => (value.to_string()), }
            }
        }
    }
}
