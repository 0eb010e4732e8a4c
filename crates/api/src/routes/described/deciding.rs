//! What a person decides about parked tasks.

use super::examples;
use super::params::{CURSOR, LIMIT, PARKED, TYPE};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{Chapter, TASK_ID};
use counterstep_contracts::operator::{
    DeadLetter, OperatorAnswer, RecoveriesAnswer, RecoveriesRequest, ResolveRequest, RetryRequest,
};

pub(in super::super) const DEAD_LETTERS: Operation = Operation::new(
    "listDeadLetters",
    Chapter::Deciding,
    "List parked tasks, the newest first",
)
.query(&[TYPE, PARKED, LIMIT, CURSOR])
.replies(&[Reply::json::<Page<DeadLetter>>(
    200,
    "A page; without `next_cursor` the last one",
    examples::dead_letters,
)])
.problems(&[C::MalformedParameter]);

pub(in super::super) const RESOLVE: Operation = Operation::new(
    "resolveTask",
    Chapter::Deciding,
    "Settle a parked task, or a step of it, by hand",
)
.path(&[TASK_ID])
.body::<ResolveRequest>(examples::resolve)
.replies(&[Reply::json::<OperatorAnswer>(
    200,
    "What waits for a decision still, and what will be undone",
    examples::decided,
)])
.problems(&[
    C::MalformedParameter,
    C::NoSuchTask,
    C::NoSuchStep,
    C::AlreadyResolved,
    C::NotParked,
    C::NotSettleable,
    C::InvalidOutput,
]);

pub(in super::super) const RETRY: Operation =
    Operation::new("retryTask", Chapter::Deciding, "Let a parked task go on")
        .path(&[TASK_ID])
        .body::<RetryRequest>(examples::retry)
        .replies(&[Reply::json::<OperatorAnswer>(
            200,
            "What will be undone",
            examples::retried,
        )])
        .problems(&[
            C::MalformedParameter,
            C::NoSuchTask,
            C::AlreadyResolved,
            C::NotParked,
            C::NoWayForward,
            C::RequestNotChangeable,
        ]);

pub(in super::super) const RECOVERIES: Operation = Operation::new(
    "setRecoveries",
    Chapter::Deciding,
    "Set how many lost hosts count against a task",
)
.path(&[TASK_ID])
.body::<RecoveriesRequest>(examples::recoveries)
.replies(&[Reply::json::<RecoveriesAnswer>(
    200,
    "What counts now",
    examples::recounted,
)])
.problems(&[C::MalformedParameter, C::NoSuchTask, C::AlreadyEnded]);
