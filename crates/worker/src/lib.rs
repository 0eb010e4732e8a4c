//! The worker service: takes tasks from its queues and gives each a turn. How many at a time, and
//! from which queues, is all that it decides.

pub mod cli;

use counterstep_contracts::{Host, QueueName};
use counterstep_kernel::host::{self, HostSettings, Spawn};
use counterstep_kernel::{Engine, host::scratch_sweep};
use counterstep_steps::CancelToken;
use futures::future::BoxFuture;
use std::time::Duration;

/// How a worker takes tasks.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// From these queues; empty: those of all task types it knows.
    pub queues: Vec<String>,
    /// Tasks at a time.
    pub concurrency: usize,
    /// How often it looks for due tasks that no message announced.
    pub poll: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        let concurrency = counterstep_node::tasks_at_a_time();
        Self {
            queues: Vec::new(),
            concurrency,
            poll: Duration::from_millis(500),
        }
    }
}

/// Works until `shutdown`, then waits for the tasks it has.
pub fn serve(
    engine: Engine,
    settings: WorkerSettings,
    shutdown: CancelToken,
    spawn: Spawn,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut host = HostSettings::for_all(&engine.registry, Host::Worker, settings.concurrency);
        host.poll = settings.poll;
        if !settings.queues.is_empty() {
            host.queues = settings.queues.into_iter().map(QueueName).collect();
        }
        let names: Vec<_> = host.queues.iter().map(|queue| queue.0.as_str()).collect();
        tracing::info!(worker = %engine.id, queues = names.join(","), concurrency = settings.concurrency, "worker started");
        let serving = host::serve(engine.clone(), host, shutdown.clone(), spawn);
        scratch_sweep::beside(&engine, &shutdown, serving).await;
        tracing::info!(worker = %engine.id, "worker stopped");
    })
}
