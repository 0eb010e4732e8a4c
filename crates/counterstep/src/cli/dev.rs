//! `counterstep dev`: all roles in one process, on the embedded adapters.

use crate::run::{Roles, run};
use counterstep_api::cli::ApiArgs;
use counterstep_node::settings::duration;
use counterstep_node::{Exit, SettingsArgs, open, shutdown_on_signals};
use counterstep_reconciler::ReconcilerSettings;
use counterstep_steps::Registry;
use counterstep_worker::cli::WorkerArgs;
use std::sync::Arc;
use std::time::Duration;

/// Flags of `dev`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DevArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    worker: WorkerArgs,
    /// How often the reconciler passes [default: 5s]
    #[arg(long, env = "COUNTERSTEP_EVERY")]
    every: Option<String>,
}

pub(super) fn main(
    registry: Registry,
    settings: &SettingsArgs,
    args: &DevArgs,
) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    let worker = args.worker.resolve(&settings, &registry)?;
    let mut reconciler = ReconcilerSettings {
        every: Duration::from_secs(5),
        ..ReconcilerSettings::default()
    };
    if let Some(every) = &args.every {
        reconciler.every = duration("every", every)?;
    } else if let Some(every) = settings.every {
        reconciler.every = every;
    }
    let (listener, api) = args.api.bind(&settings)?;
    let address = listener.local_addr().map_err(Exit::failed)?;
    let routes: Vec<_> = registry
        .iter()
        .map(|task_type| {
            let has = |service: &&str| settings.services.contains_key(*service);
            let lacks = registry
                .services_of(task_type)
                .filter(|service| !has(service));
            (
                task_type.decl.route(),
                lacks
                    .map(|service| format!("[services.{service}]"))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let data = settings.database.to_string();
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, Arc::new(registry), "dev").await?;
            println!("API, worker and reconciler are running; the data is at {data}");
            for (route, lacks) in routes {
                println!("submit to http://{address}/api/tasks/{route}");
                if !lacks.is_empty() {
                    println!(
                        "  its tasks fail until the settings have {}",
                        lacks.join(", ")
                    );
                }
            }
            let roles = Roles {
                api: Some((listener, api)),
                worker: Some(worker),
                reconciler: Some(reconciler),
            };
            run(&engine, roles, shutdown).await
        }),
    )
}
