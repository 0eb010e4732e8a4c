//! `counterstep dead-letters show | poison | redrive | resolve`: parked tasks by cause and one by one,
//! and what is decided about many of them at once.

use super::bulk;
use super::derived;
use super::edit::SetArgs;
use super::operator::{Settled, Signed};
use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::table::Look;
use super::task_ids::{self, Named};
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkRequest};
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::http::AttemptView;
use counterstep_contracts::operation::Declared;
use counterstep_contracts::operation::poison::{ListPoisonMessages, RemovePoisonMessage};
use counterstep_contracts::operation::shown::{Cell, Table};
use counterstep_contracts::operation::task_views::GetDeadLetter;
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `dead-letters`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DeadLettersArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum DeadLettersCommand {
    /// Show one parked task: its request, its attempts with their errors, who ran them
    Show {
        #[arg(help = task_ids::ABOUT)]
        id: Named,
    },
    /// List messages that no host can read, the last kept first
    Poison {
        /// Remove this one instead
        #[arg(long, value_name = "ID")]
        remove: Option<String>,
    },
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
    let runtime = runtime()?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        print(&run(&remote, args).await?)
    })
}

async fn run(remote: &Remote, args: &DeadLettersArgs) -> Result<String, Exit> {
    match &args.command {
        DeadLettersCommand::Show { id } => {
            let found = remote
                .call::<GetDeadLetter>(id.id(remote).await?, ())
                .await?;
            args.out.show_text(&found, one)
        }
        DeadLettersCommand::Poison { remove: Some(id) } => {
            let remove = Declared::of::<RemovePoisonMessage>();
            derived::ask(remote, &args.out, &remove, &[id], None).await
        }
        DeadLettersCommand::Poison { remove: None } => {
            let list = Declared::of::<ListPoisonMessages>();
            derived::ask(remote, &args.out, &list, &[], None).await
        }
        DeadLettersCommand::Redrive {
            which,
            edit,
            signed,
        } => {
            let body = BulkRequest {
                patch: edit.patch()?,
                ..which.request(BulkAction::Redrive, signed)?
            };
            bulk::start(remote, &args.out, body).await
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
            bulk::start(remote, &args.out, body).await
        }
    }
}

fn one(found: &DeadLetterView, look: &Look) -> String {
    let letter = &found.letter;
    let mut text = format!(
        "{} {} version {}: {}\n",
        letter.task_id, letter.task_type, letter.version, letter.status
    );
    if let Some(failure) = &letter.failure {
        let step = failure.step.as_deref().unwrap_or("no step");
        let message = one_line(&failure.message);
        text += &format!("failure: {message} ({}), {step}\n", failure.class);
        if let Some(by) = &failure.blocked_by {
            text += &format!("blocked by: {}\n", one_line(&by.message));
        }
    }
    text += &format!("cause: {}\n", one_line(&letter.cause.to_string()));
    text += &format!("group: {}\n", found.group);
    text.extend(found.trace_id.iter().map(|id| format!("trace: {id}\n")));
    let worker = found.worker.iter();
    text.extend(worker.map(|worker| format!("last attempt by: {worker}\n")));
    text += &format!("request: {}\n", found.request);
    for earlier in &found.earlier_requests {
        text += &format!("earlier request: {earlier}\n");
    }
    let row = |attempt: &AttemptView| {
        vec![
            Cell::of(&attempt.step),
            Cell::of(&attempt.direction),
            Cell::of(&attempt.attempt),
            attempt.outcome.as_ref().map_or(Cell::NONE, Cell::of),
            Cell::text(attempt.worker.as_deref()),
            Cell::Time(attempt.started_at.clone()),
            Cell::text(attempt.error.as_deref()),
        ]
    };
    let heads = ["step", "way", "try", "outcome", "by", "started", "error"];
    let table = Table::of("attempts", &heads, found.attempts.iter().map(row));
    text + &look.plain(&table)
}
