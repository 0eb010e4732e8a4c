//! The port of what seals payloads at rest.

use counterstep_contracts::Tenant;
use std::fmt::Debug;

/// What every sealed text begins with: a mark, and the form.
pub const SEALED: &str = "sealed:1:";

/// A payload could not be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The key is missing: it was deleted, or this process was not given it.
    #[error("{0}")]
    NoKey(String),
    /// What is there was not sealed so, or not at this place.
    #[error("a sealed payload cannot be opened: {0}")]
    Damaged(String),
    /// The keys cannot be read now.
    #[error("the payload keys cannot be read: {0}")]
    Unavailable(String),
}

/// Seals what clients, steps and operators hand in, before a store is given it, and opens what comes
/// back. Called for each row that is written or read: it must not wait.
pub trait PayloadCodec: Send + Sync + Debug {
    /// Seals a text of a tenant. `place`: where it will stand; it opens nowhere else. What it returns
    /// begins with [`SEALED`] and holds what is needed to find the key.
    fn seal(&self, tenant: &Tenant, place: &str, text: &str) -> Result<String, PayloadError>;

    /// Opens what [`seal`](Self::seal) returned.
    fn open(&self, place: &str, sealed: &str) -> Result<String, PayloadError>;
}
