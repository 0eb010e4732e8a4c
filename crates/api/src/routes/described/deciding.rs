//! Parked tasks, for which a person has to decide.

use super::examples;
use super::params::{CURSOR, LIMIT, PARKED, TYPE};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::Chapter;
use counterstep_contracts::operator::DeadLetter;

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
