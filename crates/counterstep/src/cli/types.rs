//! `counterstep types …`: which task types take submissions, and what an operator decides about
//! that.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use serde_json::Value;

/// Flags of `types`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TypesArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
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
        let one = |view: SwitchView| args.out.show(&view, line);
        let text = match &args.command {
            TypesCommand::List => {
                let page = remote.types().await?;
                let rows = page.items.iter().map(row).collect::<Result<Vec<_>, _>>()?;
                args.out.show(&page, |_| list(rows))?
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

fn line(view: &SwitchView) -> View {
    let mut parts = vec![Cell::Text(view.task_type.clone())];
    match &view.disabled_since {
        Some(since) => parts.extend([" is disabled since ".into(), Cell::Time(since.clone())]),
        None => parts.push(" is enabled".into()),
    }
    parts.extend([" by ".into(), Cell::text(view.by.as_deref())]);
    parts.extend([": ".into(), Cell::text(view.reason.as_deref())]);
    View::Lines(vec![Cell::Parts(parts)])
}

fn row(item: &Value) -> Result<Vec<Cell>, Exit> {
    let switch = item.get("switch").cloned().unwrap_or_default();
    let view: SwitchView = serde_json::from_value(switch).map_err(|error| {
        Exit::failed(format_args!(
            "the API's answer cannot be read ({error}): is it of another version?"
        ))
    })?;
    let is_disabled = view.disabled_since.is_some();
    let probe = match (view.probe, view.probe_from) {
        (Some(task), _) => Cell::Task(task.to_string()),
        (None, Some(from)) => Cell::Parts(vec!["from ".into(), Cell::Time(from)]),
        (None, None) if is_disabled => "none: `types enable` enables it".into(),
        (None, None) => Cell::NONE,
    };
    Ok(vec![
        Cell::name(&view.task_type),
        item.get("version").map_or(Cell::NONE, Cell::of),
        if is_disabled { "no" } else { "yes" }.into(),
        Cell::time(view.disabled_since.as_deref()),
        Cell::text(view.by.as_deref()),
        Cell::text(view.reason.as_deref()),
        probe,
    ])
}

fn list(rows: Vec<Vec<Cell>>) -> View {
    let heads = [
        "type",
        "version",
        "takes tasks",
        "since",
        "by",
        "reason",
        "probe",
    ];
    View::Table(Table::of("task types", &heads, rows))
}
