//! Open effects: what steps of tasks at rest have done outside, and nothing has taken back.

use crate::bulk::Amount;
use crate::state::text_enum;
use crate::{StepNo, TaskId, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

text_enum!(
    /// Why an effect is open.
    OpenEffectKind {
        /// It may be there or not: the last attempt of its step did not tell.
        InDoubt = "in_doubt",
        /// Its step has done it and its undo gave up: it is there, unless an attempt of the undo did more than it told.
        UndoFailed = "undo_failed",
        /// Its task is parked: it is there until a person decides.
        Parked = "parked",
        /// Its task has ended and it is there on purpose: by `on_exhausted = "fail"`, or because a person settled the task so.
        Left = "left",
        /// It is there, and stays: the declaration waives its undo.
        Waived = "waived",
    }
);

/// An effect of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffect {
    /// Number of the step.
    pub no: StepNo,
    /// Name of the step.
    pub step: String,
    /// Why it is open.
    pub kind: OpenEffectKind,
    /// The same for people.
    pub reason: String,
    /// The service that the last failure of the step or its undo names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The amounts that its output declares; where it has none yet, those of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<Amount>,
}

/// A task with open effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffects {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// State of the task.
    pub status: TaskStatus,
    /// When it was last changed, in UTC.
    pub since: String,
    /// Its open effects, the last step first.
    pub effects: Vec<OpenEffect>,
}

/// Open effects of one kind, of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffectSum {
    /// Declared name of the type.
    pub task_type: String,
    /// Name of the step.
    pub step: String,
    /// Why they are open.
    pub kind: OpenEffectKind,
    /// The service that the failures of the step or its undo name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// How many.
    pub effects: u64,
    /// The least `since` of their tasks, in UTC.
    pub oldest: String,
    /// Sums of their amounts, one of each currency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<Amount>,
    /// One of the tasks: the newest.
    pub example: TaskId,
}

/// Open effects, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEffectSums {
    /// By kind, and of a kind the most frequent first.
    pub sums: Vec<OpenEffectSum>,
    /// Tasks with open effects that were counted.
    pub tasks: u64,
    /// Tasks whose type this program does not know, or whose rows it cannot read: what they have done is not counted.
    pub unknown: u64,
    /// Whether all tasks were looked at; otherwise the newest parked ones, and the newest that have ended.
    pub complete: bool,
}
