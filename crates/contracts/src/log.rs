//! Lines that steps log, kept with their task: how they are stored, and how they are shown.

use crate::ids::Attempt;
use crate::state::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a line matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author.
    Debug,
    /// As expected.
    Info,
    /// Not as expected; the work continues.
    Warn,
    /// Gone wrong.
    Error,
}

impl LogLevel {
    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which code of a step has logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogPart {
    /// The step, or its fallback.
    Run,
    /// Its undo.
    Undo,
    /// Its probe.
    Probe,
}

impl LogPart {
    /// The code that an attempt in this direction runs.
    #[must_use]
    pub const fn of(direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self::Run,
            Direction::Undo => Self::Undo,
        }
    }

    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Undo => "undo",
            Self::Probe => "probe",
        }
    }
}

impl fmt::Display for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When it was logged: the database's time, read by the timer of the step's host.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// The step's name.
    pub step: String,
    /// What of that step.
    pub part: LogPart,
    /// Which attempt; of a probe, the one that it asks about.
    pub attempt: Attempt,
    /// How much it matters.
    pub level: LogLevel,
    /// One line, with control characters written out.
    pub message: String,
}

/// A page of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    /// In the order in which they were written.
    pub lines: Vec<LogLine>,
    /// Number of lines of the task that were dropped, the oldest first: a log is bounded.
    #[serde(default)]
    pub dropped: u64,
    /// Number of lines that cannot be read: they were erased with the payload keys of their tenant, or their
    /// key is missing here.
    #[serde(default)]
    pub unreadable: u64,
    /// Hand it back as `?cursor=` for the lines behind these, now or later; missing while there is no
    /// line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
