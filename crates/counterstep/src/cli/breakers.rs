//! `counterstep breakers …`: how the breakers of steps stand, and closing one.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use counterstep_contracts::http::Page;
use counterstep_contracts::workers::{BreakerRequest, BreakerView};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `breakers`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BreakersArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: BreakersCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum BreakersCommand {
    /// List the breakers of the task types, and how each stands
    List,
    /// Close a breaker that is open: attempts start, in all processes that share a Redis
    Close {
        /// Name of the breaker
        name: String,
        /// Reason, recorded in the audit
        #[arg(long)]
        note: String,
        /// Who decides, recorded in the audit
        #[arg(long)]
        actor: Option<String>,
    },
}

pub(super) fn main(args: &BreakersArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let page = match &args.command {
            BreakersCommand::List => remote.breakers().await?,
            BreakersCommand::Close { name, note, actor } => {
                let request = BreakerRequest {
                    note: note.clone(),
                    actor: actor.clone(),
                };
                let view = remote.close_breaker(name, &request).await?;
                if args.json {
                    return print(&json(&view)?);
                }
                Page {
                    items: vec![view],
                    next_cursor: None,
                }
            }
        };
        let text = if args.json { json(&page)? } else { list(&page) };
        print(&text)
    })
}

fn list(page: &Page<BreakerView>) -> String {
    let mut table = table::table(&["breaker", "state"]);
    for breaker in &page.items {
        table.add_row([one_line(&breaker.name), breaker.state.to_string()]);
    }
    table::page(&table, "breakers", false, None)
}
