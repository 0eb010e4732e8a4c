//! `counterstep dead-letters groups | show | poison | redrive | resolve`: parked tasks by cause and one by one,
//! and what is decided about many of them at once.

use super::bulk;
use super::edit::SetArgs;
use super::operator::{Settled, Signed};
use super::output::{json, print};
use super::remote::{Remote, joined};
use super::table;
use super::times::shown;
use super::which::WhichArgs;
use crate::client::http::encode;
use counterstep_contracts::bulk::{BulkAction, BulkRequest, DeadLetterGroups};
use counterstep_contracts::dead_letter::{DeadLetterView, PoisonMessages};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `dead-letters`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DeadLettersArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum DeadLettersCommand {
    /// Count parked tasks by what blocks them: step or undo, class, call, and text without ids, numbers
    /// and times
    Groups {
        /// Of this type only
        #[arg(long = "type")]
        task_type: Option<String>,
        /// In this state only; repeated: in one of these
        #[arg(long)]
        status: Vec<TaskStatus>,
        /// With this label only, as order=4711; may be repeated, and then all must be there
        #[arg(long, value_name = "NAME=VALUE")]
        label: Vec<String>,
    },
    /// Show one parked task: its request, its attempts with their errors, who ran them
    Show {
        /// Id of the task
        id: TaskId,
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        print(&run(&remote, args).await?)
    })
}

async fn run(remote: &Remote, args: &DeadLettersArgs) -> Result<String, Exit> {
    match &args.command {
        DeadLettersCommand::Groups {
            task_type,
            status,
            label,
        } => {
            let mut query: Vec<_> = task_type.iter().map(|it| ("type", it.clone())).collect();
            query.extend(status.iter().map(|it| ("status", it.to_string())));
            query.extend(label.iter().map(|it| ("label", it.clone())));
            let path = format!("/api/dead-letters/groups?{}", joined(&query));
            let found: DeadLetterGroups = remote.read_from(&path).await?;
            if args.json {
                return json(&found);
            }
            Ok(groups(&found, !query.is_empty()))
        }
        DeadLettersCommand::Show { id } => {
            let found: DeadLetterView =
                remote.read_from(&format!("/api/dead-letters/{id}")).await?;
            if args.json {
                json(&found)
            } else {
                Ok(one(&found))
            }
        }
        DeadLettersCommand::Poison { remove: Some(id) } => {
            let path = format!("/api/poison-messages/{}", encode(id));
            remote.delete_at(&path).await?;
            Ok("removed\n".to_owned())
        }
        DeadLettersCommand::Poison { remove: None } => {
            let found: PoisonMessages = remote.read_from("/api/poison-messages").await?;
            if args.json {
                json(&found)
            } else {
                Ok(poison(&found))
            }
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
            bulk::start(remote, args.json, body).await
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
            bulk::start(remote, args.json, body).await
        }
    }
}

fn one(found: &DeadLetterView) -> String {
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
    let mut table = table::table(&["step", "way", "try", "outcome", "by", "started", "error"]);
    for attempt in &found.attempts {
        let outcome = attempt.outcome.map(|outcome| outcome.to_string());
        table.add_row([
            attempt.step.clone(),
            attempt.direction.to_string(),
            attempt.attempt.to_string(),
            outcome.unwrap_or_default(),
            attempt.worker.clone().unwrap_or_default(),
            shown(&attempt.started_at),
            one_line(attempt.error.as_deref().unwrap_or_default()),
        ]);
    }
    text + &format!("{table}\n")
}

fn poison(found: &PoisonMessages) -> String {
    let mut table = table::table(&["message", "queue", "subject", "bytes", "kept", "why"]);
    for one in &found.items {
        table.add_row([
            one.id.clone(),
            one.queue.clone(),
            one_line(&one.subject),
            one.size_bytes.to_string(),
            shown(&one.at),
            one_line(&one.reason),
        ]);
    }
    table::page(&table, "poison messages", false, None)
}

fn groups(found: &DeadLetterGroups, filtered: bool) -> String {
    let mut table = table::table(&[
        "group",
        "count",
        "type",
        "cause",
        "what went wrong",
        "first",
        "last",
        "one of them",
    ]);
    for group in &found.groups {
        table.add_row([
            group.id.clone(),
            group.count.to_string(),
            group.task_type.clone(),
            one_line(&group.cause.to_string()),
            one_line(&group.text),
            shown(&group.first_at),
            shown(&group.last_at),
            group.example.to_string(),
        ]);
    }
    let mut text = table::page(&table, "dead letters", filtered, None);
    if found.others > 0 {
        text += &format!("{} more tasks in further groups\n", found.others);
    }
    if !found.complete {
        text += "older tasks were not looked at: give --type, --status or --label\n";
    }
    text
}
