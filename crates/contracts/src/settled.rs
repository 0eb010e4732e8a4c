//! What a person says has become of a parked task, or of a step of it.

use crate::ids::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person says has become of a step, or of a whole task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettledAs {
    /// It has been done by hand. For a step the output comes with it.
    Done,
    /// It has been undone by hand.
    Undone,
    /// It stays as it is, effects included; the task says so with `residue`.
    Skipped,
    /// Of a whole task: its purpose is not needed any more. It stays as it is, as with `skipped`.
    NotNeeded,
    /// Of a whole task: another task has done it, which is named. It stays as it is, as with `skipped`.
    Redriven,
}

impl SettledAs {
    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Undone => "undone",
            Self::Skipped => "skipped",
            Self::NotNeeded => "not_needed",
            Self::Redriven => "redriven",
        }
    }

    /// Whether it is said of whole tasks only.
    #[must_use]
    pub const fn is_of_tasks(self) -> bool {
        matches!(self, Self::NotNeeded | Self::Redriven)
    }
}

impl std::fmt::Display for SettledAs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a person has settled a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// What has become of it.
    #[serde(rename = "as")]
    pub settled: SettledAs,
    /// The task that has done it, with `redriven`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}
