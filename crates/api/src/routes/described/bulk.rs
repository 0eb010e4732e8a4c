//! Starting an operation on many tasks.

use super::examples;
use super::params::same;
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::bulk::{BulkPreview, BulkRequest, BulkView};
use counterstep_contracts::operation::{Chapter, Link};

const LINKS: &[Link] = &[
    same("getBulkOperation", "bulk_id", "$response.body#/id"),
    same("stopBulkOperation", "bulk_id", "$response.body#/id"),
];

pub(in super::super) const START: Operation = Operation::new(
    "startBulkOperation",
    Chapter::Deciding,
    "Redrive, resolve, cancel or run again many tasks",
)
.body::<BulkRequest>(examples::bulk_request)
.replies(&[
    Reply::json::<BulkPreview>(
        200,
        "With `preview`: which tasks it would be for; nothing has changed",
        examples::bulk_preview,
    ),
    Reply::json::<BulkView>(202, "Started: API processes execute it", examples::bulk).links(LINKS),
])
.problems(&[C::InvalidLabel, C::GroupRenamed]);
