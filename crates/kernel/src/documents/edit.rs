//! One change of documents: it is decided on what was read, written over the revisions that were read, with
//! its entry in the audit of changes where it has one, and decided again on a revision conflict. A claim is
//! no such change: the loser of the race must not try again.

use crate::audit::admin_audit::{self, AdminChange};
use crate::ports::{
    DocumentKind, DocumentQuery, DocumentWrite, Documents, DocumentsPut, Store, StoreError,
};
use counterstep_contracts::Tenant;

/// Maximum tries on a revision conflict.
const TRIES: u32 = 20;

/// New documents, and the answer to the caller once they are written.
pub(crate) struct Edit<A> {
    writes: Vec<DocumentWrite>,
    change: Option<AdminChange>,
    answer: A,
}

impl<A> Edit<A> {
    /// Nothing is written.
    pub(crate) const fn keep(answer: A) -> Self {
        Self {
            writes: Vec::new(),
            change: None,
            answer,
        }
    }

    pub(crate) fn write(write: DocumentWrite, answer: A) -> Self {
        Self {
            writes: vec![write],
            change: None,
            answer,
        }
    }

    /// With these in the same transaction.
    pub(crate) fn along(mut self, writes: impl IntoIterator<Item = DocumentWrite>) -> Self {
        self.writes.extend(writes);
        self
    }

    /// With this entry in the audit of changes.
    pub(crate) fn audited(mut self, change: AdminChange) -> Self {
        self.change = Some(change);
        self
    }
}

/// Reads the documents of these names, by name, and writes what `decide` makes of them, which may be called
/// more than once. The answer is that of the decision that was written; `None`: every try met a revision
/// conflict.
///
/// # Errors
/// Those of `decide`, and [`StoreError`].
pub(crate) async fn edit<A, E: From<StoreError>>(
    store: &Store,
    kind: DocumentKind,
    tenant: &Tenant,
    names: &[&str],
    decide: impl FnMut(Documents) -> Result<Edit<A>, E>,
) -> Result<Option<A>, E> {
    let query = DocumentQuery::Named {
        kind,
        tenant: tenant.clone(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    };
    edit_found(store, query, decide).await
}

/// The same of the documents that a query finds.
///
/// # Errors
/// Those of `decide`, and [`StoreError`].
pub(crate) async fn edit_found<A, E: From<StoreError>>(
    store: &Store,
    mut query: DocumentQuery,
    mut decide: impl FnMut(Documents) -> Result<Edit<A>, E>,
) -> Result<Option<A>, E> {
    for _ in 0..TRIES {
        let Edit {
            writes,
            change,
            answer,
        } = decide(store.documents(&query).await?)?;
        let is_written = match change {
            Some(change) => admin_audit::put_all(store, writes, change).await?,
            // What is answered without a write may have been read from a change that no standby has.
            None if writes.is_empty() => match query {
                DocumentQuery::Named {
                    kind,
                    tenant,
                    names,
                } => {
                    query = DocumentQuery::Confirmed {
                        kind,
                        tenant,
                        names,
                    };
                    false
                }
                _ => true,
            },
            None => matches!(store.put(&writes).await?, DocumentsPut::Written(_)),
        };
        if is_written {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// The error after the last revision conflict, where the caller has none of its own for that.
pub(crate) fn busy(kind: DocumentKind) -> StoreError {
    StoreError::Unavailable(format!(
        "other writers changed the {} document before each of many tries: try again",
        kind.as_str().replace('_', " ")
    ))
}
