//! The documents of a tenant whose keys are about to be deleted: with them they could not be read or changed later.

use super::is_encrypted_kind;
use crate::audit::admin_audit::{self, AdminChange};
use crate::documents::delete;
use crate::ports::{DocumentKind, DocumentQuery, Store, StoreError};
use counterstep_contracts::Tenant;
use serde_json::json;

/// Maximum number of rows that are read at a time.
const PAGE: u32 = 100;

/// Deletes all documents of a tenant that have payloads, each with its entry in the audit of changes beside tasks.
///
/// # Errors
/// [`StoreError`]; some may be deleted then.
pub async fn delete_documents(
    store: &Store,
    tenant: &Tenant,
    actor: &str,
) -> Result<(), StoreError> {
    let kinds = DocumentKind::ALL.into_iter();
    for kind in kinds.filter(|&kind| is_encrypted_kind(kind)) {
        loop {
            let page = DocumentQuery::Page {
                kind,
                tenant: tenant.clone(),
                after: None,
                limit: PAGE,
            };
            let rows = store.documents(&page).await?.rows;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let change = AdminChange {
                    event: "document_erased",
                    actor: actor.to_owned(),
                    tenant: tenant.clone(),
                    name: row.name.clone(),
                    details: json!({ "kind": kind.as_str() }),
                };
                // One that has moved on meanwhile is on the next page.
                let gone = delete(kind, tenant.clone(), row.name.clone(), row.rev);
                admin_audit::put(store, gone, change).await?;
            }
        }
    }
    Ok(())
}
