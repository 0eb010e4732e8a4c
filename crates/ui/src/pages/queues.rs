//! Queues: what waits on them, and pausing and resuming them. Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, list, number, state};
use crate::page_request::PageRequest;
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use counterstep_contracts::queue::QueueView;
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = visit.get::<Page<QueueView>>("/api/queues").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(&visit, it)).collect();
    let body = html! {
        div.head { h1 { "Queues" } }
        (list("Queues", &["Queue", "State", "Tasks", ""], &rows, "No type of this server has a queue."))
    };
    Ok(layout::page(&visit.shell, Chapter::Queues, "Queues", body))
}

fn row(visit: &PageRequest, it: &QueueView) -> Markup {
    let what = it.paused.as_ref().map_or("pause", |_| "resume");
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
            td.do { (button(visit, ["queues", what], &it.name, &[])) }
        }
    }
}

/// What is decided about queues.
pub(crate) enum Queues {}

impl Group for Queues {
    const CHAPTER: Chapter = Chapter::Queues;
    const BACK: (&'static str, &'static str) = ("Queues", "/queues");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let found = visit.get::<Page<QueueView>>("/api/queues").await?;
        let queue = found.items.into_iter().find(|it| it.name == look.name);
        let queue = queue
            .ok_or_else(|| visit.refused(ProblemCode::NoSuchQueue, "no queue has this name"))?;
        Ok(look.shows(html! {
            p {
                @if what == "pause" { "Within a few seconds no process claims a task of it. What runs goes on, and submissions are taken." }
                @else { "Its tasks are claimed again." }
            }
            p.counts { @for (status, count) in &queue.tasks { span { (state(*status)) " " (number(*count)) } } }
        }))
    }
}
