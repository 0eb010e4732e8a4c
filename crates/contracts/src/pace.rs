//! How fast an operation on many tasks goes and where it pauses by itself, and what became of each of its tasks. Times are RFC 3339
//! in UTC.

use crate::bulk::BulkAction;
use crate::forms::ONE_LINE;
use crate::ids::TaskId;
use crate::state::{TaskStatus, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of tasks of a sample, and of failures.
pub const MOST_OF_PACE: u32 = 100_000;

/// Maximum number of tasks a minute.
pub const MOST_PER_MINUTE: u32 = 60_000;

/// How fast an operation goes, and where it pauses by itself. While a circuit breaker of a step of its next tasks is open, an
/// operation with a pace waits; when that lets one attempt through again, it goes on with one task, and with more once it closes. Tasks
/// that are undone, cancelled or settled wait for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// Decides on this many tasks, and pauses until a person resumes it. A cancel decides on the selected tasks above one with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_OF_PACE))]
    pub sample: Option<u32>,
    /// Maximum number of tasks that it decides on in a minute, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_PER_MINUTE))]
    pub per_minute: Option<u32>,
    /// Pauses when this many of its tasks have gone wrong since it was started or resumed: it could not be carried out on them, or they
    /// are parked (again), or were to go on and have ended as failed. At most four times as many, and 20 to 500, of its tasks are
    /// under way at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_OF_PACE))]
    pub max_failures: Option<u32>,
}

text_enum!(
    /// Why an operation is paused.
    PausedFor {
        /// It has decided on its sample.
        Sample = "sample",
        /// As many of its tasks have gone wrong as `max_failures` says.
        Failures = "failures",
        /// A person has paused it.
        Person = "person",
    }
);

text_enum!(
    /// What became of a task in an operation.
    BulkOutcome {
        /// The operation was carried out.
        Done = "done",
        /// It could not be carried out.
        Failed = "failed",
        /// The task was modified concurrently before its turn, and left alone.
        Skipped = "skipped",
        /// The task had run again before its turn, and was left alone.
        AlreadyRunAgain = "already_run_again",
    }
);

/// A task for which an operation could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkFailure {
    /// Id of the task.
    pub task_id: TaskId,
    /// The reason, as text.
    #[schemars(regex(pattern = ONE_LINE))]
    pub reason: String,
}

/// A task of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkTask {
    /// The task.
    pub task_id: TaskId,
    /// What became of it in the operation.
    pub outcome: BulkOutcome,
    /// Why it could not be carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ONE_LINE))]
    pub reason: Option<String>,
    /// With `run-again`: the new task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_task_id: Option<TaskId>,
    /// State of the task now, with `run-again` of the new one; missing where it was deleted, or cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
}

/// How tasks stand now on which an operation was carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkResults {
    /// Number of tasks that were looked at: those of the first 500 on which it was carried out.
    pub tasks: u64,
    /// How many of them are in each state now; with `run-again` of the new tasks. A state that none is in is left out.
    pub by_status: BTreeMap<TaskStatus, u64>,
    /// Number of them that were deleted since, or cannot be read.
    #[serde(default)]
    pub deleted: u64,
}

/// A decision about tasks of a cause, and how those stand now on which it was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastDecision {
    /// Id of the operation.
    pub operation: String,
    /// What was done with each task.
    pub action: BulkAction,
    /// Reason, for the audit.
    pub note: String,
    /// Who has started it.
    pub actor: String,
    /// When it was started.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// How its tasks stand now.
    pub results: BulkResults,
}

impl PausedFor {
    /// Why, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Sample => "it has decided on its sample, and waits for a person",
            Self::Failures => "as many of its tasks have gone wrong as `max_failures` says",
            Self::Person => "a person has paused it",
        }
    }
}

impl BulkResults {
    /// How they stand, in words: `40 completed, 1 dead_lettered`.
    #[must_use]
    pub fn states(&self) -> String {
        let all = self.by_status.iter();
        let mut all: Vec<String> = all
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        if self.deleted > 0 {
            all.push(format!("{} not there", self.deleted));
        }
        all.join(", ")
    }

    /// The same, with of how many.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "of {} that were done first, now: {}",
            self.tasks,
            self.states()
        )
    }
}
