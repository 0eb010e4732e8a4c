//! Queues: what waits on them, and pausing and resuming them. Must not hold what it shows.

use super::decide::{self, Form, Proposal};
use super::part;
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::{chip, empty, number, state, table};
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use crate::time_text::ago;
use actix_web::{HttpRequest, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::Page;
use counterstep_contracts::queue::QueueView;
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = visit.get::<Page<QueueView>>("/api/queues").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(&visit, it)).collect();
    let body = html! {
        div.head { h1 { "Queues" } }
        @if rows.is_empty() { (empty("No type of this server has a queue.")) } @else {
            (table("Queues", &["Queue", "State", "Tasks", ""], &rows))
        }
    };
    Ok(layout::page(&visit.shell, Chapter::Queues, "Queues", body))
}

fn row(visit: &PageRequest, it: &QueueView) -> Markup {
    let what = if it.paused.is_some() {
        "resume"
    } else {
        "pause"
    };
    let href = visit.at(&format!("/queues/{}/{what}", segment(&it.name)));
    html! {
        tr {
            td.what { b { (it.name) } }
            td {
                @match &it.paused {
                    Some(pause) => {
                        (chip("pause", "wait", "paused")) " " (ago(&pause.since))
                        br; span.quiet { (pause.by) ": " (pause.note) }
                    },
                    None => (chip("check", "ok", "open")),
                }
            }
            td.counts { @for (status, count) in &it.tasks { span { (state(*status)) " " (number(*count)) } } }
            td.do { a.button href=(href) aria-label={ (what) " " (it.name) } { @if it.paused.is_some() { "Resume" } @else { "Pause" } } }
        }
    }
}

async fn asked<'a>(visit: &PageRequest, sent: Option<&'a Fields>) -> Result<Proposal<'a>, Failed> {
    visit.needs(Role::Admin)?;
    let name = part(&visit.request, "name").to_owned();
    let is_pause = match part(&visit.request, "what") {
        "pause" => true,
        "resume" => false,
        _ => return Err(visit.refused(ProblemCode::NoSuchRoute, "no page is at this address")),
    };
    let what = if is_pause { "pause" } else { "resume" };
    let found = visit.get::<Page<QueueView>>("/api/queues").await?;
    let queue = found.items.into_iter().find(|it| it.name == name);
    let queue =
        queue.ok_or_else(|| visit.refused(ProblemCode::NoSuchQueue, "no queue has this name"))?;
    let path = format!("/api/queues/{}/{what}", segment(&name));
    let mut form = Form::of(sent);
    let elsewhere = Equivalents::new("POST", path, &["queues", what, &name]).note(&form.note());
    Ok(Proposal {
        chapter: Chapter::Queues,
        title: format!("What would happen if I {what} {name}?"),
        about: ("Queues".to_owned(), "/queues".to_owned()),
        preview: html! {
            p {
                @if is_pause { "Within a few seconds no process claims a task of it. What runs goes on, and submissions are taken." }
                @else { "Its tasks are claimed again." }
            }
            p.counts { @for (status, count) in &queue.tasks { span { (state(*status)) " " (number(*count)) } } }
        },
        form,
        button: if is_pause {
            "Pause the queue"
        } else {
            "Resume the queue"
        },
        did: if is_pause { "paused" } else { "resumed" },
        elsewhere,
    })
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
