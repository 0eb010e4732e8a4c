//! Limits of steps.

use super::examples;
use super::params::{param, text};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{LimitView, ResetLimitRequest, SetLimitRequest};
use counterstep_contracts::operation::{Chapter, Param};

const NAME: Param = param("name", "The name of the limit", text, "bank");

pub(in super::super) const LIST: Operation = Operation::new(
    "listLimits",
    Chapter::Types,
    "List the limits of steps, and what is in use of them",
)
.replies(&[Reply::json::<Page<LimitView>>(
    200,
    "All of them",
    examples::limits,
)]);

pub(in super::super) const SET: Operation = Operation::new(
    "setLimit",
    Chapter::Types,
    "Set the values of a limit in place of those that are declared",
)
.path(&[NAME])
.body::<SetLimitRequest>(examples::set_limit)
.replies(&[Reply::json::<LimitView>(
    200,
    "They hold within a few seconds, in all processes",
    examples::limit,
)])
.problems(&[C::NoSuchLimit]);

pub(in super::super) const RESET: Operation = Operation::new(
    "resetLimit",
    Chapter::Types,
    "Let a limit hold again as it is declared",
)
.path(&[NAME])
.body::<ResetLimitRequest>(examples::reset_limit)
.replies(&[Reply::json::<LimitView>(
    200,
    "It holds as it is declared",
    examples::limit_as_declared,
)])
.problems(&[C::NoSuchLimit]);
