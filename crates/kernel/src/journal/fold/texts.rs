//! The two texts of a row as they are read, and whether what was handed in is what it has to be. Must not apply them.

use super::{Fold, JournalError, JournalRow};
use crate::digest::hex;
use crate::journal::FORM;
use crate::journal::body::{Body, Data};
use crate::journal::plaintext::plaintext;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// Reads one of the two texts of a row.
pub(super) fn read<T: DeserializeOwned>(
    row: &JournalRow,
    text: &'static str,
    json: &str,
) -> Result<T, JournalError> {
    // The error itself could tell what the data is.
    serde_json::from_str(json).map_err(|error| JournalError::Broken {
        rev: row.rev,
        text,
        why: format!("is no JSON of form {FORM}, at column {}", error.column()),
    })
}

impl Fold {
    /// What was handed in with a row.
    pub(super) fn data(&self, row: &JournalRow, body: &Body) -> Result<Data, JournalError> {
        let broken = |why: String| JournalError::Broken {
            rev: row.rev,
            text: "data",
            why,
        };
        if self.holds_digests && !is_digest_of(body.data.as_deref(), row.data.as_deref()) {
            let why = match &row.data {
                Some(_) => "is not what its digest in the entries says",
                None => "is gone, and its digest stands in the entries",
            };
            return Err(broken(why.to_owned()));
        }
        let Some(text) = &row.data else {
            return Ok(Data::default());
        };
        let mut data = read(row, "data", text)?;
        let key = body.key.as_deref().or(self.record.payload_key.as_deref());
        match key.and_then(|key| plaintext(&mut data, key)) {
            Some(why) => Err(broken(why)),
            None => Ok(data),
        }
    }
}

/// Whether this is the digest of these data; without data there is none.
pub(crate) fn is_digest_of(digest: Option<&str>, data: Option<&str>) -> bool {
    match (digest, data) {
        (Some(digest), Some(data)) => hex(&Sha256::digest(data)) == *digest,
        (digest, data) => digest.is_none() && data.is_none(),
    }
}
