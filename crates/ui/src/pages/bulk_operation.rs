//! An operation on many tasks: how it stands, what became of its tasks, and pausing, resuming and stopping it. Must not hold what it
//! shows.

use super::confirm::{self, Form, Proposal};
use super::parked::bulk_state;
use super::part;
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::{self, Chapter};
use crate::markup::{number, plain, stacked, state, task_link};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields, segment};
use crate::time_text::{ago, exact};
use actix_web::HttpRequest;
use actix_web::web;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::{BulkStatus, BulkView};
use counterstep_contracts::http::Page;
use counterstep_contracts::pace::{BulkOutcome, BulkResults, BulkTask, Pace};
use maud::{Markup, html};

/// Tasks that its page shows beside how it stands, and those of a page of them.
const BESIDE: u32 = 20;
const OF_PAGE: u32 = 100;

/// What changes it: the word of its address, what a button says, what it said where it was done, and what it leads to.
struct Change {
    word: &'static str,
    button: &'static str,
    did: &'static str,
    leads_to: &'static str,
    fits: fn(BulkStatus) -> bool,
}

const CHANGES: [Change; 3] = [
    Change {
        word: "pause",
        button: "Pause",
        did: "paused",
        leads_to: "Up to 200 tasks that were begun are finished; no further one is begun until a person resumes it.",
        fits: |status| matches!(status, BulkStatus::Running),
    },
    Change {
        word: "resume",
        button: "Resume",
        did: "resumed",
        leads_to: "It goes on with the tasks that are left, at its pace. Its failures are counted anew.",
        fits: |status| matches!(status, BulkStatus::Paused),
    },
    Change {
        word: "stop",
        button: "Stop",
        did: "stopped",
        leads_to: "No further task is begun. Up to 200 that were begun are finished; those that are done stay so.",
        fits: |status| matches!(status, BulkStatus::Running | BulkStatus::Paused),
    },
];

fn path(visit: &PageRequest) -> String {
    format!(
        "/api/bulk-operations/{}",
        segment(part(&visit.request, "id"))
    )
}

async fn found(visit: &PageRequest) -> Result<BulkView, Failed> {
    visit.get::<BulkView>(&path(visit)).await
}

async fn tasks_of(
    visit: &PageRequest,
    most: u32,
    cursor: Option<&str>,
) -> Result<Page<BulkTask>, Failed> {
    let asked = Address::new(format!("{}/tasks", path(visit))).with("limit", most);
    let asked = asked.with_some("cursor", cursor).text();
    visit.get::<Page<BulkTask>>(&asked).await
}

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let body = shown(&visit).await?;
    let id = segment(part(&request, "id"));
    let body = html! {
        p.up { a href=(visit.at("/parked")) { "Parked" } }
        div data-live=(visit.at(&format!("/live/bulk/{id}"))) { (body.0) }
    };
    Ok(layout::page(
        &visit.shell,
        Chapter::Parked,
        "Operation",
        body,
    ))
}

/// How it stands, and whether it has ended.
pub(crate) async fn shown(visit: &PageRequest) -> Result<(Markup, bool), Failed> {
    let it = found(visit).await?;
    let tasks = tasks_of(visit, BESIDE, None).await?;
    let looked = it.done + it.failed + it.skipped + it.already_run_again.unwrap_or_default();
    let all = it.left.map(|left| left + looked);
    let own = visit.at(&format!("/bulk/{}", segment(&it.id)));
    let html = html! {
        section #bulk {
            div.head { h1 { (plain(it.action.as_str())) } div.standing { (bulk_state(it.status)) } }
            p { (it.note) " " span.quiet { (it.actor) ", " (ago(&it.created_at)) } }
            @if let Some(why) = it.paused_for { p { "Paused: " (why.text()) "." } }
            @if let Some(what) = &it.waits_for { p { "Waits for " (what) "." } }
            @if let Some(all) = all {
                p { progress max=(all.max(1)) value=(looked) aria-label="Tasks that were looked at" {} " " (number(looked)) " of " (number(all)) }
            }
            dl.facts {
                div { dt { "Done" } dd { (number(it.done)) } }
                div { dt { "Failed" } dd { (number(it.failed)) } }
                div { dt { "Skipped" } dd { (number(it.skipped)) } }
                @if let Some(again) = it.already_run_again { div { dt { "Already run again" } dd { (number(again)) } } }
                @if let Some(count) = it.gone_wrong { div { dt { "Gone wrong" } dd { (number(count.into())) } } }
                @if let Some(pace) = &it.pace { div { dt { "Pace" } dd { (words(pace)) } } }
                @if let Some(end) = &it.expected_end { div { dt { "Expected end" } dd { time datetime=(end) { (exact(end)) } } } }
            }
            @if let Some(results) = &it.results { p { (stand_now(results)) } }
            @if visit.may(Role::Operate) {
                p.buttons { @for change in CHANGES.iter().filter(|change| (change.fits)(it.status)) {
                    a.button href={ (own) "/" (change.word) } { (change.button) } " "
                } }
            }
            @if !it.failures.is_empty() {
                h2 { "Failures" }
                ul.plan { @for failure in &it.failures { li { (task_link(&visit.shell.base, failure.task_id)) " " (failure.reason) } } }
            }
            @if !tasks.items.is_empty() {
                h2 #done { "Tasks, the first decided on first" }
                (table_of(visit, &tasks.items))
                @if tasks.next_cursor.is_some() { p { a.button href={ (own) "/tasks" } { "All of its tasks" } } }
            }
        }
    };
    Ok((html, it.status.has_ended()))
}

