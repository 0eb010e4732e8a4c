//! Schedules: when each is due next, pausing, resuming, running and deleting them. Must not hold what it shows.

use super::declared::{Group, Look, button};
use super::part;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{chip, command, list, task_link, teach, way};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields, segment};
use crate::time_text::{ago, exact};
use actix_web::HttpRequest;
use counterstep_contracts::ScheduleOrigin;
use counterstep_contracts::access::Role;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use counterstep_contracts::schedule::ScheduleView;
use maud::{Markup, html};

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let query = Fields::of(&visit.shell.query);
    let live = Address::new(visit.at("/live/schedules")).with_some("cursor", query.get("cursor"));
    let body = html! {
        div.head {
            h1 { "Schedules" }
            @if visit.may(Role::Operate) { a.button.primary href=(visit.at("/schedules/new")) { "New schedule" } }
        }
        div data-live=(live.text()) { (part) }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Schedules,
        "Schedules",
        body,
    ))
}

fn none(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Operate, "/schedules/new", "Make the first"))
        (command("schedules set nightly --type TYPE --cron '0 3 * * *'"))
    };
    teach(
        "A schedule submits a task by itself, at the times of a cron expression or once. There is none: a program declares them, or a \
         person makes them.",
        &first,
    )
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let query = Fields::of(&visit.shell.query);
    let asked = Address::new("/api/schedules").with("limit", 100);
    let asked = asked.with_some("cursor", query.get("cursor")).text();
    let found = visit.get::<Page<ScheduleView>>(&asked).await?;
    let rows: Vec<_> = found.items.iter().map(|it| row(visit, it)).collect();
    let next = found.next_cursor.as_deref().map(|cursor| {
        Address::new(visit.at("/schedules"))
            .with("cursor", cursor)
            .text()
    });
    Ok(html! {
        div #schedules {
            (list("Schedules", &["Schedule", "When", "Next", "Last", ""], &rows, none(visit)))
            @if let Some(next) = next { nav.pager aria-label="Pages of the list" { a.button href=(next) rel="next" { "More" } } }
        }
    })
}

fn when(it: &ScheduleView) -> Markup {
    html! {
        @if let Some(cron) = &it.spec.cron { code { (cron) } br; span.quiet { (it.spec.zone.as_deref().unwrap_or("UTC")) } }
        @if let Some(at) = &it.spec.run_at { "once, " (exact(at)) }
    }
}

fn row(visit: &PageRequest, it: &ScheduleView) -> Markup {
    let button = |what: &str| button(visit, ["schedules", what], &it.name, &[]);
    html! {
        tr id={ "schedule-" (it.name) } {
            td.what { b { (it.name) } br; a href=(visit.at(&format!("/types/{}", kebab_case(&it.spec.task_type)))) { (it.spec.task_type) } }
            td { (when(it)) }
            td {
                @if it.paused { (chip("pause", "wait", "paused")) }
                @else if let Some(next) = &it.next_due_at { (ago(next)) }
                @else { span.quiet { "never" } }
            }
            td {
                @if let Some(fired) = &it.last_fired_at { (ago(fired)) }
                @if let Some(task) = it.last_task { " " (task_link(&visit.shell.base, task)) }
            }
            td.do {
                (button(if it.paused { "resume" } else { "pause" }))
                (button("run"))
                @if it.origin == ScheduleOrigin::Api {
                    @if visit.may(Role::Operate) {
                        a.button href=(visit.at(&format!("/schedules/{}/edit", segment(&it.name)))) aria-label={ "Edit " (it.name) } { "Edit" } " "
                    }
                    (button("delete"))
                }
            }
        }
    }
}

/// What is decided about schedules.
pub(crate) enum Schedules {}

impl Group for Schedules {
    const CHAPTER: Chapter = Chapter::Schedules;
    const BACK: (&'static str, &'static str) = ("Schedules", "/schedules");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let path = format!("/api/schedules/{}?next=5", segment(&look.name));
        let it = visit.get::<ScheduleView>(&path).await?;
        Ok(look.shows(html! {
            p {
                @match what {
                    "pause" if it.spec.run_at.is_some() => "Its time submits no task until it is resumed. Where its time passes meanwhile, it never submits one.",
                    "pause" => "No due time submits a task until it is resumed. Due times that pass meanwhile are not caught up.",
                    "resume" if it.spec.run_at.is_some() => "Its time submits its task where it is still to come. One that has passed while it was paused never submits one.",
                    "resume" => "Due times from now on submit tasks again. Those that have passed while it was paused are not caught up.",
                    "delete" => "No due time submits a task any more. Tasks that were submitted go on.",
                    _ => { "One task of " b { (it.spec.task_type) } " is submitted now, beside the due times." },
                }
            }
            dl.facts {
                div { dt { "Due times missed by an outage" } dd { (crate::markup::plain(it.spec.misfire.as_str())) } }
                div { dt { "While the last task runs" } dd { (it.spec.overlap.as_str()) } }
            }
            (next_due(&it))
        }))
    }
}

/// The next due times of a schedule as it is now.
pub(super) fn next_due(it: &ScheduleView) -> Markup {
    html! {
        @if !it.upcoming.is_empty() {
            h2 { "Next due times" }
            ul.plan { @for at in &it.upcoming { li { (exact(at)) " " span.quiet { (ago(at)) } } } }
        }
    }
}
