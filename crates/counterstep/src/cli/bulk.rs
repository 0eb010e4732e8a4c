//! `counterstep bulk cancel | run-again`: operations on many tasks are started.

use super::edit::SetArgs;
use super::group::{Group, Shown};
use super::ids;
use super::operator::Signed;
use super::output::OutputArgs;
use super::remote::Remote;
use super::types;
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkAnswer, BulkRequest};
use counterstep_contracts::operation::Operation;
use counterstep_contracts::operation::bulk::{StartBulkOperation, answered};
use counterstep_contracts::operation::dead_letters::GROUP_IDS;
use counterstep_node::Exit;

/// Flags of `bulk`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BulkArgs {
    #[command(flatten)]
    group: Group,
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
    args.group.run(async |remote| {
        let text = start(remote, &args.group.out, body(&args.command)?).await?;
        Ok(Shown::of(text, "bulk", None))
    })
}

fn body(command: &BulkCommand) -> Result<BulkRequest, Exit> {
    match command {
        BulkCommand::Cancel { which, signed } => which.request(BulkAction::Cancel, signed),
        BulkCommand::RunAgain {
            which,
            from,
            edit,
            signed,
        } => Ok(BulkRequest {
            from: from.clone(),
            patch: edit.patch()?,
            ..which.request(BulkAction::RunAgain, signed)?
        }),
    }
}

/// Starts an operation, or shows which tasks it would be for.
pub(super) async fn start(
    remote: &Remote,
    out: &OutputArgs,
    mut body: BulkRequest,
) -> Result<String, Exit> {
    if let Some(group) = &mut body.group {
        let found = ids::complete(remote, &GROUP_IDS, &[], group).await?;
        if !body.preview {
            ids::confirm(remote, &StartBulkOperation::ABOUT, found.as_slice())?;
        }
    }
    let task_type = body.filter.as_ref().and_then(|it| it.task_type.clone());
    if !body.preview {
        remote.confirm(&format!("{} of many tasks", body.action))?;
    }
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
