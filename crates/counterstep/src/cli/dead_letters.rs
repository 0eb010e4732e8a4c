//! `counterstep dead-letters groups | show | poison | redrive | resolve`: parked tasks by cause and one by one,
//! and what is decided about many of them at once.

use super::bulk;
use super::derived;
use super::edit::SetArgs;
use super::operator::{Settled, Signed};
use super::output::{OutputArgs, print};
use super::remote::{Remote, joined, runtime};
use super::table::Look;
use super::which::WhichArgs;
use counterstep_contracts::bulk::{BulkAction, BulkRequest, DeadLetterGroup, DeadLetterGroups};
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::http::AttemptView;
use counterstep_contracts::operation::Declared;
use counterstep_contracts::operation::poison::{ListPoisonMessages, RemovePoisonMessage};
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::{TaskId, TaskStatus};
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
    let runtime = runtime()?;
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
            let mut text = args
                .out
                .show(&found, |found| groups(found, !query.is_empty()))?;
            if !args.out.is_json() {
                text += &left_out(&found);
            }
            Ok(text)
        }
        DeadLettersCommand::Show { id } => {
            let found: DeadLetterView =
                remote.read_from(&format!("/api/dead-letters/{id}")).await?;
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

fn groups(found: &DeadLetterGroups, is_filtered: bool) -> View {
    let row = |group: &DeadLetterGroup| {
        vec![
            Cell::name(&group.id),
            Cell::Number(group.count),
            Cell::of(&group.task_type),
            Cell::of(&group.cause),
            Cell::of(&group.text),
            Cell::Time(group.first_at.clone()),
            Cell::Time(group.last_at.clone()),
            Cell::Task(group.example.to_string()),
        ]
    };
    let heads = [
        "group",
        "count",
        "type",
        "cause",
        "what went wrong",
        "first",
        "last",
        "one of them",
    ];
    let table = Table::of("dead letters", &heads, found.groups.iter().map(row));
    View::Table(table.page(is_filtered, None))
}

/// What no row says.
fn left_out(found: &DeadLetterGroups) -> String {
    let mut text = String::new();
    if found.others > 0 {
        text += &format!("{} more tasks in further groups\n", found.others);
    }
    if !found.complete {
        text += "older tasks were not looked at: give --type, --status or --label\n";
    }
    text
}
