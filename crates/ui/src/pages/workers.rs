//! The processes of the installation: which are there, what they run, what the last passes of reconcilers did, and pausing those of a
//! machine. Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, command, empty, number, plain, stacked, task_link, teach};
use crate::page_request::PageRequest;
use crate::query::{Fields, segment};
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::About;
use counterstep_contracts::queue::PauseView;
use counterstep_contracts::workers::{PassView, WorkerState, WorkerView, WorkersView};
use maud::{Markup, html};
use std::collections::BTreeSet;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let body = html! {
        div.head { h1 { "Workers" } }
        div data-live=(visit.at("/live/workers")) { (part) }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Workers,
        "Workers",
        body,
    ))
}

fn none() -> Markup {
    teach(
        "A worker, a reconciler and a process with all roles each have a row here while they run, and for a time after. None has \
         registered: tasks wait until a worker is started.",
        &command("worker"),
    )
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let found = visit.get::<WorkersView>("/api/workers").await?;
    let rows: Vec<_> = found.workers.iter().map(|it| row(visit, it)).collect();
    let last = found.workers.iter().filter_map(|it| it.last_pass.as_ref());
    let last = last.min_by_key(|it| it.seconds_ago);
    Ok(html! {
        div #workers {
            (stacked("Processes", &["Process", "State", "Runs", "Queues", "Program", "Seen"], &rows, none()))
            (pass(last))
        }
    })
}

pub(super) fn state(of: WorkerState) -> Markup {
    match of {
        WorkerState::Alive => chip("check", "ok", "alive"),
        WorkerState::Lost => chip("question", "doubt", "lost"),
        WorkerState::Stopped => chip("dash", "still", "stopped"),
    }
}

/// That a person has paused it, since when, and why.
pub(super) fn paused(pause: &PauseView) -> Markup {
    html! {
        (chip("pause", "wait", "paused"))
        div.quiet { (ago(&pause.since)) ", " (pause.by) ": " (pause.note) }
    }
}

/// The page of a process.
fn page(id: &str) -> String {
    format!("/workers/{}", segment(id))
}

/// What the address of a decision has of the process from whose page it is taken: it leads back there.
pub(super) fn page_of(it: &WorkerView) -> [(&'static str, &str); 2] {
    [("role", it.role.as_str()), ("from", it.id.as_str())]
}

fn row(visit: &PageRequest, it: &WorkerView) -> Markup {
    let what = it.paused.as_ref().map_or("pause", |_| "resume");
    html! {
        tr id={ "worker-" (it.id) } {
            td.what { b { (it.role) } " " a.id href=(visit.at(&page(&it.id))) { (it.id) } br; span.quiet { (it.machine) } }
            td data-head="State" {
                (state(it.state))
                @if let Some(pause) = &it.paused { br; (paused(pause)) }
                @if !it.queues.is_empty() { br; (button(visit, ["workers", what], &it.machine, &[("role", it.role.as_str())])) }
            }
            td data-head="Runs" {
                (it.running_count) " of " (it.concurrency)
                @if !it.running.is_empty() {
                    div.running { @for task in it.running.iter().take(5) { (task_link(&visit.shell.base, *task)) " " } }
                }
            }
            td data-head="Queues" { (it.queues.join(", ")) }
            td data-head="Program" { (it.program) }
            td data-head="Seen" { (ago(&it.seen_at)) }
        }
    }
}

/// What is decided about the processes of a machine.
pub(crate) enum Machines {}

impl Group for Machines {
    const CHAPTER: Chapter = Chapter::Workers;
    const BACK: (&'static str, &'static str) = ("Workers", "/workers");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let found = visit.get::<WorkersView>("/api/workers").await?;
        if !found.workers.iter().any(|it| it.machine == look.name) {
            return Err(visit.refused(ProblemCode::NoSuchWorkers, "no machine has this name"));
        }
        let query = Fields::of(visit.request.query_string());
        let role = query.get("role").unwrap_or("worker").to_owned();
        let effect = Effect::of(&found.workers, &look.name, &role);
        let mut ids = found.workers.iter().map(|it| &it.id);
        let from = query.get("from").and_then(|of| ids.find(|id| *id == of));
        Ok(Look {
            at_first: vec![("role", role)],
            back: from.map(|id| (id.clone(), page(id))),
            preview: html! {
                (look.preview)
                (effect.shown(visit, what))
            },
            ..look
        })
    }
}

