//! Schedules of a tenant: deleting one, pausing it, resuming it, and a task of it at once.

use super::examples::{CHANGED, MADE, OTHER, TASK};
use super::{About, Access, BadTarget, Chapter, Operation, Param, TASK_LINKS, Target};
use crate::access::Role;
use crate::http::Accepted;
use crate::schedule::{ScheduleOrigin, ScheduleSpec, ScheduleView};
use crate::{ProblemCode, TaskStatus};
use serde_json::json;

const OPERATE: Access = Access::Role(Role::Operate);

/// The name of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleName(pub String);

/// The name of a schedule in a path.
pub const SCHEDULE_NAME: Param = Param {
    name: "name",
    about: "The name of the schedule",
    schema: || {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9._-]{1,100}$",
            "not": { "enum": [".", ".."] },
        })
    },
    example: "nightly-report",
};

impl Target for ScheduleName {
    const PARAMS: &'static [Param] = &[SCHEDULE_NAME];

    fn parse(segments: &[&str]) -> Result<Self, BadTarget> {
        Ok(Self(segments.concat()))
    }
}

/// Delete a schedule.
#[derive(Debug)]
pub struct DeleteSchedule;
/// Pause a schedule.
#[derive(Debug)]
pub struct PauseSchedule;
/// Resume a schedule.
#[derive(Debug)]
pub struct ResumeSchedule;
/// Submit a task of a schedule now.
#[derive(Debug)]
pub struct RunSchedule;

impl Operation for DeleteSchedule {
    type Target = ScheduleName;
    type Input = ();
    type Output = ();
    const ABOUT: About = About::delete("deleteSchedule", "/api/schedules/{name}", OPERATE)
        .summary(Chapter::Schedules, "Delete a schedule; its tasks stay")
        .preview("/api/schedules/{name}")
        .answers(204, "The schedule is deleted")
        .problems(&[ProblemCode::NoSuchSchedule, ProblemCode::ScheduleDeclared])
        .as_client();

    fn example() -> ((), ()) {
        ((), ())
    }
}

impl Operation for PauseSchedule {
    type Target = ScheduleName;
    type Input = ();
    type Output = ScheduleView;
    const ABOUT: About = About::post("pauseSchedule", "/api/schedules/{name}/pause", OPERATE)
        .summary(Chapter::Schedules, "Pause a schedule")
        .preview("/api/schedules/{name}")
        .answers(200, "The schedule is paused")
        .problems(&[ProblemCode::NoSuchSchedule])
        .as_client();

    fn example() -> ((), ScheduleView) {
        let paused = ScheduleView {
            paused: true,
            next_due_at: None,
            last_due_at: None,
            last_fired_at: None,
            last_task: None,
            revision: 4,
            ..schedule()
        };
        ((), paused)
    }
}

impl Operation for ResumeSchedule {
    type Target = ScheduleName;
    type Input = ();
    type Output = ScheduleView;
    const ABOUT: About = About::post("resumeSchedule", "/api/schedules/{name}/resume", OPERATE)
        .summary(Chapter::Schedules, "Let a paused schedule go on")
        .preview("/api/schedules/{name}")
        .answers(200, "The schedule goes on")
        .problems(&[ProblemCode::NoSuchSchedule])
        .as_client();

    fn example() -> ((), ScheduleView) {
        ((), schedule())
    }
}

impl Operation for RunSchedule {
    type Target = ScheduleName;
    type Input = ();
    type Output = Accepted;
    const ABOUT: About = About::post("runSchedule", "/api/schedules/{name}/run", OPERATE)
        .summary(Chapter::Schedules, "Submit a task of a schedule now")
        .preview("/api/schedules/{name}")
        .answers(202, "The task is accepted")
        .problems(&[
            ProblemCode::NoSuchSchedule,
            ProblemCode::ScheduleBusy,
            ProblemCode::TypeDisabled,
            ProblemCode::TooManyAtOnce,
            ProblemCode::InvalidLabel,
        ])
        .as_client()
        .links(TASK_LINKS);

    fn example() -> ((), Accepted) {
        let accepted = Accepted {
            task_id: TASK,
            status: TaskStatus::Dispatched,
        };
        ((), accepted)
    }

    fn location(accepted: &Accepted) -> Option<String> {
        Some(format!("/api/tasks/{}", accepted.task_id))
    }
}

/// An example.
#[must_use]
pub fn schedule() -> ScheduleView {
    ScheduleView {
        name: "nightly-report".to_owned(),
        spec: ScheduleSpec {
            cron: Some("30 2 * * *".to_owned()),
            zone: Some("Europe/Berlin".to_owned()),
            request: json!({ "of": "yesterday" }),
            ..ScheduleSpec::of("create-report")
        },
        origin: ScheduleOrigin::Api,
        paused: false,
        warning: None,
        next_due_at: Some("2026-11-21T01:30:00.000000Z".to_owned()),
        last_due_at: Some("2026-11-20T01:30:00.000000Z".to_owned()),
        last_fired_at: Some("2026-11-20T01:30:00.400000Z".to_owned()),
        last_task: Some(OTHER),
        revision: 3,
        created_at: MADE.to_owned(),
        updated_at: CHANGED.to_owned(),
        upcoming: Vec::new(),
    }
}
