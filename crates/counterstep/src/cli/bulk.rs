//! `counterstep bulk cancel | run-again`: operations on many tasks are started.

use super::edit::SetArgs;
use super::operator::Signed;
use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::types;
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkAnswer, BulkRequest};
use counterstep_contracts::operation::bulk::{StartBulkOperation, answered};
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

/// Starts an operation, or shows which tasks it would be for.
pub(super) async fn start(
    remote: &Remote,
    out: &OutputArgs,
    body: BulkRequest,
) -> Result<String, Exit> {
    let task_type = body.filter.as_ref().and_then(|it| it.task_type.clone());
    let answer = remote.call::<StartBulkOperation>((), body).await?;
    let count = match &answer {
        BulkAnswer::Preview(found) => Some(found.count),
        BulkAnswer::Started(view) => view.left,
    };
    if let Some(name) = task_type.filter(|_| count == Some(0)) {
        types::tell_unknown(remote, &name).await;
    }
    out.show(&answer, answered)
}
