//! Saved views of the list of tasks as documents. Must not read what is searched for.

use super::body::{read_body, write_body};
use super::delete;
use super::edit::{Edit, edit};
use crate::audit::admin_audit::AdminChange;
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store, StoreError,
};
use crate::times::rfc3339;
use counterstep_contracts::view::{MOST_VIEWS, SavedView, ViewSpec};
use counterstep_contracts::{Rev, Tenant};
use counterstep_steps::schedule::{NAME, is_name};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const KIND: DocumentKind = DocumentKind::View;

/// A view was not saved or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// It is not of the form of a name.
    #[error("the name of a view is no name: {NAME}")]
    Name,
    /// The tenant has as many as there may be.
    #[error("there are {MOST_VIEWS} saved views, as many as there may be: delete one")]
    TooMany,
    /// The tenant has none of this name.
    #[error("there is no saved view of this name")]
    Gone,
    /// Every try met a revision conflict.
    #[error("the view was changed by others meanwhile: try again")]
    Moved,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(flatten)]
    spec: ViewSpec,
    by: String,
}

fn read(row: &Document) -> Option<SavedView> {
    let read = read_body::<Body>(KIND, &row.body);
    let read =
        read.inspect_err(|error| tracing::error!(view = row.name, %error, "a view cannot be read"));
    let Body { spec, by } = read.ok()?;
    Some(SavedView {
        name: row.name.clone(),
        q: spec.q,
        columns: spec.columns,
        by,
        updated_at: rfc3339(row.seen_at),
    })
}

/// The views of a tenant, by name. One that cannot be read is left out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn views(store: &Store, tenant: &Tenant) -> Result<Vec<SavedView>, StoreError> {
    let query = DocumentQuery::Page {
        kind: KIND,
        tenant: tenant.clone(),
        after: None,
        // Two that are saved at the same moment may be one more than there may be.
        limit: MOST_VIEWS * 2,
    };
    let found = store.documents(&query).await?;
    Ok(found.rows.iter().filter_map(read).collect())
}

/// The view of this name.
///
/// # Errors
/// [`StoreError`].
pub async fn view(
    store: &Store,
    tenant: &Tenant,
    name: &str,
) -> Result<Option<SavedView>, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: tenant.clone(),
        names: vec![name.to_owned()],
    };
    let found = store.documents(&query).await?;
    Ok(found.rows.first().and_then(read))
}

/// Saves a view, in place of the one of its name.
///
/// # Errors
/// [`ViewError`].
pub async fn set_view(
    store: &Store,
    tenant: &Tenant,
    name: &str,
    spec: ViewSpec,
    actor: &str,
) -> Result<SavedView, ViewError> {
    if !is_name(name) {
        return Err(ViewError::Name);
    }
    let there = views(store, tenant).await?;
    let is_new = !there.iter().any(|view| view.name == name);
    if is_new && there.len() >= MOST_VIEWS as usize {
        return Err(ViewError::TooMany);
    }
    let by = actor.to_owned();
    let body = write_body(KIND, &Body { spec, by })?;
    let names = &[name];
    let written = edit(store, KIND, tenant, names, |read| {
        let rev = read.rows.first().map_or(Rev(0), |row| row.rev);
        let write = DocumentWrite {
            kind: KIND,
            tenant: tenant.clone(),
            name: name.to_owned(),
            expected: Some(rev),
            change: DocumentChange::Put {
                body: body.clone(),
                due_at: None,
            },
        };
        let change = change("view_set", tenant, name, actor);
        Ok::<_, ViewError>(Edit::write(write, ()).audited(change))
    });
    written.await?.ok_or(ViewError::Moved)?;
    view(store, tenant, name).await?.ok_or(ViewError::Moved)
}

/// Deletes a view.
///
/// # Errors
/// [`ViewError`].
pub async fn delete_view(
    store: &Store,
    tenant: &Tenant,
    name: &str,
    actor: &str,
) -> Result<(), ViewError> {
    let names = &[name];
    let written = edit(store, KIND, tenant, names, |read| {
        let row = read.rows.first().ok_or(ViewError::Gone)?;
        let write = delete(KIND, tenant.clone(), name.to_owned(), row.rev);
        let change = change("view_deleted", tenant, name, actor);
        Ok::<_, ViewError>(Edit::write(write, ()).audited(change))
    });
    written.await?.ok_or(ViewError::Moved)
}

/// The entry in the audit of changes, which has no text of a search: it may be one of a failure.
fn change(event: &'static str, tenant: &Tenant, name: &str, actor: &str) -> AdminChange {
    AdminChange {
        event,
        actor: actor.to_owned(),
        tenant: tenant.clone(),
        name: name.to_owned(),
        details: Value::Null,
    }
}
