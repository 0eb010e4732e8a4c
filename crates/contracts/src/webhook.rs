//! Bodies of webhooks, and of the routes that list them. Times are RFC 3339 in UTC.

use crate::ids::TaskId;
use crate::labels::Labels;
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a receiver is sent: the body of a webhook, in the form of Standard Webhooks. It has no
/// response and no error: the receiver asks the API for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookBody {
    /// `task.` and the state that the task has come to, as `task.completed`.
    #[serde(rename = "type")]
    pub event: String,
    /// When it came to that state.
    pub timestamp: String,
    /// The task that it is about.
    pub data: WebhookData,
}

/// The task that a webhook is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookData {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// Its type's version.
    pub version: u32,
    /// The state that it has come to. It may have left it since: an operator may decide.
    pub status: TaskStatus,
    /// What it was labelled with.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// How the delivery of a webhook stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It is sent, or sent again, when it is due.
    Pending,
    /// The receiver answered 2xx.
    Delivered,
    /// It gave up.
    Failed,
}

impl DeliveryStatus {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Pending, Self::Delivered, Self::Failed];

    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// A webhook as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryView {
    /// Its id, the header `webhook-id`; the same however often it is sent.
    pub id: String,
    /// The type of its event.
    pub event: String,
    /// Where it goes.
    pub url: String,
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

/// The secrets with which webhooks of the caller's tenant are signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookSecretsView {
    /// `whsec_` and Base64. Each webhook is signed with all of them: there are several while the
    /// operator replaces one.
    pub secrets: Vec<String>,
}
