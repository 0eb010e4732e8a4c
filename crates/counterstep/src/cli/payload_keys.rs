//! `counterstep payload-keys add | list | delete | decrypt`: the keys of tenants in the folder of the settings.

use super::output::{json, print};
use super::table::Look;
use counterstep_contracts::Tenant;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_kernel::payloads::delete_documents;
use counterstep_kernel::ports::{PayloadCodec, PayloadError, RevisionsOf, Store, StoreError};
use counterstep_node::payload_keys::{EncryptedPayloads, FileError, FileKeys};
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_node::{Exit, missing_file, no_file};
use serde_json::Value;
use std::io::{BufRead, ErrorKind};

/// In the audit of changes.
const BY: &str = "operator (command line)";

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
        /// Tenant of the keys; without authentication it is `default`
        tenant: String,
    },
    /// List tenants with the ids of their keys, the newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete all keys of a tenant, its schedules and its bulk operations: its payloads can never be read again.
    /// Refused while it has tasks that have not ended. Takes half a minute, in which its submissions are refused
    Delete {
        /// Tenant of the keys
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
    let keys = FileKeys::open(&folder).map_err(|error| match &error {
        FileError::File { error, .. } if error.kind() == ErrorKind::NotFound => {
            let folder = folder.display();
            Exit::config(format_args!(
                "setting `payload_keys`: there is no folder `{folder}`: make it first, with `mkdir -m 700 {folder}`"
            ))
        }
        _ => exit(error),
    })?;
    match &args.command {
        PayloadKeysCommand::Add { tenant } => {
            let id = keys.add(&Tenant(tenant.clone())).map_err(exit)?;
            print(&format!("{id}\n"))
        }
        PayloadKeysCommand::List { json: false } => print(&list(&keys.list().map_err(exit)?)?),
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
            // Without its tasks nothing would keep the keys of those that run.
            if let Some(path) = missing_file(&settings) {
                return Err(no_file(path));
            }
            let tenant = Tenant(tenant.clone());
            counterstep_node::run(
                &settings,
                Box::pin(async {
                    let store = counterstep_node::open_store(&settings, "payload-keys").await?;
                    let noticed = tokio::time::sleep(FileKeys::NOTICED);
                    delete(&keys, &store, &tenant, noticed).await
                }),
            )
        }
        PayloadKeysCommand::Decrypt => decrypt(
            &EncryptedPayloads::new(keys),
            std::io::stdin().lock(),
            print,
        ),
    }
}

/// Tasks that have not ended could neither go on nor be undone without their key. Its encrypted documents are
/// deleted before it: they could not be read or changed later. `noticed`: until all processes go by what the file says.
async fn delete(
    keys: &FileKeys,
    store: &Store,
    tenant: &Tenant,
    noticed: impl Future<Output = ()>,
) -> Result<(), Exit> {
    let none = || Exit::failed(format_args!("the tenant `{tenant}` has no payload keys"));
    all_have_ended(store, tenant).await?;
    if !keys.close(tenant).map_err(exit)? {
        return Err(none());
    }
    tracing::info!(%tenant, "until all processes have noticed it, {:?} go by", FileKeys::NOTICED);
    noticed.await;
    // A process that had not noticed it may have accepted some.
    if let Err(open) = all_have_ended(store, tenant).await {
        keys.reopen(tenant).map_err(exit)?;
        return Err(open);
    }
    delete_documents(store, tenant, BY).await.map_err(unread)?;
    match keys.delete(tenant).map_err(exit)? {
        true => Ok(()),
        false => Err(none()),
    }
}

async fn all_have_ended(store: &Store, tenant: &Tenant) -> Result<(), Exit> {
    let open = store
        .revisions(&RevisionsOf::Open(tenant.clone()))
        .await
        .map_err(unread)?
        .tasks;
    let Some(task) = open.first() else {
        return Ok(());
    };
    Err(Exit::failed(format_args!(
        "{} tasks of the tenant `{tenant}` have not ended, {} among them: let them end, or cancel or settle them; \
         nothing was deleted",
        open.len(),
        task.task
    )))
}

fn unread(error: StoreError) -> Exit {
    Exit::unavailable(format_args!("the database: {error}"))
}

/// Each line of an archive, whole; as it is, where its tenant was erased.
fn decrypt(
    codec: &dyn PayloadCodec,
    lines: impl BufRead,
    mut print: impl FnMut(&str) -> Result<(), Exit>,
) -> Result<(), Exit> {
    let mut erased = 0;
    for line in lines.lines() {
        let line = line.map_err(|error| Exit::failed(format_args!("standard input: {error}")))?;
        let value: Value = serde_json::from_str(&line)
            .map_err(|error| Exit::failed(format_args!("a line is no JSON: {error}")))?;
        let opened = match counterstep_reconciler::encrypted_archive_line(&value) {
            None => line,
            Some((place, encrypted)) => match codec.decrypt(&place, encrypted) {
                Ok(opened) => opened,
                Err(PayloadError::Erased(_)) => {
                    erased += 1;
                    line
                }
                Err(error) => return Err(Exit::failed(error)),
            },
        };
        print(&format!("{opened}\n"))?;
    }
    if erased > 0 {
        tracing::warn!("{erased} lines stay encrypted: the keys of their tenants were deleted");
    }
    Ok(())
}