/// How tasks stand now on which an operation was carried out; nothing where there are none.
pub(super) fn stand_now(of: &BulkResults) -> Markup {
    html! {
        @if of.tasks > 0 {
            "Of " (number(of.tasks)) " that were done first, now: "
            @for (status, count) in &of.by_status { (state(*status)) " " (number(*count)) " " }
            @if of.deleted > 0 { (number(of.deleted)) " not there" }
        }
    }
}

fn words(pace: &Pace) -> String {
    let all = [
        pace.sample.map(|count| format!("a sample of {count}")),
        pace.per_minute.map(|count| format!("{count} a minute")),
        pace.max_failures
            .map(|count| format!("pauses at {count} that have gone wrong")),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn table_of(visit: &PageRequest, tasks: &[BulkTask]) -> Markup {
    let base = &visit.shell.base;
    let row = |it: &BulkTask| {
        html! {
            tr {
                td.what { (task_link(base, it.task_id)) @if let Some(new) = it.new_task_id { " as " (task_link(base, new)) } }
                td data-head="Outcome" { (outcome(it.outcome)) @if let Some(reason) = &it.reason { br; span.message { (reason) } } }
                td data-head="State now" { @match it.status { Some(status) => (state(status)), None => "not there" } }
            }
        }
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    let heads = ["Task", "Outcome", "State now"];
    stacked(
        "Tasks of the operation",
        &heads,
        &rows,
        "No task was decided on yet.",
    )
}

const fn outcome(of: BulkOutcome) -> &'static str {
    match of {
        BulkOutcome::Done => "done",
        BulkOutcome::Failed => "could not be done",
        BulkOutcome::Skipped => "changed before its turn",
        BulkOutcome::AlreadyRunAgain => "had run again before",
    }
}

/// All of its tasks, a page at a time.
pub(crate) async fn tasks(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let query = Fields::of(request.query_string());
    let found = tasks_of(&visit, OF_PAGE, query.get("cursor")).await?;
    let own = visit.at(&format!("/bulk/{}", segment(part(&request, "id"))));
    let next = found.next_cursor.as_deref();
    let next = next.map(|cursor| Address::new(format!("{own}/tasks")).with("cursor", cursor));
    let body = html! {
        p.up { a href=(own) { "The operation" } }
        h1 { "Tasks of the operation" }
        (table_of(&visit, &found.items))
        @if let Some(next) = next { nav.pager aria-label="Pages of the list" { a.button href=(next.text()) rel="next" { "Later" } } }
    };
    let title = "Tasks of the operation";
    Ok(layout::page(&visit.shell, Chapter::Parked, title, body))
}

async fn proposed(visit: &PageRequest) -> Result<Proposal<'static>, Failed> {
    let word = part(&visit.request, "what");
    let Some(change) = CHANGES.iter().find(|it| it.word == word) else {
        return Err(visit.refused(ProblemCode::NoSuchRoute, "no page is at this address"));
    };
    visit.needs(Role::Operate)?;
    let it = found(visit).await?;
    if !(change.fits)(it.status) {
        let why = format!("the operation is {}: there is nothing to {word}", it.status);
        return Err(visit.refused(ProblemCode::AlreadyEnded, &why));
    }
    let path = format!("{}/{word}", path(visit));
    Ok(Proposal {
        chapter: Chapter::Parked,
        title: format!("What would happen if I {} it?", change.word),
        about: (
            "The operation".to_owned(),
            format!("/bulk/{}", segment(&it.id)),
        ),
        preview: html! { p { (change.leads_to) } },
        form: Form::of(None),
        button: format!("{} it", change.button),
        did: change.did,
        elsewhere: Equivalents::new("POST", path, &["bulk", change.word, &it.id]),
    })
}

pub(crate) async fn changing(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = proposed(&visit).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

pub(crate) async fn change(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::of(&request).await?;
    forms::read(&visit, payload).await?;
    let proposal = proposed(&visit).await?;
    confirm::send(&visit, &proposal).await
}
