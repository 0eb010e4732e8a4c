//! `counterstep payload-keys add | list | delete | decrypt`: the keys of tenants in the folder of the settings.

use super::output::{json, print};
use super::table;
use counterstep_contracts::Tenant;
use counterstep_kernel::payloads::is_encrypted_kind;
use counterstep_kernel::ports::{
    DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, PayloadCodec as _, RevisionsOf,
    Store, StoreError,
};
use counterstep_node::Exit;
use counterstep_node::payload_keys::{EncryptedPayloads, FileError, FileKeys};
use counterstep_node::settings::{SettingsFor, commands};
use serde_json::Value;
use std::io::BufRead;

/// Flags of `payload-keys`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PayloadKeysArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DATABASE_ONLY }>,
    #[command(subcommand)]
    command: PayloadKeysCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum PayloadKeysCommand {
    /// Make a key for a tenant: new payloads are encrypted with it, older ones stay readable
    Add {
        /// Whose; without authentication it is `default`
        tenant: String,
    },
    /// List tenants with the ids of their keys, the newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete all keys of a tenant, its schedules and its bulk operations: its payloads can never be read again.
    /// Refused while it has tasks that have not ended
    Delete {
        /// Whose
        tenant: String,
        /// Repeat the name: it cannot be undone
        #[arg(long, value_name = "TENANT")]
        confirm: String,
    },
    /// Decrypt the lines of an archive that come in on standard input
    Decrypt,
}

pub(super) fn main(args: &PayloadKeysArgs) -> Result<(), Exit> {
    let settings = args.settings.read()?.resolve()?;
    let folder = settings.payload_keys.clone().ok_or_else(|| {
        Exit::config(
            "setting `payload_keys`: name the folder of the keys with --payload-keys FOLDER",
        )
    })?;
    let keys = FileKeys::open(&folder).map_err(exit)?;
    match &args.command {
        PayloadKeysCommand::Add { tenant } => {
            let id = keys.add(&Tenant(tenant.clone())).map_err(exit)?;
            print(&format!("{id}\n"))
        }
        PayloadKeysCommand::List { json: false } => print(&list(&keys.list().map_err(exit)?)),
        PayloadKeysCommand::List { json: true } => {
            let of = |(tenant, keys): (Tenant, Vec<String>)| serde_json::json!({"tenant": tenant, "keys": keys});
            let items: Vec<_> = keys.list().map_err(exit)?.into_iter().map(of).collect();
            print(&json(&items)?)
        }
        PayloadKeysCommand::Delete { tenant, confirm } => {
            if tenant != confirm {
                return Err(Exit::config(format_args!(
                    "--confirm `{confirm}` is not the tenant `{tenant}`: nothing was deleted"
                )));
            }
            let tenant = Tenant(tenant.clone());
            counterstep_node::run(
                &settings,
                Box::pin(async {
                    let store = counterstep_node::open_store(&settings, "payload-keys").await?;
                    delete(&keys, store.as_ref(), &tenant).await
                }),
            )
        }
        PayloadKeysCommand::Decrypt => decrypt(&EncryptedPayloads::new(keys)),
    }
}

/// Tasks that have not ended could neither go on nor be undone without their key. Its encrypted documents are
/// deleted first: they could not be read or changed later.
async fn delete(keys: &FileKeys, store: &dyn Store, tenant: &Tenant) -> Result<(), Exit> {
    let unread = |error: StoreError| Exit::unavailable(format_args!("the database: {error}"));
    let open = store
        .revisions(&RevisionsOf::Open(tenant.clone()))
        .await
        .map_err(unread)?
        .tasks;
    if let Some(task) = open.first() {
        return Err(Exit::failed(format_args!(
            "{} tasks of the tenant `{tenant}` have not ended, {} among them: let them end, or cancel or settle them; \
             nothing was deleted",
            open.len(),
            task.task
        )));
    }
    let kinds = DocumentKind::ALL;
    for kind in kinds.into_iter().filter(|&kind| is_encrypted_kind(kind)) {
        delete_all(store, kind, tenant).await.map_err(unread)?;
    }
    if keys.delete(tenant).map_err(exit)? {
        Ok(())
    } else {
        Err(Exit::failed(format_args!(
            "the tenant `{tenant}` has no payload keys"
        )))
    }
}

/// All documents of a kind that a tenant has.
async fn delete_all(
    store: &dyn Store,
    kind: DocumentKind,
    tenant: &Tenant,
) -> Result<(), StoreError> {
    loop {
        let page = DocumentQuery::Page {
            kind,
            tenant: tenant.clone(),
            after: None,
            limit: 100,
        };
        let rows = store.documents(&page).await?.rows;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let delete = DocumentWrite {
                kind,
                tenant: tenant.clone(),
                name: row.name,
                expected: None,
                change: DocumentChange::Delete,
            };
            store.put_document(&delete).await?;
        }
    }
}

/// Each line of an archive, whole.
fn decrypt(codec: &EncryptedPayloads<FileKeys>) -> Result<(), Exit> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Exit::failed(format_args!("standard input: {error}")))?;
        let value: Value = serde_json::from_str(&line)
            .map_err(|error| Exit::failed(format_args!("a line is no JSON: {error}")))?;
        let opened = match counterstep_reconciler::encrypted_archive_line(&value) {
            None => line,
            Some((place, encrypted)) => codec.decrypt(&place, encrypted).map_err(Exit::failed)?,
        };
        print(&format!("{opened}\n"))?;
    }
    Ok(())
}

fn list(tenants: &[(Tenant, Vec<String>)]) -> String {
    let mut table = table::table(&["tenant", "keys"]);
    table.add_rows(
        tenants
            .iter()
            .map(|(tenant, keys)| [tenant.to_string(), keys.join(" ")]),
    );
    table::page(&table, "payload keys", false, None)
}

fn exit(error: FileError) -> Exit {
    Exit::config(error)
}
