//! The overview: what comes and goes, what waits and for how long, who works, and what waits for a person.
//! Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::search::Filter;
use super::{parked, part, workers};
use crate::charts::curve;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, empty, number, state};
use crate::page_request::PageRequest;
use crate::query::Address;
use crate::time_text::{age, seconds};
use actix_web::HttpRequest;
use counterstep_contracts::access::Role;
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use counterstep_contracts::search::FoundTasks;
use counterstep_contracts::workers::{
    BreakerStanding, BreakerView, HistoryView, SampleView, WorkerState, WorkersView,
};
use counterstep_contracts::{ProblemCode, TaskStatus};
use maud::{Markup, html};

/// Maximum number of groups of parked tasks that are shown: the largest.
const GROUPS: usize = 5;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let body = html! {
        div.head {
            h1 { "Overview" }
            @if visit.may(Role::Submit) { a.button.primary href=(visit.at("/submit")) { "Submit a task" } }
        }
        div data-live=(visit.at("/live/overview")) { (part) }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Overview,
        "Overview",
        body,
    ))
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let groups = visit
        .get::<DeadLetterGroups>("/api/dead-letters/groups")
        .await?;
    let whole = match visit.may(Role::Admin) {
        true => installation(visit).await?,
        false => html! {},
    };
    let last = visit.get::<FoundTasks>("/api/tasks?limit=8").await?;
    Ok(html! {
        div #overview {
            (whole)
            (waiting_for_people(visit, &groups))
            (newest(visit, &last))
        }
    })
}

/// What is shown of all tenants together.
async fn installation(visit: &PageRequest) -> Result<Markup, Failed> {
    let found = visit.get::<WorkersView>("/api/workers").await?;
    let history = visit
        .find::<HistoryView>("/api/history")
        .await
        .unwrap_or_default();
    let breakers = visit.find::<Page<BreakerView>>("/api/breakers").await;
    let samples = &history.samples;
    let alive: Vec<_> = found
        .workers
        .iter()
        .filter(|it| it.state == WorkerState::Alive)
        .collect();
    let busy: u32 = alive.iter().map(|it| it.running_count).sum();
    let open = alive.iter().filter(|it| it.paused.is_none());
    let slots: u32 = open.map(|it| it.concurrency).sum();
    let waits = |of: &SampleView| of.waiting.values().sum::<u64>();
    let waiting = found
        .status
        .tasks
        .iter()
        .filter(|it| it.status.is_unclaimed());
    let waiting: u64 = waiting.map(|it| it.count).sum();
    let open: u64 = found.status.tasks.iter().map(|it| it.count).sum();
    let due = found.status.oldest_due_seconds;
    Ok(html! {
        section.tiles aria-label="The installation" {
            (rate("Submitted", "run", samples, |it| it.submitted))
            (rate("Completed", "ok", samples, |it| ended(it, &[TaskStatus::Completed])))
            (rate("Failed, cancelled", "bad", samples, |it| ended(it, &[TaskStatus::Failed, TaskStatus::Cancelled])))
            (tile("Wait for a worker", &number(waiting), "wait", samples, &waits))
            (tile("Oldest of them", &due.map_or("–".to_owned(), |due| age(seconds(due))), "wait", samples, &|it| it.oldest_due_seconds.unwrap_or(0)))
            (tile("Slots in use", &format!("{busy} of {slots}"), "run", samples, &|it| it.slots_busy))
        }
        div.tiles.small {
            section.tile aria-label="Tasks that have not ended" {
                h2 { (number(open)) " have not ended" }
                p.counts { @for (status, count) in by_state(&found) { span { a href=(tasks_of(visit, status)) { (state(status)) } " " (number(count)) } } }
            }
            section.tile aria-label="Processes" {
                h2 { "Processes" }
                p.counts {
                    @for (state, count) in [(WorkerState::Alive, found.status.workers_alive), (WorkerState::Lost, found.status.workers_lost)] {
                        @if count > 0 { span { (workers::state(state)) " " (number(count)) } }
                    }
                }
            }
            (self::breakers(visit, breakers.as_ref()))
        }
    })
}

fn tasks_of(visit: &PageRequest, status: TaskStatus) -> String {
    Address::new(visit.at("/tasks"))
        .with("status", status)
        .text()
}

fn ended(it: &SampleView, of: &[TaskStatus]) -> u64 {
    of.iter().filter_map(|status| it.ended.get(status)).sum()
}

