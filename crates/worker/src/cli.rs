//! The worker's part of a command line.

use crate::{WorkerSettings, serve};
use counterstep_contracts::declaration::kebab_case;
use counterstep_node::{
    Exit, Layers, SettingsArgs, metrics, open, run_service, shutdown_on_signals, spawner,
};
use counterstep_steps::Registry;

/// The task types that this process is to run.
///
/// # Errors
/// For one that the program does not have.
pub fn chosen(given: &Layers, registry: Registry) -> Result<Registry, Exit> {
    let Some(wanted) = given.task_types()?.filter(|wanted| !wanted.is_empty()) else {
        return Ok(registry);
    };
    let names = |wanted: &str, name: &str| wanted == name || wanted == kebab_case(name);
    let is = |wanted: &str, name: &str, version: u32| match wanted.split_once('@') {
        Some((of, only)) => names(of, name) && only.parse() == Ok(version),
        None => names(wanted, name),
    };
    let known = registry.known();
    let unknown = wanted
        .iter()
        .find(|wanted| !known.iter().any(|it| is(wanted, &it.name, it.version)));
    if let Some(unknown) = unknown {
        let known = known.iter().map(|it| format!("{}@{}", it.name, it.version));
        return Err(Exit::config(format_args!(
            "setting `task_types`: no task type is called `{}`: known are {}",
            unknown.escape_debug(),
            Vec::from_iter(known).join(", ")
        )));
    }
    Ok(registry.only(|name, version| wanted.iter().any(|wanted| is(wanted, name, version))))
}

/// How this worker takes tasks.
///
/// # Errors
/// For a queue that no task type has: a worker on it would wait indefinitely.
pub fn resolve(given: &Layers, registry: &Registry) -> Result<WorkerSettings, Exit> {
    let defaults = WorkerSettings::default();
    let queues = given.queues()?.unwrap_or_default();
    let known = registry.queues(counterstep_contracts::Host::Worker);
    if let Some(unknown) = queues
        .iter()
        .find(|queue| !known.iter().any(|known| known.0 == **queue))
    {
        let known: Vec<_> = known.iter().map(|queue| queue.0.as_str()).collect();
        return Err(Exit::config(format_args!(
            "no task type has the queue `{}`: known are {}",
            unknown.escape_debug(),
            known.join(", ")
        )));
    }
    Ok(WorkerSettings {
        queues,
        concurrency: given.concurrency()?.unwrap_or(defaults.concurrency),
        ..defaults
    })
}

/// The whole service.
///
/// # Errors
/// [`Exit`], when it cannot start.
pub fn main(registry: Registry, args: &SettingsArgs) -> Result<(), Exit> {
    let given = args.read()?;
    let settings = given.resolve()?;
    let registry = chosen(&given, registry)?;
    let worker = resolve(&given, &registry)?;
    let listener = metrics::bind(&settings)?;
    run_service(
        &settings,
        "worker",
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, registry, "worker").await?;
            let working = serve(engine.clone(), worker, shutdown.clone(), spawner());
            metrics::beside(listener, &engine, &shutdown, working).await;
            Ok(())
        }),
    )
}
