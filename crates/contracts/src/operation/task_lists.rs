//! Lists of tasks: all, and those that one has submitted; and what the steps of a task have logged.

use super::command::{LABEL, SINCE, Takes, UNTIL, flag};
use super::examples::{CHANGED, MADE, OTHER, TASK, cursor, failure};
use super::query::{failure_classes, labels};
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Cursor, Flag, Limit, Operation, Time};
use crate::access::Role;
use crate::bulk::BulkFilter;
use crate::http::{ChildSummary, Page, TaskSummary};
use crate::log::{LogLine, LogPage};
use crate::search::{FoundTasks, ReadAs, Searched, SearchedTerm, Suggestion, expression};
use crate::{Attempt, Labels, LogLevel, LogPart, ProblemCode, TaskId, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const READ: Access = Access::Role(Role::Read);
const NO_SUCH_TASK: &[ProblemCode] = &[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask];

const SEARCH: Flag = flag("q", "--q", Takes::Text).is(
    "What you know of them: an id or its ending, order=4711, 4711 (the value of a label), a type, a state, since:2h, view:NAME, a text \
     of the failure",
);
const TEXT: Flag = flag("failure_text", "--failure-text", Takes::Text)
    .is("With this in the text of the failure; needs --type or --since");

/// List tasks.
#[derive(Debug)]
pub struct ListTasks;
/// Complete a search.
#[derive(Debug)]
pub struct SuggestSearches;
/// Show what the steps of a task have logged.
#[derive(Debug)]
pub struct GetLog;
/// List the tasks that a task has submitted.
#[derive(Debug)]
pub struct ListChildren;

/// Which tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct TasksQuery {
    /// What a person types: an id or its ending, `name=value`, the value of a label, a type, a state, `since:2h`, a text of the
    /// failure
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "expression")]
    pub q: Option<String>,
    /// Of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// In this state; repeated, in one of several
    #[serde(default)]
    pub status: Vec<TaskStatus>,
    /// With this label, `name=value`; repeated, with all of them
    #[serde(default)]
    #[schemars(schema_with = "labels")]
    pub label: Vec<String>,
    /// Submitted not before this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Submitted before this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// With a failure of this class
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "failure_classes")]
    pub failure_class: Option<String>,
    /// With this text in the message of the failure; with `type` or `since` only
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_text: Option<String>,
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// What has been typed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SuggestQuery {
    /// The search so far: its last term is completed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "expression")]
    pub q: Option<String>,
}

/// Which lines of a log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogQuery {
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `cursor` of an earlier page: lines behind it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl LogQuery {
    /// All lines that are kept, or those behind this cursor.
    #[must_use]
    pub fn after(cursor: Option<&str>) -> Self {
        Self {
            limit: Limit::MOST,
            cursor: cursor.map(|it| Cursor(it.to_owned())),
        }
    }
}

/// Which of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChildrenQuery {
    /// Submitted by the step of this name
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// In this state; repeated, in one of several
    #[serde(default)]
    pub status: Vec<TaskStatus>,
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl Operation for ListTasks {
    type Target = ();
    type Input = TasksQuery;
    type Output = FoundTasks;
    const ABOUT: About = About::get("listTasks", "/api/tasks", READ)
        .summary(
            Chapter::Tasks,
            "List tasks, the newest first, or those that a search finds",
        )
        .answers(200, "A page; without `next_cursor` the last one")
        .problems(&[
            ProblemCode::MalformedParameter,
            ProblemCode::InvalidLabel,
            ProblemCode::NoSuchView,
        ])
        .command(["tasks", "list"], &[SEARCH, LABEL, SINCE, UNTIL, TEXT]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(tasks));

    fn example() -> (TasksQuery, FoundTasks) {
        let query = TasksQuery {
            q: Some("4711".to_owned()),
            task_type: Some("create-zip-from-files".to_owned()),
            status: vec![TaskStatus::Running],
            label: vec!["order=4711".to_owned()],
            since: Some(Time("2026-11-20T18:00:00Z".to_owned())),
            until: Some(Time("2026-11-21T18:00:00Z".to_owned())),
            failure_class: Some("permanent".to_owned()),
            failure_text: Some("declined".to_owned()),
            limit: Limit::default(),
            cursor: cursor(),
        };
        let mut labels = Labels::new();
        drop(labels.look_for("order", "4711"));
        let task = TaskSummary {
            task_id: TASK,
            task_type: "CreateZipFromFiles".to_owned(),
            status: TaskStatus::Completed,
            labels,
            created_at: MADE.to_owned(),
            updated_at: CHANGED.to_owned(),
            finished_at: Some(CHANGED.to_owned()),
        };
        let term = SearchedTerm {
            term: "4711".to_owned(),
            read_as: ReadAs::Label,
            fits: vec!["order=4711".to_owned()],
            looked_at: None,
        };
        let mut filter = BulkFilter::default();
        drop(filter.labels.look_for("order", "4711"));
        let page = FoundTasks {
            items: vec![task],
            next_cursor: cursor().map(|it| it.0),
            search: Some(Searched {
                terms: vec![term],
                filter: Some(filter),
            }),
        };
        (query, page)
    }
}

