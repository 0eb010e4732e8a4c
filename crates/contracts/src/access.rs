//! Who may do what over HTTP: the roles, and the bodies of the routes for API keys.

use serde::{Deserialize, Serialize};

/// What a caller may do. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read tasks, their files, schedules and task types of its tenant.
    Read,
    /// Submit tasks, cancel them, send them signals.
    Submit,
    /// Decide about parked tasks, set schedules, look at the processes.
    Operate,
    /// What is about all tenants: make and revoke API keys, disable task types, read the metrics.
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
