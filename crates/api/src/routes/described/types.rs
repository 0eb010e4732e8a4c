//! Task types.

use super::super::types::TaskTypeView;
use super::examples;
use super::params::{param, text};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{Chapter, Param};

const ROUTE: Param = param(
    "type",
    "The name of the type in kebab-case",
    text,
    "create-zip-from-files",
);

pub(in super::super) const LIST: Operation = Operation::new(
    "listTaskTypes",
    Chapter::Types,
    "List the declarations that this process knows",
)
.replies(&[Reply::written::<Page<TaskTypeView>>(
    200,
    "All of them",
    examples::task_types,
)]);

pub(in super::super) const DISABLE: Operation = Operation::new(
    "disableTaskType",
    Chapter::Types,
    "Take no more submissions of a type",
)
.path(&[ROUTE])
.body::<SwitchRequest>(examples::switch_request)
.replies(&[Reply::json::<SwitchView>(
    200,
    "The type takes none",
    examples::disabled,
)])
.problems(&[C::NoSuchTaskType]);

pub(in super::super) const ENABLE: Operation = Operation::new(
    "enableTaskType",
    Chapter::Types,
    "Take submissions of a type again",
)
.path(&[ROUTE])
.body::<SwitchRequest>(examples::switch_request)
.replies(&[Reply::json::<SwitchView>(
    200,
    "The type takes them",
    examples::enabled,
)])
.problems(&[C::NoSuchTaskType]);
