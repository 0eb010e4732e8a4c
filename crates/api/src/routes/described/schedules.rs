//! Schedules.

use super::examples;
use super::params::{CURSOR, LIMIT, TASK_LINKS, param, same};
use crate::openapi::{LOCATION, Operation, PerType, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::operation::{Chapter, Link, Param};
use counterstep_contracts::schedule::ScheduleView;
use serde_json::{Value, json};

fn name() -> Value {
    json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9._-]{1,100}$",
        "not": { "enum": [".", ".."] },
    })
}

fn next() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": 100 })
}

const NAME: Param = param("name", "The name of the schedule", name, "nightly-report");
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

const ONE: &[C] = &[C::NoSuchSchedule];

pub(in super::super) const LIST: Operation = Operation::new(
    "listSchedules",
    Chapter::Schedules,
    "List schedules, by name",
)
.query(&[LIMIT, CURSOR])
.replies(&[Reply::json::<Page<ScheduleView>>(
    200,
    "A page; without `next_cursor` the last one",
    examples::schedules,
)])
.problems(&[C::MalformedParameter]);

pub(in super::super) const GET: Operation =
    Operation::new("getSchedule", Chapter::Schedules, "Show a schedule")
        .path(&[NAME])
        .query(&[NEXT])
        .replies(&[Reply::json::<ScheduleView>(
            200,
            "The schedule",
            examples::schedule,
        )])
        .problems(ONE);

pub(in super::super) const PUT: Operation = Operation::new(
    "putSchedule",
    Chapter::Schedules,
    "Make or change a schedule",
)
.path(&[NAME])
.body::<ScheduleSpec>(examples::schedule_spec)
.per_type(PerType::Scheduled)
.replies(&[
    Reply::json::<ScheduleView>(200, "The schedule is changed", examples::schedule).links(LINKS),
    Reply::json::<ScheduleView>(201, "The schedule is made", examples::schedule).links(LINKS),
])
.problems(&[C::ScheduleDeclared]);

pub(in super::super) const DELETE: Operation = Operation::new(
    "deleteSchedule",
    Chapter::Schedules,
    "Delete a schedule; its tasks stay",
)
.path(&[NAME])
.replies(&[Reply::empty(204, "The schedule is deleted")])
.problems(&[C::NoSuchSchedule, C::ScheduleDeclared]);

pub(in super::super) const PAUSE: Operation =
    Operation::new("pauseSchedule", Chapter::Schedules, "Pause a schedule")
        .path(&[NAME])
        .replies(&[Reply::json::<ScheduleView>(
            200,
            "The schedule is paused",
            examples::paused_schedule,
        )])
        .problems(ONE);

pub(in super::super) const RESUME: Operation = Operation::new(
    "resumeSchedule",
    Chapter::Schedules,
    "Let a paused schedule go on",
)
.path(&[NAME])
.replies(&[Reply::json::<ScheduleView>(
    200,
    "The schedule goes on",
    examples::schedule,
)])
.problems(ONE);

pub(in super::super) const RUN: Operation = Operation::new(
    "runSchedule",
    Chapter::Schedules,
    "Submit a task of a schedule now",
)
.path(&[NAME])
.replies(&[
    Reply::json::<Accepted>(202, "The task is accepted", examples::accepted)
        .headers(&[LOCATION])
        .links(TASK_LINKS),
])
.problems(&[
    C::NoSuchSchedule,
    C::ScheduleBusy,
    C::TypeDisabled,
    C::TooManyAtOnce,
    C::InvalidLabel,
]);
