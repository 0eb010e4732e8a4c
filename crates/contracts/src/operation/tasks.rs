//! A task: its cancel, what was handed in and put out, and whether its audit is as it was written.

use super::examples::TASK;
use super::shown::{Shown, View};
use super::{About, Access, Chapter, Operation, OtherAnswer};
use crate::access::Role;
use crate::http::{CancelAnswer, CancelOutcome, ChainView, Payloads, StepOutput};
use crate::{ProblemCode, TaskId, TaskStatus};
use serde_json::json;

/// Cancel a task.
#[derive(Debug)]
pub struct CancelTask;
/// Show what was handed in with a task, and what its steps have put out.
#[derive(Debug)]
pub struct GetPayloads;
/// Check that the audit of a task is as it was written.
#[derive(Debug)]
pub struct CheckAudit;

impl Operation for CancelTask {
    type Target = TaskId;
    type Input = ();
    type Output = CancelAnswer;
    const ABOUT: About = About::delete("cancelTask", "/api/tasks/{id}", Access::Role(Role::Submit))
        .summary(Chapter::Tasks, "Cancel a task: what it has done is undone")
        .preview("/api/tasks/{id}/plan")
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
        .as_client()
        .command(["tasks", "cancel"], &[]);
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
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(cancelled));

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

impl Operation for GetPayloads {
    type Target = TaskId;
    type Input = ();
    type Output = Payloads;
    const ABOUT: About = About::get(
        "getPayloads",
        "/api/tasks/{id}/payloads",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Tasks,
        "Show what was handed in with a task, and what its steps have put out",
    )
    .answers(200, "The request and the outputs")
    .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask])
    .no_store();

    fn example() -> ((), Payloads) {
        let reserved = StepOutput {
            step: "reserve".to_owned(),
            output: json!({ "reservation": "r-17" }),
        };
        let payloads = Payloads {
            task_id: TASK,
            request: json!({ "seat": "4A" }),
            earlier_requests: Vec::new(),
            outputs: vec![reserved],
        };
        ((), payloads)
    }
}

impl Operation for CheckAudit {
    type Target = TaskId;
    type Input = ();
    type Output = ChainView;
    const ABOUT: About = About::get(
        "checkAudit",
        "/api/tasks/{id}/audit/chain",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Tasks,
        "Check that the audit of a task is as it was written",
    )
    .answers(200, "Whether each row is bound to the one before it")
    .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask]);

    fn example() -> ((), ChainView) {
        let chain = ChainView {
            task_id: TASK,
            whole: true,
            changes: 5,
            erased: 0,
            head: "6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f".to_owned(),
        };
        ((), chain)
    }
}

fn cancelled(answer: &CancelAnswer) -> View {
    let undo = match answer.will_undo.is_empty() {
        true => "nothing".to_owned(),
        false => answer.will_undo.join(", "),
    };
    View::Lines(vec![
        format!("{}; will be undone: {undo}", answer.status).into(),
    ])
}
