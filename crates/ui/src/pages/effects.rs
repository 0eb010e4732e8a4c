//! Open effects: what tasks at rest have done outside and nothing has taken back, counted and one by one. Must not hold what it shows.

use crate::failed::Answer;
use crate::layout::{self, Chapter};
use crate::markup::{chip, command, number, stacked, state, task_link, task_of_type, teach, way};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::Amount;
use counterstep_contracts::http::Page;
use counterstep_contracts::open_effects::{
    OpenEffect, OpenEffectKind, OpenEffectSum, OpenEffectSums, OpenEffects,
};
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let query = Fields::of(request.query_string());
    // Beside the first page alone: they are those of all.
    let sums = match query.get("cursor") {
        None => Some(
            visit
                .get::<OpenEffectSums>("/api/open-effects/sums")
                .await?,
        ),
        Some(_) => None,
    };
    let asked = Address::new("/api/open-effects").with("limit", 50);
    let asked = asked.with_some("kind", query.get("kind"));
    let asked = asked.with_some("cursor", query.get("cursor")).text();
    let tasks = visit.get::<Page<OpenEffects>>(&asked).await?;
    let body = html! {
        div.head { h1 { "Open effects" } p.quiet { "What tasks at rest have done outside and nothing has taken back." } }
        @if let Some(sums) = &sums { (counted(&visit, sums)) }
        (list(&visit, query.get("kind"), &tasks))
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Effects,
        "Open effects",
        body,
    ))
}

fn kind_chip(kind: OpenEffectKind) -> Markup {
    match kind {
        OpenEffectKind::InDoubt => chip("question", "doubt", "in doubt"),
        OpenEffectKind::UndoFailed => chip("cross", "bad", "undo failed"),
        OpenEffectKind::Parked => chip("pause", "wait", "parked"),
        OpenEffectKind::Left => chip("dash", "still", "left"),
        OpenEffectKind::Waived => chip("dash", "still", "waived"),
    }
}

fn counted(visit: &PageRequest, found: &OpenEffectSums) -> Markup {
    let row = |it: &OpenEffectSum| {
        let of_kind = Address::new(visit.at("/effects")).with("kind", it.kind);
        html! {
            tr {
                td.what { a href=(of_kind.text()) { (kind_chip(it.kind)) } " " b { (it.step) } " " br; span.quiet { (it.task_type) } }
                td data-head="Service" { (it.service.as_deref().unwrap_or("–")) }
                td data-head="Effects" { (number(it.effects)) }
                td data-head="Amount" { @if it.amounts.is_empty() { "–" } @else { (Amount::joined(&it.amounts)) } }
                td data-head="Oldest" { (ago(&it.oldest)) }
                td data-head="One of them" { (task_link(&visit.shell.base, it.example)) }
            }
        }
    };
    let rows: Vec<_> = found.sums.iter().map(row).collect();
    let none = match found.complete && found.unknown == 0 {
        true => {
            "Nothing is open: tasks that did not complete have taken back what they did, or a person has settled it. An effect is open \
             where a task rests while the outcome or the undo of a step is unknown, failed, waived or still to be decided."
        }
        false => "Nothing is open among the tasks that were looked at.",
    };
    let first = html! {
        (way(&visit.shell, Role::Read, "/parked", "Parked tasks, whose effects are open"))
        (command("effects list"))
    };
    html! {
        section aria-labelledby="counted" {
            h2 #counted { "By step" }
            (stacked("Open effects by step", &["Step", "Service", "Effects", "Amount", "Oldest", "One of them"], &rows, teach(none, &first)))
            @if found.unknown > 0 { p.quiet { "What " (number(found.unknown)) " tasks have done is not counted: this server does not know their type, or cannot read their rows." } }
            @if !found.complete { p.quiet { "Older tasks were not looked at." } }
        }
    }
}

fn list(visit: &PageRequest, kind: Option<&str>, found: &Page<OpenEffects>) -> Markup {
    let row = |it: &OpenEffects| {
        html! {
            tr {
                td.what { (task_of_type(&visit.shell.base, it.task_id, &it.task_type)) }
                td data-head="State" { (state(it.status)) }
                td data-head="Effects" { @for effect in &it.effects { (one(effect)) } }
                td data-head="Since" { (ago(&it.since)) }
            }
        }
    };
    let rows: Vec<_> = found.items.iter().map(row).collect();
    let address = || Address::new(visit.at("/effects"));
    let next = found.next_cursor.as_deref();
    let next = next.map(|cursor| address().with_some("kind", kind).with("cursor", cursor));
    html! {
        section aria-labelledby="tasks" {
            h2 #tasks { "Tasks, the newest first" }
            @if kind.is_some() { p.quiet { "Of one kind. " a href=(address().text()) { "All kinds" } } }
            (stacked("Tasks with open effects", &["Task", "State", "Effects", "Since"], &rows, "No task here has open effects."))
            @if let Some(next) = next { nav.pager aria-label="Pages of the list" { a.button href=(next.text()) rel="next" { "Older" } } }
        }
    }
}

fn one(it: &OpenEffect) -> Markup {
    let service = it.service.as_ref();
    html! {
        p {
            (kind_chip(it.kind)) " " b { (it.step) }
            @if let Some(service) = service { " at " (service) }
            (Amount::listed(&it.amounts))
            " " br; span.message { (it.reason) }
        }
    }
}
