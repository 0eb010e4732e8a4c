//! Limits of steps: what is declared, what is set, what is in use, and setting them. Must not hold what it
//! shows.

use super::decide::{self, Form, Proposal};
use super::part;
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::{empty, table};
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use crate::time_text::ago;
use actix_web::{HttpRequest, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{LimitView, Rate};
use maud::{Markup, html};
use serde_json::json;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = visit.get::<Page<LimitView>>("/api/limits").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(&visit, it)).collect();
    let body = html! {
        div.head { h1 { "Limits" } }
        @if rows.is_empty() { (empty("No step of this server's types has a limit.")) } @else {
            (table("Limits", &["Limit", "Declared", "Set", "In use", ""], &rows))
        }
    };
    Ok(layout::page(&visit.shell, Chapter::Limits, "Limits", body))
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
    let href = |what: &str| visit.at(&format!("/limits/{}/{what}", segment(&it.name)));
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
                a.button href=(href("set")) aria-label={ "Set " (it.name) } { "Set" }
                @if it.set.is_some() { " " a.button href=(href("reset")) aria-label={ "Reset " (it.name) } { "Reset" } }
            }
        }
    }
}

async fn asked<'a>(visit: &PageRequest, sent: Option<&'a Fields>) -> Result<Proposal<'a>, Failed> {
    visit.needs(Role::Admin)?;
    let name = part(&visit.request, "name").to_owned();
    let is_set = match part(&visit.request, "what") {
        "set" => true,
        "reset" => false,
        _ => return Err(visit.refused(ProblemCode::NoSuchRoute, "no page is at this address")),
    };
    let found = visit.get::<Page<LimitView>>("/api/limits").await?;
    let limit = found.items.into_iter().find(|it| it.name == name);
    let limit =
        limit.ok_or_else(|| visit.refused(ProblemCode::NoSuchLimit, "no limit has this name"))?;
    let now = match (&limit.set, &limit.declared) {
        (Some(set), _) => (set.at_once, set.rate),
        (None, Some(declared)) => (declared.at_once, declared.rate),
        (None, None) => (None, None),
    };
    let path = format!("/api/limits/{}", segment(&name));
    let mut form = Form::of(sent);
    let elsewhere = match is_set {
        true => set(&mut form, &name, path, now),
        false => Equivalents::new("POST", format!("{path}/reset"), &["limits", "reset", &name]),
    };
    let elsewhere = elsewhere.note(&form.note());
    let declared = limit.declared.as_ref().map(|it| shown(it.at_once, it.rate));
    Ok(Proposal {
        chapter: Chapter::Limits,
        title: match is_set {
            true => format!("What would happen if I set {name}?"),
            false => format!("What would happen if I reset {name}?"),
        },
        about: ("Limits".to_owned(), "/limits".to_owned()),
        preview: html! {
            p {
                @if is_set { "It counts in all processes within seconds. Attempts that run go on." }
                @else { "It is as it is declared again: " (declared.unwrap_or_else(|| "without a limit".to_owned())) "." }
            }
            p { "Now: " b { (shown(now.0, now.1)) } }
        },
        form,
        button: if is_set {
            "Set the limit"
        } else {
            "Reset the limit"
        },
        did: if is_set { "set" } else { "reset" },
        elsewhere,
    })
}

/// The fields of other values, and what sets them: both, since what is left out is as much as may be.
fn set(
    form: &mut Form<'_>,
    name: &str,
    path: String,
    now: (Option<u32>, Option<Rate>),
) -> Equivalents {
    let mut set = Equivalents::new("PUT", path, &["limits", "set", name]);
    let label = html! { "Attempts at once" span.quiet { ", empty for any number" } };
    let at_first = now.0.map_or_else(String::new, |it| it.to_string());
    let at_once = form.number("at_once", label, &at_first);
    match at_once.parse::<u32>() {
        _ if at_once.is_empty() => {}
        Ok(many) => set = set.flag("--at-once", &at_once).field("at_once", many),
        Err(_) => {
            let why = format!("`{at_once}` is no number of attempts");
            form.refuse(ProblemCode::InvalidRequest, why);
        }
    }
    let label = html! { "Starts in a period" span.quiet { ", as 50/1s" } };
    let at_first = now.1.map_or_else(String::new, |it| it.to_string());
    let rate = form.line("rate", label, &at_first, "50/1s");
    match Rate::parse(&rate) {
        _ if rate.is_empty() => {}
        Ok(parsed) => set = set.flag("--rate", &rate).field("rate", json!(parsed)),
        Err(why) => form.refuse(ProblemCode::InvalidRequest, why),
    }
    set
}

pub(crate) async fn page(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = asked(&visit, None).await?;
    Ok(decide::page(&visit, &proposal, None))
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked(&visit, Some(&fields)).await?;
    decide::send(&visit, &proposal).await
}
