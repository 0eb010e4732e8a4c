//! `counterstep check-deploy`: whether this program could continue the tasks in flight. Reads one query and
//! changes nothing, so it runs beside the services of the program before.

use super::output::print;
use super::table::Look;
use counterstep_contracts::operation::shown::{Cell, Table};
use counterstep_contracts::operator::{DeployCheck, OlderVersion, Stranded};
use counterstep_kernel::operator::check_deploy;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_steps::Registry;

/// Flags of `check-deploy`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CheckDeployArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DATABASE_ONLY }>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(registry: &Registry, args: &CheckDeployArgs) -> Result<(), Exit> {
    let settings = args.settings.read()?.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let store = counterstep_node::look(&settings, "check-deploy")?;
            let check = check_deploy(registry, &store).await.map_err(|error| {
                Exit::unavailable(format_args!("the tasks in flight cannot be read: {error}"))
            })?;
            print(&if args.json {
                serde_json::to_string_pretty(&check).map_err(Exit::failed)? + "\n"
            } else {
                text(&check, &Look::here())
            })?;
            if check.stranded.is_empty() {
                return Ok(());
            }
            let tasks: u64 = check.stranded.iter().map(|stranded| stranded.count).sum();
            Err(Exit::failed(format_args!(
                "this build could not go on with {tasks} of {} tasks",
                check.in_flight
            )))
        }),
    )
}

fn text(check: &DeployCheck, look: &Look) -> String {
    let older = older(check);
    if check.stranded.is_empty() {
        return format!(
            "This build can go on with all tasks in flight: {}\n{older}",
            check.in_flight
        );
    }
    let row = |stranded: &Stranded| {
        vec![
            Cell::Text(stranded.task_type.clone()),
            Cell::number(stranded.version),
            Cell::name(&stranded.definition),
            Cell::Number(stranded.count),
            Cell::Task(stranded.example.to_string()),
            Cell::Text(stranded.why.clone()),
        ]
    };
    let heads = [
        "type",
        "version",
        "definition",
        "tasks",
        "one of them",
        "why",
    ];
    let table = Table::of("tasks", &heads, check.stranded.iter().map(row));
    format!("{}{older}", look.plain(&table))
}

/// When each older version can go.
fn older(check: &DeployCheck) -> String {
    let line = |older: &OlderVersion| {
        let OlderVersion {
            task_type,
            version,
            count,
        } = older;
        match count {
            0 => format!(
                "Version {version} of {task_type} has no task in flight: the next build can leave it out, once no \
                 process submits it\n"
            ),
            _ => format!(
                "Version {version} of {task_type} has {count} tasks in flight: keep it registered\n"
            ),
        }
    };
    check.older_versions.iter().map(line).collect()
}
