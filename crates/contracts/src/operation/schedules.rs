//! Schedules of a tenant: those that there are, one of them, deleting it, pausing it, resuming it, and a task of it at
//! once.

use super::command::{Flag, Preset, Takes, flag};
use super::examples::{CHANGED, MADE, OTHER, TASK, cursor};
use super::shown::{Cell, Shown, Table, View};
use super::{
    About, Access, Chapter, Cursor, Limit, Link, Operation, OtherAnswer, Param, TASK_LINKS,
    text_target,
};
use crate::access::Role;
use crate::http::{Accepted, Page};
use crate::schedule::{ScheduleOrigin, ScheduleSpec, ScheduleView};
use crate::{ProblemCode, TaskStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;

const READ: Access = Access::Role(Role::Read);
const OPERATE: Access = Access::Role(Role::Operate);

/// The name of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleName(pub String);

text_target!(
    ScheduleName,
    Param {
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
        ids: None,
    }
);

/// List schedules.
#[derive(Debug)]
pub struct ListSchedules;
/// Show a schedule.
#[derive(Debug)]
pub struct GetSchedule;
/// Make or change a schedule.
#[derive(Debug)]
pub struct PutSchedule;
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

/// Which of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SchedulesQuery {
    /// Of this type, by its declared name or its route
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Items of a page
    #[serde(default)]
    pub limit: Limit,
    /// The `next_cursor` of the page before, with the same filters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// A schedule that was set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScheduleSet {
    /// As it is now.
    pub schedule: ScheduleView,
    /// Whether there was none. No answer has it: the status shows it.
    #[serde(skip)]
    pub is_new: bool,
}

/// An answer has the schedule alone.
impl JsonSchema for ScheduleSet {
    fn schema_name() -> Cow<'static, str> {
        ScheduleView::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        ScheduleView::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ScheduleView::json_schema(generator)
    }
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
        .problems(&[ProblemCode::MalformedParameter])
        .command(["schedules", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(list));

    fn example() -> (SchedulesQuery, Page<ScheduleView>) {
        let query = SchedulesQuery {
            task_type: Some("create-report".to_owned()),
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
        .command(["schedules", "show"], &[])
        .presets(&[Preset::of(
            ["schedules", "next"],
            "Print the next due times of a schedule",
            &[("next", "5")],
            &[flag("next", "--count", Takes::Number).is("Number of due times")],
        )
        .shows("upcoming", |answer| {
            Ok(upcoming(&serde_json::from_slice(answer)?))
        })]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(shown));

    fn example() -> (ScheduleQuery, ScheduleView) {
        (ScheduleQuery { next: Some(5) }, schedule())
    }
}

const fn link(operation: &'static str) -> Link {
    Link {
        operation,
        parameter: "name",
        value: "$request.path.name",
    }
}

const LINKS: &[Link] = &[
    link("getSchedule"),
    link("deleteSchedule"),
    link("pauseSchedule"),
    link("resumeSchedule"),
    link("runSchedule"),
];

const SPEC: &[Flag] = &[
    flag("type", "--type", Takes::Text).is("The task type"),
    flag("cron", "--cron", Takes::Text)
        .is("Five fields (minute, hour, day of the month, month, day of the week), or six with the second first")
        .one_of(),
    flag("zone", "--zone", Takes::Text).is("The time zone of the expression [default: UTC]"),
    flag("run_at", "--run-at", Takes::Text).is("Once, at this time, as 2026-12-24T18:00:00+01:00")
        .one_of(),
    flag("request", "--request", Takes::JsonOrFile).is(
        "The request of each task: JSON, the path of a file with it, or - for standard input [default: an empty object]",
    ),
    flag("misfire", "--misfire", Takes::Word)
        .is("What becomes of due times that no reconciler fired in time [default: fire-once]"),
    flag("overlap", "--overlap", Takes::Word)
        .is("What becomes of a due time while the last task runs [default: skip]"),
    flag("catch_up_limit", "--catch-up-limit", Takes::Number)
        .is("Maximum number of due times that fire at once, the newest [default: 100]"),
    flag("grace", "--grace", Takes::Text)
        .is("A due time counts as missed when it is later than this [default: 1m]"),
];

impl Operation for PutSchedule {
    type Target = ScheduleName;
    type Input = ScheduleSpec;
    type Output = ScheduleSet;
    const ABOUT: About = About::put("putSchedule", "/api/schedules/{name}", OPERATE)
        .summary(Chapter::Schedules, "Make or change a schedule")
        .preview("/api/schedules/{name}")
        .answers(200, "The schedule is changed")
        .links(LINKS)
        .problems(&[ProblemCode::ScheduleDeclared])
        .as_client()
        .command(["schedules", "set"], SPEC);
    const OTHER: Option<OtherAnswer<ScheduleSet>> = Some(OtherAnswer {
        status: 201,
        answers: "The schedule is made",
        is_it: |set| set.is_new,
        example: || set(true),
        schemas: None,
    });
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|set| shown(&set.schedule)));

    fn example() -> (ScheduleSpec, ScheduleSet) {
        (schedule().spec, set(false))
    }
}

fn set(is_new: bool) -> ScheduleSet {
    ScheduleSet {
        schedule: schedule(),
        is_new,
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

fn schedule() -> ScheduleView {
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
fn next(view: &ScheduleView) -> Cell {
    let none = if view.paused { "paused" } else { "never" };
    let next = view.next_due_at.clone();
    next.map_or_else(|| none.into(), Cell::Time)
}

fn upcoming(view: &ScheduleView) -> View {
    View::Lines(match &*view.upcoming {
        [] => vec![next(view)],
        times => times.iter().map(Cell::of).collect(),
    })
}

/// What people have to know of it, where it goes on as it could not be set today.
fn warning(view: &ScheduleView) -> Option<Cell> {
    let (why, name) = (view.warning.as_ref()?, &view.name);
    let text = "goes on as it did, though it could not be set today";
    Some(format!("warning: `{name}` {text}: {why}").into())
}

fn list(page: &Page<ScheduleView>) -> View {
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

fn shown(view: &ScheduleView) -> View {
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

pub(crate) fn accepted(it: &Accepted) -> View {
    View::Lines(vec![format!("{} {}", it.task_id, it.status).into()])
}
