//! Changes with their payloads encrypted.

use super::decrypt::ERASED;
use super::escape::Escape;
use super::place::{Place, envelope, has_encrypted, is_encrypted};
use crate::change::transition::{Transition, Written};
use crate::ports::{DocumentChange, DocumentKind, DocumentWrite, PayloadCodec, PayloadError};
use crate::record::Failure;
use counterstep_contracts::{TaskId, Tenant};
use serde_json::Value;

/// Encrypts the payloads of one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypt<'a> {
    pub(crate) codec: &'a dyn PayloadCodec,
    pub(crate) tenant: &'a Tenant,
    pub(crate) task: TaskId,
}

impl Encrypt<'_> {
    /// The key that encrypts; `None`: there is none.
    pub(crate) fn key(&self) -> Option<String> {
        self.codec.key(self.tenant).ok()
    }

    /// An empty text stays as it is.
    pub(crate) fn text(&self, place: Place, text: &mut String) -> Result<(), PayloadError> {
        if text.is_empty() {
            return Ok(());
        }
        *text = self
            .codec
            .encrypt(self.tenant, &place.of(self.task), text)?;
        Ok(())
    }

    /// `Null` stays as it is.
    pub(crate) fn value(&self, place: Place, value: &mut Value) -> Result<(), PayloadError> {
        if value.is_null() {
            return Ok(());
        }
        let encrypted =
            self.codec
                .encrypt(self.tenant, &place.of(self.task), &value.to_string())?;
        *value = envelope(encrypted);
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
    let (Some(write), Some(written)) = (&change.task, &mut change.journal) else {
        return Ok(());
    };
    let codec = match codec {
        Some(codec) => codec,
        None if looks_encrypted(written) => &Escape,
        None => return Ok(()),
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

/// Without keys, what looks as if it was encrypted would never be read again.
fn looks_encrypted(written: &Written) -> bool {
    has_encrypted(&written.entries) || written.data.as_deref().is_some_and(has_encrypted)
}

/// The text of a task's own row. A sweep writes it back of a task whose key was deleted.
fn own_text(encrypt: &Encrypt<'_>, text: &mut String) -> Result<(), PayloadError> {
    match encrypt.text(Place::Error, text) {
        Err(PayloadError::Erased(_)) => {
            ERASED.clone_into(text);
            Ok(())
        }
        encrypted => encrypted,
    }
}

/// The change as a store is given it; `None`: as it is.
pub(crate) fn transition(
    codec: Option<&dyn PayloadCodec>,
    change: &Transition,
) -> Result<Option<Transition>, PayloadError> {
    let failure = change.task.as_ref().and_then(|it| it.row.failure.as_ref());
    let looks_so = |failure: &Failure| {
        is_encrypted(&failure.message) || is_encrypted(&failure.blocking().message)
    };
    let looks =
        failure.is_some_and(looks_so) || change.journal.as_ref().is_some_and(looks_encrypted);
    let own = match codec {
        Some(codec) => Some(codec),
        None if looks => Some(&Escape as &dyn PayloadCodec),
        None if change.children.is_empty() => return Ok(None),
        None => None,
    };
    let mut encrypted = change.clone();
    for child in &mut encrypted.children {
        if let Some(encrypted) = transition(codec, child)? {
            *child = encrypted;
        }
    }
    let Some(own) = own else {
        return Ok(Some(encrypted));
    };
    // By the same rule as for those who go on from the change: its link is in the next one.
    encrypt_row(codec, &mut encrypted)?;
    if let Some(write) = &mut encrypted.task {
        let tenant = write.row.tenant.clone();
        let encrypt = Encrypt {
            codec: own,
            tenant: &tenant,
            task: change.task_id,
        };
        let row = &mut write.row;
        if let Some(failure) = &mut row.failure {
            failure
                .messages_mut()
                .try_for_each(|text| own_text(&encrypt, text))?;
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
    if let (Some(codec), Some(written)) = (codec, encrypted.document.as_deref_mut()) {
        document(codec, written)?;
    }
    Ok(Some(encrypted))
}

/// Where the body of a document stands; `None`: documents of this kind have no payloads.
pub(crate) fn document_place(kind: DocumentKind, tenant: &Tenant, name: &str) -> Option<String> {
    match kind {
        // A schedule has a request; an operation a note, and texts of failures; a view the text of one.
        DocumentKind::Schedule
        | DocumentKind::Bulk
        | DocumentKind::BulkTasks
        | DocumentKind::View => Some(format!("{} {tenant} {name}", kind.as_str())),
        DocumentKind::TaskType
        | DocumentKind::ApiKey
        | DocumentKind::Webhook
        | DocumentKind::Worker
        | DocumentKind::Listing
        | DocumentKind::Audit
        | DocumentKind::Limit
        | DocumentKind::LimitValues
        | DocumentKind::Queue
        | DocumentKind::PausedWorkers
        | DocumentKind::ClosedBreaker
        | DocumentKind::Poison
        | DocumentKind::Durations => None,
    }
}

/// Whether documents of this kind have payloads: they go with the key of their tenant.
pub(crate) fn is_encrypted_kind(kind: DocumentKind) -> bool {
    document_place(kind, &Tenant::default(), "").is_some()
}

/// A document as a store is given it. A body is JSON: one that looks encrypted was read where its key is not, and
/// goes back as it is, or those who have its key could not read it either.
pub(crate) fn document(
    codec: &dyn PayloadCodec,
    write: &mut DocumentWrite,
) -> Result<(), PayloadError> {
    let place = document_place(write.kind, &write.tenant, &write.name);
    if let (Some(place), DocumentChange::Put { body, .. }) = (place, &mut write.change)
        && !is_encrypted(body)
    {
        *body = codec.encrypt(&write.tenant, &place, body)?;
    }
    Ok(())
}
