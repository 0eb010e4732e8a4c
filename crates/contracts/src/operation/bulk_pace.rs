//! An operation on many tasks while it goes: pausing and resuming it, and what became of each of its tasks.

use super::bulk::{BulkId, bulk};
use super::bulk_shown::{shown, tasks_of};
use super::examples::{TASK, cursor};
use super::shown::Shown;
use super::{About, Access, Chapter, Cursor, Limit, Operation};
use crate::access::Role;
use crate::bulk::{BulkStatus, BulkView};
use crate::http::Page;
use crate::pace::{BulkOutcome, BulkTask, PausedFor};
use crate::{ProblemCode, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pause an operation on many tasks.
#[derive(Debug)]
pub struct PauseBulkOperation;
/// Let a paused operation on many tasks go on.
#[derive(Debug)]
pub struct ResumeBulkOperation;
/// List the tasks of an operation.
#[derive(Debug)]
pub struct ListBulkOperationTasks;

/// A page of the tasks of an operation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BulkTasksQuery {
    /// Tasks of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl Operation for PauseBulkOperation {
    type Target = BulkId;
    type Input = ();
    type Output = BulkView;
    const ABOUT: About = About::post(
        "pauseBulkOperation",
        "/api/bulk-operations/{id}/pause",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Pause a bulk operation until a person resumes it",
    )
    .answers(
        200,
        "How it stands: tasks that were begun are finished. One that is paused, is being stopped or has ended stays as it is",
    )
    .problems(&[ProblemCode::NoSuchBulkOperation])
    .command(["bulk", "pause"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> ((), BulkView) {
        let paused = BulkView {
            status: BulkStatus::Paused,
            paused_for: Some(PausedFor::Person),
            waits_for: None,
            expected_end: None,
            ..bulk()
        };
        ((), paused)
    }
}

impl Operation for ResumeBulkOperation {
    type Target = BulkId;
    type Input = ();
    type Output = BulkView;
    const ABOUT: About = About::post(
        "resumeBulkOperation",
        "/api/bulk-operations/{id}/resume",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Let a paused bulk operation go on; its failures are counted anew",
    )
    .answers(200, "How it stands. One that is not paused stays as it is")
    .problems(&[ProblemCode::NoSuchBulkOperation])
    .command(["bulk", "resume"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> ((), BulkView) {
        ((), bulk())
    }
}

impl Operation for ListBulkOperationTasks {
    type Target = BulkId;
    type Input = BulkTasksQuery;
    type Output = Page<BulkTask>;
    const ABOUT: About = About::get(
        "listBulkOperationTasks",
        "/api/bulk-operations/{id}/tasks",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Deciding,
        "List what became of each task of a bulk operation, and how it stands now",
    )
    .answers(
        200,
        "A page of the first 100,000, in the order in which they were decided on; it is the last one without `next_cursor`",
    )
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchBulkOperation,
    ])
    .command(["bulk", "tasks"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(tasks_of));

    fn example() -> (BulkTasksQuery, Page<BulkTask>) {
        let query = BulkTasksQuery {
            limit: Limit::default(),
            cursor: cursor(),
        };
        let task = BulkTask {
            task_id: TASK,
            outcome: BulkOutcome::Done,
            reason: None,
            new_task_id: None,
            status: Some(TaskStatus::Completed),
        };
        (query, Page::whole(vec![task]))
    }
}
