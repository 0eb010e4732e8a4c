//! `counterstep audit verify | heads | changes`: whether the chain of every task's audit is whole, and the
//! ends of the chains for keeping elsewhere. Reads the database, beside the services, and changes
//! nothing.

use super::output::print;
use counterstep_contracts::TaskId;
use counterstep_kernel::audit::admin_audit::{self, AdminSays};
use counterstep_kernel::audit::one_line;
use counterstep_kernel::ports::{JournalPage, Lane, Store, StoreError};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_reconciler::audit::{Copied, Finding, Scope, Verified, admin_head, verify};
use counterstep_steps::times::rfc3339;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Flags of `audit`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DATABASE_ONLY }>,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum AuditCommand {
    /// Find rows of the journal that were changed, removed, put in or moved; exit with 1 where
    /// there are any
    Verify {
        /// Check this task only
        #[arg(long, value_name = "ID")]
        task: Option<TaskId>,
        /// Compare with the ends of the chains as `audit heads` printed them earlier
        #[arg(long, value_name = "FILE")]
        heads: Option<PathBuf>,
        /// How to print what is found
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Print the end of each chain, a line a task: its id, the number of its last row, and the seal
    /// of that row
    Heads,
    /// Print what was changed beside tasks, the oldest first: schedules, switches of task types, API keys; and who
    /// did it
    Changes {
        /// Start behind the entry with this number
        #[arg(long, default_value_t = 0, value_name = "NUMBER")]
        after: u64,
        /// Print a JSON object a line
        #[arg(long)]
        json: bool,
    },
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Sentences
    Text,
    /// A JSON object a line: each finding, then a summary
    Json,
}

pub(super) fn main(args: &AuditArgs) -> Result<(), Exit> {
    let settings = args.settings.read()?.resolve()?;
    // Before anything is read: a file that cannot be used is told of at once.
    let scope = match &args.command {
        AuditCommand::Verify { task, heads, .. } => {
            let copied = heads
                .as_deref()
                .map(copied)
                .transpose()?
                .unwrap_or_default();
            Scope {
                task: *task,
                copied,
            }
        }
        AuditCommand::Heads | AuditCommand::Changes { .. } => Scope::default(),
    };
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let store = counterstep_node::look(&settings, "audit")?;
            match &args.command {
                AuditCommand::Verify { format, .. } => check(&store, &scope, *format).await,
                AuditCommand::Heads => chain_tips(&store).await,
                AuditCommand::Changes { after, json } => changes(&store, *after, *json).await,
            }
        }),
    )
}

fn copied(path: &Path) -> Result<Copied, Exit> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Exit::usage(format_args!(
            "--heads: `{}` cannot be read: {error}",
            path.display()
        ))
    })?;
    Copied::parse(&text)
        .map_err(|error| Exit::usage(format_args!("--heads: `{}`: {error}", path.display())))
}

fn unread(error: StoreError) -> Exit {
    Exit::unavailable(format_args!(
        "the audit cannot be read (is the schema that of this program?): {error}"
    ))
}

async fn check(store: &Store, scope: &Scope, format: Format) -> Result<(), Exit> {
    let mut printed = Ok(());
    let verified = verify(store, scope, &mut |finding| {
        show(&finding, format, &mut printed)
    })
    .await
    .map_err(unread)?;
    printed?;
    end(scope, &verified, &summary(&verified), &verified, format)
}

/// Prints a finding, unless an earlier one could not be.
pub(super) fn show(finding: &Finding, format: Format, printed: &mut Result<(), Exit>) {
    if printed.is_ok() {
        *printed = print(&match format {
            Format::Text => format!("{finding}\n"),
            Format::Json => format!("{}\n", json!(finding)),
        });
    }
}

/// Prints the summary of a check, as `text` or as what `json` is; an error where anything was
/// found.
pub(super) fn end(
    scope: &Scope,
    verified: &Verified,
    text: &str,
    json: &impl serde::Serialize,
    format: Format,
) -> Result<(), Exit> {
    if let (Some(task), 0) = (scope.task, verified.tasks + verified.rows) {
        return Err(Exit::failed(format_args!(
            "there is no task {task}, and no audit of one"
        )));
    }
    print(&match format {
        Format::Text => text.to_owned(),
        Format::Json => format!("{}\n", json!({ "summary": json })),
    })?;
    match verified.findings {
        0 => Ok(()),
        1 => Err(Exit::failed("1 finding")),
        count => Err(Exit::failed(format_args!("{count} findings"))),
    }
}

/// The counts of a check as text.
pub(super) fn summary(verified: &Verified) -> String {
    let Verified {
        tasks,
        rows,
        erased,
        findings,
        changes,
    } = verified;
    let mut text = format!("checked {rows} rows of {tasks} tasks");
    if *changes > 0 {
        text.push_str(&format!(" and {changes} changes beside them"));
    }
    text.push_str(": ");
    text.push_str(&match findings {
        0 => "nothing was found\n".to_owned(),
        1 => "1 finding\n".to_owned(),
        count => format!("{count} findings\n"),
    });
    if *erased > 0 {
        text.push_str(&format!(
            "the data of {erased} rows was erased; their digests are in the chain\n"
        ));
    }
    text
}

async fn chain_tips(store: &Store) -> Result<(), Exit> {
    let mut after = None;
    loop {
        let page = JournalPage {
            task: None,
            after,
            limit: 500,
            lane: Lane::People,
        };
        let tips = store.chain_tips(&page).await.map_err(unread)?;
        let Some(last) = tips.last() else {
            let head = admin_head(store).await.map_err(unread)?;
            return head.map_or(Ok(()), |head| print(&format!("{head}\n")));
        };
        after = Some((last.task.clone(), 0));
        let lines: String = tips
            .iter()
            .filter_map(Copied::line)
            .map(|line| line + "\n")
            .collect();
        print(&lines)?;
    }
}

async fn changes(store: &Store, mut after: u64, as_json: bool) -> Result<(), Exit> {
    let begin = after;
    loop {
        let entries = admin_audit::page(store, after, 500).await.map_err(unread)?;
        let Some(last) = entries.last() else {
            let is_none = after == begin && !as_json;
            return print(if is_none { "No changes\n" } else { "" });
        };
        after = last.no;
        for entry in entries {
            let Some(says) = entry.says() else {
                return Err(Exit::failed(format_args!(
                    "entry {} cannot be read",
                    entry.no
                )));
            };
            let (no, actor, at) = (entry.no, &entry.actor, rfc3339(says.at));
            print(&if as_json {
                let line = json!({
                    "no": no, "at": at, "event": says.event, "actor": actor, "tenant": says.tenant,
                    "name": says.name, "details": says.details,
                });
                format!("{line}\n")
            } else {
                let AdminSays {
                    event,
                    tenant,
                    name,
                    details,
                    ..
                } = says;
                one_line(&format!(
                    "{no} {at} {event} {tenant}/{name} by {actor} {details}"
                )) + "\n"
            })?;
        }
    }
}
