//! How long the tasks of a type and their steps took, and how tasks ended or were parked, by the hour. Times are RFC 3339 in UTC. Must
//! not know where that is counted.

use crate::ids::TaskId;
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tasks of a type that ended or were parked in a range of time, and their steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeDurations {
    /// How many tasks ended, or were parked, in each state: a parked one counts each time it was found parked. A state without any is
    /// left out.
    pub ended: BTreeMap<TaskStatus, u64>,
    /// How long those took that completed, from their submission; missing where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Percentiles>,
    /// Its steps, the one with the longest 95th percentile first.
    pub steps: Vec<StepDurations>,
    /// The same by the hour, the oldest first. Hours in which no task ended or was parked are left out.
    pub hours: Vec<HourDurations>,
    /// Of 100 tasks that completed, how many took less time than the one that was asked for, rounded down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub slower_than: Option<u8>,
    /// When the last task ended that is counted, of all tenants; missing where no reconciler has counted any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub counted_until: Option<String>,
    /// Names of the labels by whose values tasks are counted too, without their steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Of the label that was asked for: the values that tasks had in this time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How long something took, in milliseconds. Each is at most 5 %, or half a millisecond, away from what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// How often it was measured.
    pub count: u64,
    /// Half took no longer.
    pub p50_ms: u64,
    /// 95 of 100 took no longer.
    pub p95_ms: u64,
    /// 99 of 100 took no longer.
    pub p99_ms: u64,
}

/// How long the attempts at a step took that succeeded or failed, from the change that started one to the change that ended it. What
/// is part of the submission is not counted; and of many tasks, the attempts of some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepDurations {
    /// Name of the step.
    pub step: String,
    /// How long they took.
    #[serde(flatten)]
    pub took: Percentiles,
    /// The longest of them.
    pub max_ms: u64,
    /// The task of the longest one.
    pub slowest: TaskId,
}

/// The tasks of a type that ended or were parked in an hour, and their steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HourDurations {
    /// Its begin.
    #[schemars(extend("format" = "date-time"))]
    pub hour: String,
    /// How many tasks ended, or were parked, in each state.
    pub ended: BTreeMap<TaskStatus, u64>,
    /// How long those took that completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Percentiles>,
    /// Its steps, by name.
    pub steps: Vec<StepDurations>,
}
