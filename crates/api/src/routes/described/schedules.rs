//! Setting a schedule.

use super::params::same;
use crate::openapi::{Operation, PerType, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::operation::schedules::{SCHEDULE_NAME, schedule};
use counterstep_contracts::operation::{Chapter, Link};
use counterstep_contracts::schedule::ScheduleView;
use serde_json::json;

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
