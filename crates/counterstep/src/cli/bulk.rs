//! `counterstep bulk list | show | stop | cancel | run-again`: operations on many tasks.

use super::edit::SetArgs;
use super::operator::Signed;
use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::which::WhichArgs;
use crate::client::http::encode;
use counterstep_contracts::bulk::{BulkAction, BulkPreview, BulkRequest, BulkView};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::shown::{Cell, Table, View};
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
    /// List the operations of the last 30 days, the last started first
    List,
    /// Show an operation
    Show {
        /// Id of the operation
        id: String,
    },
    /// Stop an operation: the tasks that are left stay as they are
    Stop {
        /// Id of the operation
        id: String,
    },
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
    let view: BulkView = match &args.command {
        BulkCommand::List => {
            let page: Page<BulkView> = remote.read_from("/api/bulk-operations").await?;
            return args.out.show(&page, list);
        }
        BulkCommand::Cancel { which, signed } => {
            let body = which.request(BulkAction::Cancel, signed)?;
            return start(remote, &args.out, body).await;
        }
        BulkCommand::RunAgain {
            which,
            from,
            edit,
            signed,
        } => {
            let body = BulkRequest {
                from: from.clone(),
                patch: edit.patch()?,
                ..which.request(BulkAction::RunAgain, signed)?
            };
            return start(remote, &args.out, body).await;
        }
        BulkCommand::Show { id } => {
            let path = format!("/api/bulk-operations/{}", encode(id));
            remote.read_from(&path).await?
        }
        BulkCommand::Stop { id } => {
            let path = format!("/api/bulk-operations/{}/stop", encode(id));
            remote.post_to(&path, None::<&()>).await?
        }
    };
    args.out.show(&view, line)
}

/// Starts an operation, or counts what it would be for.
pub(super) async fn start(
    remote: &Remote,
    out: &OutputArgs,
    body: BulkRequest,
) -> Result<String, Exit> {
    let path = "/api/bulk-operations";
    if body.preview {
        let found: BulkPreview = remote.post_to(path, Some(&body)).await?;
        return out.show_text(&found, |found, _| preview(found));
    }
    let started: BulkView = remote.post_to(path, Some(&body)).await?;
    out.show(&started, line)
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

/// How an operation stands, and the first failures.
fn line(view: &BulkView) -> View {
    let progress = progress(view);
    let of_all = format!("{} {} {}: {progress}", view.id, view.action, view.status);
    let failed = view.failures.iter();
    let failed = failed.map(|it| format!("  {}: {}", it.task_id, it.reason).into());
    View::Lines([of_all.into()].into_iter().chain(failed).collect())
}

fn progress(view: &BulkView) -> String {
    let left = view
        .left
        .map_or_else(|| "more".to_owned(), |left| left.to_string());
    format!(
        "{} done, {} failed, {} skipped, {left} left",
        view.done, view.failed, view.skipped
    )
}

fn list(page: &Page<BulkView>) -> View {
    let row = |view: &BulkView| {
        vec![
            Cell::name(&view.id),
            Cell::of(&view.action),
            Cell::of(&view.status),
            progress(view).into(),
            Cell::Time(view.created_at.clone()),
            Cell::of(&view.actor),
            Cell::of(&view.note),
        ]
    };
    let heads = [
        "operation",
        "action",
        "status",
        "progress",
        "started",
        "by",
        "note",
    ];
    let rows = page.items.iter().map(row);
    View::Table(Table::of("bulk operations", &heads, rows))
}
