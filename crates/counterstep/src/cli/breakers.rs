//! `counterstep breakers …`: how the breakers of steps stand, and closing one.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::workers::{BreakerRequest, BreakerView};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `breakers`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BreakersArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
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
        let text = match &args.command {
            BreakersCommand::List => {
                let page = remote.breakers().await?;
                args.out.show(&page, |page| list(&page.items))?
            }
            BreakersCommand::Close { name, note, actor } => {
                let request = BreakerRequest {
                    note: note.clone(),
                    actor: actor.clone(),
                };
                let view = remote.close_breaker(name, &request).await?;
                args.out.show(&view, |it| list(std::slice::from_ref(it)))?
            }
        };
        print(&text)
    })
}

fn list(breakers: &[BreakerView]) -> View {
    let row = |it: &BreakerView| vec![Cell::name(&it.name), Cell::of(&it.state)];
    let rows = breakers.iter().map(row);
    View::Table(Table::of("breakers", &["breaker", "state"], rows))
}
