//! API keys as documents. They stand under the default tenant: a key names its tenant itself.

use super::body::{named, read_body, write_body};
use crate::ports::{
    ApiKeyRow, ApiKeyRows, Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite,
    Store, StoreError,
};
use counterstep_contracts::{Rev, Tenant};

const KIND: DocumentKind = DocumentKind::ApiKey;

/// Maximum number of keys that are read: more than an installation has.
const LIMIT: u32 = 10_000;

/// One key, where it is there. One that cannot be read is an error: its holder is let in by none.
pub(super) async fn find(store: &Store, id: &str) -> Result<ApiKeyRows, StoreError> {
    let documents = store.documents(&named(KIND, id)).await?;
    let rows = documents.rows.into_iter().map(read);
    Ok(ApiKeyRows {
        now: documents.now,
        rows: rows.collect::<Result<_, _>>()?,
    })
}

pub(super) async fn all(store: &Store) -> Result<ApiKeyRows, StoreError> {
    let query = DocumentQuery::Latest {
        kind: KIND,
        limit: LIMIT,
    };
    let documents = store.documents(&query).await?;
    let readable = |document: Document| {
        let id = document.name.clone();
        let row = read(document);
        row.inspect_err(|error| tracing::error!(key = id, %error, "an API key cannot be read"))
            .ok()
    };
    Ok(ApiKeyRows {
        now: documents.now,
        rows: documents.rows.into_iter().filter_map(readable).collect(),
    })
}

pub(crate) fn read(document: Document) -> Result<ApiKeyRow, StoreError> {
    Ok(ApiKeyRow {
        id: document.name,
        rev: document.rev,
        ..read_body(KIND, &document.body)?
    })
}

/// The row as a write over the revision before it.
pub(crate) fn write(row: &ApiKeyRow) -> Result<DocumentWrite, StoreError> {
    Ok(DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: row.id.clone(),
        expected: Some(Rev(row.rev.0 - 1)),
        change: DocumentChange::Put {
            body: write_body(KIND, row)?,
            due_at: None,
        },
    })
}
