//! Lists of tasks: those that a task has submitted.

use super::examples::{OTHER, cursor, failure};
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Cursor, Limit, Operation};
use crate::access::Role;
use crate::http::{ChildSummary, Page};
use crate::{ProblemCode, TaskId, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const READ: Access = Access::Role(Role::Read);

/// List the tasks that a task has submitted.
#[derive(Debug)]
pub struct ListChildren;

/// Which of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
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
        .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask])
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
