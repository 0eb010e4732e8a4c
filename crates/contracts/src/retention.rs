//! How long tasks that have ended are kept, as declared and as the settings say it.

use crate::retry::parse_duration;
use crate::state::TaskStatus;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// What becomes of a task some time after it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// It is never deleted.
    #[default]
    Forever,
    /// It is deleted with its objects this long after it ended.
    ThenDelete(Duration),
    /// Its rows are written to the archive first.
    ThenArchive(Duration),
}

impl Keep {
    /// Deletes a task this long after it ended, as `"30d"`.
    ///
    /// # Panics
    /// When it is no duration above 0; in a constant that is an error while compiling.
    #[must_use]
    #[track_caller]
    pub const fn delete_after(after: &str) -> Self {
        Self::ThenDelete(above_zero(after))
    }

    /// Archives and deletes a task this long after it ended, as `"90d"`.
    ///
    /// # Panics
    /// When it is no duration above 0; in a constant that is an error while compiling.
    #[must_use]
    #[track_caller]
    pub const fn archive_after(after: &str) -> Self {
        Self::ThenArchive(above_zero(after))
    }

    /// How long after its end; `None`: never.
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::ThenDelete(after) | Self::ThenArchive(after) => Some(after),
        }
    }
}

#[track_caller]
const fn above_zero(text: &str) -> Duration {
    match parse_duration(text) {
        Some(duration) if !duration.is_zero() => duration,
        Some(_) | None => {
            panic!("no duration above 0: write a whole number and a unit, as 12h, 30d")
        }
    }
}

/// What becomes of the tasks of a type, by how they ended: `[retention.TYPE]` of the settings file,
/// each as `"keep"` or as `{ after = "30d", then = "delete" }`, or `"archive"`. What is left out
/// stays as declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Completed tasks.
    pub completed: Option<Keep>,
    /// Failed tasks.
    pub failed: Option<Keep>,
    /// Cancelled tasks.
    pub cancelled: Option<Keep>,
    /// Tasks that a person has resolved.
    pub resolved: Option<Keep>,
}

/// The states in which a task has ended.
pub const ENDED: [TaskStatus; 4] = [
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
    TaskStatus::Resolved,
];

impl Retention {
    /// What is said of tasks that ended like this; `None`: nothing, or they have not ended.
    #[must_use]
    pub const fn of(&self, status: TaskStatus) -> Option<Keep> {
        match status {
            TaskStatus::Completed => self.completed,
            TaskStatus::Failed => self.failed,
            TaskStatus::Cancelled => self.cancelled,
            TaskStatus::Resolved => self.resolved,
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Compensating
            | TaskStatus::CompensationFailed
            | TaskStatus::DeadLettered => None,
        }
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Word(String),
            Rule(Rule),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Rule {
            after: String,
            then: String,
        }
        const EXPECTED: &str =
            "expected \"keep\", or { after = \"30d\", then = \"delete\" }, or then = \"archive\"";
        match Said::deserialize(deserializer).map_err(|_| D::Error::custom(EXPECTED))? {
            Said::Word(word) if word == "keep" => Ok(Self::Forever),
            Said::Word(word) => Err(D::Error::custom(format_args!(
                "`{}`: {EXPECTED}",
                word.escape_debug()
            ))),
            Said::Rule(Rule { after, then }) => {
                let after = parse_duration(&after).filter(|after| !after.is_zero()).ok_or_else(|| {
                    D::Error::custom(format_args!(
                        "`{}` is no duration above 0: write a whole number and a unit, as 12h, 30d",
                        after.escape_debug()
                    ))
                })?;
                match then.as_str() {
                    "delete" => Ok(Self::ThenDelete(after)),
                    "archive" => Ok(Self::ThenArchive(after)),
                    other => Err(D::Error::custom(format_args!(
                        "`{}`: {EXPECTED}",
                        other.escape_debug()
                    ))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_settings_say_is_read() {
        let read = |text: &str| serde_json::from_str::<Retention>(text);
        let rules = read(r#"{"completed": {"after": "30d", "then": "archive"}, "failed": "keep"}"#)
            .unwrap();
        assert_eq!(
            rules.of(TaskStatus::Completed),
            Some(Keep::ThenArchive(Duration::from_secs(30 * 86_400)))
        );
        assert_eq!(
            (
                rules.of(TaskStatus::Failed),
                rules.of(TaskStatus::Cancelled)
            ),
            (Some(Keep::Forever), None)
        );
        assert_eq!(rules.of(TaskStatus::Running), None);
        for (wrong, said) in [
            (r#"{"completed": "burn"}"#, "expected \"keep\""),
            (
                r#"{"completed": {"after": "soon", "then": "delete"}}"#,
                "no duration above 0",
            ),
            (
                r#"{"completed": {"after": "1d", "then": "burn"}}"#,
                "`burn`",
            ),
            (r#"{"completed": {"after": "1d"}}"#, "expected \"keep\""),
            (r#"{"running": "keep"}"#, "unknown field"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
