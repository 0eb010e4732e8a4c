//! The list of tasks: a search, pages, rows that are kept up to date. Must not hold what it shows.

use super::search::{self, Filter};
use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{command, empty, labels, state, task_of_type, teach, way};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use crate::time_text::{ago, duration, micros};
use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse};
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::{BulkAction, BulkFilter};
use counterstep_contracts::http::TaskSummary;
use counterstep_contracts::search::{FoundTasks, Searched, Term};
use counterstep_contracts::{Problem, ProblemCode, TaskId};
use maud::{Markup, html};

/// Number of rows per page.
const ROWS: u32 = 50;

/// The columns that may be chosen beside names of labels, and which are shown anyway.
pub(super) const COLUMNS: [(&str, &str, bool); 5] = [
    ("id", "whole id", false),
    ("labels", "labels", true),
    ("submitted", "submitted", true),
    ("changed", "changed", true),
    ("duration", "duration", false),
];

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let filter = Filter::of(&Fields::of(request.query_string()));
    if let Ok(id) = filter.q.parse::<TaskId>() {
        let to = visit.at(&format!("/tasks/{id}"));
        // What the script has asked for is a part of this page, and the task has another one.
        return Ok(match request.headers().contains_key("hx-request") {
            true => HttpResponse::Ok()
                .insert_header(("hx-redirect", to))
                .finish(),
            false => HttpResponse::SeeOther()
                .insert_header((LOCATION, to))
                .finish(),
        });
    }
    let found = Found::of(&visit, &filter).await?;
    let body = html! {
        div.head {
            h1 { "Tasks" }
            @if visit.may(Role::Submit) { a.button.primary href=(visit.at("/submit")) { "Submit a task" } }
        }
        (search::form(&visit, &filter, &found.labels(), found.searched()).await)
        div #found {
            (search::terms(&visit, &filter, found.searched()))
            (many(&visit, found.searched()))
            (list(&visit, &filter, &found))
        }
    };
    Ok(layout::page(&visit.shell, Chapter::Tasks, "Tasks", body))
}

/// What a search finds, or why nothing was looked for.
pub(crate) struct Found(Result<FoundTasks, Box<Problem>>);

impl Found {
    pub(crate) async fn of(visit: &PageRequest, filter: &Filter) -> Result<Self, Failed> {
        let asked = Address::new("/api/tasks")
            .with_some("q", Some(&filter.q).filter(|q| !q.is_empty()))
            .with_some("cursor", filter.cursor.as_deref())
            .with("limit", ROWS)
            .text();
        let found = visit.get::<FoundTasks>(&asked).await;
        Ok(Self(match found {
            Ok(found) => Ok(found),
            // What is wrong with a search is said where it is typed.
            Err(failed) => match failed.problem() {
                Some(problem) if is_of_search(problem) => Err(Box::new(problem.clone())),
                _ => return Err(failed),
            },
        }))
    }

    fn searched(&self) -> Option<&Searched> {
        self.0.as_ref().ok()?.search.as_ref()
    }

    /// The names of labels on the page.
    fn labels(&self) -> Vec<String> {
        let tasks = self.0.iter().flat_map(|it| &it.items);
        let names = tasks.flat_map(|it| it.labels.iter().map(|(name, _)| name.to_owned()));
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

fn is_of_search(problem: &Problem) -> bool {
    problem.pointer.as_deref() == Some("q") || problem.code == ProblemCode::NoSuchView
}

/// What may be decided about many tasks at once: about which, and by which names.
const MANY: &[(&str, BulkAction, &str)] = &[
    ("that wait for a person", BulkAction::Redrive, "redrive"),
    (
        "that wait for a person",
        BulkAction::Resolve,
        "settle by hand",
    ),
    ("that have not ended", BulkAction::Cancel, "cancel"),
    ("that have ended", BulkAction::RunAgain, "run again"),
];

/// The ways to decisions about all tasks that a search finds.
fn many(visit: &PageRequest, searched: Option<&Searched>) -> Markup {
    let filter = searched.and_then(|it| it.filter.as_ref());
    let Some(filter) = filter.filter(|_| visit.may(Role::Operate)) else {
        return html! {};
    };
    let ways = MANY.iter().filter_map(|(of, action, name)| {
        let states = filter.status.iter().filter(|it| action.is_for(**it));
        let states: Vec<_> = states.collect();
        // All that has ever ended is more than a filter without a state means.
        let is_narrowed = filter.task_type.is_some() || !filter.labels.is_empty();
        let has_any = filter.status.is_empty() && is_narrowed && *action != BulkAction::RunAgain;
        let fits = !states.is_empty() || has_any;
        let address = narrowed(visit, filter).with("action", action);
        fits.then(|| (*of, *name, address.all("status", &states).text()))
    });
    let ways: Vec<_> = ways.collect();
    html! {
        @if !ways.is_empty() {
            p #many.quiet {
                "All of these, also on other pages: "
                @for (at, (of, name, to)) in ways.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(to) title={ "those " (of) } { (name) }
                }
                "."
            }
        }
    }
}

