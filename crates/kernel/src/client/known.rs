//! What is known of a client's idempotency key before the request is committed. The row knows; a hint only says
//! whether it is worth a question. The commit refuses a key that is taken, whatever the hint said.

use super::submission::{Submission, SubmitError};
use crate::context::hex;
use crate::engine::Engine;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Fingerprint and answer of the first request with a key, as far as it pays to look before the commit.
pub(super) async fn look(engine: &Engine, submission: &Submission) -> Result<Option<(String, Value)>, SubmitError> {
    let Some(hint) = hint(submission) else { return Ok(None) };
    match engine.advised(engine.ports.hints.seen(&hint)).await {
        // Most keys are new. If this one is not, the commit says so.
        Some(Ok(false)) => Ok(None),
        Some(Ok(true)) | None => read(engine, submission).await,
        Some(Err(error)) => {
            tracing::debug!(%error, "no hint about an idempotency key: reading its row");
            read(engine, submission).await
        }
    }
}

/// The same from the row; `None`: there is none.
pub(super) async fn read(engine: &Engine, submission: &Submission) -> Result<Option<(String, Value)>, SubmitError> {
    let Some(key) = &submission.key else { return Ok(None) };
    match engine.ports.store.idempotency(&submission.tenant, key).await? {
        None => Ok(None),
        Some(row) => row.finished.map(Some).ok_or(SubmitError::InProgress),
    }
}

/// Lets a repetition ask the row first.
pub(super) async fn remember(engine: &Engine, submission: &Submission) {
    let Some(hint) = hint(submission) else { return };
    let remembered = engine.ports.hints.remember(&hint, engine.settings.idempotency_ttl);
    if let Some(Err(error)) = engine.advised(remembered).await {
        tracing::debug!(%error, "an idempotency key was not remembered; a repetition finds out at its commit");
    }
}

/// A client's key is of any length and may tell something about the client: only its digest leaves the database.
fn hint(submission: &Submission) -> Option<String> {
    let key = submission.key.as_ref()?;
    Some(hex(&Sha256::digest(format!("{}\n{key}", submission.tenant))))
}