fn list(tenants: &[(Tenant, Vec<String>)]) -> Result<String, Exit> {
    let row = |(tenant, keys): &(Tenant, Vec<String>)| {
        vec![Cell::name(tenant), Cell::Name(keys.join(" "))]
    };
    let rows = tenants.iter().map(row);
    let table = Table::of("payload keys", &["tenant", "keys"], rows);
    Look::here().text(&View::Table(table))
}

fn exit(error: FileError) -> Exit {
    Exit::config(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use counterstep_contracts::Rev;
    use counterstep_kernel::audit::admin_audit;
    use counterstep_kernel::ports::{DocumentChange, DocumentKind, DocumentQuery, DocumentWrite};
    use counterstep_steps::Registry;
    use counterstep_testkit::{Form, Harness};
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    fn acme() -> Tenant {
        Tenant("acme".to_owned())
    }

    async fn schedules(store: &Store) -> usize {
        let page = DocumentQuery::Page {
            kind: DocumentKind::Schedule,
            tenant: acme(),
            after: None,
            limit: 10,
        };
        store.documents(&page).await.expect("an answer").rows.len()
    }

    #[tokio::test]
    async fn documents_go_with_the_keys_and_not_without() {
        let site = Harness::embedded(Registry::new()).start().await;
        let store = &site.engine.ports.store;
        let (body, due_at) = ("{}".to_owned(), None);
        let schedule = DocumentWrite {
            kind: DocumentKind::Schedule,
            tenant: acme(),
            name: "nightly".to_owned(),
            expected: Some(Rev(0)),
            change: DocumentChange::Put { body, due_at },
        };
        store.put_document(&schedule).await.expect("it is written");
        let folder = tempfile::tempdir().expect("a folder");
        let keys = FileKeys::open(folder.path()).expect("a folder");
        let tenant = acme();
        let delete = || delete(&keys, store, &tenant, async {});
        delete().await.expect_err("it has no keys here");
        assert_eq!(schedules(store).await, 1);
        keys.add(&acme()).expect("a key");
        let lock = folder.path().join(".lock");
        std::fs::write(&lock, "").expect("a lock");
        delete().await.expect_err("another command writes");
        assert_eq!(schedules(store).await, 1);
        std::fs::remove_file(&lock).expect("no lock");
        delete().await.expect("it is deleted");
        assert_eq!(schedules(store).await, 0);
        let entries = admin_audit::page(store, 0, 10).await.expect("an answer");
        let says = entries[0].says().expect("it can be read");
        assert_eq!(
            (&*says.event, &*says.name, says.tenant),
            ("document_erased", "nightly", acme())
        );
        assert_eq!(entries.len(), 1);
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Words {}

    struct Note;

    #[distributed_task(cancellable)]
    impl Note {
        type Request = Words;
        type Response = ();

        #[step(1, host = "worker")]
        #[pure]
        async fn write(_words: &Words) -> StepResult<()> {
            Ok(())
        }

        fn respond() {}
    }

    #[tokio::test]
    async fn a_task_that_was_accepted_before_the_keys_were_closed_everywhere_keeps_them() {
        let site = Harness::embedded(Registry::new().with::<Note>());
        let site = site.start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let keys = FileKeys::open(folder.path()).expect("a folder");
        let (tenant, id) = (acme(), keys.add(&acme()).expect("a key"));
        let accepted = async {
            site.submit(Form::new().tenant("acme")).await;
        };
        let refused = delete(&keys, &site.engine.ports.store, &tenant, accepted).await;
        let refused = refused.expect_err("it has not ended").to_string();
        assert!(refused.contains("1 tasks of the tenant"), "{refused}");
        assert_eq!(keys.list().expect("a list"), [(acme(), vec![id])]);
        let codec = EncryptedPayloads::new(keys);
        codec.key(&acme()).expect("it accepts others again");
    }

    /// Opens nothing of `gone`.
    #[derive(Debug)]
    struct Codec;

    impl PayloadCodec for Codec {
        fn key(&self, _: &Tenant) -> Result<String, PayloadError> {
            Ok("1".to_owned())
        }

        fn encrypt(&self, _: &Tenant, _: &str, text: &str) -> Result<String, PayloadError> {
            Ok(text.to_owned())
        }

        fn decrypt(&self, _: &str, encrypted: &str) -> Result<String, PayloadError> {
            match encrypted {
                "gone" => Err(PayloadError::Erased("its key was deleted".to_owned())),
                other => Ok(other.to_uppercase()),
            }
        }
    }

    #[test]
    fn lines_of_an_erased_tenant_do_not_end_the_others() {
        let line = |text: &str| json!({"encrypted": text, "task": {"id": "1"}}).to_string();
        let archive = [line("gone"), line("open"), "{}".to_owned()].join("\n");
        let mut opened = Vec::new();
        let print = |text: &str| {
            opened.push(text.trim_end().to_owned());
            Ok(())
        };
        decrypt(&Codec, archive.as_bytes(), print).expect("it is read to its end");
        assert_eq!(opened, [line("gone"), "OPEN".to_owned(), "{}".to_owned()]);
    }
}
