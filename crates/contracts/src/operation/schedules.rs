//! Schedules of a tenant: those that there are, one of them, deleting it, pausing it, resuming it, and a task of it at
//! once.

use super::examples::{CHANGED, MADE, OTHER, TASK, cursor};
use super::shown::{Cell, Shown, Table, View};
use super::{
    About, Access, BadTarget, Chapter, Cursor, Limit, Operation, Param, TASK_LINKS, Target,
};
use crate::access::Role;
use crate::http::{Accepted, Page};
use crate::schedule::{ScheduleOrigin, ScheduleSpec, ScheduleView};
use crate::{ProblemCode, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const READ: Access = Access::Role(Role::Read);
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

/// List schedules.
#[derive(Debug)]
pub struct ListSchedules;
/// Show a schedule.
#[derive(Debug)]
pub struct GetSchedule;
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

/// Which page of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SchedulesQuery {
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// What is shown of one.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleQuery {
    /// How many of the next due times are shown
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub next: Option<u32>,
}

impl Operation for ListSchedules {
    type Target = ();
    type Input = SchedulesQuery;
    type Output = Page<ScheduleView>;
    const ABOUT: About = About::get("listSchedules", "/api/schedules", READ)
        .summary(Chapter::Schedules, "List schedules, by name")
        .answers(200, "A page; without `next_cursor` the last one")
        .problems(&[ProblemCode::MalformedParameter]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(list));

    fn example() -> (SchedulesQuery, Page<ScheduleView>) {
        let query = SchedulesQuery {
            limit: Limit::default(),
            cursor: cursor(),
        };
        (query, Page::whole(vec![schedule()]))
    }
}

impl Operation for GetSchedule {
    type Target = ScheduleName;
    type Input = ScheduleQuery;
    type Output = ScheduleView;
    const ABOUT: About = About::get("getSchedule", "/api/schedules/{name}", READ)
        .summary(Chapter::Schedules, "Show a schedule")
        .answers(200, "The schedule")
        .problems(&[ProblemCode::NoSuchSchedule])
        .command(["schedules", "show"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> (ScheduleQuery, ScheduleView) {
        (ScheduleQuery { next: Some(5) }, schedule())
    }
}

impl Operation for DeleteSchedule {
    type Target = ScheduleName;
    type Input = ();
    type Output = ();
    const ABOUT: About = About::delete("deleteSchedule", "/api/schedules/{name}", OPERATE)
        .summary(Chapter::Schedules, "Delete a schedule; its tasks stay")
        .preview("/api/schedules/{name}")
        .answers(204, "The schedule is deleted")
        .problems(&[ProblemCode::NoSuchSchedule, ProblemCode::ScheduleDeclared])
        .as_client()
        .command(["schedules", "delete"], &[]);

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
        .as_client()
        .command(["schedules", "pause"], &[])
        .more("what becomes due meanwhile is not caught up");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

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
        .as_client()
        .command(["schedules", "resume"], &[])
        .more("its next due time is from now on");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

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
        .links(TASK_LINKS)
        .command(["schedules", "run"], &[])
        .more("beside its due times");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(accepted));

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

/// When its tasks are submitted.
fn when(view: &ScheduleView) -> String {
    let spec = &view.spec;
    match (&spec.cron, &spec.run_at) {
        (Some(cron), _) => format!("{cron} {}", spec.zone.as_deref().unwrap_or("UTC")),
        (None, at) => at.clone().unwrap_or_default(),
    }
}

/// Its next due time, or why there is none.
#[must_use]
pub fn next(view: &ScheduleView) -> Cell {
    let none = if view.paused { "paused" } else { "never" };
    let next = view.next_due_at.clone();
    next.map_or_else(|| none.into(), Cell::Time)
}

/// What people have to know of it, where it goes on as it could not be set today.
fn warning(view: &ScheduleView) -> Option<Cell> {
    let (why, name) = (view.warning.as_ref()?, &view.name);
    let text = "goes on as it did, though it could not be set today";
    Some(format!("warning: `{name}` {text}: {why}").into())
}

/// Schedules as people see them.
#[must_use]
pub fn list(page: &Page<ScheduleView>) -> View {
    let row = |view: &ScheduleView| {
        vec![
            Cell::name(&view.name),
            Cell::of(&view.spec.task_type),
            when(view).into(),
            next(view),
            Cell::time(view.last_due_at.as_deref()),
            Cell::task(view.last_task.as_ref()),
            Cell::of(&view.origin),
        ]
    };
    let heads = [
        "schedule",
        "type",
        "when",
        "next due",
        "last due",
        "last task",
        "from",
    ];
    let table = Table::of("schedules", &heads, page.items.iter().map(row));
    let mut table = table.page(false, page.next_cursor.as_deref());
    table.below.extend(page.items.iter().filter_map(warning));
    View::Table(table)
}

/// A schedule as people see it.
#[must_use]
pub fn shown(view: &ScheduleView) -> View {
    let spec = &view.spec;
    let (name, origin, of, when) = (&view.name, view.origin, &spec.task_type, when(view));
    let mut lines = vec![
        format!("{name} ({origin}): {of} at {when}").into(),
        Cell::Parts(vec!["  next due: ".into(), next(view)]),
    ];
    if let (Some(at), Some(task)) = (&view.last_fired_at, view.last_task) {
        let due = view.last_due_at.clone();
        lines.push(Cell::Parts(vec![
            "  last fired: ".into(),
            Cell::Time(at.clone()),
            format!(", task {task}; last due time: ").into(),
            due.map_or_else(|| "none yet".into(), Cell::Time),
        ]));
    }
    lines.push(format!("  request: {}", spec.request).into());
    let (grace, misfire, overlap) = (&spec.grace, spec.misfire, spec.overlap);
    let most = spec.catch_up_limit;
    lines.push(
        format!(
            "  missed after {grace}: {misfire}; while its last task runs: {overlap}; at most {most} at once"
        )
        .into(),
    );
    let upcoming = view.upcoming.iter().cloned().map(Cell::Time);
    lines.extend(upcoming.map(|at| Cell::Parts(vec!["  due: ".into(), at])));
    lines.extend(warning(view));
    View::Lines(lines)
}

fn accepted(it: &Accepted) -> View {
    View::Lines(vec![format!("{} {}", it.task_id, it.status).into()])
}