/// What a pause would do, as the processes were seen last.
#[derive(Debug, Default, PartialEq)]
struct Effect<'a> {
    /// The processes, by id.
    processes: Vec<&'a str>,
    /// The tasks that they run.
    running: u32,
    /// Their queues which no other process takes tasks from.
    alone: BTreeSet<&'a str>,
}

impl<'a> Effect<'a> {
    /// For those of a machine that have this role and are alive.
    fn of(workers: &'a [WorkerView], machine: &str, role: &str) -> Self {
        let (mut effect, mut served) = (Self::default(), BTreeSet::new());
        for it in workers.iter().filter(|it| it.state == WorkerState::Alive) {
            let queues = it.queues.iter().map(String::as_str);
            if it.machine == machine && it.role == role {
                effect.processes.push(&it.id);
                effect.running += it.running_count;
                effect.alone.extend(queues);
            } else if it.paused.is_none() {
                served.extend(queues);
            }
        }
        effect.alone.retain(|queue| !served.contains(queue));
        effect
    }

    fn shown(&self, visit: &PageRequest, what: &str) -> Markup {
        let queues: Vec<_> = self.alone.iter().copied().collect();
        html! {
            @if self.processes.is_empty() { p { "No such process is alive now." } }
            @else {
                dl.facts {
                    div { dt { "Processes" } dd { @for id in &self.processes { a.id href=(visit.at(&page(id))) { (id) } " " } } }
                    div { dt { "Tasks that they run, and that go on" } dd { (number(u64::from(self.running))) } }
                }
                p {
                    @match (what, queues.is_empty()) {
                        ("pause", true) => "Each of their queues has another process that takes tasks from it.",
                        ("pause", false) => { "No other process takes tasks from: " b { (queues.join(", ")) } "." },
                        (_, true) => "Each of their queues has another process meanwhile.",
                        (_, false) => { "No other process takes tasks meanwhile from: " b { (queues.join(", ")) } "." },
                    }
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn worker(
        id: &str,
        machine: &str,
        state: &str,
        queues: &[&str],
        is_paused: bool,
    ) -> WorkerView {
        let mut view = json!({
            "id": id, "role": "worker", "state": state, "machine": machine, "program": "1", "queues": queues, "task_types": [],
            "concurrency": 4, "running_count": 2, "running": [], "heavy": 1, "heavy_count": 0, "abandoned_count": 0,
            "started_at": "2026-01-01T00:00:00Z", "seen_at": "2026-01-01T00:00:00Z",
        });
        if is_paused {
            view["paused"] =
                json!({"since": "2026-01-01T00:00:00Z", "by": "operator:kim", "note": "a disk"});
        }
        serde_json::from_value(view).expect("a process")
    }

    #[test]
    fn a_pause_leaves_those_queues_alone_that_no_other_process_takes_tasks_from() {
        let workers = [
            worker("worker:1", "w1", "alive", &["files", "mail", "post"], false),
            worker("worker:2", "w1", "alive", &["stock"], false),
            worker("worker:3", "w1", "lost", &["old"], false),
            worker("worker:4", "w2", "alive", &["files"], false),
            worker("worker:5", "w3", "alive", &["mail"], true),
            worker("worker:6", "w4", "lost", &["post"], false),
        ];
        let expected = Effect {
            processes: vec!["worker:1", "worker:2"],
            running: 4,
            alone: BTreeSet::from(["mail", "post", "stock"]),
        };
        assert_eq!(Effect::of(&workers, "w1", "worker"), expected);
        assert_eq!(Effect::of(&workers, "w1", "api"), Effect::default());
    }
}
