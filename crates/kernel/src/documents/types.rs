//! Task types as documents: only those that were ever disabled have one.

use super::body::{read_body, write_body};
use crate::ports::{
    Disabled, Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store,
    StoreError, TypeRow, TypeRows,
};
use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};
use serde::{Deserialize, Serialize};

const KIND: DocumentKind = DocumentKind::TaskType;

/// More types than a program declares.
const LIMIT: u32 = 10_000;

#[derive(Serialize, Deserialize)]
struct Body {
    disabled: Option<Disabled>,
    reason: String,
    by: String,
    counts_from: Option<DbTime>,
}

pub(super) async fn all<S: Store + ?Sized>(store: &S) -> Result<TypeRows, StoreError> {
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
fn read(document: Document) -> TypeRow {
    let body = read_body(KIND, &document.body).unwrap_or_else(|error| {
        tracing::error!(task_type = document.name, %error, "a task type counts as disabled: its record cannot be read");
        Body {
            disabled: Some(Disabled { since: document.seen_at, probe_from: None, probe: None }),
            reason: "its record cannot be read; enable it to write a new one".to_owned(),
            by: "counterstep".to_owned(),
            counts_from: None,
        }
    });
    let Body {
        disabled,
        reason,
        by,
        counts_from,
    } = body;
    TypeRow {
        name: document.name,
        disabled,
        reason,
        by,
        counts_from,
        rev: document.rev,
    }
}

/// The row as a write over the revision before it.
pub(crate) fn write(row: &TypeRow) -> Result<DocumentWrite, StoreError> {
    let TypeRow {
        name,
        disabled,
        reason,
        by,
        counts_from,
        rev,
    } = row.clone();
    let body = write_body(
        KIND,
        &Body {
            disabled,
            reason,
            by,
            counts_from,
        },
    )?;
    Ok(DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name,
        expected: Some(Rev(rev.0 - 1)),
        change: DocumentChange::Put { body, due_at: None },
    })
}
