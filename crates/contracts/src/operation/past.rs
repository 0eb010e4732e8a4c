//! A task as it stood in the past.

use super::examples::{CHANGED, MADE, TASK};
use super::{About, Access, Chapter, Operation};
use crate::access::Role;
use crate::http::{Progress, StepView, TaskView};
use crate::{Attempt, Labels, ProblemCode, StepNo, StepStatus, TaskId, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Show a task as it stood.
#[derive(Debug)]
pub struct GetTaskAt;

/// When.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TaskAtQuery {
    /// Behind the change that wrote this entry of its audit, from 1; missing: the last one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seq: Option<i64>,
}

impl Operation for GetTaskAt {
    type Target = TaskId;
    type Input = TaskAtQuery;
    type Output = TaskView;
    const ABOUT: About = About::get(
        "getTaskAt",
        "/api/tasks/{id}/at",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Tasks,
        "Show a task as it stood at an entry of its audit",
    )
    .answers(
        200,
        "The task behind the change that wrote the entry, without what was said of progress and without its children and successors",
    )
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::NoSuchEntry,
    ])
    .no_store();

    fn example() -> (TaskAtQuery, TaskView) {
        let charge = StepView {
            no: StepNo(1),
            name: "charge".to_owned(),
            status: StepStatus::Running,
            attempts: Attempt(1),
            undo_attempts: Attempt(0),
            error: None,
            progress: None,
        };
        let task = TaskView {
            task_id: TASK,
            task_type: "PlaceOrder".to_owned(),
            version: 1,
            status: TaskStatus::Running,
            labels: Labels::new(),
            waiting_for: None,
            due_at: None,
            cancel_requested: false,
            residue: false,
            settled: None,
            revision: 3,
            created_at: MADE.to_owned(),
            updated_at: CHANGED.to_owned(),
            finished_at: None,
            recovery_attempts: 0,
            progress: Progress { done: 0, total: 1 },
            steps: vec![charge],
            parent: None,
            predecessor: None,
            successors: Vec::new(),
            children: Vec::new(),
            response: None,
            failure: None,
            trace_id: None,
        };
        (TaskAtQuery { seq: Some(7) }, task)
    }
}
