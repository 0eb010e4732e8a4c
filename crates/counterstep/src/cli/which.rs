//! The flags that name many tasks at once, as the body of a bulk operation.

use super::ids;
use super::operator::Signed;
use super::times::Since;
use clap::ArgGroup;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use counterstep_contracts::bulk::{BulkAction, BulkFilter, BulkRequest};
use counterstep_contracts::cause::FAILURE_CLASSES;
use counterstep_contracts::operation::dead_letters::GROUP_IDS;
use counterstep_contracts::{Labels, TaskStatus};
use counterstep_node::Exit;

/// Which tasks.
#[derive(Debug, Clone, clap::Args)]
#[command(group(
    ArgGroup::new("which").required(true).multiple(true).args([
        "group", "all", "task_type", "status", "label", "since", "until", "failure_class", "failure_text",
    ])
))]
pub(super) struct WhichArgs {
    /// Of this group, see `dead-letters groups`, or at least 8 characters of the start or the ending of its id
    #[arg(long, value_parser = group)]
    group: Option<String>,
    /// All tasks to which the action applies
    #[arg(long, conflicts_with_all = ["group", "task_type", "status", "label", "since", "until", "failure_class", "failure_text"])]
    all: bool,
    /// Of this type only
    #[arg(long = "type")]
    task_type: Option<String>,
    /// In this state only; repeated: in one of these
    #[arg(long, value_parser = status())]
    status: Vec<TaskStatus>,
    /// With this label only, as order=4711; may be repeated, and then all must be there
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Submitted since: a duration (2h) or a time
    #[arg(long)]
    since: Option<Since>,
    /// Submitted before this time, or longer ago than this
    #[arg(long)]
    until: Option<Since>,
    /// With a failure of this class only
    #[arg(long, value_parser = PossibleValuesParser::new(FAILURE_CLASSES))]
    failure_class: Option<String>,
    /// With this in the text of the failure
    #[arg(long)]
    failure_text: Option<String>,
    /// Count them and change nothing
    #[arg(long)]
    preview: bool,
}

/// Reads a state; another text is refused with those that there are.
fn status() -> impl TypedValueParser<Value = TaskStatus> {
    PossibleValuesParser::new(TaskStatus::ALL.iter().map(|it| it.as_str()))
        .try_map(|text| text.parse::<TaskStatus>())
}

fn group(text: &str) -> Result<String, String> {
    ids::checked(&GROUP_IDS, text)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let checked = Labels::new().look_for(name, value);
    checked.map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

impl WhichArgs {
    fn filter(&self) -> Result<BulkFilter, Exit> {
        let mut labels = Labels::new();
        for (name, value) in &self.label {
            labels.look_for(name, value).map_err(Exit::config)?;
        }
        Ok(BulkFilter {
            task_type: self.task_type.clone(),
            status: self.status.clone(),
            labels,
            failure_class: self.failure_class.clone(),
            failure_text: self.failure_text.clone(),
            since: self.since.map(Since::rfc3339),
            until: self.until.map(Since::rfc3339),
        })
    }

    /// The body of an operation on them, without what it needs more.
    pub(super) fn request(&self, action: BulkAction, signed: &Signed) -> Result<BulkRequest, Exit> {
        if action == BulkAction::RunAgain && self.status.is_empty() {
            let states = TaskStatus::ALL.iter().filter(|it| action.is_for(**it));
            let states: Vec<_> = states.map(|it| it.as_str()).collect();
            return Err(Exit::usage(format_args!(
                "--status: needed, with --all too: which tasks that have ended are to run again? One of {}, or several",
                states.join(", ")
            )));
        }
        Ok(BulkRequest {
            action,
            settled: None,
            patch: None,
            from: None,
            group: self.group.clone(),
            filter: Some(self.filter()?),
            note: signed.note.clone(),
            actor: signed.actor(),
            preview: self.preview,
        })
    }
}
