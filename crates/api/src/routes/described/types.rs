//! Task types.

use super::super::types::TaskTypeView;
use super::examples;
use crate::openapi::{Operation, Reply};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::Chapter;

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
