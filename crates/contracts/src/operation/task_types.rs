//! Task types: which there are, whether one takes submissions, and how long its tasks and steps take.

use super::command::{Flag, NOTE, Takes, flag};
use super::examples::{CHANGED, MADE, TASK};
use super::query::label;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, GateMove, Operation, Time, text_target};
use crate::access::Role;
use crate::disable::{SwitchRequest, SwitchView};
use crate::durations::{HourDurations, Percentiles, StepDurations, TypeDurations};
use crate::gate::GateKind;
use crate::http::Page;
use crate::task_type::TaskTypeView;
use crate::{ProblemCode, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of a task type in kebab-case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRoute(pub String);

text_target!(
    TypeRoute,
    "type",
    "The name of the type in kebab-case",
    "create-zip-from-files"
);

/// List the task types.
#[derive(Debug)]
pub struct ListTaskTypes;
/// Take no more submissions of a type.
#[derive(Debug)]
pub struct DisableTaskType;
/// Take submissions of a type again.
#[derive(Debug)]
pub struct EnableTaskType;

impl Operation for ListTaskTypes {
    type Target = ();
    type Input = ();
    type Output = Page<TaskTypeView>;
    const ABOUT: About = About::get("listTaskTypes", "/api/task-types", Access::Role(Role::Read))
        .summary(
            Chapter::Types,
            "List the declarations that this process knows",
        )
        .answers(200, "All of them")
        .command(["types", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(types));

    fn example() -> ((), Page<TaskTypeView>) {
        let view = TaskTypeView {
            declaration: declaration(),
            submit_to: "/api/tasks/book-seat".to_owned(),
            definition_hash: "9b1d6c0c7d3f8a52".to_owned(),
            switch: SwitchView {
                reason: None,
                by: None,
                ..switch("")
            },
            signals: BTreeMap::new(),
        };
        ((), Page::whole(vec![view]))
    }
}

fn declaration() -> Value {
    let retry = json!({
        "backoff": "exponential", "base": "500ms", "cap": "1h", "max_retries": 3, "jitter": true,
        "attempt_timeout": null,
    });
    let step = json!({
        "no": 1, "name": "reserve", "host": "worker", "kind": "custom",
        "inputs": [{ "name": "order", "source": "request", "ty": "Order" }],
        "output": "Seat", "retry": { "name": "PATIENT", "policy": retry }, "breaker": null, "limit": null,
        "undo": { "kind": "function", "name": "release" },
        "undo_retry": { "name": "undo", "policy": retry },
        "on_exhausted": "compensate", "timeout": null, "heartbeat": null, "scratch": null,
        "isolate": null, "group": null, "heavy": false,
        "when_cut_off": "stop", "when": null, "waits": null, "fallback": null, "probe": null,
        "probe_retry": null, "on_probe_failure": "park",
    });
    json!({
        "name": "BookSeat", "version": 1, "queue": "default", "timeout": "5m", "lease": null,
        "max_recoveries": 5, "on_lost": "requeue", "cancellable": true, "on_undo_failure": "continue",
        "auto_disable": null, "labels": [],
        "flow": {
            "key": "req.customer", "priority": "normal",
            "concurrency": { "at_once": 1, "beyond": "wait", "debounce": null },
        },
        "request": "Order", "response": "String", "steps": [step],
    })
}

fn types(page: &Page<TaskTypeView>) -> View {
    let row = |it: &TaskTypeView| {
        let switch = &it.switch;
        let is_disabled = switch.disabled_since.is_some();
        let probe = match (switch.probe, &switch.probe_from) {
            (Some(task), _) => Cell::Task(task.to_string()),
            (None, Some(from)) => Cell::Parts(vec!["from ".into(), Cell::Time(from.clone())]),
            (None, None) if is_disabled => "none: `types enable` enables it".into(),
            (None, None) => Cell::NONE,
        };
        vec![
            Cell::name(&switch.task_type),
            it.declaration.get("version").map_or(Cell::NONE, Cell::of),
            if is_disabled { "no" } else { "yes" }.into(),
            Cell::time(switch.disabled_since.as_deref()),
            Cell::text(switch.by.as_deref()),
            Cell::text(switch.reason.as_deref()),
            probe,
        ]
    };
    let heads = [
        "type",
        "version",
        "takes tasks",
        "since",
        "by",
        "reason",
        "probe",
    ];
    View::Table(Table::of("task types", &heads, page.items.iter().map(row)))
}

impl Operation for DisableTaskType {
    type Target = TypeRoute;
    type Input = SwitchRequest;
    type Output = SwitchView;
    const ABOUT: About = About::post(
        "disableTaskType",
        "/api/task-types/{id}/disable",
        Access::Installation,
    )
    .summary(Chapter::Types, "Take no more submissions of a type")
    .answers(200, "The type takes none")
    .problems(&[ProblemCode::NoSuchTaskType])
    .command(["types", "disable"], &[NOTE])
    .of_gate(GateMove::Set, GateKind::TaskType)
    .more("tasks that were accepted go on");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (SwitchRequest, SwitchView) {
        let disabled = SwitchView {
            disabled_since: Some(CHANGED.to_owned()),
            ..switch("the bank is down until noon")
        };
        (request(), disabled)
    }
}

impl Operation for EnableTaskType {
    type Target = TypeRoute;
    type Input = SwitchRequest;
    type Output = SwitchView;
    const ABOUT: About = About::post(
        "enableTaskType",
        "/api/task-types/{id}/enable",
        Access::Installation,
    )
    .summary(Chapter::Types, "Take submissions of a type again")
    .answers(200, "The type takes them")
    .problems(&[ProblemCode::NoSuchTaskType])
    .command(["types", "enable"], &[NOTE])
    .of_gate(GateMove::Reset, GateKind::TaskType)
    .more("failures from before do not count any more");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(line));

    fn example() -> (SwitchRequest, SwitchView) {
        (request(), switch("the bank is back"))
    }
}

const SINCE: Flag = flag("since", "--since", Takes::Text)
    .is("Of tasks that ended since: a duration (2h) or a time");
const UNTIL: Flag = flag("until", "--until", Takes::Text)
    .is("Of tasks that ended until: a duration (2h) or a time");

const LABEL: Flag = flag("label", "--label", Takes::Text)
    .is("Of tasks with this label alone, as customer=4711: one that metrics_labels lists");

/// How long the tasks of a type took.
#[derive(Debug)]
pub struct GetTypeDurations;

/// Of which tasks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DurationsQuery {
    /// Of tasks that ended in the hour of this time, or later; missing: in the last 24 hours
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Of tasks that ended in the hour of this time, or before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// A time in milliseconds with which the tasks are compared
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Of tasks with this label alone, `name=value`: one that the setting `metrics_labels` lists
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label")]
    pub label: Option<String>,
}