fn by_state(found: &WorkersView) -> Vec<(TaskStatus, u64)> {
    let of = |status: &TaskStatus| {
        let same = found.status.tasks.iter().filter(|it| it.status == *status);
        (*status, same.map(|it| it.count).sum::<u64>())
    };
    let all = TaskStatus::ALL.iter().map(of);
    all.filter(|(_, count)| *count > 0).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a chart is no wider than a few hundred pixels"
)]
fn float(number: u64) -> f64 {
    number as f64
}

/// A rate in a second, over the samples.
fn rate(
    title: &str,
    tone: &str,
    samples: &[SampleView],
    of: impl Fn(&SampleView) -> u64,
) -> Markup {
    let in_second = |it: &SampleView| float(of(it)) * 1000.0 / float(it.millis.max(1));
    let values: Vec<f64> = samples.iter().map(in_second).collect();
    // Of the last minute: one look is soon, and soon over.
    let last: Vec<&SampleView> = samples
        .iter()
        .rev()
        .scan(0, |passed, it| {
            let is_within = *passed < 60_000;
            *passed += it.millis;
            is_within.then_some(it)
        })
        .collect();
    let millis: u64 = last.iter().map(|it| it.millis).sum();
    let count: u64 = last.iter().map(|it| of(it)).sum();
    let now = float(count) * 1000.0 / float(millis.max(1));
    let shown = match now {
        now if now >= 100.0 => format!("{now:.0}"),
        now if now >= 10.0 => format!("{now:.1}"),
        now => format!("{now:.2}"),
    };
    html! {
        section.tile aria-label=(title) {
            h2 { (title) }
            p.big { (shown) span.quiet.unit { " / s" } }
            (curve(&values, tone, &format!("{title} in a second, over the last hour at most; now {shown}")))
        }
    }
}

fn tile(
    title: &str,
    big: &str,
    tone: &str,
    samples: &[SampleView],
    of: &dyn Fn(&SampleView) -> u64,
) -> Markup {
    let values: Vec<f64> = samples.iter().map(|it| float(of(it))).collect();
    html! {
        section.tile aria-label=(title) {
            h2 { (title) }
            p.big { (big) }
            (curve(&values, tone, &format!("{title}, over the last hour at most; now {big}")))
        }
    }
}

/// What is decided about breakers.
pub(crate) enum Breakers {}

impl Group for Breakers {
    const CHAPTER: Chapter = Chapter::Overview;
    const BACK: (&'static str, &'static str) = ("Overview", "/");

    async fn look(visit: &PageRequest, _: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let found = visit.get::<Page<BreakerView>>("/api/breakers").await?;
        if !found.items.iter().any(|it| it.name == look.name) {
            return Err(visit.refused(ProblemCode::NoSuchBreaker, "no breaker has this name"));
        }
        Ok(look)
    }
}

fn breakers(visit: &PageRequest, found: Option<&Page<BreakerView>>) -> Markup {
    let all = found.map_or(&[][..], |page| &page.items);
    if all.is_empty() {
        return html! {};
    }
    html! {
        section.tile aria-label="Breakers" {
            h2 { "Breakers" }
            p.counts {
                @for it in all {
                    span {
                        (it.name) " "
                        @match it.state {
                            BreakerStanding::Closed => (chip("check", "ok", "closed")),
                            BreakerStanding::Open => (chip("cross", "bad", "open")),
                            BreakerStanding::HalfOpen => (chip("question", "doubt", "half open")),
                        }
                        @if it.state != BreakerStanding::Closed {
                            " " (button(visit, ["breakers", "close"], &it.name, &[]))
                        }
                    }
                }
            }
        }
    }
}

fn waiting_for_people(visit: &PageRequest, found: &DeadLetterGroups) -> Markup {
    let all = found.counted + if found.complete { 0 } else { 1 };
    html! {
        section aria-labelledby="people" {
            h2 #people { "Waits for a person" @if all > 0 { " " span.quiet { (number(found.counted)) @if !found.complete { " or more" } } } }
            @if found.groups.is_empty() { (empty("Nothing waits for a person.")) }
            ul.groups { @for it in found.groups.iter().take(GROUPS) { li { (parked::group(visit, it)) } } }
            @if found.groups.len() > GROUPS { p { a href=(visit.at("/parked")) { "All causes" } } }
        }
    }
}

fn newest(visit: &PageRequest, found: &FoundTasks) -> Markup {
    if found.items.is_empty() {
        return html! {
            section aria-labelledby="newest" {
                h2 #newest { "Nothing was submitted yet" }
                (empty(super::tasks::none(visit)))
            }
        };
    }
    html! {
        section aria-labelledby="newest" {
            h2 #newest { "The last submitted" }
            (super::tasks::table(visit, &found.items, &Filter::default(), None))
            p { a href=(visit.at("/tasks")) { "All tasks" } }
        }
    }
}
