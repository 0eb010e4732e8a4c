//! What waits for a person: parked tasks by cause, the tasks themselves, and the operations on many of them.
//! Must not hold what it shows.

use super::bulk_operation::stand_now;
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{self, chip, command, empty, number, state, table, task_of_type, teach, way};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use crate::time_text::ago;
use actix_web::HttpRequest;
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::{BulkAction, BulkStatus, BulkView};
use counterstep_contracts::groups::{DeadLetterGroup, DeadLetterGroups};
use counterstep_contracts::http::Page;
use counterstep_contracts::operator::DeadLetter;
use counterstep_contracts::pace::PastDecision;
use maud::{Markup, html};

/// Maximum number of groups that a page shows: the largest.
const GROUPS: usize = 50;

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let part = live_part(&visit).await?;
    let query = Fields::of(&visit.shell.query);
    let live = Address::new(visit.at("/live/parked")).with_some("cursor", query.get("cursor"));
    let body = html! {
        div.head { h1 { "Parked" } p.quiet { "What waits for a person." } }
        div data-live=(live.text()) { (part) }
    };
    Ok(layout::page(&visit.shell, Chapter::Parked, "Parked", body))
}

pub(crate) async fn live_part(visit: &PageRequest) -> Result<Markup, Failed> {
    let query = Fields::of(&visit.shell.query);
    let groups = visit
        .get::<DeadLetterGroups>("/api/dead-letters/groups?with=decisions")
        .await?;
    let asked = Address::new("/api/dead-letters").with("limit", 50);
    let asked = asked.with_some("cursor", query.get("cursor")).text();
    let letters = visit.get::<Page<DeadLetter>>(&asked).await?;
    let bulk = visit.find::<Page<BulkView>>("/api/bulk-operations").await;
    Ok(html! {
        div #parked {
            (by_cause(visit, &groups))
            (list(visit, &letters))
            (operations(visit, bulk.as_ref()))
        }
    })
}

fn by_cause(visit: &PageRequest, found: &DeadLetterGroups) -> Markup {
    html! {
        section aria-labelledby="causes" {
            h2 #causes { "By cause" }
            @if found.groups.is_empty() { (empty(none(visit))) }
            ul.groups { @for it in found.groups.iter().take(GROUPS) { li { (group(visit, it)) } } }
            @let more = found.groups.len().saturating_sub(GROUPS);
            @if more > 0 || found.others > 0 { p.quiet { "And smaller groups." } }
            @if !found.complete { p.quiet { "The last " (number(found.counted)) " tasks were looked at; there are more." } }
        }
    }
}

fn none(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Read, "/types", "Types and when their steps give up"))
        (command("dead-letters groups"))
    };
    teach(
        "Nothing waits for a person. A task is parked where the undo of a step gives up, or a step that is declared with \
         on_exhausted = \"dead_letter\". A person retries, undoes or settles it here.",
        &first,
    )
}

/// A group, with the tasks that are an example of it.
pub(super) fn group(visit: &PageRequest, it: &DeadLetterGroup) -> Markup {
    let decide = |action: &str| {
        let address = Address::new(visit.at("/bulk/new")).with("group", &it.id);
        address.with("action", action).text()
    };
    html! {
        article.group id={ "group-" (it.id) } {
            p.count { b { (number(it.count)) } @for (status, count) in &it.by_status { " " (state(*status)) @if it.by_status.len() > 1 { " " (number(*count)) } } }
            div {
                p {
                    b { (it.task_type) }
                    " · " (it.cause)
                }
                p.message { (it.text) }
                p.quiet {
                    "last " (ago(&it.last_at)) ", first " (ago(&it.first_at))
                    @if let Some(program) = &it.first_program { " by program " (program) }
                    " · for example "
                    (crate::markup::task_link(&visit.shell.base, it.example))
                }
                @if let Some(last) = &it.last_decision { (last_time(visit, last)) }
            }
            @if visit.may(Role::Operate) {
                div.buttons { @for (action, button) in offered(it) {
                    a.button href=(decide(action)) aria-label={ (button) " " (number(it.count)) " of " (it.task_type) } { (button) }
                } }
            }
        }
    }
}

