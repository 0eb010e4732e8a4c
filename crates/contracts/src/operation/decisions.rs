//! What a person decides about a task: a parked one, or a step of it, is settled or goes on, and how many of its hosts count as
//! lost.

use super::command::{Flag, NOTE, PATCH, REQUEST, Takes, flag};
use super::examples::TASK;
use super::shown::{Shown, View};
use super::{About, Access, Chapter, Operation};
use crate::access::Role;
use crate::operator::{
    OperatorAnswer, RecoveriesAnswer, RecoveriesRequest, ResolveRequest, RetryRequest,
};
use crate::{Direction, ProblemCode, SettledAs, TaskId, TaskStatus};
use serde_json::json;

const STEP: Flag = flag("step", "--step", Takes::Text);
pub(super) const AS: Flag = flag("as", "--as", Takes::Word);
const OUTPUT: Flag =
    flag("output", "--output", Takes::Json).is("The step's output as JSON, with --as done");
const DONE_BY: Flag =
    flag("task", "--task", Takes::Text).is("The task that has done it, with --as redriven");
const UNDO: Flag = flag("direction", "--undo", Takes::Itself("undo"))
    .is("Undo a dead letter instead of running it again");
const LOSSES: Flag = flag("recovery_attempts", "--set", Takes::Number);

/// Settle a parked task, or a step of it.
#[derive(Debug)]
pub struct ResolveTask;
/// Let a parked task go on.
#[derive(Debug)]
pub struct RetryTask;
/// Set how many lost hosts count against a task.
#[derive(Debug)]
pub struct SetRecoveries;

impl Operation for ResolveTask {
    type Target = TaskId;
    type Input = ResolveRequest;
    type Output = OperatorAnswer;
    const ABOUT: About = About::post(
        "resolveTask",
        "/api/tasks/{id}/resolve",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Settle a parked task, or a step of it, by hand",
    )
    .preview("/api/tasks/{id}/plan")
    .answers(
        200,
        "What waits for a decision still, and what will be undone",
    )
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::NoSuchStep,
        ProblemCode::AlreadyResolved,
        ProblemCode::NotParked,
        ProblemCode::NotSettleable,
        ProblemCode::InvalidOutput,
    ])
    .command(["tasks", "resolve"], &[STEP, AS, OUTPUT, DONE_BY, NOTE]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (ResolveRequest, OperatorAnswer) {
        let request = ResolveRequest {
            step: Some("charge".to_owned()),
            settled: SettledAs::Done,
            output: Some(json!({ "charge_id": "c-17" })),
            task: None,
            note: "charged by hand".to_owned(),
            actor: Some("kim".to_owned()),
        };
        (request, decided(TaskStatus::Dispatched, &[]))
    }
}

impl Operation for RetryTask {
    type Target = TaskId;
    type Input = RetryRequest;
    type Output = OperatorAnswer;
    const ABOUT: About = About::post(
        "retryTask",
        "/api/tasks/{id}/retry",
        Access::Role(Role::Operate),
    )
    .summary(Chapter::Deciding, "Let a parked task go on")
    .preview("/api/tasks/{id}/plan")
    .answers(200, "What will be undone")
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::AlreadyResolved,
        ProblemCode::NotParked,
        ProblemCode::NoWayForward,
        ProblemCode::RequestNotChangeable,
    ])
    .command(["tasks", "retry"], &[UNDO, REQUEST, PATCH, NOTE])
    .more("forward after a dead letter, backward after a failed undo");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (RetryRequest, OperatorAnswer) {
        let request = RetryRequest {
            direction: Some(Direction::Undo),
            request: None,
            patch: None,
            note: "the customer has cancelled".to_owned(),
            actor: None,
        };
        (request, decided(TaskStatus::Compensating, &["reserve"]))
    }
}

impl Operation for SetRecoveries {
    type Target = TaskId;
    type Input = RecoveriesRequest;
    type Output = RecoveriesAnswer;
    const ABOUT: About = About::post(
        "setRecoveries",
        "/api/tasks/{id}/recoveries",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Set how many lost hosts count against a task",
    )
    .preview("/api/tasks/{id}/plan")
    .answers(200, "What counts now")
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::AlreadyEnded,
    ])
    .command(["tasks", "recoveries"], &[LOSSES, NOTE])
    .more("0 after an unrelated outage");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(counted));

    fn example() -> (RecoveriesRequest, RecoveriesAnswer) {
        let request = RecoveriesRequest {
            recovery_attempts: 0,
            note: "the machine was replaced".to_owned(),
            actor: None,
        };
        let answer = RecoveriesAnswer {
            task_id: TASK,
            status: TaskStatus::Running,
            recovery_attempts: 0,
            allowed: 10,
        };
        (request, answer)
    }
}

fn decided(status: TaskStatus, will_undo: &[&str]) -> OperatorAnswer {
    OperatorAnswer {
        task_id: TASK,
        status,
        open_steps: Vec::new(),
        will_undo: will_undo.iter().map(|&it| it.to_owned()).collect(),
    }
}

fn line(answer: &OperatorAnswer) -> View {
    let mut text = answer.status.to_string();
    for (what, steps) in [
        ("still to be decided", &answer.open_steps),
        ("will be undone", &answer.will_undo),
    ] {
        if !steps.is_empty() {
            text += &format!("; {what}: {}", steps.join(", "));
        }
    }
    View::Lines(vec![text.into()])
}

fn counted(answer: &RecoveriesAnswer) -> View {
    let (status, count, allowed) = (answer.status, answer.recovery_attempts, answer.allowed);
    let text = format!("{status}; {count} of {allowed} consecutive host losses counted");
    View::Lines(vec![text.into()])
}
