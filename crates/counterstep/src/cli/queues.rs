//! `counterstep queues …`: queues, what waits on them, and which of them an operator has paused.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use super::times;
use counterstep_contracts::http::Page;
use counterstep_contracts::queue::{QueueRequest, QueueView};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `queues`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct QueuesArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
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
                let text = if args.json { json(&page)? } else { list(&page) };
                return print(&text);
            }
            QueuesCommand::Pause { name, why } => (name, "pause", why),
            QueuesCommand::Resume { name, why } => (name, "resume", why),
        };
        let view = remote.change_queue(name, what, &why.body()).await?;
        let text = if args.json {
            json(&view)?
        } else {
            list(&Page {
                items: vec![view],
                next_cursor: None,
            })
        };
        print(&text)
    })
}

fn list(page: &Page<QueueView>) -> String {
    let mut table = table::table(&["queue", "tasks", "paused since", "by", "reason"]);
    for queue in &page.items {
        let tasks = queue
            .tasks
            .iter()
            .map(|(status, count)| format!("{count} {}", status.as_str()));
        let tasks: Vec<String> = tasks.collect();
        let pause = queue.paused.as_ref();
        table.add_row([
            one_line(&queue.name),
            tasks.join(", "),
            pause.map_or_else(String::new, |pause| times::shown(&pause.since)),
            pause.map_or_else(String::new, |pause| one_line(&pause.by)),
            pause.map_or_else(String::new, |pause| one_line(&pause.note)),
        ]);
    }
    table::page(&table, "queues", false, None)
}