/// What may be decided about a group: what was decided last time comes first.
fn offered(it: &DeadLetterGroup) -> [(&'static str, &'static str); 2] {
    let all = [("redrive", "Redrive"), ("resolve", "Resolve")];
    let last = it.last_decision.as_ref().map(|last| last.action);
    match last {
        Some(BulkAction::Resolve) => [all[1], all[0]],
        _ => all,
    }
}

fn last_time(visit: &PageRequest, last: &PastDecision) -> Markup {
    html! {
        p {
            "Last time: " a href=(visit.at(&format!("/bulk/{}", last.operation))) { (last.action) } " by " (last.actor) ", " (ago(&last.at)) ". "
            (stand_now(&last.results))
        }
    }
}

fn list(visit: &PageRequest, found: &Page<DeadLetter>) -> Markup {
    if found.items.is_empty() {
        return html! {};
    }
    let row = |it: &DeadLetter| {
        let failure = it.failure.as_ref();
        let said = failure.map(|failure| {
            let by = failure.blocked_by.as_ref();
            by.map_or(&failure.message, |by| &by.message)
        });
        html! {
            tr id={ "t-" (it.task_id) } {
                td.what { (task_of_type(&visit.shell.base, it.task_id, &it.task_type)) }
                td { (state(it.status)) }
                td { (it.cause) @if let Some(said) = said { br; span.message { (said) } } }
                td { (ago(&it.updated_at)) }
            }
        }
    };
    let rows: Vec<_> = found.items.iter().map(row).collect();
    let next = found.next_cursor.as_deref();
    let next = next.map(|cursor| {
        Address::new(visit.at("/parked"))
            .with("cursor", cursor)
            .text()
    });
    html! {
        section aria-labelledby="letters" {
            h2 #letters { "The last submitted" }
            (table("Parked tasks", &["Task", "State", "Cause", "Changed"], &rows))
            @if let Some(next) = next { nav.pager aria-label="Pages of the list" { a.button href=(next) rel="next" { "Older" } } }
        }
    }
}

pub(super) fn bulk_state(of: BulkStatus) -> Markup {
    match of {
        BulkStatus::Running => chip("play", "run", "running"),
        BulkStatus::Paused => chip("pause", "wait", "paused"),
        BulkStatus::Stopping => chip("pause", "wait", "stopping"),
        BulkStatus::Stopped => chip("dash", "still", "stopped"),
        BulkStatus::Done => chip("check", "ok", "done"),
    }
}

fn no_operation(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Operate, "/tasks", "Search for tasks"))
        (command("dead-letters redrive --note WHY"))
    };
    teach(
        "An operation retries, settles, cancels or runs again all tasks of a cause, or all that a search finds. There is none: it is begun \
         from a cause above, or from a list of tasks.",
        &first,
    )
}

fn operations(visit: &PageRequest, found: Option<&Page<BulkView>>) -> Markup {
    let Some(found) = found else {
        return html! {};
    };
    let row = |it: &BulkView| {
        html! {
            tr id={ "bulk-" (it.id) } {
                td.what { a href=(visit.at(&format!("/bulk/{}", it.id))) { (it.action) } br; span.quiet { (it.note) } }
                td { (bulk_state(it.status)) }
                td { (number(it.done)) " done" @if it.failed > 0 { ", " (number(it.failed)) " failed" } @if it.skipped > 0 { ", " (number(it.skipped)) " skipped" } }
                td { (it.actor) }
                td { (ago(&it.created_at)) }
            }
        }
    };
    let rows: Vec<_> = found.items.iter().take(20).map(row).collect();
    html! {
        section aria-labelledby="operations" {
            h2 #operations { "Operations on many tasks" }
            (markup::list("Operations", &["Operation", "State", "Tasks", "By", "Started"], &rows, no_operation(visit)))
        }
    }
}
