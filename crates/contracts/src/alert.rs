//! Alerts: what operators are told of by the webhook of the installation, and how those stand that were sent.
//! Times are RFC 3339 in UTC.

use crate::cause::Cause;
use crate::ids::{TaskId, Tenant};
use crate::webhook::DeliveryStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertEvent {
    /// Tasks gave up, and are parked as their policy says.
    DeadLettered,
    /// The undo of tasks has given up.
    CompensationFailed,
    /// Tasks cannot be read.
    Quarantined,
    /// A task type was disabled, since its tasks fail.
    TypeDisabled,
    /// A breaker has opened: a dependency does not answer.
    BreakerOpen,
    /// A worker that cannot reach the database keeps more and more results on its disk.
    SpoolGrowing,
    /// A person looks whether alerts arrive.
    Test,
}

impl AlertEvent {
    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLettered => "dead_lettered",
            Self::CompensationFailed => "compensation_failed",
            Self::Quarantined => "quarantined",
            Self::TypeDisabled => "type_disabled",
            Self::BreakerOpen => "breaker_open",
            Self::SpoolGrowing => "spool_growing",
            Self::Test => "test",
        }
    }
}

impl std::fmt::Display for AlertEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an alert says: of parked tasks their cause, of others what they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertData {
    /// Tenant of the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// Their type's declared name; or the type that was disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The step that gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The class of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What blocks them.
    // A program before kept another value in a field of this name beside it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "known"
    )]
    pub cause: Option<Cause>,
    /// The text of the failure, with `#` in place of what differs from task to task. Missing where payloads are
    /// encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The id of the group of dead letters, for a redrive. Missing where payloads are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Tasks of this cause that were parked when the alert was sent first, as far as they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// One of them: the first of this hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<TaskId>,
    /// The breaker, or the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// More, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Cause>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Known {
        Cause(Cause),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Known::deserialize(from)? {
        Known::Cause(cause) => Some(cause),
        Known::Other(_) => None,
    })
}

/// What is sent, in the form of Standard Webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertBody {
    /// `alert.` and what it is about, as `alert.dead_lettered`.
    #[serde(rename = "type")]
    pub event: String,
    /// When it was seen.
    pub timestamp: String,
    /// Details of the event.
    pub data: AlertData,
}

/// An alert as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertView {
    /// Its id, the header `webhook-id`; the same however often it is sent.
    pub id: String,
    /// What it is about.
    pub event: AlertEvent,
    /// Details of the event.
    pub data: AlertData,
    /// State of the delivery.
    pub status: DeliveryStatus,
    /// Times it was sent.
    pub attempts: u32,
    /// When it is sent next, while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub due_at: Option<String>,
    /// What came of the last attempt: the status of the answer, or why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// When it was last changed.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}
