//! Why a task type takes no submission. Its submitters are told, who may be of any tenant: must not name who
//! disabled it.

use std::fmt;
use std::time::Duration;

/// Why a task type takes no submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The type's declared name.
    pub task_type: String,
    /// Why it is disabled.
    pub reason: String,
    /// Until the next submission is taken as a probe, as far as that is known.
    pub retry_after: Option<Duration>,
    /// Whether a probe is under way.
    pub probing: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is disabled: {}", self.task_type, self.reason)?;
        match self {
            Self { probing: true, .. } => {
                write!(f, "; a probe is under way: what becomes of it decides")
            }
            Self {
                retry_after: Some(_),
                ..
            } => write!(f, "; after its cooldown one task is taken as a probe"),
            Self {
                retry_after: None, ..
            } => write!(f, "; it takes tasks again once an operator enables it"),
        }
    }
}
