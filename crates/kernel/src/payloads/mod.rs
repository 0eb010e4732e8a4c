//! Payloads at rest: what clients, steps and operators hand in is encrypted before a store is given it,
//! and decrypted when it comes back. Payloads are requests, outputs, responses, signals, the texts of
//! errors, the details of audit entries, and the bodies of schedules and bulk operations. Must not choose a key.

pub(crate) mod decrypt;
pub(crate) mod encrypt;
mod erase;
mod escape;
pub(crate) mod place;

pub(crate) use decrypt::decrypt_past;
pub use decrypt::{ERASED, decrypt_audit, decrypt_record};
pub(crate) use encrypt::Encrypt;
pub use encrypt::encrypt_row;
pub(crate) use encrypt::is_encrypted_kind;
pub use erase::delete_documents;
pub use place::is_encrypted;
pub(crate) use place::{Place, is_ciphertext};

use crate::error::StepError;
use crate::ports::Store;

/// A step's error as a log shows it: where payloads are encrypted, its class alone.
pub(crate) fn in_log(store: &Store, error: &StepError) -> String {
    if store.payload_codec().is_some() {
        error.class.as_str().to_owned()
    } else {
        error.to_string()
    }
}

/// What the code of a task said about a submission, as its submitter's log may show it: where
/// payloads are encrypted, its class alone.
pub(crate) fn without_text(store: &Store, error: StepError) -> StepError {
    if store.payload_codec().is_none() {
        return error;
    }
    StepError::new(
        error.class,
        "its text is not logged, as payloads are encrypted",
    )
}