impl Operation for GetTypeDurations {
    type Target = TypeRoute;
    type Input = DurationsQuery;
    type Output = TypeDurations;
    const ABOUT: About = About::get(
        "getTypeDurations",
        "/api/task-types/{id}/durations",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Types,
        "Look at how long the tasks of a type and their steps took, by the hour",
    )
    .answers(200, "Of the last 30 days at most")
    .problems(&[ProblemCode::NoSuchTaskType, ProblemCode::InvalidLabel])
    .command(["types", "durations"], &[SINCE, UNTIL, LABEL]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(durations));

    fn example() -> (DurationsQuery, TypeDurations) {
        let query = DurationsQuery {
            since: Some(Time(MADE.to_owned())),
            until: Some(Time(CHANGED.to_owned())),
            took_ms: Some(2_000),
            label: Some("customer=4711".to_owned()),
        };
        let took = Percentiles {
            count: 104,
            p50_ms: 310,
            p95_ms: 2_400,
            p99_ms: 9_100,
        };
        let charge = StepDurations {
            step: "charge".to_owned(),
            took,
            max_ms: 30_012,
            slowest: TASK,
        };
        let ended = [
            (TaskStatus::Completed, 104),
            (TaskStatus::Failed, 3),
            (TaskStatus::DeadLettered, 2),
        ];
        let ended = BTreeMap::from(ended);
        let hour = HourDurations {
            hour: MADE.to_owned(),
            ended: ended.clone(),
            tasks: Some(took),
            steps: vec![charge.clone()],
        };
        let found = TypeDurations {
            ended,
            tasks: Some(took),
            steps: vec![charge],
            hours: vec![hour],
            slower_than: Some(94),
            counted_until: Some(CHANGED.to_owned()),
            labels: vec!["customer".to_owned()],
            values: vec!["4711".to_owned(), "4712".to_owned()],
        };
        (query, found)
    }
}

fn durations(found: &TypeDurations) -> View {
    let row = |of: &str, took: &Percentiles, longest: Option<&StepDurations>| {
        vec![
            Cell::name(&of),
            Cell::number(took.count),
            Cell::number(took.p50_ms),
            Cell::number(took.p95_ms),
            Cell::number(took.p99_ms),
            longest.map_or(Cell::NONE, |it| Cell::number(it.max_ms)),
            Cell::task(longest.map(|it| &it.slowest)),
        ]
    };
    let heads = [
        "of",
        "measured",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest ms",
        "slowest task",
    ];
    let whole = found.tasks.iter();
    let whole = whole.map(|took| row("(tasks that completed)", took, None));
    let steps = found.steps.iter();
    let steps = steps.map(|it| row(&it.step, &it.took, Some(it)));
    let rows = whole.chain(steps);
    let mut table = Table::of("durations in this time", &heads, rows);
    let ended = found.ended.iter();
    let ended: Vec<String> = ended
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    if !ended.is_empty() {
        table
            .below
            .push(format!("ended or parked: {}", ended.join(", ")).into());
    }
    let until = found.counted_until.iter();
    let until = until.map(|until| format!("the last task that is counted ended at {until}").into());
    table.below.extend(until);
    View::Table(table)
}

fn request() -> SwitchRequest {
    SwitchRequest {
        note: "the bank is down until noon".to_owned(),
        actor: Some("kim".to_owned()),
    }
}

fn switch(reason: &str) -> SwitchView {
    SwitchView {
        task_type: "BookSeat".to_owned(),
        disabled_since: None,
        reason: Some(reason.to_owned()),
        by: Some("operator:kim".to_owned()),
        probe_from: None,
        probe: None,
    }
}

fn line(view: &SwitchView) -> View {
    let mut parts = vec![Cell::Text(view.task_type.clone())];
    match &view.disabled_since {
        Some(since) => parts.extend([" is disabled since ".into(), Cell::Time(since.clone())]),
        None => parts.push(" is enabled".into()),
    }
    parts.extend([" by ".into(), Cell::text(view.by.as_deref())]);
    parts.extend([": ".into(), Cell::text(view.reason.as_deref())]);
    View::Lines(vec![Cell::Parts(parts)])
}
