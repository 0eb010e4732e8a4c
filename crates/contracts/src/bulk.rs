//! Bodies of the routes for operations on many tasks. Times are RFC 3339 in UTC.

use crate::cause::FAILURE_CLASSES;
use crate::forms::{ACTOR, LONGEST_SEARCH, NOTE, ONE_LINE, WITHOUT_CONTROLS};
use crate::groups::DeadLetterGroup;
use crate::ids::TaskId;
use crate::labels::Labels;
use crate::pace::{BulkFailure, BulkResults, Pace, PausedFor};
use crate::settled::SettledAs;
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::marker::PhantomData;

/// The form of a group's id.
pub const GROUP_ID: &str = "^[0-9a-f]{16}$";

/// What a bulk operation does with each of its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BulkAction {
    /// A parked task goes on, with its retries anew: forward after a dead letter, backward after an undo
    /// that gave up.
    Redrive,
    /// A parked task is settled by hand, and ends as resolved.
    Resolve,
    /// A task that has not ended, and is not parked, is cancelled.
    Cancel,
    /// A task that has ended runs again, as a new task.
    RunAgain,
}

impl BulkAction {
    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Resolve => "resolve",
            Self::Cancel => "cancel",
            Self::RunAgain => "run-again",
        }
    }

    /// Whether it is for tasks in this state.
    #[must_use]
    pub const fn is_for(self, status: TaskStatus) -> bool {
        match self {
            Self::Redrive | Self::Resolve => status.is_parked(),
            Self::Cancel => matches!(
                status,
                TaskStatus::Submitted
                    | TaskStatus::Dispatched
                    | TaskStatus::Running
                    | TaskStatus::Waiting
            ),
            Self::RunAgain => status.is_terminal(),
        }
    }
}

impl std::fmt::Display for BulkAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value from an object alone: of a list, serde would take the fields in their order, and of an empty one all tasks.
fn by_names<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    body: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<ByNames<T>>::deserialize(body)?.map(|it| it.0))
}

struct ByNames<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByNames<T> {
    fn deserialize<D: Deserializer<'de>>(body: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with its fields by their names")
            }
            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        body.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Which tasks an operation is for. All that is given has to fit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkFilter {
    /// A search, as `GET /api/tasks?q=` takes it, each term of which is read as one thing. Answers have what it was read as in the
    /// fields below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LONGEST_SEARCH), regex(pattern = WITHOUT_CONTROLS))]
    pub q: Option<String>,
    /// Of this type, by its declared name or its route.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// In one of these states. None: in any state that the action is for; with `run-again` there has to be one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<TaskStatus>,
    /// With all of these labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// With a failure of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = FAILURE_CLASSES))]
    pub failure_class: Option<String>,
    /// With this in the text of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_text: Option<String>,
    /// Submitted not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    /// Submitted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

/// Body of `POST /api/bulk-operations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRequest {
    /// What is done with each task.
    pub action: BulkAction,
    /// With `resolve`: what has become of each task.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledAs>,
    /// With `redrive` and `run-again`: fields of the request of each task that are to be others, a JSON merge
    /// patch of RFC 7396. A task whose request would not fit its type stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// With `run-again`: the step from which each task runs; missing: from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Tasks of this group. This, or a `filter`, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = GROUP_ID))]
    pub group: Option<String>,
    /// Tasks like this. An empty one: all that the action is for.
    #[serde(
        default,
        deserialize_with = "by_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub filter: Option<BulkFilter>,
    /// How fast it goes, and where it pauses by itself. Missing: as fast as it can, to its end.
    #[serde(
        default,
        deserialize_with = "by_names",
        skip_serializing_if = "Option::is_none"
    )]
    pub pace: Option<Pace>,
    /// Why, for the audit of each task.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
    /// Counts the tasks and changes nothing.
    #[serde(default)]
    pub preview: bool,
}

/// What an operation would be for: answer to a `preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkPreview {
    /// Number of tasks.
    pub count: u64,
    /// Whether all tasks were looked at. If not: there may be more than were counted.
    pub complete: bool,
    /// The first of them: the last submitted.
    pub tasks: Vec<TaskId>,
    /// The group that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<BulkFilter>,
    /// Their causes, the most frequent first; of tasks without a failure there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<DeadLetterGroup>,
    /// What would be undone, and from where tasks would go on; missing where the action does neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<BulkUndo>,
    /// With `run-again`: number of tasks that have run again before, as new tasks. They are not counted above, and stay
    /// as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already_run_again: Option<u64>,
    /// With `run-again`: which tasks would be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<BulkRefused>,
}

/// Answer of `POST /api/bulk-operations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BulkAnswer {
    /// It was started.
    Started(BulkView),
    /// What it would be for.
    Preview(BulkPreview),
}

