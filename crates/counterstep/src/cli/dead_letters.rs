//! `counterstep dead-letters groups | redrive | resolve`: parked tasks by cause, and what is decided about
//! many of them at once.

use super::bulk;
use super::operator::{Settled, Signed};
use super::output::{json, print};
use super::remote::{Remote, joined};
use super::table;
use super::times::shown;
use counterstep_contracts::bulk::{
    BulkAction, BulkFilter, BulkPreview, BulkRequest, BulkView, DeadLetterGroups,
};
use counterstep_contracts::http::FAILURE_CLASSES;
use counterstep_contracts::{Labels, TaskStatus};
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
    /// Counts parked tasks by cause: type, step, class and text of the failure, without what differs
    /// from task to task
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
    /// Lets many parked tasks go on, with their retries anew, from the steps that they have completed
    Redrive {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        signed: Signed,
    },
    /// Settles many parked tasks by hand: they end as resolved
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

/// Which parked tasks.
#[derive(Debug, Clone, clap::Args)]
struct WhichArgs {
    /// Of this group: see `dead-letters groups`
    #[arg(long, required_unless_present_any = ["all", "task_type", "status", "label", "failure_class", "failure_text"])]
    group: Option<String>,
    /// All parked tasks
    #[arg(long, conflicts_with_all = ["group", "task_type", "status", "label", "failure_class", "failure_text"])]
    all: bool,
    /// Of this type only
    #[arg(long = "type")]
    task_type: Option<String>,
    /// In this state only; repeated: in one of these
    #[arg(long)]
    status: Vec<TaskStatus>,
    /// With this label only, as order=4711; may be repeated, and then all must be there
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// With a failure of this class only
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(FAILURE_CLASSES))]
    failure_class: Option<String>,
    /// With this in the text of the failure
    #[arg(long)]
    failure_text: Option<String>,
    /// Count them and change nothing
    #[arg(long)]
    preview: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let checked = Labels::new().add(name, value);
    checked.map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

impl WhichArgs {
    fn filter(&self) -> Result<BulkFilter, Exit> {
        let mut labels = Labels::new();
        for (name, value) in &self.label {
            labels.add(name, value).map_err(Exit::config)?;
        }
        Ok(BulkFilter {
            task_type: self.task_type.clone(),
            status: self.status.clone(),
            labels,
            failure_class: self.failure_class.clone(),
            failure_text: self.failure_text.clone(),
        })
    }
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
        DeadLettersCommand::Redrive { which, signed } => {
            start(remote, args.json, BulkAction::Redrive, None, which, signed).await
        }
        DeadLettersCommand::Resolve {
            settled,
            which,
            signed,
        } => {
            let settled = Some(*settled);
            start(
                remote,
                args.json,
                BulkAction::Resolve,
                settled,
                which,
                signed,
            )
            .await
        }
    }
}

async fn start(
    remote: &Remote,
    as_json: bool,
    action: BulkAction,
    settled: Option<Settled>,
    which: &WhichArgs,
    signed: &Signed,
) -> Result<String, Exit> {
    let body = BulkRequest {
        action,
        settled: settled.map(Into::into),
        group: which.group.clone(),
        filter: Some(which.filter()?),
        note: signed.note.clone(),
        actor: signed.actor(),
        preview: which.preview,
    };
    let path = "/api/bulk-operations";
    if which.preview {
        let found: BulkPreview = remote.post_to(path, Some(&body)).await?;
        return if as_json {
            json(&found)
        } else {
            Ok(preview(&found))
        };
    }
    let started: BulkView = remote.post_to(path, Some(&body)).await?;
    if as_json {
        json(&started)
    } else {
        Ok(bulk::line(&started))
    }
}

fn preview(found: &BulkPreview) -> String {
    let at_least = if found.complete { "" } else { "at least " };
    let mut text = format!("{at_least}{} tasks; nothing was changed\n", found.count);
    for task in &found.tasks {
        text += &format!("{task}\n");
    }
    text
}

fn groups(found: &DeadLetterGroups, filtered: bool) -> String {
    let mut table = table::table(&[
        "group",
        "count",
        "type",
        "step",
        "class",
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
            group.step.clone().unwrap_or_default(),
            group.class.clone().unwrap_or_default(),
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
