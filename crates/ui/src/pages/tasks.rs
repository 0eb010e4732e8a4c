//! The list of tasks: filters, pages, rows that are kept up to date. Must not hold what it shows.

use crate::failed::{Answer, Failed};
use crate::layout::{self, Chapter};
use crate::markup::{empty, labels, plain, state, task_of_type};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use crate::time_text::ago;
use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse};
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::BulkAction;
use counterstep_contracts::http::{Page, TaskSummary};
use counterstep_contracts::{TaskId, TaskStatus};
use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};
use serde_json::Value;

/// Number of rows per page.
const ROWS: u32 = 50;

/// How long ago tasks may have been submitted, as the filter offers it; in hours.
const SINCE: &[(&str, i64, &str)] = &[
    ("1h", 1, "the last hour"),
    ("24h", 24, "the last day"),
    ("7d", 168, "the last 7 days"),
    ("30d", 720, "the last 30 days"),
];

/// What a list is of: the parameters of its page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    task_type: Option<String>,
    status: Vec<String>,
    label: Option<String>,
    since: Option<String>,
    text: Option<String>,
    cursor: Option<String>,
}

impl Filter {
    pub(crate) fn of(query: &Fields) -> Self {
        let owned = |name: &str| query.get(name).map(str::to_owned);
        Self {
            task_type: owned("type"),
            status: query.all("status").map(str::to_owned).collect(),
            label: owned("label"),
            since: owned("since"),
            text: owned("text"),
            cursor: owned("cursor"),
        }
    }

    fn address(&self, path: String) -> Address {
        Address::new(path)
            .with_some("type", self.task_type.as_deref())
            .all("status", &self.status)
            .with_some("label", self.label.as_deref())
            .with_some("since", self.since.as_deref())
            .with_some("text", self.text.as_deref())
    }

    /// Its page.
    fn page(&self, visit: &PageRequest, cursor: Option<&str>) -> String {
        let address = self.address(visit.at("/tasks"));
        address.with_some("cursor", cursor).text()
    }

    /// The address whose events keep it up to date.
    fn live(&self, visit: &PageRequest) -> String {
        let address = self.address(visit.at("/live/tasks"));
        address.with_some("cursor", self.cursor.as_deref()).text()
    }

    /// What the interface is asked.
    fn asked(&self) -> String {
        // A text is looked for among the tasks of a type or of a time.
        let narrow = self.since.as_deref().or_else(|| {
            let needs = self.text.is_some() && self.task_type.is_none();
            needs.then_some("7d")
        });
        Address::new("/api/tasks")
            .with_some("type", self.task_type.as_deref())
            .all("status", &self.status)
            .with_some("label", self.label.as_deref())
            .with_some("since", narrow.and_then(begin))
            .with_some("failure_text", self.text.as_deref())
            .with_some("cursor", self.cursor.as_deref())
            .with("limit", ROWS)
            .text()
    }

    /// The stream of changes that could change this list. Without states: a task that leaves the list
    /// has a state that is none of them.
    pub(crate) fn changes(&self) -> String {
        Address::new("/api/events")
            .with_some("type", self.task_type.as_deref())
            .with_some("label", self.label.as_deref())
            .text()
    }
}

fn begin(since: &str) -> Option<String> {
    let (_, hours, _) = SINCE.iter().find(|(name, ..)| *name == since)?;
    // By the minute, so that the cursor of a page is one of the same list.
    let minutes = Timestamp::now().as_second() / 60 * 60;
    let now = Timestamp::from_second(minutes).ok()?;
    Some(now.checked_sub(hours.hours()).ok()?.to_string())
}

pub(crate) async fn get(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let query = Fields::of(request.query_string());
    let filter = Filter::of(&query);
    if let Some(id) = filter
        .text
        .as_deref()
        .and_then(|text| text.parse::<TaskId>().ok())
    {
        let to = visit.at(&format!("/tasks/{id}"));
        return Ok(HttpResponse::SeeOther()
            .insert_header((LOCATION, to))
            .finish());
    }
    let types = visit.get::<Page<Value>>("/api/task-types").await?;
    let names: Vec<&str> = types
        .items
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    let list = list(&visit, &filter).await?;
    let body = html! {
        div.head {
            h1 { "Tasks" }
            @if visit.may(Role::Submit) { a.button.primary href=(visit.at("/submit")) { "Submit a task" } }
        }
        (filters(&visit, &filter, &names))
        div #found { (many(&visit, &filter)) (list) }
    };
    Ok(layout::page(&visit.shell, Chapter::Tasks, "Tasks", body))
}

