//! The port of what encrypts payloads at rest.

use counterstep_contracts::Tenant;
use std::fmt::Debug;

/// What every encrypted text begins with: a mark, and the form.
pub const ENCRYPTED: &str = "encrypted:1:";

/// A payload could not be encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// This process has not the key, or cannot read it: others may.
    #[error("{0}")]
    Missing(String),
    /// The key was deleted, and with it what it had encrypted.
    #[error("{0}")]
    Erased(String),
    /// What is there was not encrypted so, or not at this place.
    #[error("a payload cannot be decrypted: {0}")]
    Damaged(String),
}

/// Encrypts what clients, steps and operators hand in, before a store is given it, and decrypts what comes
/// back. Called for each row that is written or read: it must not wait.
pub trait PayloadCodec: Send + Sync + Debug {
    /// Encrypts a text of a tenant. `place`: where it will stand; it decrypts nowhere else. What it returns
    /// begins with [`ENCRYPTED`] and holds what is needed to find the key.
    fn encrypt(&self, tenant: &Tenant, place: &str, text: &str) -> Result<String, PayloadError>;

    /// The id of the key that encrypts for a tenant.
    fn key(&self, tenant: &Tenant) -> Result<String, PayloadError>;

    /// Decrypts what [`encrypt`](Self::encrypt) returned.
    fn decrypt(&self, place: &str, encrypted: &str) -> Result<String, PayloadError>;
}
