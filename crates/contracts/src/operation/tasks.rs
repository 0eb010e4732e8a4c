//! A task: its cancel.

use super::examples::TASK;
use super::{About, Access, Chapter, Operation, OtherAnswer};
use crate::access::Role;
use crate::http::{CancelAnswer, CancelOutcome};
use crate::{ProblemCode, TaskId, TaskStatus};

/// Cancel a task.
#[derive(Debug)]
pub struct CancelTask;

impl Operation for CancelTask {
    type Target = TaskId;
    type Input = ();
    type Output = CancelAnswer;
    const ABOUT: About = About::delete("cancelTask", "/api/tasks/{id}", Access::Role(Role::Submit))
        .summary(Chapter::Tasks, "Cancel a task: what it has done is undone")
        .answers(202, "It will be undone")
        .problems(&[
            ProblemCode::MalformedParameter,
            ProblemCode::NoSuchTask,
            ProblemCode::AlreadyCompleted,
            ProblemCode::AlreadyFailed,
            ProblemCode::BeingUndone,
            ProblemCode::AlreadyResolved,
            ProblemCode::Parked,
            ProblemCode::NotCancellable,
        ])
        .as_client();
    const OTHER: Option<OtherAnswer<CancelAnswer>> = Some(OtherAnswer {
        status: 200,
        answers: "It had been cancelled before",
        is_it: |answer| answer.outcome == CancelOutcome::AlreadyCancelled,
        example: || CancelAnswer {
            task_id: TASK,
            status: TaskStatus::Cancelled,
            outcome: CancelOutcome::AlreadyCancelled,
            will_undo: Vec::new(),
        },
    });

    fn example() -> ((), CancelAnswer) {
        let stopping = CancelAnswer {
            task_id: TASK,
            status: TaskStatus::Running,
            outcome: CancelOutcome::Stopping,
            will_undo: vec!["upload_source_files".to_owned()],
        };
        ((), stopping)
    }
}
