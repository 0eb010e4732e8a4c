//! Running a task again.

use super::examples;
use super::params::{KEY, REPLAYED, RETRY_AFTER};
use crate::openapi::{LOCATION, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::operation::{Chapter, TASK_ID, TASK_LINKS};
use counterstep_contracts::run_again::RunAgainRequest;
use serde_json::{Value, json};

fn request() -> Value {
    json!({ "from": "charge", "patch": { "card": "tok_2" }, "note": "the client has another card", "actor": "kim" })
}

pub(in super::super) const RUN_AGAIN: Operation = Operation::new(
    "runTaskAgain",
    Chapter::Deciding,
    "Run a task that has ended again, as a new task",
)
.path(&[TASK_ID])
.headers(&[KEY])
.body::<RunAgainRequest>(request)
.replies(&[
    Reply::json::<Accepted>(202, "The new task is accepted", examples::accepted)
        .headers(&[LOCATION, RETRY_AFTER, REPLAYED])
        .links(TASK_LINKS),
])
.problems(&[
    C::MalformedParameter,
    C::MalformedIdempotencyKey,
    C::InProgress,
    C::IdempotencyMismatch,
    C::NoSuchTask,
    C::NoSuchStep,
    C::NotEnded,
    C::DeclarationChanged,
    C::EffectsUndone,
    C::StepNotCompleted,
    C::ScratchRead,
    C::TasksSubmitted,
    C::PayloadErased,
    C::FilesGone,
    C::TypeDisabled,
    C::InvalidLabel,
]);
