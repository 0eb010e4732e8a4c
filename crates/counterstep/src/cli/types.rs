//! `counterstep types …`: which task types take submissions, and what an operator decides about
//! that.

use super::group::{Group, Shown};
use super::output::unreadable;
use super::remote::Remote;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::nearest;
use serde_json::Value;
use std::io::Write as _;

/// Flags of `types`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TypesArgs {
    #[command(flatten)]
    group: Group,
    #[command(subcommand)]
    command: TypesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum TypesCommand {
    /// List the types that the API knows, and which are disabled
    List,
}

pub(super) fn main(args: &TypesArgs) -> Result<(), Exit> {
    args.group.run(async |remote| match &args.command {
        TypesCommand::List => {
            let page: Page<Value> = remote.read_from("/api/task-types").await?;
            let rows = page.items.iter().map(row).collect::<Result<Vec<_>, _>>()?;
            let text = args.group.out.show(&page, |_| list(rows))?;
            Ok(Shown::of(text, "types", None))
        }
    })
}

/// Tells people who found nothing of a type that the API knows none of this name. It is no error: an older program may have left
/// tasks of it.
pub(super) async fn tell_unknown(remote: &Remote, name: &str) {
    let known: Result<Page<Value>, Exit> = remote.read_from("/api/task-types").await;
    let known = known.into_iter().flat_map(|page| page.items);
    let known: Vec<_> = known
        .filter_map(|it| it["name"].as_str().map(str::to_owned))
        .collect();
    if let Some(text) = unknown(name, &known) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// That no type has this name, or this route, with the one that is most like it.
fn unknown(name: &str, known: &[String]) -> Option<String> {
    if known.is_empty() || known.iter().any(|it| it == name || kebab_case(it) == name) {
        return None;
    }
    // As people write it: `place-order` and `PlaceOrder` are one name.
    let near = nearest(&kebab_case(name), known.iter().map(|it| kebab_case(it)));
    let near = near.and_then(|near| known.iter().find(|it| kebab_case(it) == near));
    let near = near.map_or_else(
        || "see `types list`".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    let name = one_line(name);
    Some(format!("note: the API knows no task type `{name}`: {near}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_nothing_knows_is_told_with_the_one_most_like_it() {
        let known = ["CreateZipFromFiles", "PlaceOrder"].map(str::to_owned);
        for name in ["PlaceOrder", "place-order"] {
            assert_eq!(unknown(name, &known), None);
        }
        for (name, part) in [
            ("PlaceOrdr", "did you mean `PlaceOrder`?"),
            ("placeorder", "did you mean `PlaceOrder`?"),
            ("create-zip", "did you mean `CreateZipFromFiles`?"),
            ("q\u{1b}[2J", "q\\u{1b}[2J`: see `types list`"),
        ] {
            let text = unknown(name, &known).expect("a note");
            assert!(text.contains(part), "{text}");
        }
    }
}
