//! API keys as documents. They stand under the default tenant: a key names its tenant itself.

use super::body::{named, read_body, write_body};
use crate::ports::{
    ApiKeyRow, ApiKeyRows, Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite,
    Store, StoreError,
};
use crate::record::DbTime;
use counterstep_contracts::access::Role;
use counterstep_contracts::{Rev, Tenant};
use serde::{Deserialize, Serialize};

const KIND: DocumentKind = DocumentKind::ApiKey;

/// More keys than are listed.
const LIMIT: u32 = 10_000;

#[derive(Serialize, Deserialize)]
struct Body {
    secret_hash: String,
    tenant: Tenant,
    subject: String,
    role: Role,
    created_at: DbTime,
    created_by: String,
    expires_at: Option<DbTime>,
    revoked: Option<(DbTime, String)>,
}

/// One key, where it is there. One that cannot be read is an error: its holder is let in by none.
pub(super) async fn find<S: Store + ?Sized>(store: &S, id: &str) -> Result<ApiKeyRows, StoreError> {
    let documents = store.documents(&named(KIND, id)).await?;
    let rows = documents.rows.into_iter().map(read);
    Ok(ApiKeyRows {
        now: documents.now,
        rows: rows.collect::<Result<_, _>>()?,
    })
}

pub(super) async fn all<S: Store + ?Sized>(store: &S) -> Result<ApiKeyRows, StoreError> {
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

fn read(document: Document) -> Result<ApiKeyRow, StoreError> {
    let Body {
        secret_hash,
        tenant,
        subject,
        role,
        created_at,
        created_by,
        expires_at,
        revoked,
    } = read_body(KIND, &document.body)?;
    Ok(ApiKeyRow {
        id: document.name,
        secret_hash,
        tenant,
        subject,
        role,
        created_at,
        created_by,
        expires_at,
        revoked,
        rev: document.rev,
    })
}

/// The row as a write over the revision before it.
pub(crate) fn write(row: &ApiKeyRow) -> Result<DocumentWrite, StoreError> {
    let ApiKeyRow {
        id,
        secret_hash,
        tenant,
        subject,
        role,
        created_at,
        created_by,
        expires_at,
        revoked,
        rev,
    } = row.clone();
    let body = Body {
        secret_hash,
        tenant,
        subject,
        role,
        created_at,
        created_by,
        expires_at,
        revoked,
    };
    Ok(DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: id,
        expected: Some(Rev(rev.0 - 1)),
        change: DocumentChange::Put {
            body: write_body(KIND, &body)?,
            due_at: None,
        },
    })
}
