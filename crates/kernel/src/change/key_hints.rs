//! Under which name a hint remembers an idempotency key.

use crate::digest::hex;
use counterstep_contracts::Tenant;
use sha2::{Digest, Sha256};

/// A client's key is of any length and may tell something about the client: only its digest leaves
/// the database.
pub(crate) fn hint(tenant: &Tenant, key: &str) -> String {
    hex(&Sha256::digest(format!("{tenant}\n{key}")))
}
