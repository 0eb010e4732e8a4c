//! The processes of the installation: which are there, what they run, and what the last passes of reconcilers
//! did. Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, empty, list, number, plain, task_link};
use crate::page_request::PageRequest;
use crate::query::Fields;
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::About;
use counterstep_contracts::workers::{PassView, WorkerState, WorkerView, WorkersView};
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let found = visit.get::<WorkersView>("/api/workers").await?;
    let rows: Vec<_> = found.workers.iter().map(|it| row(&visit, it)).collect();
    let last = found.workers.iter().filter_map(|it| it.last_pass.as_ref());
    let last = last.min_by_key(|it| it.seconds_ago);
    let body = html! {
        div.head { h1 { "Workers" } }
        (list("Processes", &["Process", "State", "Runs", "Queues", "Program", "Seen"], &rows, "No process has said that it is there."))
        (pass(last))
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Workers,
        "Workers",
        body,
    ))
}

pub(super) fn state(of: WorkerState) -> Markup {
    match of {
        WorkerState::Alive => chip("check", "ok", "alive"),
        WorkerState::Lost => chip("question", "doubt", "lost"),
        WorkerState::Stopped => chip("dash", "still", "stopped"),
    }
}

fn row(visit: &PageRequest, it: &WorkerView) -> Markup {
    let what = it.paused.as_ref().map_or("pause", |_| "resume");
    html! {
        tr {
            td.what { b { (it.role) } " " span.id { (it.id) } br; span.quiet { (it.machine) } }
            td {
                (state(it.state))
                @if let Some(pause) = &it.paused {
                    br;
                    (chip("pause", "wait", "paused"))
                    div.quiet { (ago(&pause.since)) ", " (pause.by) ": " (pause.note) }
                }
                @if !it.queues.is_empty() { br; (button(visit, ["workers", what], &it.machine, &[("role", it.role.as_str())])) }
            }
            td {
                (it.running_count) " of " (it.concurrency)
                @if !it.running.is_empty() {
                    div.running { @for task in it.running.iter().take(5) { (task_link(&visit.shell.base, *task)) " " } }
                }
            }
            td { (it.queues.join(", ")) }
            td { (it.program) }
            td { (ago(&it.seen_at)) }
        }
    }
}

/// What is decided about the processes of a machine.
pub(crate) enum Machines {}

impl Group for Machines {
    const CHAPTER: Chapter = Chapter::Workers;
    const BACK: (&'static str, &'static str) = ("Workers", "/workers");

    async fn look(visit: &PageRequest, _: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let found = visit.get::<WorkersView>("/api/workers").await?;
        if !found.workers.iter().any(|it| it.machine == look.name) {
            return Err(visit.refused(ProblemCode::NoSuchWorkers, "no machine has this name"));
        }
        let query = Fields::of(visit.request.query_string());
        let role = query.get("role").unwrap_or("worker").to_owned();
        Ok(Look {
            at_first: vec![("role", role)],
            ..look
        })
    }
}

/// What the last sweep found, orphans among it.
fn pass(last: Option<&PassView>) -> Markup {
    html! {
        section aria-labelledby="pass" {
            h2 #pass { "The last pass of a reconciler" }
            @match last {
                None => (empty("No reconciler has said that it has passed.")),
                Some(last) => {
                    p.quiet { (last.seconds_ago) " s ago" }
                    dl.facts {
                        @for (what, count) in last.counts.iter().filter(|(_, count)| **count > 0) {
                            div { dt { (plain(what)) } dd { (number(*count)) } }
                        }
                    }
                    @if last.counts.values().all(|count| *count == 0) { p { "It found nothing to do." } }
                }
            }
        }
    }
}
