//! Task types as documents: only those that were ever disabled have one.

use super::body::{read_body, write_body};
use crate::ports::{
    Disabled, Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store,
    StoreError, TypeRow, TypeRows,
};
use counterstep_contracts::{Rev, Tenant};

const KIND: DocumentKind = DocumentKind::TaskType;

/// Maximum number of types that are read: more than a program declares.
const LIMIT: u32 = 10_000;

pub(super) async fn all(store: &Store) -> Result<TypeRows, StoreError> {
    let documents = store
        .documents(&DocumentQuery::Latest {
            kind: KIND,
            limit: LIMIT,
        })
        .await?;
    let mut rows: Vec<_> = documents.rows.into_iter().map(read).collect();
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(TypeRows {
        now: documents.now,
        rows,
    })
}

/// A type whose document cannot be read may be disabled, and counts as such until a person enables
/// it. The others go on.
pub(crate) fn read(document: Document) -> TypeRow {
    let row = read_body(KIND, &document.body).unwrap_or_else(|error| {
        tracing::error!(task_type = document.name, %error, "a task type counts as disabled: its record cannot be read");
        TypeRow {
            disabled: Some(Disabled { since: document.seen_at, probe_from: None, probe: None }),
            reason: "its record cannot be read; enable it to write a new one".to_owned(),
            by: "counterstep".to_owned(),
            ..TypeRow::default()
        }
    });
    TypeRow {
        name: document.name,
        rev: document.rev,
        ..row
    }
}

/// The row as a write over the revision before it.
pub(crate) fn write(row: &TypeRow) -> Result<DocumentWrite, StoreError> {
    Ok(DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: row.name.clone(),
        expected: Some(Rev(row.rev.0 - 1)),
        change: DocumentChange::Put {
            body: write_body(KIND, row)?,
            due_at: None,
        },
    })
}
