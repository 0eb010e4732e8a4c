//! The JSON of a document, and the questions and changes that all kinds share.

use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, StoreError,
};
use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn write_body(kind: DocumentKind, body: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(body).map_err(|error| unreadable(kind, &error))
}

pub(crate) fn read_body<T: DeserializeOwned>(
    kind: DocumentKind,
    body: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|error| unreadable(kind, &error))
}

fn unreadable(kind: DocumentKind, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("documents.body of a {}: {error}", kind.as_str()))
}

pub(crate) fn named(kind: DocumentKind, name: &str) -> DocumentQuery {
    DocumentQuery::Named {
        kind,
        tenant: Tenant::default(),
        names: vec![name.to_owned()],
    }
}

pub(crate) fn delete(kind: DocumentKind, tenant: Tenant, name: String, rev: Rev) -> DocumentWrite {
    DocumentWrite {
        kind,
        tenant,
        name,
        expected: Some(rev),
        change: DocumentChange::Delete,
    }
}

/// A document as it is, due later.
pub(crate) fn postponed(kind: DocumentKind, document: &Document, due_at: DbTime) -> DocumentWrite {
    DocumentWrite {
        kind,
        tenant: document.tenant.clone(),
        name: document.name.clone(),
        expected: Some(document.rev),
        change: DocumentChange::Put {
            body: document.body.clone(),
            due_at: Some(due_at),
        },
    }
}
