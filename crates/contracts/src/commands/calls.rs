//! The operations that moves call: address, role, words and flags of each. A test compares them with the OpenAPI document.

use super::{Call, Flag, Takes, flag};
use crate::access::Role;

const fn call(
    operation: &'static str,
    method: &'static str,
    path: &'static str,
    role: Role,
    words: [&'static str; 2],
    flags: &'static [Flag],
) -> Call {
    Call { operation, method, path, role, words, flags, body: None }
}

const NOTE: Flag = flag("note", "--note", Takes::Text);
const STEP: Flag = flag("step", "--step", Takes::Text);
const AS: Flag = flag("as", "--as", Takes::Word);
const OUTPUT: Flag = flag("output", "--output", Takes::Json);
const UNDO: Flag = flag("direction", "--undo", Takes::Itself("undo"));
const FROM: Flag = flag("from", "--from", Takes::Text);
const PATCH: Flag = flag("patch", "--set", Takes::Fields);
const LOSSES: Flag = flag("recovery_attempts", "--set", Takes::Number);
const AT_ONCE: Flag = flag("at_once", "--at-once", Takes::Number);
const RATE: Flag = flag("rate", "--rate", Takes::Rate);

/// Cancels a task.
pub const CANCEL_TASK: Call = call("cancelTask", "DELETE", "/api/tasks/{}", Role::Submit, ["tasks", "cancel"], &[]);
/// Answers a step that waits. The body is of the step's type, without fields of ours.
pub const SEND_SIGNAL: Call = Call {
    body: Some("--body"),
    ..call("sendSignal", "POST", "/api/tasks/{}/signals/{}", Role::Submit, ["tasks", "signal"], &[])
};
/// Lets a parked task go on.
pub const RETRY_TASK: Call = call("retryTask", "POST", "/api/tasks/{}/retry", Role::Operate, ["tasks", "retry"], &[UNDO, PATCH, NOTE]);
/// Settles a parked task, or a step of it.
pub const RESOLVE_TASK: Call = call("resolveTask", "POST", "/api/tasks/{}/resolve", Role::Operate, ["tasks", "resolve"], &[STEP, AS, OUTPUT, NOTE]);
/// Sets the count of consecutive host losses.
pub const SET_RECOVERIES: Call = call("setRecoveries", "POST", "/api/tasks/{}/recoveries", Role::Operate, ["tasks", "recoveries"], &[LOSSES, NOTE]);
/// Runs a task that has ended again.
pub const RUN_TASK_AGAIN: Call = call("runTaskAgain", "POST", "/api/tasks/{}/run-again", Role::Operate, ["tasks", "run-again"], &[FROM, PATCH, NOTE]);
/// Resumes a queue.
pub const RESUME_QUEUE: Call = call("resumeQueue", "POST", "/api/queues/{}/resume", Role::Admin, ["queues", "resume"], &[NOTE]);
/// Sets a limit.
pub const SET_LIMIT: Call = call("setLimit", "PUT", "/api/limits/{}", Role::Admin, ["limits", "set"], &[AT_ONCE, RATE, NOTE]);
/// Resets a limit to what is declared.
pub const RESET_LIMIT: Call = call("resetLimit", "POST", "/api/limits/{}/reset", Role::Admin, ["limits", "reset"], &[NOTE]);
/// Closes a breaker.
pub const CLOSE_BREAKER: Call = call("closeBreaker", "POST", "/api/breakers/{}/close", Role::Admin, ["breakers", "close"], &[NOTE]);

/// All of them.
pub const CALLS: &[&Call] = &[
    &CANCEL_TASK, &SEND_SIGNAL, &RETRY_TASK, &RESOLVE_TASK, &SET_RECOVERIES, &RUN_TASK_AGAIN,
    &RESUME_QUEUE, &SET_LIMIT, &RESET_LIMIT, &CLOSE_BREAKER,
];
