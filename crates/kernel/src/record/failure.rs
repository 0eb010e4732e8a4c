//! Why tasks and attempts failed, as it is stored: what is told of it, and its cause as data.

use crate::error::{ErrorClass, StepError};
use counterstep_contracts::Direction;
use counterstep_contracts::cause::{Cause, FailureClass, Origin};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The class of a failure for which no step gave a reason: too many of the task's hosts were lost.
pub(crate) const LOST: &str = FailureClass::Lost.as_str();

/// The class of a failure that leaves it unknown whether a step happened.
pub(crate) const IN_DOUBT: &str = FailureClass::InDoubt.as_str();

/// The class of a failure of rows: of the task itself, or of one whose response a step waits for.
pub(crate) const UNREADABLE: &str = FailureClass::Unreadable.as_str();

/// Why a task did not complete. A list looks for a class before the message, and for a text behind it: the
/// order of the fields counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The step that gave up, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The name of a [`FailureClass`].
    pub class: String,
    /// For people.
    pub message: String,
    /// Which way the task went; `None`: an older program wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Direction>,
    /// What the error was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
    /// What blocks the task now that it is parked, where that is another failure: of an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Box<Failure>>,
}

impl Failure {
    /// What blocks the task now.
    #[must_use]
    pub fn blocking(&self) -> &Self {
        self.blocked_by.as_deref().unwrap_or(self)
    }

    /// Its message, and that of what blocks the task.
    pub fn messages_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let blocked_by = self.blocked_by.as_deref_mut();
        std::iter::once(&mut self.message).chain(blocked_by.map(|it| &mut it.message))
    }

    /// Without its text.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause {
            side: self.side.into(),
            step: self.step.clone(),
            class: Some(self.class.clone()),
            origin: self.origin.as_deref().cloned().unwrap_or_default(),
        }
    }
}

/// Why an attempt of a step did not succeed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    /// The name of an [`ErrorClass`].
    pub class: String,
    /// For people.
    pub message: String,
    /// What the error was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
}

impl StepFailure {
    /// As the failure of the task at this step.
    #[must_use]
    pub(crate) fn of_task(self, step: &str, side: Direction) -> Failure {
        Failure {
            step: Some(step.to_owned()),
            class: self.class,
            message: self.message,
            side: Some(side),
            origin: self.origin,
            blocked_by: None,
        }
    }

    /// Whether the step stopped because it was told to.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.class == ErrorClass::Cancelled.as_str()
    }
}

impl From<&StepError> for StepFailure {
    fn from(error: &StepError) -> Self {
        Self {
            class: error.class.as_str().to_owned(),
            message: error.message.clone(),
            origin: error.origin.clone(),
        }
    }
}

/// As clients and people see it.
impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.class)
    }
}
