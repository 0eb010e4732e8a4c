//! One process: what it is, what it runs since when, what it ran last, and how often attempts failed in that, beside the processes next
//! to it. Must not hold what it shows.

use super::declared::button;
use super::part;
use super::workers::{page_of, paused, state};
use crate::failed::Answer;
use crate::layout::{self, Chapter};
use crate::markup::{chip, number, plain, stacked, task_link};
use crate::page_request::PageRequest;
use crate::query::segment;
use crate::time_text::{ago, duration};
use actix_web::HttpRequest;
use counterstep_contracts::TaskId;
use counterstep_contracts::workers::{
    FailureShare, RecentTurnView, RunningTaskView, TurnOutcome, WorkerDetails, WorkerView,
};
use maud::{Markup, html};

/// Of fewer turns a share says nothing.
const ENOUGH: u64 = 20;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let path = format!("/api/workers/{}", segment(part(&request, "id")));
    let found = visit.get::<WorkerDetails>(&path).await?;
    let worker = &found.worker;
    let base = &visit.shell.base;
    let running = found.running.iter().map(|it| running(base, it));
    let recent = found.recent.iter().map(|it| recent(base, it));
    let body = html! {
        p.up { a href=(visit.at("/workers")) { "Workers" } }
        div.head {
            h1 { (worker.role) " " span.id { (worker.id) } }
            (pause(&visit, worker))
        }
        (facts(worker))
        section aria-labelledby="runs" {
            h2 #runs { "Runs now" }
            (stacked("Tasks that it runs", &["Task", "Step", "Since"], &running.collect::<Vec<_>>(), "It runs no task."))
        }
        (compared(&found))
        section aria-labelledby="ran" {
            h2 #ran { "Its last turns" }
            (stacked("Turns that have ended", &["Task", "Outcome", "Failed attempts", "Took", "Ended"], &recent.collect::<Vec<_>>(), "It has ended no turn since it started."))
        }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Workers,
        &worker.id,
        body,
    ))
}

fn pause(visit: &PageRequest, worker: &WorkerView) -> Markup {
    let what = worker.paused.as_ref().map_or("pause", |_| "resume");
    html! {
        @if !worker.queues.is_empty() {
            (button(visit, ["workers", what], &worker.machine, &page_of(worker)))
        }
    }
}

fn facts(worker: &WorkerView) -> Markup {
    let takes = !worker.queues.is_empty();
    let free = worker.concurrency.saturating_sub(worker.running_count);
    let fact = |what: &str, text: Markup| html! { div { dt { (what) } dd { (text) } } };
    html! {
        div.standing { (state(worker.state)) @if let Some(pause) = &worker.paused { (paused(pause)) } }
        dl.facts {
            (fact("Machine", html! { (worker.machine) }))
            (fact("Program", html! { (worker.program) }))
            (fact("Started", ago(&worker.started_at)))
            (fact("Seen", ago(&worker.seen_at)))
            @if let Some(bytes) = worker.memory_bytes { (fact("Memory", html! { (number(bytes >> 20)) " MiB" })) }
            @if takes {
                (fact("Runs", html! { (worker.running_count) " of " (worker.concurrency) }))
                (fact("Free slots", html! { (free) }))
                (fact("Heavy steps", html! { (worker.heavy_count) " of " (worker.heavy) }))
                (fact("Queues", html! { (worker.queues.join(", ")) }))
            }
        }
    }
}

fn task(base: &str, task: TaskId, of: Option<&str>) -> Markup {
    html! { td.what { @if let Some(of) = of { b { (of) } " " } (task_link(base, task)) } }
}

fn running(base: &str, it: &RunningTaskView) -> Markup {
    html! {
        tr {
            (task(base, it.task_id, it.task_type.as_deref()))
            td data-head="Step" { @if let Some(step) = &it.step { (plain(step)) } }
            td data-head="Since" {
                @match &it.since {
                    Some(since) => (ago(since)),
                    None => span.quiet { "waits for room" },
                }
            }
        }
    }
}

fn recent(base: &str, it: &RecentTurnView) -> Markup {
    let took = i64::try_from(it.took_millis).unwrap_or(i64::MAX / 1_000);
    html! {
        tr {
            (task(base, it.task_id, Some(&it.task_type)))
            td data-head="Outcome" { (outcome(it.outcome)) }
            td data-head="Failed attempts" { (it.failed_attempts) }
            td data-head="Took" { (duration(took.saturating_mul(1_000))) }
            td data-head="Ended" { (ago(&it.ended_at)) }
        }
    }
}

fn outcome(of: TurnOutcome) -> Markup {
    let (glyph, tone) = match of {
        TurnOutcome::Completed => ("check", "ok"),
        TurnOutcome::Failed => ("cross", "bad"),
        TurnOutcome::Cancelled => ("dash", "still"),
        TurnOutcome::Resolved => ("check", "still"),
        TurnOutcome::CompensationFailed | TurnOutcome::DeadLettered => ("person", "person"),
        TurnOutcome::GivenBack => ("clock", "wait"),
        TurnOutcome::Lost | TurnOutcome::StoreDown => ("question", "doubt"),
    };
    chip(glyph, tone, &plain(of.as_str()))
}

/// Failures, here and elsewhere.
fn compared(found: &WorkerDetails) -> Markup {
    let (own, others) = (found.failures, found.neighbours);
    if own.turns == 0 {
        return html! {};
    }
    html! {
        section aria-labelledby="failures" {
            h2 #failures { "Failed attempts" }
            p { "Of its last " (own.turns) " turns " b { (share(own)) } " had a failed attempt." }
            p {
                @match others.processes {
                    0 => "No other process that is alive ran tasks of the same types.",
                    1 => { "Of " (others.failures.turns) " turns of another process with the same task types " b { (share(others.failures)) } "." },
                    many => { "Of " (others.failures.turns) " turns of " (many) " other processes with the same task types " b { (share(others.failures)) } "." },
                }
            }
        }
    }
}

/// The number of those that failed, with their share where it says something.
fn share(of: FailureShare) -> String {
    match of.turns {
        ENOUGH.. => format!("{} ({} %)", of.failed, of.failed * 100 / of.turns),
        _ => of.failed.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_turns_have_no_share() {
        let shown = |failed, turns| share(FailureShare { failed, turns });
        assert_eq!(shown(3, 4), "3");
        assert_eq!(shown(3, 19), "3");
        assert_eq!(shown(3, 20), "3 (15 %)");
        assert_eq!(shown(1, 150), "1 (0 %)");
    }
}
