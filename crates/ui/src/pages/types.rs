//! Task types: what each declares, whether it takes submissions, and switching that. Must not hold what it
//! shows.

use super::declared::{Group, Look, button};
use super::part;
use super::type_durations;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{self, chip, command, table, teach};
use crate::page_request::PageRequest;
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use maud::{Markup, html};
use serde_json::Value;

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

pub(crate) async fn list(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let body = html! {
        div.head { h1 { "Task types" } }
        div data-live=(visit.at("/live/types")) { (part) }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Types,
        "Task types",
        body,
    ))
}

/// Where the program has no task type.
pub(super) fn none() -> Markup {
    teach(
        "A task type declares the steps of its tasks, and how each is undone. This server knows none: a type is Rust code with \
         #[distributed_task], and the program adds it to its registry with Registry::with.",
        &command("new shop"),
    )
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let found = visit.get::<Page<Value>>("/api/task-types").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(visit, it)).collect();
    let heads = ["Type", "State", "Queue", "Steps", ""];
    Ok(html! {
        div #types { (markup::list("Task types", &heads, &rows, none())) }
    })
}

fn switch(it: &Value) -> Markup {
    let switch = &it["switch"];
    html! {
        @match switch["disabled_since"].as_str() {
            Some(since) => {
                (chip("pause", "wait", "disabled")) " " (ago(since))
                br; span.quiet { @if let Some(by) = switch["by"].as_str() { (by) ": " } (text(switch, "reason")) }
                @if let Some(from) = switch["probe_from"].as_str() { br; span.quiet { "tried again " (ago(from)) } }
            },
            None => (chip("check", "ok", "takes submissions")),
        }
    }
}

fn row(visit: &PageRequest, it: &Value) -> Markup {
    let steps = it["steps"].as_array().map_or(0, Vec::len);
    html! {
        tr id={ "type-" (text(it, "name")) } {
            td.what { a href=(visit.at(&format!("/types/{}", kebab_case(text(it, "name"))))) { (text(it, "name")) } " " span.quiet { "v" (it["version"]) } }
            td { (switch(it)) }
            td { (text(it, "queue")) }
            td { (steps) }
            td.do { (buttons(visit, it)) }
        }
    }
}

fn buttons(visit: &PageRequest, it: &Value) -> Markup {
    let name = text(it, "name");
    let since = it["switch"]["disabled_since"].as_str();
    let what = since.map_or("disable", |_| "enable");
    html! {
        @if visit.may(Role::Submit) {
            a.button href=(visit.at(&format!("/submit/{}", kebab_case(name)))) aria-label={ "Submit " (name) } { "Submit" } " "
        }
        (button(visit, ["types", what], &kebab_case(name), &[]))
    }
}

async fn found(visit: &PageRequest) -> Result<Value, Failed> {
    // By its route, or by its name, which an address takes too.
    let route = kebab_case(part(&visit.request, "name"));
    let found = visit.get::<Page<Value>>("/api/task-types").await?;
    let mut all = found.items.into_iter();
    let found = all.find(|it| kebab_case(text(it, "name")) == route);
    found.ok_or_else(|| visit.refused(ProblemCode::NoSuchTaskType, "no task type has this name"))
}

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let it = found(&visit).await?;
    let name = text(&it, "name").to_owned();
    let durations = type_durations::part(&visit, &name).await;
    let body = html! {
        p.up { a href=(visit.at("/types")) { "Task types" } }
        div.head {
            h1 { (name) " " span.quiet { "v" (it["version"]) } }
            div.buttons {
                a.button href=(visit.at(&format!("/tasks?type={name}"))) { "Its tasks" } " "
                (buttons(&visit, &it))
            }
        }
        p { (switch(&it)) }
        (policies(&it))
        (steps(&it))
        (durations)
        details { summary { "The declaration as JSON" } (crate::markup::json(&it)) }
    };
    Ok(layout::page(&visit.shell, Chapter::Types, &name, body))
}

/// A value of a declaration.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => crate::markup::plain(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

fn policies(it: &Value) -> Markup {
    let facts = [
        ("Queue", "queue"),
        ("Deadline", "timeout"),
        ("Lease", "lease"),
        ("Consecutive host losses allowed", "max_recoveries"),
        ("When its host is lost", "on_lost"),
        ("May be cancelled", "cancellable"),
        ("When an undo gives up", "on_undo_failure"),
        ("Definition", "definition_hash"),
    ];
    html! {
        dl.facts {
            @for (label, name) in facts {
                div {
                    dt { (label) }
                    dd {
                        // The settings have a lease for types that declare none; they have no deadline.
                        @if name == "lease" && it[name].is_null() { "as the settings say" } @else { (plain(&it[name])) }
                    }
                }
            }
         }
    }
}

/// A policy as it holds: where the settings change it, in `effective`.
fn effective(named: &Value) -> &Value {
    named.get("effective").unwrap_or(&named["policy"])
}

fn steps(it: &Value) -> Markup {
    let rows: Vec<_> = it["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(step)
        .collect();
    html! {
        h2 { "Steps" }
        (table("Steps", &["No", "Step", "Runs on", "Retries", "When it gives up", "Way back"], &rows))
    }
}

fn step(of: &Value) -> Markup {
    let undo = &of["undo"];
    html! {
        tr {
            td.number { (of["no"]) }
            td.what {
                b { (text(of, "name")) }
                @if let Some(group) = of["group"].as_str() { br; span.quiet { "side by side: " (group) } }
                @if let Some(when) = of["when"].as_str() { br; span.quiet { "when " code { (when) } } }
                @if let Some(waits) = of["waits"]["for"].as_str() { br; span.quiet { "waits for a " (waits) } }
                @if let Some(limit) = of["limit"]["name"].as_str() { br; span.quiet { "limit " (limit) } }
                @if let Some(breaker) = effective(&of["breaker"])["name"].as_str() { br; span.quiet { "breaker " (breaker) } }
            }
            td { (text(of, "host")) }
            td title=(effective(&of["retry"]).to_string()) { (effective(&of["retry"])["max_retries"]) }
            td { (plain(&of["on_exhausted"])) }
            td {
                @match undo["kind"].as_str() {
                    Some("function") => code { (text(undo, "name")) },
                    Some("waived") => { "waived: " (text(undo, "reason")) },
                    Some("pure") => "no effects",
                    _ => "built-in",
                }
                @if let Some(probe) = of["probe"].as_str() { br; span.quiet { "probe " code { (probe) } } }
            }
        }
    }
}

/// What is decided about task types.
pub(crate) enum Types {}

impl Group for Types {
    const CHAPTER: Chapter = Chapter::Types;
    const BACK: (&'static str, &'static str) = ("Task types", "/types");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let it = found(visit).await?;
        let (name, route) = (text(&it, "name"), kebab_case(text(&it, "name")));
        let preview = html! {
            p {
                @if what == "disable" { "Submissions of it are refused with " code { "type-disabled" } ", by all tenants and schedules. Its tasks go on." }
                @else { "It takes submissions again." }
            }
            p { (switch(&it)) }
        };
        Ok(Look {
            back: Some((name.to_owned(), format!("/types/{route}"))),
            ..Look::at(&route, about).shows(preview)
        })
    }
}