fn filters(visit: &PageRequest, filter: &Filter, types: &[&str]) -> Markup {
    let chosen = |name: &str, value: &Option<String>| value.as_deref() == Some(name);
    html! {
        form.filters role="search" method="get" action=(visit.at("/tasks"))
            hx-get=(visit.at("/tasks")) hx-trigger="change, submit, input delay:400ms from:#text"
            hx-target="#found" hx-select="#found" hx-swap="outerHTML" hx-push-url="true" {
            div.field {
                label for="type" { "Type" }
                select #type name="type" {
                    option value="" { "any" }
                    @for name in types { option value=(name) selected[chosen(name, &filter.task_type)] { (name) } }
                }
            }
            div.field {
                label for="since" { "Submitted" }
                select #since name="since" {
                    option value="" { "at any time" }
                    @for (name, _, text) in SINCE { option value=(name) selected[chosen(name, &filter.since)] { (text) } }
                }
            }
            div.field {
                label for="label" { "Label" }
                input #label name="label" placeholder="order=4711" value=[filter.label.as_deref()];
            }
            div.field.wide {
                label for="text" { "Text of the failure, or an id" }
                input #text type="search" name="text" value=[filter.text.as_deref()];
            }
            fieldset.states {
                legend { "State" }
                @for status in TaskStatus::ALL {
                    @let name = status.as_str();
                    label.check {
                        input type="checkbox" name="status" value=(name)
                            checked[filter.status.iter().any(|it| it == name)];
                        span { (plain(name)) }
                    }
                }
            }
            noscript { button type="submit" { "Show" } }
        }
    }
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

/// The ways to decisions about all tasks of the filter.
fn many(visit: &PageRequest, filter: &Filter) -> Markup {
    if !visit.may(Role::Operate) {
        return html! {};
    }
    let ways = MANY.iter().filter_map(|(of, action, name)| {
        let is_for = |name: &&String| name.parse().is_ok_and(|status| action.is_for(status));
        let states: Vec<_> = filter.status.iter().filter(is_for).collect();
        // All that has ever ended is more than a filter without a state means.
        let is_narrowed = filter.task_type.is_some() || filter.label.is_some();
        let has_any = filter.status.is_empty() && is_narrowed && *action != BulkAction::RunAgain;
        let fits = !states.is_empty() || has_any;
        let address = Address::new(visit.at("/bulk/new"))
            .with("action", action)
            .with_some("type", filter.task_type.as_deref())
            .with_some("label", filter.label.as_deref())
            .with_some("failure_text", filter.text.as_deref())
            .all("status", &states);
        fits.then(|| (*of, *name, address.text()))
    });
    let ways: Vec<_> = ways.collect();
    html! {
        @if !ways.is_empty() {
            p #many.quiet {
                "All of these, whenever they were submitted: "
                @for (at, (of, name, to)) in ways.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(to) title={ "those " (of) } { (name) }
                }
                "."
            }
        }
    }
}

/// The rows, and the way to further ones.
pub(crate) async fn list(visit: &PageRequest, filter: &Filter) -> Result<Markup, Failed> {
    let found = visit.get::<Page<TaskSummary>>(&filter.asked()).await?;
    let is_first = filter.cursor.is_none();
    Ok(html! {
        section #list data-live=(filter.live(visit)) {
            @if found.items.is_empty() {
                (empty(if found.next_cursor.is_some() { "None of the tasks read so far matches: older ones may." } else { "No task fits." }))
            } @else {
                (table(visit, &found.items))
            }
            nav.pager aria-label="Pages of the list" {
                @if !is_first { a.button href=(filter.page(visit, None)) { "Newest" } }
                @if let Some(next) = &found.next_cursor {
                    a.button href=(filter.page(visit, Some(next))) rel="next" { "Older" }
                }
            }
        }
    })
}

/// Tasks as rows.
pub(crate) fn table(visit: &PageRequest, tasks: &[TaskSummary]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Tasks" tabindex="0" {
            table.tasks {
                thead { tr {
                    th scope="col" { "Task" } th scope="col" { "State" } th.wide scope="col" { "Labels" }
                    th.wide scope="col" { "Submitted" } th scope="col" { "Changed" }
                } }
                tbody { @for task in tasks { (row(visit, task)) } }
            }
        }
    }
}

fn row(visit: &PageRequest, task: &TaskSummary) -> Markup {
    html! {
        tr id={ "t-" (task.task_id) } {
            td.what {
                (task_of_type(&visit.shell.base, task.task_id, &task.task_type))
            }
            td { (state(task.status)) }
            td.wide { (labels(&task.labels)) }
            td.wide { (ago(&task.created_at)) }
            td { (ago(&task.updated_at)) }
        }
    }
}
