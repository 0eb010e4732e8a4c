//! API keys as rows. A row holds no key, only the hash of its secret part.

use crate::record::DbTime;
use counterstep_contracts::access::Role;
use counterstep_contracts::{Rev, Tenant};
use serde::{Deserialize, Serialize};

/// An API key. It is the body of its document, but for what stands beside that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRow {
    /// The part of the key that is no secret: 16 hexadecimal digits.
    #[serde(skip)]
    pub id: String,
    /// SHA-256 of its secret part, in hexadecimal digits.
    pub secret_hash: String,
    /// Tenant whose tasks its holder may reach.
    pub tenant: Tenant,
    /// Who holds it: its name in audits.
    pub subject: String,
    /// What its holder may do.
    pub role: Role,
    /// When it was made.
    pub created_at: DbTime,
    /// Actor that created the key.
    pub created_by: String,
    /// Until when it is valid; `None`: until it is revoked.
    pub expires_at: Option<DbTime>,
    /// When it was revoked, and by whom.
    pub revoked: Option<(DbTime, String)>,
    /// Grows with each change.
    #[serde(skip)]
    pub rev: Rev,
}

impl ApiKeyRow {
    /// Whether it is neither revoked nor expired at this time.
    #[must_use]
    pub fn is_valid_at(&self, now: DbTime) -> bool {
        self.revoked.is_none() && self.expires_at.is_none_or(|until| now < until)
    }
}

/// Rows as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRows {
    /// The database's clock when they were read.
    pub now: DbTime,
    /// The last changed first.
    pub rows: Vec<ApiKeyRow>,
}