/// The page of a decision about many, as far as it does not depend on the decision.
fn narrowed(visit: &PageRequest, filter: &BulkFilter) -> Address {
    let labels = filter.labels.iter();
    Address::new(visit.at("/bulk/new"))
        .with_some("type", filter.task_type.as_deref())
        .all(
            "label",
            labels.map(|(name, value)| format!("{name}={value}")),
        )
        .with_some("failure_class", filter.failure_class.as_deref())
        .with_some("failure_text", filter.failure_text.as_deref())
        .with_some("since", filter.since.as_deref())
        .with_some("until", filter.until.as_deref())
}

/// The rows, and the way to further ones.
pub(crate) fn list(visit: &PageRequest, filter: &Filter, found: &Found) -> Markup {
    let found = match &found.0 {
        Ok(found) => found,
        Err(problem) => {
            return html! { section #list { (search::refused(visit, filter, problem)) } };
        }
    };
    let is_first = filter.cursor.is_none();
    html! {
        section #list data-live=(filter.live(visit)) {
            @if found.items.is_empty() {
                @if found.next_cursor.is_some() { (empty("None of the tasks read so far matches: older ones may.")) }
                @else if is_first && filter.q.is_empty() { (empty(none(visit))) }
                @else { (empty("No task fits.")) }
            } @else {
                (table(visit, &found.items, filter, found.search.as_ref()))
            }
            nav.pager aria-label="Pages of the list" {
                @if !is_first { a.button href=(filter.page(visit, None)) { "Beginning" } }
                @if let Some(next) = &found.next_cursor {
                    a.button href=(filter.page(visit, Some(next))) rel="next" { "Further" }
                }
            }
        }
    }
}

/// Where no task has been submitted.
pub(super) fn none(visit: &PageRequest) -> Markup {
    let first = html! {
        (way(&visit.shell, Role::Submit, "/submit", "Submit a first task"))
        (command("tasks submit TYPE --request FILE"))
    };
    teach(
        "A task is one run of a task type: its steps go forward one after another, and are undone where one of them gives up. No task \
         has been submitted: programs submit them over HTTP, schedules at their times, and people on this page.",
        &first,
    )
}

/// Tasks as rows, with the columns of the list; none: with those that are shown anyway. `searched`: how its search was read.
pub(crate) fn table(
    visit: &PageRequest,
    tasks: &[TaskSummary],
    of: &Filter,
    searched: Option<&Searched>,
) -> Markup {
    let to = |label| of.label(visit, searched, label);
    let usual = COLUMNS.iter().filter(|(.., is_usual)| *is_usual);
    let columns: Vec<&str> = match &of.columns[..] {
        [] => usual.map(|(name, ..)| *name).collect(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    html! {
        div.scroll role="region" aria-label="Tasks" tabindex="0" {
            table.tasks {
                thead { tr {
                    th scope="col" { "Task" } th scope="col" { "State" }
                    @for name in &columns {
                        @match *name {
                            "id" => { th scope="col" { "Id" } }
                            "labels" => { th.wide scope="col" { "Labels" } }
                            "submitted" => { th.wide scope="col" { "Submitted" } }
                            "changed" => { th scope="col" { "Changed" } }
                            name => { th scope="col" { (name) } }
                        }
                    }
                } }
                tbody { @for task in tasks { (row(visit, task, &columns, to)) } }
            }
        }
    }
}

/// `to`: where a label of it leads.
fn row(
    visit: &PageRequest,
    task: &TaskSummary,
    columns: &[&str],
    to: impl Fn(Term) -> String,
) -> Markup {
    let base = &visit.shell.base;
    html! {
        tr id={ "t-" (task.task_id) } {
            td.what {
                (task_of_type(base, task.task_id, &task.task_type))
            }
            td { (state(task.status)) }
            @for name in columns {
                @match *name {
                    "id" => { td { code { (task.task_id) } } }
                    "labels" => { td.wide { (labels(&task.labels, &to)) } }
                    "submitted" => { td.wide { (ago(&task.created_at)) } }
                    "changed" => { td { (ago(&task.updated_at)) } }
                    "duration" => { td { @if let Some(ended) = &task.finished_at { (duration(micros(ended) - micros(&task.created_at))) } } }
                    name => { td { @if let Some(value) = task.labels.get(name) { (value) } } }
                }
            }
        }
    }
}
