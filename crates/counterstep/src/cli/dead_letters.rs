//! `counterstep dead-letters redrive | resolve`: what is decided about many parked tasks at once.

use super::bulk;
use super::edit::SetArgs;
use super::group::{Group, Shown};
use super::operator::{Settled, Signed};
use super::output::OutputArgs;
use super::remote::Remote;
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkRequest};
use counterstep_node::Exit;

/// Flags of `dead-letters`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DeadLettersArgs {
    #[command(flatten)]
    group: Group,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum DeadLettersCommand {
    /// Retry many parked tasks, with their retries anew, from the steps that they have completed
    Redrive {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        edit: SetArgs,
        #[command(flatten)]
        signed: Signed,
    },
    /// Settle many parked tasks by hand: they end as resolved
    Resolve {
        /// What has become of them
        #[arg(long = "as", value_enum)]
        settled: Settled,
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        signed: Signed,
    },
}

pub(super) fn main(args: &DeadLettersArgs) -> Result<(), Exit> {
    args.group.run(async |remote| {
        let text = run(remote, &args.group.out, &args.command).await?;
        Ok(Shown::of(text, "dead-letters", None))
    })
}

async fn run(
    remote: &Remote,
    out: &OutputArgs,
    command: &DeadLettersCommand,
) -> Result<String, Exit> {
    match command {
        DeadLettersCommand::Redrive {
            which,
            edit,
            signed,
        } => {
            let body = BulkRequest {
                patch: edit.patch()?,
                ..which.request(BulkAction::Redrive, signed)?
            };
            bulk::start(remote, out, body).await
        }
        DeadLettersCommand::Resolve {
            settled,
            which,
            signed,
        } => {
            let body = BulkRequest {
                settled: Some((*settled).into()),
                ..which.request(BulkAction::Resolve, signed)?
            };
            bulk::start(remote, out, body).await
        }
    }
}
