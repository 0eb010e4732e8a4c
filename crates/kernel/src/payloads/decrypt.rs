//! What a store returns, decrypted.

use super::escape::{ESCAPED, Escape};
use super::place::{Place, encrypted_value, is_encrypted};
use crate::ports::{PayloadCodec, PayloadError, StoreError};
use crate::record::{AttemptRow, AuditRow, Failure, TaskRecord};
use counterstep_contracts::TaskId;
use serde_json::Value;

/// What stands in place of a text whose key was deleted.
pub const ERASED: &str = "the text was erased with the payload keys of its tenant";

/// What stands in place of a text whose key this process has not.
const MISSING: &str = "the text is encrypted, and its payload key is missing here";

/// What becomes of a text whose key this process has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingKey {
    /// It says so: the text is for people.
    Said,
    /// The task is left alone: what is read is written back, or to the archive.
    Refused,
}

/// Decrypts the payloads of one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decrypt<'a> {
    pub(crate) codec: Option<&'a dyn PayloadCodec>,
    pub(crate) task: TaskId,
    pub(crate) missing_key: MissingKey,
}

impl Decrypt<'_> {
    fn decrypted(&self, place: Place, encrypted: &str) -> Result<String, PayloadError> {
        if encrypted.starts_with(ESCAPED) {
            return Escape.decrypt("", encrypted);
        }
        self.codec()?.decrypt(&place.of(self.task), encrypted)
    }

    fn codec(&self) -> Result<&dyn PayloadCodec, PayloadError> {
        let why = "it was written with payload keys, and this program has none: see the setting `payload_keys`";
        self.codec
            .ok_or_else(|| PayloadError::Missing(why.to_owned()))
    }

    /// A text whose key was deleted keeps no task from going on.
    pub(crate) fn text(&self, place: Place, text: &mut String) -> Result<(), PayloadError> {
        if !is_encrypted(text) {
            return Ok(());
        }
        match self.decrypted(place, text) {
            Ok(decrypted) => *text = decrypted,
            Err(error @ PayloadError::Missing(_)) if self.missing_key == MissingKey::Refused => {
                return Err(error);
            }
            // As an author or a client wrote it before there were keys.
            Err(PayloadError::Damaged(_)) => {}
            Err(PayloadError::Erased(_)) => ERASED.clone_into(text),
            Err(PayloadError::Missing(_)) => MISSING.clone_into(text),
        }
        Ok(())
    }

    pub(crate) fn failure(&self, failure: Option<&mut Failure>) -> Result<(), PayloadError> {
        failure.map_or(Ok(()), |failure| {
            failure
                .messages_mut()
                .try_for_each(|text| self.text(Place::Error, text))
        })
    }

    fn value(&self, place: Place, value: &mut Value) -> Result<(), PayloadError> {
        let Some(encrypted) = encrypted_value(value) else {
            return Ok(());
        };
        let decrypted = self.decrypted(place, encrypted)?;
        *value = serde_json::from_str(&decrypted).map_err(|error| {
            let why = format!("it is no JSON, at column {}", error.column());
            PayloadError::Damaged(why)
        })?;
        Ok(())
    }

    fn details(&self, value: &mut Value) -> Result<(), PayloadError> {
        match self.value(Place::Details, value) {
            Err(error @ PayloadError::Missing(_)) if self.missing_key == MissingKey::Refused => {
                return Err(error);
            }
            Err(_) => *value = Value::Null,
            Ok(()) => {}
        }
        Ok(())
    }

    pub(crate) fn attempts(&self, attempts: &mut [AttemptRow]) -> Result<(), PayloadError> {
        let errors = attempts.iter_mut().filter_map(|row| row.error.as_mut());
        errors
            .map(|error| &mut error.message)
            .try_for_each(|text| self.text(Place::Error, text))
    }

    pub(crate) fn audit(&self, rows: &mut [AuditRow]) -> Result<(), PayloadError> {
        rows.iter_mut()
            .try_for_each(|row| self.details(&mut row.entry.details))
    }

    /// Returns what cannot be decrypted, with nothing in its place.
    pub(crate) fn record(
        &self,
        record: &mut TaskRecord,
    ) -> Result<Vec<(Place, PayloadError)>, PayloadError> {
        // Also of one without payloads so far: what this process adds would be plaintext, which others refuse.
        if record.payload_key.is_some() {
            self.codec()?;
        }
        let mut closed = Vec::new();
        let mut value = |place, value: &mut Value| {
            let read = self.value(place, value);
            let is_read = read.is_ok();
            closed.extend(read.err().map(|error| (place, error)));
            is_read
        };
        let task = &mut record.task;
        if !value(Place::Request, &mut task.request) {
            task.request = Value::Null;
        }
        for earlier in &mut task.earlier_requests {
            if !value(Place::Request, earlier) {
                *earlier = Value::Null;
            }
        }
        if let Some(response) = &mut task.response
            && !value(Place::Response, response)
        {
            task.response = None;
        }
        self.failure(task.failure.as_mut())?;
        for step in &mut record.steps {
            if let Some(output) = &mut step.output
                && !value(Place::Output(step.no), output)
            {
                step.output = None;
            }
            if let Some(signal) = &mut step.signal
                && !value(Place::Signal(step.no), &mut signal.body)
            {
                step.signal = None;
            }
            if let Some(error) = &mut step.error {
                self.text(Place::Error, &mut error.message)?;
            }
        }
        Ok(closed)
    }
}

/// Decrypts the payloads of a task as they lie in a store. Of one that has ended, what cannot be decrypted because
/// its key was deleted counts as erased.
///
/// # Errors
/// [`StoreError::Unsupported`] without its key, and of a task that has not ended where that was deleted;
/// [`StoreError::Corrupt`].
pub fn decrypt_record(
    codec: Option<&dyn PayloadCodec>,
    record: &mut TaskRecord,
) -> Result<(), StoreError> {
    let is_over = record.task.status.is_terminal();
    decrypt_past(codec, record, is_over)
}

/// The same of a task as it stood earlier; `is_over`: it has ended since.
///
/// # Errors
/// As [`decrypt_record`].
pub(crate) fn decrypt_past(
    codec: Option<&dyn PayloadCodec>,
    record: &mut TaskRecord,
    is_over: bool,
) -> Result<(), StoreError> {
    let decrypt = Decrypt {
        codec,
        task: record.task.id,
        missing_key: MissingKey::Refused,
    };
    refuse(is_over, decrypt.record(record)?)
}

/// The first that the task cannot do without.
fn refuse(is_over: bool, closed: Vec<(Place, PayloadError)>) -> Result<(), StoreError> {
    let is_erased = |error: &PayloadError| is_over && matches!(error, PayloadError::Erased(_));
    match closed.into_iter().find(|(_, error)| !is_erased(error)) {
        Some((_, error)) => Err(error.into()),
        None => Ok(()),
    }
}

/// Decrypts the details of audit entries as they lie in a store; those that cannot be decrypted are `Null`.
pub fn decrypt_audit(codec: Option<&dyn PayloadCodec>, task: TaskId, rows: &mut [AuditRow]) {
    let decrypt = Decrypt {
        codec,
        task,
        missing_key: MissingKey::Said,
    };
    // Nothing is refused so.
    let _ = decrypt.audit(rows);
}
