//! A task as a person looks at it: its audit, what an undo would do, why it does not go on, and a dead letter. Must not change a
//! task.

use super::examples::{CHANGED, GROUP, MADE, OTHER, TASK, cause, failure};
use super::{About, Access, Chapter, Operation};
use crate::access::Role;
use crate::dead_letter::DeadLetterView;
use crate::http::{AttemptView, AuditTrail, AuditView, StepView};
use crate::operator::{
    DeadLetter, NotUndone, NotUndoneKind, OperatorMove, PlannedUndo, UndoPlan, UndoStage, Why,
    WhyCode, WhyReason,
};
use crate::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Labels, Outcome, ProblemCode, StepNo,
    StepStatus, TaskId, TaskStatus,
};
use serde_json::json;

const READ: Access = Access::Role(Role::Read);
const WORKER: &str = "worker:08a4bd91a6db";
const NO_SUCH_TASK: &[ProblemCode] = &[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask];

/// Show everything that happened to a task.
#[derive(Debug)]
pub struct GetAudit;
/// Show what an undo of a task would do now.
#[derive(Debug)]
pub struct GetUndoPlan;
/// Show what a task waits for.
#[derive(Debug)]
pub struct ExplainTask;
/// Look at a parked task.
#[derive(Debug)]
pub struct GetDeadLetter;

fn attempt(step: &str, outcome: Outcome) -> AttemptView {
    AttemptView {
        step: step.to_owned(),
        direction: Direction::Forward,
        attempt: Attempt(1),
        epoch: Epoch(1),
        worker: Some(WORKER.to_owned()),
        outcome: Some(outcome),
        error: None,
        started_at: MADE.to_owned(),
        ended_at: Some(CHANGED.to_owned()),
    }
}

impl Operation for GetAudit {
    type Target = TaskId;
    type Input = ();
    type Output = AuditTrail;
    const ABOUT: About = About::get("getAudit", "/api/tasks/{id}/audit", READ)
        .summary(Chapter::Tasks, "Show everything that happened to a task")
        .answers(200, "Entries and attempts, in order")
        .problems(NO_SUCH_TASK)
        .command(["tasks", "audit"], &[]);

    fn example() -> ((), AuditTrail) {
        let started = AuditView {
            seq: AuditSeq(2),
            change_id: ChangeId(OTHER.0),
            at: CHANGED.to_owned(),
            event: "step_started".to_owned(),
            from: Some(TaskStatus::Running),
            to: TaskStatus::Running,
            step: Some("create_zip_archive".to_owned()),
            step_from: Some(StepStatus::Pending),
            step_to: Some(StepStatus::Running),
            attempt: Some(Attempt(1)),
            epoch: Epoch(1),
            actor: WORKER.to_owned(),
            details: json!({ "queue": "file-processing" }),
        };
        let trail = AuditTrail {
            task_id: TASK,
            entries: vec![started],
            attempts: vec![attempt("create_zip_archive", Outcome::Succeeded)],
        };
        ((), trail)
    }
}

impl Operation for GetUndoPlan {
    type Target = TaskId;
    type Input = ();
    type Output = UndoPlan;
    const ABOUT: About = About::get("getUndoPlan", "/api/tasks/{id}/plan", READ)
        .summary(Chapter::Tasks, "Show what an undo of a task would do now")
        .answers(200, "The undos, stage by stage")
        .problems(NO_SUCH_TASK)
        .command(["tasks", "plan"], &[]);

    fn example() -> ((), UndoPlan) {
        let upload = PlannedUndo {
            no: StepNo(1),
            step: "upload_source_files".to_owned(),
            status: StepStatus::Completed,
            undo: "built-in".to_owned(),
            in_doubt: false,
            probe: None,
            undo_attempts: Attempt(0),
            gave_up: false,
        };
        let zip = NotUndone {
            step: "create_zip_archive".to_owned(),
            status: StepStatus::Running,
            kind: NotUndoneKind::Waived,
            reason: "writes scratch only".to_owned(),
        };
        let plan = UndoPlan {
            task_id: TASK,
            status: TaskStatus::Running,
            when: "if the task is cancelled or fails".to_owned(),
            stages: vec![UndoStage {
                group: None,
                steps: vec![upload],
            }],
            not_undone: vec![zip],
        };
        ((), plan)
    }
}

impl Operation for ExplainTask {
    type Target = TaskId;
    type Input = ();
    type Output = Why;
    const ABOUT: About = About::get("explainTask", "/api/tasks/{id}/why", READ)
        .summary(
            Chapter::Tasks,
            "Show what a task waits for, and what an operator can do",
        )
        .answers(200, "The reasons, what matters most first")
        .problems(NO_SUCH_TASK)
        .command(["tasks", "why"], &[]);

    fn example() -> ((), Why) {
        let parked = WhyReason {
            code: WhyCode::Parked,
            detail: "step `charge` gave up".to_owned(),
            until: None,
            owner: None,
            owner_state: None,
            queue: None,
            steps: vec!["charge".to_owned()],
            tasks: Vec::new(),
            waiting_for: None,
        };
        let retry = OperatorMove {
            name: "retry".to_owned(),
            operation: Some("retryTask".to_owned()),
            method: "POST".to_owned(),
            path: format!("/api/tasks/{TASK}/retry"),
            body: Some(json!({ "note": "why" })),
            asks: vec!["patch".to_owned()],
            role: Some(Role::Operate),
            title: "run it again".to_owned(),
            does: "runs the step again".to_owned(),
            button: "Let it go on".to_owned(),
            ..OperatorMove::default()
        };
        let why = Why {
            task_id: TASK,
            status: TaskStatus::DeadLettered,
            parent: None,
            because: vec![parked],
            operator_can: vec![retry],
            group: None,
            cause: None,
        };
        ((), why)
    }
}

impl Operation for GetDeadLetter {
    type Target = TaskId;
    type Input = ();
    type Output = DeadLetterView;
    const ABOUT: About = About::get("getDeadLetter", "/api/dead-letters/{id}", READ)
        .summary(
            Chapter::Deciding,
            "Look at a parked task: its request, its attempts with their errors, who ran them",
        )
        .answers(200, "All that there is to know of it")
        .problems(&[
            ProblemCode::MalformedParameter,
            ProblemCode::NoSuchTask,
            ProblemCode::NotParked,
        ])
        .command(["dead-letters", "show"], &[]);

    fn example() -> ((), DeadLetterView) {
        let charge = StepView {
            no: StepNo(1),
            name: "charge".to_owned(),
            status: StepStatus::Failed,
            attempts: Attempt(1),
            undo_attempts: Attempt(0),
            error: None,
            progress: None,
        };
        let declined = AttemptView {
            error: Some("the card was declined (permanent)".to_owned()),
            ..attempt("charge", Outcome::Failed)
        };
        let view = DeadLetterView {
            letter: dead_letter(),
            group: GROUP.to_owned(),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
            worker: Some(WORKER.to_owned()),
            request: json!({ "seat": "4A", "card": "tok_1" }),
            earlier_requests: Vec::new(),
            steps: vec![charge],
            attempts: vec![declined],
        };
        ((), view)
    }
}

/// An example.
#[must_use]
pub fn dead_letter() -> DeadLetter {
    DeadLetter {
        task_id: TASK,
        task_type: "BookSeat".to_owned(),
        version: 1,
        status: TaskStatus::DeadLettered,
        labels: Labels::new(),
        created_at: MADE.to_owned(),
        updated_at: CHANGED.to_owned(),
        failure: Some(failure()),
        cause: cause(),
    }
}
