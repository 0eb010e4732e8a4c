//! How long the steps of a task type take. Must not know where that is read.

use crate::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The steps of a task type, by how long they take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowSteps {
    /// The one with the longest 95th percentile first.
    pub items: Vec<SlowStep>,
    /// Tasks that were looked at: the newest ones of the caller's tenant.
    pub tasks: u32,
    /// `false`: the journals of these tasks are long, and what the oldest of them did was not read.
    pub complete: bool,
}

/// How long the attempts at a step took, from the change that started one to the change that ended it: those that succeeded or
/// failed. What is part of the submission is not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowStep {
    /// Name of the step.
    pub step: String,
    /// Attempts that have ended.
    pub count: u32,
    /// Half of them took no longer, in milliseconds.
    pub median_ms: u64,
    /// 95 of 100 took no longer.
    pub p95_ms: u64,
    /// The longest one.
    pub max_ms: u64,
    /// The task of the longest one.
    pub slowest: TaskId,
}
