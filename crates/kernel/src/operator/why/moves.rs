//! What an operator can do: calls of the API, and commands. Pure.

use super::reason::steps;
use crate::record::TaskRecord;
use crate::task::Registry;
use counterstep_contracts::operator::{OperatorMove, WhyCode};
use counterstep_contracts::{StepStatus, TaskId, TaskStatus, WaitReason};
use serde_json::{Value, json};

fn call(method: &str, path: String, body: Value, does: &str) -> OperatorMove {
    OperatorMove {
        method: method.to_owned(),
        path,
        body: Some(body),
        command: None,
        does: does.to_owned(),
        ends: None,
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
        ends: None,
    }
}

pub(super) fn cancel(task: TaskId, does: &str) -> OperatorMove {
    OperatorMove {
        body: None,
        ..call("DELETE", format!("/api/tasks/{task}"), Value::Null, does)
    }
}

/// What ends it.
fn ends(code: WhyCode, can: OperatorMove) -> OperatorMove {
    OperatorMove {
        ends: Some(code),
        ..can
    }
}

/// What an operator can do about the task itself: what ends its wait comes first.
pub(super) fn moves(registry: &Registry, record: &TaskRecord) -> Vec<OperatorMove> {
    match record.task.status {
        TaskStatus::DeadLettered => dead_lettered(record),
        TaskStatus::CompensationFailed => undo_gave_up(record),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => {
            let task = &record.task;
            let mut moves = Vec::new();
            if task.waiting == Some(WaitReason::Signal) {
                moves.extend(signals(record));
            }
            let known = registry.of(task);
            if known.is_some_and(|known| known.decl.cancellable)
                && task.cancel_requested_at.is_none()
            {
                moves.push(cancel(task.id, "cancels it: what it has done is undone"));
            }
            moves
        }
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => {
            let again = of_task(record, "run-again", json!({"note": NOTE}));
            let again = does(again, "runs it again from the start, as a new task");
            vec![ends(WhyCode::Ended, again)]
        }
        TaskStatus::Compensating => Vec::new(),
    }
}

/// The note of what is done as `why` has it, until a person writes another.
const NOTE: &str = "why";

fn of_task(record: &TaskRecord, what: &str, body: Value) -> OperatorMove {
    post(format!("/api/tasks/{}/{what}", record.task.id), body, "")
}

fn does(can: OperatorMove, does: &str) -> OperatorMove {
    OperatorMove {
        does: does.to_owned(),
        ..can
    }
}

fn signals(record: &TaskRecord) -> impl Iterator<Item = OperatorMove> {
    let waiting = steps(record, |status| status == StepStatus::Waiting);
    let id = record.task.id;
    waiting.into_iter().map(move |step| {
        let path = format!("/api/tasks/{id}/signals/{step}");
        let what = format!("answers {step}: the body is the answer of its declared type, as JSON");
        let answer = OperatorMove {
            body: None,
            ..post(path, Value::Null, &what)
        };
        ends(WhyCode::Outside, answer)
    })
}

fn dead_lettered(record: &TaskRecord) -> Vec<OperatorMove> {
    let again = of_task(record, "retry", json!({"note": NOTE}));
    let back = of_task(record, "retry", json!({"note": NOTE, "direction": "undo"}));
    let mut moves = vec![
        does(
            again,
            "runs the steps, and the probes, that gave up again, with their retries anew",
        ),
        does(back, "undoes what it has done"),
    ];
    let gave_up = steps(record, |status| {
        matches!(status, StepStatus::Failed | StepStatus::InDoubt)
    });
    moves.extend(gave_up.iter().map(|step| {
        let body = json!({"step": step, "as": "done", "output": null, "note": NOTE});
        does(
            of_task(record, "resolve", body),
            "gives the step the output of work that was done by hand, and goes on",
        )
    }));
    parked(moves, record)
}

fn undo_gave_up(record: &TaskRecord) -> Vec<OperatorMove> {
    let again = of_task(record, "retry", json!({"note": NOTE}));
    let mut moves = vec![does(
        again,
        "tries the undos, and the probes, that gave up again, with their retries anew",
    )];
    let gave_up = steps(record, |status| status == StepStatus::CompensationFailed);
    moves.extend(gave_up.iter().map(|step| {
        let body = json!({"step": step, "as": "undone", "note": NOTE});
        does(
            of_task(record, "resolve", body),
            "says that the step was undone by hand, and undoes the others",
        )
    }));
    parked(moves, record)
}

/// Each of them ends the wait for a person.
fn parked(mut moves: Vec<OperatorMove>, record: &TaskRecord) -> Vec<OperatorMove> {
    let body = json!({"as": "undone", "note": NOTE});
    moves.push(does(
        of_task(record, "resolve", body),
        "ends the task as resolved",
    ));
    let ends_it = |can| ends(WhyCode::Parked, can);
    moves.into_iter().map(ends_it).collect()
}
