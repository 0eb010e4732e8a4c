//! Dead letters in numbers: their groups, and operations on many tasks.

use super::examples;
use super::params::{LABEL, PARKED, TYPE, param, same, uuid};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::bulk::{BulkPreview, BulkRequest, BulkView, DeadLetterGroups};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{Chapter, Link, Param};

const BULK_ID: Param = param(
    "bulk_id",
    "The id of the operation",
    uuid,
    "01930d2c-6c4b-7d5e-8f00-0123456789ac",
);

const LINKS: &[Link] = &[
    same("getBulkOperation", "bulk_id", "$response.body#/id"),
    same("stopBulkOperation", "bulk_id", "$response.body#/id"),
];

pub(in super::super) const GROUPS: Operation = Operation::new(
    "groupDeadLetters",
    Chapter::Deciding,
    "Count parked tasks by cause",
)
.query(&[TYPE, PARKED, LABEL])
.replies(&[Reply::json::<DeadLetterGroups>(
    200,
    "The groups, the largest first",
    examples::groups,
)])
.problems(&[C::InvalidLabel]);

pub(in super::super) const LIST: Operation = Operation::new(
    "listBulkOperations",
    Chapter::Deciding,
    "List bulk operations of the last 30 days, the last started first",
)
.replies(&[Reply::json::<Page<BulkView>>(
    200,
    "All of them",
    examples::bulks,
)]);

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

pub(in super::super) const GET: Operation = Operation::new(
    "getBulkOperation",
    Chapter::Deciding,
    "Look at a bulk operation",
)
.path(&[BULK_ID])
.replies(&[Reply::json::<BulkView>(
    200,
    "How it stands",
    examples::bulk,
)])
.problems(&[C::NoSuchBulkOperation]);

pub(in super::super) const STOP: Operation = Operation::new(
    "stopBulkOperation",
    Chapter::Deciding,
    "Stop a bulk operation; the tasks that are left stay as they are",
)
.path(&[BULK_ID])
.replies(&[Reply::json::<BulkView>(
    200,
    "How it stands: tasks that were begun are finished. One that has ended stays as it is",
    examples::bulk_stopped,
)])
.problems(&[C::NoSuchBulkOperation]);
