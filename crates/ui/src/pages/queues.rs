//! Queues: what waits on them, and pausing and resuming them. Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, command, number, stacked, state, teach, way};
use crate::page_request::PageRequest;
use crate::time_text::{age, ago, seconds};
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use counterstep_contracts::queue::QueueView;
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let body = html! {
        div.head { h1 { "Queues" } }
        div data-live=(visit.at("/live/queues")) { (part) }
    };
    Ok(layout::page(&visit.shell, Chapter::Queues, "Queues", body))
}

fn none(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Read, "/types", "Task types and their queues"))
        (command("queues list"))
    };
    teach(
        "A queue holds the tasks that wait for a worker. There is none: each task type of the program names its queue, as in \
         #[distributed_task(queue = \"orders\")].",
        &first,
    )
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let found = visit.get::<Page<QueueView>>("/api/queues").await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(visit, it)).collect();
    Ok(html! {
        div #queues { (stacked("Queues", &["Queue", "State", "Tasks", "Depth", "Oldest", "In, out a minute", "Empty in", ""], &rows, none(visit))) }
    })
}

fn row(visit: &PageRequest, it: &QueueView) -> Markup {
    let what = it.paused.as_ref().map_or("pause", |_| "resume");
    html! {
        tr id={ "queue-" (it.name) } {
            td.what { b { (it.name) } }
            td data-head="State" {
                @match &it.paused {
                    Some(pause) => {
                        (chip("pause", "wait", "paused")) " " (ago(&pause.since))
                        br; span.quiet { (pause.by) ": " (pause.note) }
                    },
                    None => (chip("check", "ok", "open")),
                }
            }
            td data-head=[(!it.tasks.is_empty()).then_some("Tasks")] {
                div.counts { @for (status, count) in &it.tasks { span { (state(*status)) " " (number(*count)) } } }
            }
            td data-head="Depth" { (number(it.depth)) }
            td data-head="Oldest" { (it.oldest_seconds.map_or("–".to_owned(), |it| age(seconds(it)))) }
            td data-head="In, out a minute" { (it.in_per_minute) ", " (it.out_per_minute) }
            td data-head="Empty in" { (end(it)) }
            td.do { (button(visit, ["queues", what], &it.name, &[])) }
        }
    }
}

/// When it would be empty, were it to go on as it did.
fn end(it: &QueueView) -> String {
    match it.empty_in_seconds {
        Some(count) => age(seconds(count)),
        None if it.depth == 0 => "empty".to_owned(),
        None if it.in_per_minute > it.out_per_minute => "grows".to_owned(),
        None => "stays".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_queue_is_empty_grows_stays_or_has_an_end() {
        for (depth, came, left, end, expected) in [
            (0, 3.0, 1.0, None, "empty"),
            (5, 3.0, 1.0, None, "grows"),
            (5, 1.0, 1.0, None, "stays"),
            (5, 1.0, 3.0, Some(150), "2 min"),
        ] {
            let queue: QueueView = serde_json::from_value(json!({
                "name": "lamps", "tasks": {}, "depth": depth, "in_per_minute": came, "out_per_minute": left,
                "empty_in_seconds": end,
            }))
            .expect("a queue");
            assert_eq!(super::end(&queue), expected);
        }
    }
}
