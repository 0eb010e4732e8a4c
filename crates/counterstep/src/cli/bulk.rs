//! `counterstep bulk cancel | run-again`: operations on many tasks are started.

use super::edit::SetArgs;
use super::operator::Signed;
use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkPreview, BulkRequest, BulkView};
use counterstep_contracts::operation::Verb;
use counterstep_contracts::operation::bulk::shown;
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `bulk`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BulkArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
    #[command(subcommand)]
    command: BulkCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum BulkCommand {
    /// Cancel many tasks that have not ended and are not parked: what they have done is undone
    Cancel {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        signed: Signed,
    },
    /// Run many tasks that have ended again, as new tasks; name their states with --status
    RunAgain {
        #[command(flatten)]
        which: WhichArgs,
        /// From this step, with what the steps before it gave; without it from the start
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
        #[command(flatten)]
        edit: SetArgs,
        #[command(flatten)]
        signed: Signed,
    },
}

pub(super) fn main(args: &BulkArgs) -> Result<(), Exit> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        print(&run(&remote, args).await?)
    })
}

async fn run(remote: &Remote, args: &BulkArgs) -> Result<String, Exit> {
    let body = match &args.command {
        BulkCommand::Cancel { which, signed } => which.request(BulkAction::Cancel, signed)?,
        BulkCommand::RunAgain {
            which,
            from,
            edit,
            signed,
        } => BulkRequest {
            from: from.clone(),
            patch: edit.patch()?,
            ..which.request(BulkAction::RunAgain, signed)?
        },
    };
    start(remote, &args.out, body).await
}

/// Starts an operation, or counts what it would be for.
pub(super) async fn start(
    remote: &Remote,
    out: &OutputArgs,
    body: BulkRequest,
) -> Result<String, Exit> {
    let sent = serde_json::to_value(&body).map_err(Exit::failed)?;
    let (path, sent) = ("/api/bulk-operations", Some(&sent));
    if body.preview {
        let found: BulkPreview = remote.send(Verb::Post, path, sent).await?;
        return out.show_text(&found, |found, _| preview(found));
    }
    let started: BulkView = remote.send(Verb::Post, path, sent).await?;
    out.show(&started, shown)
}

fn preview(found: &BulkPreview) -> String {
    let at_least = if found.complete { "" } else { "at least " };
    let mut text = format!("{at_least}{} tasks; nothing was changed\n", found.count);
    if let Some(group) = &found.group {
        text += &format!("group: {group}\n");
    }
    if let Some(filter) = &found.filter {
        // A filter is texts, times and labels: there is none that has no form as JSON.
        let filter = serde_json::to_string(filter).unwrap_or_default();
        text += &format!("filter: {}\n", one_line(&filter));
    }
    for it in &found.causes {
        let cause = one_line(&format!("{}, {}: {}", it.task_type, it.cause, it.text));
        text += &format!("cause of {}: {cause}\n", it.count);
    }
    if let Some(undo) = &found.undo {
        text += &format!("would be undone, of {} tasks:\n", undo.tasks);
        for it in &undo.steps {
            text += &format!("  {} of {}: {}\n", it.step, it.task_type, it.tasks);
        }
    }
    for task in &found.tasks {
        text += &format!("{task}\n");
    }
    text
}
