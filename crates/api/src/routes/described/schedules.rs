//! Schedules.

use super::params::{CURSOR, LIMIT, param, same};
use crate::openapi::{Operation, PerType, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::schedules::{SCHEDULE_NAME, schedule};
use counterstep_contracts::operation::{Chapter, Link, Param};
use counterstep_contracts::schedule::ScheduleView;
use serde_json::{Value, json};

fn next() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": 100 })
}

const NEXT: Param = param(
    "next",
    "How many of the next due times are shown",
    next,
    "5",
);

const fn link(operation: &'static str) -> Link {
    same(operation, "name", "$request.path.name")
}

const LINKS: &[Link] = &[
    link("getSchedule"),
    link("deleteSchedule"),
    link("pauseSchedule"),
    link("resumeSchedule"),
    link("runSchedule"),
];

pub(in super::super) const LIST: Operation = Operation::new(
    "listSchedules",
    Chapter::Schedules,
    "List schedules, by name",
)
.query(&[LIMIT, CURSOR])
.replies(&[Reply::json::<Page<ScheduleView>>(
    200,
    "A page; without `next_cursor` the last one",
    || json!({ "items": [schedule()] }),
)])
.problems(&[C::MalformedParameter]);

pub(in super::super) const GET: Operation =
    Operation::new("getSchedule", Chapter::Schedules, "Show a schedule")
        .path(&[SCHEDULE_NAME])
        .query(&[NEXT])
        .replies(&[Reply::json::<ScheduleView>(200, "The schedule", || {
            json!(schedule())
        })])
        .problems(&[C::NoSuchSchedule]);

pub(in super::super) const PUT: Operation = Operation::new(
    "putSchedule",
    Chapter::Schedules,
    "Make or change a schedule",
)
.path(&[SCHEDULE_NAME])
.body::<ScheduleSpec>(|| json!(schedule().spec))
.per_type(PerType::Scheduled)
.replies(&[
    Reply::json::<ScheduleView>(200, "The schedule is changed", || json!(schedule())).links(LINKS),
    Reply::json::<ScheduleView>(201, "The schedule is made", || json!(schedule())).links(LINKS),
])
.problems(&[C::ScheduleDeclared]);
