//! What an operator can do: calls of the API, and commands. Pure.

use super::why_reason::steps;
use crate::record::TaskRecord;
use crate::task::Registry;
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{StepStatus, TaskStatus, WaitReason};
use serde_json::{Value, json};

fn call(method: &str, path: String, body: Value, does: &str) -> OperatorMove {
    OperatorMove {
        method: method.to_owned(),
        path,
        body: Some(body),
        command: None,
        does: does.to_owned(),
    }
}

pub(super) fn post(path: String, body: Value, does: &str) -> OperatorMove {
    call("POST", path, body, does)
}

pub(super) fn put(path: String, body: Value, does: &str) -> OperatorMove {
    call("PUT", path, body, does)
}

/// A command of this program.
pub(super) fn command(words: String, does: &str) -> OperatorMove {
    OperatorMove {
        method: String::new(),
        path: String::new(),
        body: None,
        command: Some(words),
        does: does.to_owned(),
    }
}

/// What an operator can do about the task itself.
pub(super) fn moves(registry: &Registry, record: &TaskRecord) -> Vec<OperatorMove> {
    let id = record.task.id;
    let post = |what: &str, body: Value, does: &str| OperatorMove {
        path: format!("/api/tasks/{id}/{what}"),
        ..self::post(String::new(), body, does)
    };
    let note = "why";
    match record.task.status {
        TaskStatus::DeadLettered => {
            let mut moves = vec![
                post(
                    "retry",
                    json!({"note": note}),
                    "runs the steps, and the probes, that gave up again, with their retries anew",
                ),
                post(
                    "retry",
                    json!({"note": note, "direction": "undo"}),
                    "undoes what it has done",
                ),
            ];
            moves.extend(
                steps(record, |status| {
                    matches!(status, StepStatus::Failed | StepStatus::InDoubt)
                })
                .iter()
                .map(|step| {
                    let body = json!({"step": step, "as": "done", "output": null, "note": note});
                    post(
                        "resolve",
                        body,
                        "gives the step the output of work that was done by hand, and goes on",
                    )
                }),
            );
            moves.push(post(
                "resolve",
                json!({"as": "undone", "note": note}),
                "ends the task as resolved",
            ));
            moves
        }
        TaskStatus::CompensationFailed => {
            let mut moves = vec![post(
                "retry",
                json!({"note": note}),
                "tries the undos, and the probes, that gave up again, with their retries anew",
            )];
            moves.extend(
                steps(record, |status| status == StepStatus::CompensationFailed)
                    .iter()
                    .map(|step| {
                        let body = json!({"step": step, "as": "undone", "note": note});
                        post(
                            "resolve",
                            body,
                            "says that the step was undone by hand, and undoes the others",
                        )
                    }),
            );
            moves.push(post(
                "resolve",
                json!({"as": "undone", "note": note}),
                "ends the task as resolved",
            ));
            moves
        }
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => {
            let can = registry
                .of(&record.task)
                .is_some_and(|known| known.decl.cancellable);
            let cancel = OperatorMove {
                method: "DELETE".to_owned(),
                path: format!("/api/tasks/{id}"),
                body: None,
                command: None,
                does: "cancels it: what it has done is undone".to_owned(),
            };
            let mut moves = Vec::new();
            if can && record.task.cancel_requested_at.is_none() {
                moves.push(cancel);
            }
            if record.task.waiting == Some(WaitReason::Signal) {
                moves.extend(steps(record, |status| status == StepStatus::Waiting).iter().map(|step| OperatorMove {
                    method: "POST".to_owned(),
                    path: format!("/api/tasks/{id}/signals/{step}"),
                    body: None,
                    command: None,
                    does: format!("answers {step}: the body is the answer of its declared type, as JSON"),
                }));
            }
            moves
        }
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => vec![post(
            "run-again",
            json!({"note": note}),
            "runs it again from the start, as a new task",
        )],
        TaskStatus::Compensating => Vec::new(),
    }
}
