//! Limits of steps: what is declared, what is set, what is in use, and setting them. Must not hold what it
//! shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{command, list, teach, way};
use crate::page_request::PageRequest;
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{LimitView, Rate};
use counterstep_contracts::operation::About;
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = visit.get::<Page<LimitView>>("/api/limits").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(&visit, it)).collect();
    let body = html! {
        div.head { h1 { "Limits" } }
        (list("Limits", &["Limit", "Declared", "Set", "In use", ""], &rows, none(&visit)))
    };
    Ok(layout::page(&visit.shell, Chapter::Limits, "Limits", body))
}

fn none(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Read, "/types", "Task types and their steps"))
        (command("limits list"))
    };
    teach(
        "A limit bounds how many attempts run at once or start in a time, over all processes. There is none: a step declares one, as \
         limit = Limit::named(\"carrier\").at_once(20), and here another number is set for it.",
        &first,
    )
}

fn shown(at_once: Option<u32>, rate: Option<Rate>) -> String {
    let at_once = at_once.map(|many| format!("{many} at once"));
    let rate = rate.map(|rate| format!("{rate} started"));
    [at_once, rate]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

fn row(visit: &PageRequest, it: &LimitView) -> Markup {
    html! {
        tr {
            td.what { b { (it.name) } }
            td {
                @match &it.declared {
                    Some(limit) => { (shown(limit.at_once, limit.rate)) br; span.quiet { "for " (limit.scope) } },
                    None => "",
                }
            }
            td {
                @match &it.set {
                    Some(set) => { (shown(set.at_once, set.rate)) br; span.quiet { (set.by) ": " (set.note) ", " (ago(&set.since)) } },
                    None => "",
                }
            }
            td {
                @for of in &it.uses { div { @if of.of != "all" { (of.of) ": " } (of.held) " held, " (of.waiting) " wait" } }
            }
            td.do {
                (button(visit, ["limits", "set"], &it.name, &[]))
                @if it.set.is_some() { (button(visit, ["limits", "reset"], &it.name, &[])) }
            }
        }
    }
}

/// What is decided about limits.
pub(crate) enum Limits {}

impl Group for Limits {
    const CHAPTER: Chapter = Chapter::Limits;
    const BACK: (&'static str, &'static str) = ("Limits", "/limits");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let found = visit.get::<Page<LimitView>>("/api/limits").await?;
        let limit = found.items.into_iter().find(|it| it.name == look.name);
        let limit = limit
            .ok_or_else(|| visit.refused(ProblemCode::NoSuchLimit, "no limit has this name"))?;
        let (at_once, rate) = match (&limit.set, &limit.declared) {
            (Some(set), _) => (set.at_once, set.rate),
            (None, Some(declared)) => (declared.at_once, declared.rate),
            (None, None) => (None, None),
        };
        let declared = limit.declared.as_ref().map(|it| shown(it.at_once, it.rate));
        let preview = html! {
            p {
                @if what == "set" { "It counts in all processes within seconds. Attempts that run go on. What is left empty is as much as may be." }
                @else { "It is as it is declared again: " (declared.unwrap_or_else(|| "without a limit".to_owned())) "." }
            }
            p { "Now: " b { (shown(at_once, rate)) } }
        };
        let text = |value: Option<String>| value.unwrap_or_default();
        Ok(Look {
            at_first: vec![
                ("at_once", text(at_once.map(|it| it.to_string()))),
                ("rate", text(rate.map(|it| it.to_string()))),
            ],
            ..look.shows(preview)
        })
    }
}