/// What an operation would undo, or let run, of the tasks that were looked at for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkUndo {
    /// Number of tasks that were looked at and whose code is known: the last submitted.
    pub tasks: u64,
    /// Number of tasks that were looked at and whose code this process does not have: what would become of them is not known.
    #[serde(default)]
    pub unknown: u64,
    /// Number of tasks of which a step is in doubt: it is not known how far it came.
    #[serde(default)]
    pub in_doubt: u64,
    /// Number of tasks of which an undo has given up before: they wait for a person again where its reason stands.
    #[serde(default)]
    pub gave_up: u64,
    /// Sums of the amounts in the requests of these tasks, by currency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<Amount>,
    /// How often each step would be undone, those of one type together.
    pub steps: Vec<UndoneStep>,
    /// How often tasks would go on from each step, those of one type together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goes_on: Vec<GoesOn>,
    /// The tasks that differ most from the others of their type, at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusual: Vec<UnusualTask>,
}

/// A sum of amounts of one currency, of fields that are declared with `x-amount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// The currency.
    pub currency: String,
    /// The sum, as a decimal number: `8213.40`.
    pub sum: String,
}

impl Amount {
    /// All of them: `8213.40 EUR, 1.50 CHF`.
    #[must_use]
    pub fn joined(all: &[Self]) -> String {
        let all = all.iter().map(|it| format!("{} {}", it.sum, it.currency));
        all.collect::<Vec<_>>().join(", ")
    }

    /// All of them behind what they belong to: `, 8213.40 EUR, 1.50 CHF`.
    #[must_use]
    pub fn listed(all: &[Self]) -> String {
        match all.is_empty() {
            true => String::new(),
            false => format!(", {}", Self::joined(all)),
        }
    }
}

/// A step from which tasks would go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoesOn {
    /// Its type's declared name.
    pub task_type: String,
    /// Name of the step.
    pub step: String,
    /// Number of tasks that go on from it.
    pub tasks: u64,
    /// Of them those in which its last attempt is in doubt.
    pub in_doubt: u64,
}

/// A task for which an operation would do something else than for most of its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusualTask {
    /// The task.
    pub task_id: TaskId,
    /// How it differs, in words.
    pub differs: String,
}

/// Which tasks would not run again, of those that were looked at for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRefused {
    /// Number of tasks that were looked at: the last submitted.
    pub tasks: u64,
    /// Why, the most frequent reason first; empty: none of them would be refused.
    pub reasons: Vec<RefusedFor>,
}

/// A reason for which tasks would be refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedFor {
    /// The reason, as text.
    #[schemars(regex(pattern = ONE_LINE))]
    pub reason: String,
    /// Number of tasks.
    pub tasks: u64,
}

/// A step that would be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoneStep {
    /// Its type's declared name.
    pub task_type: String,
    /// Name of the step.
    pub step: String,
    /// The function that undoes it, or `built-in`.
    #[serde(default)]
    pub undo: String,
    /// Number of tasks in which it would be undone.
    pub tasks: u64,
    /// Of them those in which it is in doubt: it is not known how far it came.
    #[serde(default)]
    pub in_doubt: u64,
    /// Of them those in which its undo has given up before.
    #[serde(default)]
    pub gave_up: u64,
    /// Sums of the amounts in its outputs, by currency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<Amount>,
}

/// How an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkStatus {
    /// API processes execute it.
    Running,
    /// It has paused, or was paused; tasks that were begun are finished.
    Paused,
    /// It was stopped, and tasks that were begun are finished.
    Stopping,
    /// It was stopped; the tasks that are left are as they were.
    Stopped,
    /// All of its tasks have been looked at.
    Done,
}

impl BulkStatus {
    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// Nothing will change any more.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Done)
    }
}

impl std::fmt::Display for BulkStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A bulk operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkView {
    /// Id of the operation.
    pub id: String,
    /// What is done with each task.
    pub action: BulkAction,
    /// With `resolve`: what has become of each task.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledAs>,
    /// What is to be different in the request of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The step from which each runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Tasks of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Tasks like this.
    pub filter: BulkFilter,
    /// Reason, for the audit.
    pub note: String,
    /// Who has started it.
    pub actor: String,
    /// How fast it goes, and where it pauses by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// State of the operation.
    pub status: BulkStatus,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_for: Option<PausedFor>,
    /// With a pace: number of its tasks that have gone wrong since it was started or resumed, as `max_failures` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_wrong: Option<u32>,
    /// What it waits for, and goes on by itself after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ONE_LINE))]
    pub waits_for: Option<String>,
    /// When it will have ended, at its pace or as fast as it has gone since it was started or resumed; missing while it is paused or
    /// waits, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expected_end: Option<String>,
    /// Number of tasks on which it was carried out.
    pub done: u64,
    /// Number of tasks on which it could not be carried out.
    pub failed: u64,
    /// Number of tasks that were modified concurrently before their turn; they were left alone.
    pub skipped: u64,
    /// With `run-again`: number of tasks that had run again before their turn, by another operation or a person; they
    /// were left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already_run_again: Option<u64>,
    /// Number of tasks that are left; missing where there were too many to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// The first failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<BulkFailure>,
    /// How its tasks stand now; in the answer about one operation alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<BulkResults>,
    /// When it was started. Tasks that are submitted, parked or have ended later are not among its tasks.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Its last change.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}
