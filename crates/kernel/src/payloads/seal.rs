//! Changes with their payloads sealed.

use super::{Place, envelope, is_sealed, sealed_value};
use crate::ports::{DocumentChange, DocumentKind, DocumentWrite, PayloadCodec, PayloadError};
use crate::transition::Transition;
use counterstep_contracts::{TaskId, Tenant};
use serde_json::Value;

/// Seals the payloads of one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal<'a> {
    pub(super) codec: &'a dyn PayloadCodec,
    pub(super) tenant: &'a Tenant,
    pub(super) task: TaskId,
}

impl Seal<'_> {
    /// An empty text stays as it is.
    pub(crate) fn text(&self, place: Place, text: &mut String) -> Result<(), PayloadError> {
        if text.is_empty() {
            return Ok(());
        }
        match self.codec.seal(self.tenant, &place.of(self.task), text) {
            Ok(sealed) => *text = sealed,
            // Of a task whose key was deleted: read without being opened, and written back by a sweep.
            Err(PayloadError::NoKey(_)) if is_sealed(text) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// `Null` stays as it is.
    pub(crate) fn value(&self, place: Place, value: &mut Value) -> Result<(), PayloadError> {
        if value.is_null() {
            return Ok(());
        }
        let sealed = self
            .codec
            .seal(self.tenant, &place.of(self.task), &value.to_string());
        match sealed {
            Ok(sealed) => *value = envelope(sealed),
            Err(PayloadError::NoKey(_)) if sealed_value(value).is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Seals the row of a change in the journal. A store does it too, where it was not done: for those who go on
/// from the change without reading the task again, and need the row's link.
///
/// # Errors
/// [`PayloadError`].
pub fn seal_row(
    codec: Option<&dyn PayloadCodec>,
    change: &mut Transition,
) -> Result<(), PayloadError> {
    let (Some(codec), Some(write), Some(written)) = (codec, &change.task, &mut change.journal)
    else {
        return Ok(());
    };
    if !written.is_sealed {
        let seal = Seal {
            codec,
            tenant: &write.row.tenant,
            task: change.task_id,
        };
        *written = written.sealed(&write.row, change.change_id, &seal)?;
    }
    Ok(())
}

/// The change as a store is given it.
pub(super) fn transition(
    codec: &dyn PayloadCodec,
    change: &Transition,
) -> Result<Transition, PayloadError> {
    let mut sealed = change.clone();
    seal_row(Some(codec), &mut sealed)?;
    if let Some(write) = &mut sealed.task {
        let tenant = write.row.tenant.clone();
        let seal = Seal {
            codec,
            tenant: &tenant,
            task: change.task_id,
        };
        let row = &mut write.row;
        if let Some(failure) = &mut row.failure {
            seal.text(Place::Error, &mut failure.message)?;
        }
        // A store writes none of these but in the row of the journal.
        (row.request, row.response) = (Value::Null, None);
    }
    for step in &mut sealed.steps {
        (step.output, step.signal, step.error) = (None, None, None);
    }
    for entry in &mut sealed.audit {
        entry.details = Value::Null;
    }
    if let Some(written) = sealed.document.as_deref_mut() {
        document(codec, written)?;
    }
    for child in &mut sealed.children {
        *child = transition(codec, child)?;
    }
    Ok(sealed)
}

/// Where the body of a document stands; `None`: documents of this kind have no payloads.
pub(super) fn document_place(kind: DocumentKind, tenant: &Tenant, name: &str) -> Option<String> {
    match kind {
        DocumentKind::Schedule => Some(format!("{} {tenant} {name}", kind.as_str())),
        DocumentKind::TaskType
        | DocumentKind::ApiKey
        | DocumentKind::Webhook
        | DocumentKind::Worker
        | DocumentKind::Listing => None,
    }
}

/// A document as a store is given it.
pub(super) fn document(
    codec: &dyn PayloadCodec,
    write: &mut DocumentWrite,
) -> Result<(), PayloadError> {
    let place = document_place(write.kind, &write.tenant, &write.name);
    if let (Some(place), DocumentChange::Put { body, .. }) = (place, &mut write.change) {
        *body = codec.seal(&write.tenant, &place, body)?;
    }
    Ok(())
}
