//! Saved views of the list of tasks as documents. Must not read what is searched for.

use super::body::{read_body, write_body};
use super::delete;
use super::edit::{Edit, edit, edit_found};
use crate::audit::admin_audit::AdminChange;
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store, StoreError,
};
use crate::times::rfc3339;
use counterstep_contracts::schedule::{NAME, is_name};
use counterstep_contracts::view::{MOST_VIEWS, SavedView, ViewSpec};
use counterstep_contracts::{Rev, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const KIND: DocumentKind = DocumentKind::View;

/// The document that each new view is written with, over the revision that was read with the others: of two that are saved at the same
/// moment, the later one counts again. No view has such a name.
const NEWEST: &str = ":newest";

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

/// All of a tenant, and [`NEWEST`].
fn all(tenant: &Tenant) -> DocumentQuery {
    DocumentQuery::Page {
        kind: KIND,
        tenant: tenant.clone(),
        after: None,
        // A program that wrote no `NEWEST` may have left more than there may be.
        limit: MOST_VIEWS * 2,
    }
}

fn is_view(row: &Document) -> bool {
    row.name != NEWEST
}

/// The views of a tenant, by name. One that cannot be read is left out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn views(store: &Store, tenant: &Tenant) -> Result<Vec<SavedView>, StoreError> {
    let found = store.documents(&all(tenant)).await?;
    let views = found.rows.iter().filter(|row| is_view(row));
    Ok(views.filter_map(read).collect())
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
    let view = found.rows.first().filter(|row| is_view(row));
    Ok(view.and_then(read))
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
    let by = actor.to_owned();
    let body = write_body(KIND, &Body { spec, by })?;
    let body_of_newest = write_body(KIND, &json!({}))?;
    let written = edit_found(store, all(tenant), |read| {
        let rev = |name: &str| {
            read.rows
                .iter()
                .find(|row| row.name == name)
                .map(|row| row.rev)
        };
        let put = |name: &str, body: &str| DocumentWrite {
            kind: KIND,
            tenant: tenant.clone(),
            name: name.to_owned(),
            expected: Some(rev(name).unwrap_or(Rev(0))),
            change: DocumentChange::Put {
                body: body.to_owned(),
                due_at: None,
            },
        };
        let change = change("view_set", tenant, name, actor);
        let edit = Edit::write(put(name, &body), ()).audited(change);
        if rev(name).is_some() {
            return Ok(edit);
        }
        let count = read.rows.iter().filter(|row| is_view(row)).count();
        if count >= MOST_VIEWS as usize {
            return Err(ViewError::TooMany);
        }
        Ok(edit.along([put(NEWEST, &body_of_newest)]))
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
        let row = read.rows.first().filter(|row| is_view(row));
        let row = row.ok_or(ViewError::Gone)?;
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
