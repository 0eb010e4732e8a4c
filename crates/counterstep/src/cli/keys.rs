//! `counterstep keys create | list | revoke`: API keys, in the database itself. So the first key needs no
//! other key; further ones can be made over HTTP too.

use super::output::{OutputArgs, print};
use counterstep_contracts::Tenant;
use counterstep_contracts::access::{KeyView, NewKey, Role};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::retry::parse_duration;
use counterstep_kernel::access::api_keys::{self, KeyError, KeySpec};
use counterstep_kernel::ports::Store;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_node::{Exit, SystemRandom, missing_file, no_file};
use std::io::Write;
use std::time::Duration;

/// Who made a key, or revoked it, where this command did.
// No subject has blanks or parentheses: no caller can pass for it.
const BY: &str = "operator (command line)";

/// Flags of `keys`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KeysArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DATABASE_ONLY }>,
    #[command(flatten)]
    out: OutputArgs,
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
    if let Some(path) = missing_file(&settings) {
        if !matches!(args.command, KeysCommand::Create { .. }) {
            return Err(no_file(path));
        }
        let _ = writeln!(
            std::io::stderr(),
            "warning: there was no database file `{}`, and one is made: are --data-dir and --database those of the API?",
            path.display()
        );
    }
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let store = counterstep_node::open_keys(&settings).await?;
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
            // Alone on standard output: it goes into a file.
            let line = |it: &NewKey| View::Lines(vec![it.key.clone().into()]);
            args.out.show(&NewKey { key, view }, line)
        }
        KeysCommand::List => {
            let rows = store
                .api_keys()
                .await
                .map_err(KeyError::Store)
                .map_err(exit)?
                .rows;
            let items = rows.into_iter().map(counterstep_operations::key_view);
            args.out.show(&Page::whole(items.collect()), list)
        }
        KeysCommand::Revoke { id } => {
            let revoked = api_keys::revoke(store, id, BY).await.map_err(exit)?;
            let view = counterstep_operations::key_view(revoked);
            args.out.show(&view, |it| {
                let by = it.revoked_by.as_deref().unwrap_or_default();
                let (id, of) = (&it.id, &it.subject);
                View::Lines(vec![
                    format!("the key {id} of {of} is revoked (by {by})").into(),
                ])
            })
        }
    }
}

fn list(page: &Page<KeyView>) -> View {
    let row = |key: &KeyView| {
        let at =
            |what: &str, time: &str| Cell::Parts(vec![what.into(), Cell::Time(time.to_owned())]);
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(time), _) => at("revoked ", time),
            (None, Some(time)) => at("until ", time),
            (None, None) => "valid".into(),
        };
        vec![
            Cell::name(&key.id),
            Cell::of(&key.tenant),
            Cell::of(&key.subject),
            Cell::of(&key.role),
            Cell::Time(key.created_at.clone()),
            state,
        ]
    };
    let heads = ["key", "tenant", "subject", "role", "made", "state"];
    View::Table(Table::of("keys", &heads, page.items.iter().map(row)))
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
