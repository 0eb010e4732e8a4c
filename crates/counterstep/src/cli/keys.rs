//! `counterstep keys create | list | revoke`: API keys, in the database itself. So the first key needs no
//! other key; further ones can be made over HTTP too.

use super::output::{json, print};
use super::table;
use super::times::shown;
use counterstep_contracts::Tenant;
use counterstep_contracts::access::{KeyView, NewKey, Role};
use counterstep_contracts::http::Page;
use counterstep_contracts::retry::parse_duration;
use counterstep_kernel::access::api_keys::{self, KeyError, KeySpec};
use counterstep_kernel::ports::Store;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_node::{Exit, SystemRandom};
use std::time::Duration;

/// Who made a key, or revoked it, where this command did.
// No subject has blanks or parentheses: no caller can pass for it.
const BY: &str = "operator (command line)";

/// Flags of `keys`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KeysArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DATABASE_ONLY }>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum KeysCommand {
    /// Make a key and print it: it is stored as a hash and never shown again
    Create {
        /// Who holds it: its name in audits
        #[arg(long)]
        subject: String,
        /// What its holder may do: read, submit, operate or admin; each includes those before it
        #[arg(long)]
        role: Role,
        /// Tenant whose tasks its holder may reach
        #[arg(long, default_value = "default")]
        tenant: String,
        /// For how long it is valid, as 90d [default: until it is revoked]
        #[arg(long, value_parser = lifetime)]
        expires_in: Option<Duration>,
    },
    /// List the keys, the last changed first
    List,
    /// Revoke a key; API processes refuse it within 5 seconds
    Revoke {
        /// Its id, the middle part of the key
        id: String,
    },
}

fn lifetime(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a whole number with a unit, as 12h or 90d".to_owned())
}

pub(super) fn main(args: &KeysArgs) -> Result<(), Exit> {
    let settings = args.settings.read()?.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let store = counterstep_node::open_store(&settings, "keys").await?;
            print(&run(&store, args).await?)
        }),
    )
}

async fn run(store: &Store, args: &KeysArgs) -> Result<String, Exit> {
    match &args.command {
        KeysCommand::Create {
            subject,
            role,
            tenant,
            expires_in,
        } => {
            let spec = KeySpec {
                tenant: Tenant(tenant.clone()),
                subject: subject.clone(),
                role: *role,
                expires_in: *expires_in,
            };
            let (key, row) = api_keys::make(store, &SystemRandom, spec, BY)
                .await
                .map_err(exit)?;
            let (key, view) = (key.expose(), counterstep_operations::key_view(row));
            Ok(if args.json {
                json(&NewKey { key, view })?
            } else {
                // Alone on standard output: it goes into a file.
                format!("{key}\n")
            })
        }
        KeysCommand::List => {
            let rows = store
                .api_keys()
                .await
                .map_err(KeyError::Store)
                .map_err(exit)?
                .rows;
            let items: Vec<_> = rows
                .into_iter()
                .map(counterstep_operations::key_view)
                .collect();
            Ok(if args.json {
                json(&Page {
                    items,
                    next_cursor: None,
                })?
            } else {
                list(&items)
            })
        }
        KeysCommand::Revoke { id } => {
            let revoked = api_keys::revoke(store, id, BY).await.map_err(exit)?;
            let view = counterstep_operations::key_view(revoked);
            Ok(if args.json {
                json(&view)?
            } else {
                let by = view.revoked_by.as_deref().unwrap_or_default();
                format!(
                    "the key {} of {} is revoked (by {by})\n",
                    view.id, view.subject
                )
            })
        }
    }
}

fn list(keys: &[KeyView]) -> String {
    let row = |key: &KeyView| {
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(at), _) => format!("revoked {}", shown(at)),
            (None, Some(at)) => format!("until {}", shown(at)),
            (None, None) => "valid".to_owned(),
        };
        [
            key.id.clone(),
            key.tenant.clone(),
            key.subject.clone(),
            key.role.to_string(),
            shown(&key.created_at),
            state,
        ]
    };
    let mut table = table::table(&["key", "tenant", "subject", "role", "made", "state"]);
    table.add_rows(keys.iter().map(row));
    table::page(&table, "keys", false, None)
}

fn exit(error: KeyError) -> Exit {
    match error {
        KeyError::Invalid(_) => Exit::config(error),
        KeyError::Gone(_) | KeyError::Moved => Exit::failed(error),
        KeyError::Store(error) => Exit::unavailable(format_args!(
            "the database cannot be used (is the schema that of this program?): {error}"
        )),
    }
}
