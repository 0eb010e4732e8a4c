//! `counterstep queues …`: queues, what waits on them, and which of them an operator has paused.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::queue::{QueueRequest, QueueView};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `queues`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct QueuesArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
    #[command(subcommand)]
    command: QueuesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum QueuesCommand {
    /// List the queues, what waits on them, and which are paused
    List,
    /// Pause a queue: no process claims its tasks until it is resumed; what runs goes on
    Pause {
        /// Name of the queue
        name: String,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Resume a queue
    Resume {
        /// Name of the queue
        name: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct WhyArgs {
    /// Reason, recorded in the audit
    #[arg(long)]
    note: String,
    /// Who decides, recorded in the audit
    #[arg(long)]
    actor: Option<String>,
}

impl WhyArgs {
    fn body(&self) -> QueueRequest {
        QueueRequest {
            note: self.note.clone(),
            actor: self.actor.clone(),
        }
    }
}

pub(super) fn main(args: &QueuesArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let (name, what, why) = match &args.command {
            QueuesCommand::List => {
                let page = remote.queues().await?;
                return print(&args.out.show(&page, |page| list(&page.items))?);
            }
            QueuesCommand::Pause { name, why } => (name, "pause", why),
            QueuesCommand::Resume { name, why } => (name, "resume", why),
        };
        let view = remote.change_queue(name, what, &why.body()).await?;
        print(
            &args
                .out
                .show(&view, |view| list(std::slice::from_ref(view)))?,
        )
    })
}

fn list(queues: &[QueueView]) -> View {
    let row = |queue: &QueueView| {
        let tasks = queue.tasks.iter();
        let tasks = tasks.map(|(status, count)| format!("{count} {status}"));
        let pause = queue.paused.as_ref();
        vec![
            Cell::name(&queue.name),
            tasks.collect::<Vec<_>>().join(", ").into(),
            Cell::time(pause.map(|it| &*it.since)),
            Cell::text(pause.map(|it| &*it.by)),
            Cell::text(pause.map(|it| &*it.note)),
        ]
    };
    let heads = ["queue", "tasks", "paused since", "by", "reason"];
    View::Table(Table::of("queues", &heads, queues.iter().map(row)))
}
