//! `counterstep types …`: which task types take submissions, and what an operator decides about
//! that.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use super::times;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::http::Page;
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use serde_json::Value;

/// Flags of `types`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TypesArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: TypesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum TypesCommand {
    /// List the types that the API knows, and which are disabled
    List,
    /// Refuse submissions of a type until an operator enables it; tasks that were accepted go on
    Disable {
        /// Name of the task type
        name: String,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Take submissions of a type again; failures from before do not count any more
    Enable {
        /// Name of the task type
        name: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct WhyArgs {
    /// Why: clients whose submissions are refused are told
    #[arg(long)]
    note: String,
    /// Who decides, recorded in the audit
    #[arg(long)]
    actor: Option<String>,
}

impl WhyArgs {
    fn body(&self) -> SwitchRequest {
        SwitchRequest {
            note: self.note.clone(),
            actor: self.actor.clone(),
        }
    }
}

pub(super) fn main(args: &TypesArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let one = |view: SwitchView| {
            if args.json {
                json(&view)
            } else {
                Ok(line(&view) + "\n")
            }
        };
        let text = match &args.command {
            TypesCommand::List => {
                let page = remote.types().await?;
                if args.json {
                    json(&page)?
                } else {
                    list(&page)?
                }
            }
            TypesCommand::Disable { name, why } => one(remote
                .switch(&kebab_case(name), "disable", &why.body())
                .await?)?,
            TypesCommand::Enable { name, why } => one(remote
                .switch(&kebab_case(name), "enable", &why.body())
                .await?)?,
        };
        print(&text)
    })
}

/// What people wrote, on one line.
fn shown(text: Option<&str>) -> String {
    text.map(one_line).unwrap_or_default()
}

fn line(view: &SwitchView) -> String {
    let (by, reason) = (shown(view.by.as_deref()), shown(view.reason.as_deref()));
    match &view.disabled_since {
        Some(since) => format!(
            "{} is disabled since {} by {by}: {reason}",
            view.task_type,
            times::shown(since)
        ),
        None => format!("{} is enabled by {by}: {reason}", view.task_type),
    }
}

fn list(page: &Page<Value>) -> Result<String, Exit> {
    let mut table = table::table(&[
        "type",
        "version",
        "takes tasks",
        "since",
        "by",
        "reason",
        "probe",
    ]);
    for item in &page.items {
        let switch = item.get("switch").cloned().unwrap_or_default();
        let view: SwitchView = serde_json::from_value(switch).map_err(|error| {
            Exit::failed(format_args!(
                "the API's answer cannot be read ({error}): is it of another version?"
            ))
        })?;
        let by_hand = || {
            view.disabled_since
                .as_ref()
                .map(|_| "none: `types enable` enables it".to_owned())
        };
        let from = view.probe_from.map(|from| format!("from {from}"));
        let probe = view
            .probe
            .map(|task| task.to_string())
            .or(from)
            .or_else(by_hand);
        table.add_row([
            view.task_type,
            item.get("version")
                .map(Value::to_string)
                .unwrap_or_default(),
            if view.disabled_since.is_some() {
                "no"
            } else {
                "yes"
            }
            .to_owned(),
            view.disabled_since
                .as_deref()
                .map(times::shown)
                .unwrap_or_default(),
            shown(view.by.as_deref()),
            shown(view.reason.as_deref()),
            probe.unwrap_or_default(),
        ]);
    }
    Ok(table::page(&table, "task types", false, None))
}
