//! Who may do what over HTTP: the roles, and the bodies of the routes for API keys.

use crate::forms::{DURATION, SUBJECT, TENANT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a caller may do. Each role includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read tasks, their files, schedules and task types of its tenant.
    Read,
    /// Submit tasks, cancel them, send them signals.
    Submit,
    /// Decide about parked tasks, also about many at a time, set schedules, send webhooks again.
    Operate,
    /// List, make and revoke API keys of its tenant. In the tenant `default`, which is that of the installation, also
    /// what is about all tenants: keys of any, task types, queues, limits, processes and their metrics.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Submit, Self::Operate, Self::Admin];

    /// Its text in settings, keys and tokens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRole(pub String);

impl std::fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "unknown role `{}`: expected read, submit, operate or admin",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for UnknownRole {}

impl std::str::FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.iter().copied();
        all.find(|role| role.as_str() == text)
            .ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// Body of `POST /api/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewKeyRequest {
    /// Tenant whose tasks its holder may reach; missing: the caller's tenant. Another tenant is for administrators of
    /// the tenant `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = TENANT))]
    pub tenant: Option<String>,
    /// Who holds it: its name in audits. 1 to 100 of `A-Z a-z 0-9 . _ @ -`.
    #[schemars(regex(pattern = SUBJECT))]
    pub subject: String,
    /// What its holder may do.
    pub role: Role,
    /// For how long it is valid, as `90d`; missing: until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION))]
    pub expires_in: Option<String>,
}

/// Answer to it: the only one that holds the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewKey {
    /// `cs_{id}_{secret}`, for `Authorization: Bearer`. It is stored as a hash and never shown again.
    pub key: String,
    /// All else.
    #[serde(flatten)]
    pub view: KeyView,
}

/// An API key as it is listed. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    /// The part of the key that is no secret.
    pub id: String,
    /// Tenant whose tasks its holder may reach.
    pub tenant: String,
    /// Subject that holds the key.
    pub subject: String,
    /// What its holder may do.
    pub role: Role,
    /// When it was made.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Actor that created the key.
    pub created_by: String,
    /// Until when it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub revoked_at: Option<String>,
    /// Who revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
}

/// Answer of `GET /api/caller`: who sends the request, as the API has found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerView {
    /// Tenant whose tasks it reaches.
    pub tenant: String,
    /// Its name in audits; missing where callers are not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it may do.
    pub role: Role,
    /// Whether it may see and change what is of all tenants: it has the role `admin` in the tenant `default`.
    pub is_of_installation: bool,
    /// The id of its API key, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
