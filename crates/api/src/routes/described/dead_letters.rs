//! What there is to know of a dead letter.

use super::dead_letter_examples as examples;
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::operation::{Chapter, TASK_ID};

pub(in super::super) const ONE: Operation = Operation::new(
    "getDeadLetter",
    Chapter::Deciding,
    "Look at a parked task: its request, its attempts with their errors, who ran them",
)
.path(&[TASK_ID])
.replies(&[Reply::json::<DeadLetterView>(
    200,
    "All that there is to know of it",
    examples::one,
)])
.problems(&[C::MalformedParameter, C::NoSuchTask, C::NotParked]);
