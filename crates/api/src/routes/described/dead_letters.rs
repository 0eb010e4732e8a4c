//! What there is to know of a dead letter, and messages that no host can read.

use super::dead_letter_examples as examples;
use super::params::{param, text};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::dead_letter::{DeadLetterView, PoisonMessages};
use counterstep_contracts::operation::{Chapter, Param, TASK_ID};

const POISON_ID: Param = param(
    "poison_id",
    "The id of the message",
    text,
    "5f0c1e7ab2d94c335f0c1e7ab2d94c33",
);

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

pub(in super::super) const POISON: Operation = Operation::new(
    "listPoisonMessages",
    Chapter::Process,
    "List messages that no host can read, the last kept first",
)
.replies(&[Reply::json::<PoisonMessages>(
    200,
    "The last 200",
    examples::poison,
)]);

pub(in super::super) const REMOVE_POISON: Operation = Operation::new(
    "removePoisonMessage",
    Chapter::Process,
    "Remove a message that no host can read",
)
.path(&[POISON_ID])
.replies(&[Reply::empty(204, "It is gone")])
.problems(&[C::NoSuchPoison]);
