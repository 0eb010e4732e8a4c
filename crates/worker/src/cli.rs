//! The worker's part of a command line.

use crate::{WorkerSettings, serve};
use counterstep_node::{Exit, SettingsArgs, open, run, shutdown_on_signals, spawner};
use counterstep_steps::Registry;
use std::sync::Arc;

/// Flags of the worker service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WorkerArgs {
    /// Queues to serve, separated by commas [default: those of all task types]
    #[arg(long, env = "COUNTERSTEP_QUEUES", value_delimiter = ',')]
    pub queues: Vec<String>,
    /// Tasks at a time [default: up to 256, one for each 16 MiB of memory]
    #[arg(long, env = "COUNTERSTEP_CONCURRENCY", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: Option<u16>,
}

impl WorkerArgs {
    /// With the file's values and the defaults where no flag was given.
    ///
    /// # Errors
    /// For a queue that no task type has: a worker on it would wait without end.
    pub fn resolve(
        &self,
        settings: &counterstep_node::Settings,
        registry: &Registry,
    ) -> Result<WorkerSettings, Exit> {
        let defaults = WorkerSettings::default();
        let queues = if self.queues.is_empty() {
            settings.queues.clone().unwrap_or_default()
        } else {
            self.queues.clone()
        };
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
        let concurrency = self
            .concurrency
            .map(usize::from)
            .or(settings.concurrency)
            .unwrap_or(defaults.concurrency);
        Ok(WorkerSettings {
            queues,
            concurrency: concurrency.max(1),
            ..defaults
        })
    }
}

/// The whole service.
///
/// # Errors
/// [`Exit`], when it cannot start.
pub fn main(registry: Registry, settings: &SettingsArgs, args: &WorkerArgs) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    let worker = args.resolve(&settings, &registry)?;
    run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, Arc::new(registry), "worker").await?;
            serve(engine, worker, shutdown, spawner()).await;
            Ok(())
        }),
    )
}
