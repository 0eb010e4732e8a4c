//! `counterstep types …`: which task types take submissions, and what an operator decides about
//! that.

use super::output::{OutputArgs, print, unreadable};
use super::remote::{Remote, runtime};
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::http::Page;
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
}

pub(super) fn main(args: &TypesArgs) -> Result<(), Exit> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let text = match &args.command {
            TypesCommand::List => {
                let page: Page<Value> = remote.read_from("/api/task-types").await?;
                let rows = page.items.iter().map(row).collect::<Result<Vec<_>, _>>()?;
                args.out.show(&page, |_| list(rows))?
            }
        };
        print(&text)
    })
}

fn row(item: &Value) -> Result<Vec<Cell>, Exit> {
    let switch = item.get("switch").cloned().unwrap_or_default();
    let view: SwitchView = serde_json::from_value(switch).map_err(unreadable)?;
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