impl Operation for SuggestSearches {
    type Target = ();
    type Input = SuggestQuery;
    type Output = Page<Suggestion>;
    const ABOUT: About = About::get("suggestSearches", "/api/searches/suggestions", READ)
        .summary(
            Chapter::Tasks,
            "Complete a search: types, states, saved views, names and values of labels",
        )
        .answers(200, "At most 20, which may be none")
        .problems(&[ProblemCode::MalformedParameter])
        .command(["tasks", "suggest"], &[SEARCH]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(suggestions));

    fn example() -> (SuggestQuery, Page<Suggestion>) {
        let query = SuggestQuery {
            q: Some("failed order=47".to_owned()),
        };
        let suggestion = Suggestion {
            q: "failed order=4711".to_owned(),
            about: "label".to_owned(),
        };
        (query, Page::whole(vec![suggestion]))
    }
}

impl Operation for GetLog {
    type Target = TaskId;
    type Input = LogQuery;
    type Output = LogPage;
    const ABOUT: About = About::get("getLog", "/api/tasks/{id}/log", READ)
        .summary(
            Chapter::Tasks,
            "Show what the steps of a task have logged, also while they run",
        )
        .answers(
            200,
            "Lines in the order in which they were written; `cursor` is for those behind them",
        )
        .problems(NO_SUCH_TASK)
        .command(["tasks", "log"], &[])
        .follows("Print new lines as they are written, until the task is at rest");

    fn example() -> (LogQuery, LogPage) {
        let query = LogQuery {
            limit: Limit::default(),
            cursor: Some(Cursor("1.2.3".to_owned())),
        };
        let line = LogLine {
            at: "2026-11-20T18:01:03.000000Z".to_owned(),
            step: "create_zip_archive".to_owned(),
            part: LogPart::Run,
            attempt: Attempt(1),
            level: LogLevel::Info,
            message: "2 files, 48 kB".to_owned(),
        };
        let page = LogPage {
            lines: vec![line],
            dropped: 0,
            unreadable: 0,
            cursor: Some("1.1.1".to_owned()),
        };
        (query, page)
    }
}

impl Operation for ListChildren {
    type Target = TaskId;
    type Input = ChildrenQuery;
    type Output = Page<ChildSummary>;
    const ABOUT: About = About::get("listChildren", "/api/tasks/{id}/children", READ)
        .summary(
            Chapter::Tasks,
            "List the tasks that a task has submitted, by step and place",
        )
        .answers(200, "A page; without `next_cursor` the last one")
        .problems(NO_SUCH_TASK)
        .command(["tasks", "children"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(children));

    fn example() -> (ChildrenQuery, Page<ChildSummary>) {
        let query = ChildrenQuery {
            step: Some("render".to_owned()),
            status: vec![TaskStatus::Running],
            limit: Limit::default(),
            cursor: cursor(),
        };
        let child = ChildSummary {
            task_id: OTHER,
            task_type: "BookSeat".to_owned(),
            step: "book".to_owned(),
            place: 0,
            status: TaskStatus::Failed,
            failure: Some(failure()),
        };
        (query, Page::whole(vec![child]))
    }
}

fn suggestions(page: &Page<Suggestion>) -> View {
    let row = |it: &Suggestion| vec![Cell::of(&it.q), Cell::of(&it.about)];
    let rows = page.items.iter().map(row);
    View::Table(Table::of("suggestions", &["search", "completes a"], rows))
}

fn tasks(page: &FoundTasks) -> View {
    let row = |task: &TaskSummary| {
        vec![
            Cell::Task(task.task_id.to_string()),
            Cell::of(&task.task_type),
            Cell::of(&task.status),
            Cell::Time(task.created_at.clone()),
            Cell::Time(task.updated_at.clone()),
            Cell::labels(&task.labels),
        ]
    };
    let heads = [
        "task",
        "type",
        "status",
        "submitted",
        "last change",
        "labels",
    ];
    let table = Table::of("tasks", &heads, page.items.iter().map(row));
    let mut table = table.page(false, page.next_cursor.as_deref());
    let terms = page.search.iter().flat_map(|it| &it.terms);
    let note = |it: &SearchedTerm| {
        let several = it.fits.get(1).map(|_| format!(": {}", it.fits.join(", ")));
        Some(Cell::from(it.note()? + &several.unwrap_or_default()))
    };
    table.below.extend(terms.filter_map(note));
    View::Table(table)
}

fn children(page: &Page<ChildSummary>) -> View {
    let row = |child: &ChildSummary| {
        vec![
            Cell::of(&child.step),
            Cell::of(&child.place),
            Cell::Task(child.task_id.to_string()),
            Cell::of(&child.task_type),
            Cell::of(&child.status),
            Cell::text(child.failure.as_ref().map(|it| &*it.message)),
        ]
    };
    let heads = ["step", "place", "task", "type", "status", "what went wrong"];
    let table = Table::of("children", &heads, page.items.iter().map(row));
    View::Table(table.page(false, page.next_cursor.as_deref()))
}
