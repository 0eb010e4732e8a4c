//! Which secrets a process may have. Must not know where one is.

use super::groups::Group;
use serde::Deserialize;

/// A secret by its name, as a file of the folder and as a key of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secret {
    /// The password of the database's user, or its whole URL.
    Database,
    /// The login for NATS.
    Nats,
    /// The password of Redis, or its whole URL.
    Redis,
    /// The keys of the object store.
    Objects,
    /// The token for the collector of spans.
    Collector,
    /// What signs links to results.
    Links,
    /// What signs webhooks.
    Webhooks,
    /// What seals kept results.
    Seal,
}

impl Secret {
    /// The settings that it belongs to: a command that does not take these must not need it either.
    pub(super) const fn group(self) -> Group {
        match self {
            Self::Database => Group::Database,
            Self::Nats => Group::Nats,
            Self::Redis => Group::Redis,
            Self::Objects => Group::Objects,
            Self::Collector => Group::Traces,
            Self::Links | Self::Webhooks => Group::Api,
            Self::Seal => Group::Worker,
        }
    }
}
