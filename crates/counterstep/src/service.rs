//! An engine inside a program that has a server or a `main` of its own: started, submitted to, and
//! stopped in order. Must not touch what is the whole process's: its log, its signals, its mask of
//! file modes.

use crate::client::Client;
use crate::run::{self, Roles, api_steps};
use counterstep_api::{ApiSettings, MountedApi};
use counterstep_contracts::Host;
use counterstep_kernel::Engine;
use counterstep_node::{Exit, Settings, metrics, open, step_process};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// In the registry of workers, beside the process's own id.
const ROLE: &str = "service";

/// An engine that runs in a program of your own, on its Tokio runtime. Dropped, it stops as
/// [`stop`](Self::stop) does, but nothing waits for it.
#[derive(Debug)]
pub struct Service {
    engine: Engine,
    shutdown: CancelToken,
    running: Vec<JoinHandle<Result<(), Exit>>>,
    mounted: Vec<MountedApi>,
}

impl Service {
    /// Opens what the settings name and starts the roles. With no role the process submits tasks and
    /// follows them, and others run them.
    ///
    /// # Errors
    /// [`Exit`], saying what cannot be used.
    pub async fn start(
        registry: Registry,
        settings: &Settings,
        mut roles: Roles,
    ) -> Result<Self, Exit> {
        // It may mount its API later.
        let worker = roles.worker.as_ref().map(|_| Host::Worker);
        let hosts: Vec<Host> = [Host::Api].into_iter().chain(worker).collect();
        step_process::check(&registry, settings, &hosts)?;
        let mut listener = metrics::bind(settings)?;
        let engine = open(settings, registry, ROLE).await?;
        let shutdown = CancelToken::new();
        if let Some((_, api)) = &mut roles.api {
            // Its page has more.
            api.metrics_listener = listener.take().map(Arc::new);
        }
        let running = {
            let (engine, shutdown) = (engine.clone(), shutdown.clone());
            tokio::spawn(async move {
                let has_metrics = listener.is_some();
                let running = async {
                    let ended = run::run(&engine, roles, shutdown.clone()).await;
                    if has_metrics {
                        // Without a role it has ended at once.
                        shutdown.cancelled().await;
                    }
                    ended
                };
                metrics::beside(listener, &engine, &shutdown, running).await
            })
        };
        Ok(Self {
            engine,
            shutdown,
            running: vec![running],
            mounted: Vec::new(),
        })
    }

    /// Submits tasks and follows them.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::of(&self.engine)
    }

    /// The engine itself, for what the client does not do.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The HTTP interface for an actix-web server of the program's own, and the steps placed on the
    /// api host, which run from now on. It authenticates callers as the settings have it, by default none.
    pub fn mount_api(&mut self, settings: ApiSettings) -> MountedApi {
        let (engine, shutdown) = (self.engine.clone(), self.shutdown.clone());
        let mounted = MountedApi::new(engine.clone(), settings, shutdown.clone());
        self.running.push(tokio::spawn(async move {
            api_steps(&engine, &shutdown).await;
            Ok(())
        }));
        self.mounted.push(mounted.clone());
        mounted
    }

    /// Stops in order: no new work, steps under way go on for the drain time of the settings and are
    /// told to stop then, leases are given back. A server with the API mounted is stopped before.
    ///
    /// # Errors
    /// [`Exit`], where a role had ended by itself.
    pub async fn stop(mut self) -> Result<(), Exit> {
        self.shutdown.cancel(CancelReason::Shutdown);
        let mut stopped = Ok(());
        for role in std::mem::take(&mut self.running) {
            let ended = role.await;
            stopped = stopped.and(ended.unwrap_or_else(|error| {
                Err(Exit::failed(format_args!("a role was cut off: {error}")))
            }));
        }
        for api in &self.mounted {
            api.drained().await;
        }
        stopped
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.cancel(CancelReason::Shutdown);
    }
}
