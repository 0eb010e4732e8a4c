//! `counterstep workers`: which processes are there, what they run, and how long tasks wait.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use super::times;
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::workers::{StatusView, WorkerState, WorkersView};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use std::time::Duration;

/// Flags of `workers`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct WorkersArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long)]
    json: bool,
    /// In this state only: alive, lost or stopped
    #[arg(long)]
    state: Option<WorkerState>,
}

pub(super) fn main(args: &WorkersArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let mut found = Remote::of(&args.api.read()?)?.workers().await?;
        found
            .workers
            .retain(|worker| args.state.is_none_or(|state| worker.state == state));
        print(&if args.json {
            json(&found)?
        } else {
            text(&found, args.state.is_some())
        })
    })
}

fn text(found: &WorkersView, filtered: bool) -> String {
    let mut table = table::table(&[
        "process", "state", "machine", "program", "queues", "runs", "seen",
    ]);
    for worker in &found.workers {
        let runs = if worker.queues.is_empty() {
            String::new()
        } else {
            format!("{} of {}", worker.running_count, worker.concurrency)
        };
        table.add_row([
            worker.id.clone(),
            worker.state.to_string(),
            worker.machine.clone(),
            worker.program.clone(),
            worker.queues.join(", "),
            runs,
            times::shown(&worker.seen_at),
        ]);
    }
    status(&found.status) + &table::page(&table, "processes", filtered, None)
}

fn status(status: &StatusView) -> String {
    let mut text = format!(
        "processes: {} alive, {} lost\n",
        status.workers_alive, status.workers_lost
    );
    let tasks: Vec<_> = status
        .tasks
        .iter()
        .map(|tasks| format!("{} {} on {}", tasks.count, tasks.status, tasks.queue))
        .collect();
    text.push_str(&format!(
        "tasks: {}\n",
        if tasks.is_empty() {
            "none".to_owned()
        } else {
            tasks.join(", ")
        }
    ));
    for (what, age) in [
        ("running without a change", status.oldest_running_seconds),
        ("waiting for a host", status.oldest_due_seconds),
        ("event unpublished", status.oldest_unpublished_seconds),
    ] {
        if let Some(age) = age {
            text.push_str(&format!(
                "longest {what}: {}\n",
                format_duration(Duration::from_secs(age))
            ));
        }
    }
    text
}
