//! Changes with their payloads encrypted.

use super::place::{Place, encrypted_value, envelope, is_encrypted};
use crate::ports::{DocumentChange, DocumentKind, DocumentWrite, PayloadCodec, PayloadError};
use crate::transition::Transition;
use counterstep_contracts::{TaskId, Tenant};
use serde_json::Value;

/// Encrypts the payloads of one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypt<'a> {
    pub(super) codec: &'a dyn PayloadCodec,
    pub(super) tenant: &'a Tenant,
    pub(super) task: TaskId,
}

impl Encrypt<'_> {
    /// An empty text stays as it is.
    pub(crate) fn text(&self, place: Place, text: &mut String) -> Result<(), PayloadError> {
        if text.is_empty() {
            return Ok(());
        }
        match self.codec.encrypt(self.tenant, &place.of(self.task), text) {
            Ok(encrypted) => *text = encrypted,
            // Of a task whose key was deleted: read without being decrypted, and written back by a sweep.
            Err(PayloadError::NoKey(_)) if is_encrypted(text) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// `Null` stays as it is.
    pub(crate) fn value(&self, place: Place, value: &mut Value) -> Result<(), PayloadError> {
        if value.is_null() {
            return Ok(());
        }
        let encrypted = self
            .codec
            .encrypt(self.tenant, &place.of(self.task), &value.to_string());
        match encrypted {
            Ok(encrypted) => *value = envelope(encrypted),
            Err(PayloadError::NoKey(_)) if encrypted_value(value).is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Encrypts the row of a change in the journal. A store does it too, where it was not done: for those who go on
/// from the change without reading the task again, and need the row's link.
///
/// # Errors
/// [`PayloadError`].
pub fn encrypt_row(
    codec: Option<&dyn PayloadCodec>,
    change: &mut Transition,
) -> Result<(), PayloadError> {
    let (Some(codec), Some(write), Some(written)) = (codec, &change.task, &mut change.journal)
    else {
        return Ok(());
    };
    if !written.is_encrypted {
        let encrypt = Encrypt {
            codec,
            tenant: &write.row.tenant,
            task: change.task_id,
        };
        *written = written.encrypted(&write.row, change.change_id, &encrypt)?;
    }
    Ok(())
}

/// The change as a store is given it.
pub(super) fn transition(
    codec: &dyn PayloadCodec,
    change: &Transition,
) -> Result<Transition, PayloadError> {
    let mut encrypted = change.clone();
    encrypt_row(Some(codec), &mut encrypted)?;
    if let Some(write) = &mut encrypted.task {
        let tenant = write.row.tenant.clone();
        let encrypt = Encrypt {
            codec,
            tenant: &tenant,
            task: change.task_id,
        };
        let row = &mut write.row;
        if let Some(failure) = &mut row.failure {
            encrypt.text(Place::Error, &mut failure.message)?;
        }
        // A store writes none of these but in the row of the journal.
        (row.request, row.response) = (Value::Null, None);
    }
    for step in &mut encrypted.steps {
        (step.output, step.signal, step.error) = (None, None, None);
    }
    for entry in &mut encrypted.audit {
        entry.details = Value::Null;
    }
    if let Some(written) = encrypted.document.as_deref_mut() {
        document(codec, written)?;
    }
    for child in &mut encrypted.children {
        *child = transition(codec, child)?;
    }
    Ok(encrypted)
}

/// Where the body of a document stands; `None`: documents of this kind have no payloads.
pub(super) fn document_place(kind: DocumentKind, tenant: &Tenant, name: &str) -> Option<String> {
    match kind {
        DocumentKind::Schedule => Some(format!("{} {tenant} {name}", kind.as_str())),
        DocumentKind::TaskType
        | DocumentKind::ApiKey
        | DocumentKind::Webhook
        | DocumentKind::Worker
        | DocumentKind::Listing
        | DocumentKind::Audit => None,
    }
}

/// A document as a store is given it.
pub(super) fn document(
    codec: &dyn PayloadCodec,
    write: &mut DocumentWrite,
) -> Result<(), PayloadError> {
    let place = document_place(write.kind, &write.tenant, &write.name);
    if let (Some(place), DocumentChange::Put { body, .. }) = (place, &mut write.change) {
        *body = codec.encrypt(&write.tenant, &place, body)?;
    }
    Ok(())
}
