//! What every request of a server shares. Must not hold anything of a single request.

use crate::auth::{Authenticator, Rates};
use crate::events::Events;
use crate::gauges::Gauges;
use crate::history::History;
use crate::long_poll::Waiting;
use crate::problem::webhooks_off;
use crate::readiness::Readiness;
use crate::settings::ApiSettings;
use crate::shares::Shares;
use counterstep_kernel::Engine;
use counterstep_kernel::webhooks::Webhooks;
use counterstep_kernel::{bulk, webhooks};
use counterstep_node::metrics::ProcessPage;
use counterstep_operations::{Process, Refused};
use counterstep_steps::CancelToken;
use serde_json::Value;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The engine, the limits, and the work that outlives the request that began it.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) settings: ApiSettings,
    pub(crate) auth: Authenticator,
    pub(crate) rates: Rates,
    pub(crate) uploads: Arc<Shares>,
    pub(crate) shutdown: CancelToken,
    pub(crate) waiting: Waiting,
    pub(crate) events: Events,
    pub(crate) gauges: Gauges,
    pub(crate) history: History,
    pub(crate) process_page: ProcessPage,
    pub(crate) readiness: Readiness,
    /// The OpenAPI document, once it was asked for.
    pub(crate) document: OnceLock<Value>,
    runtime: Handle,
    work: TaskTracker,
    /// What sends webhooks, executes bulk operations, looks at the installation and reads the keys of an issuer; it ends with the shutdown, and here where
    /// that never came.
    background: Vec<AbortHandle>,
}

impl Drop for Api {
    fn drop(&mut self) {
        for running in &self.background {
            running.abort();
        }
    }
}

impl Api {
    /// On the runtime of the caller.
    pub(crate) fn new(engine: Engine, settings: ApiSettings, shutdown: CancelToken) -> Self {
        let events = Events::start(
            &engine,
            settings.event_streams,
            settings.streams_per_caller,
            settings.event_poll,
        );
        let waiting = Waiting::start(engine.ports.signals.as_ref(), events.tasks().clone());
        let (gauges, readiness) = (Gauges::default(), Readiness::default());
        let process_page = ProcessPage::of(&engine);
        let (runtime, work) = (Handle::current(), TaskTracker::new());
        let auth = Authenticator::new(&settings.auth, &engine);
        let sending = settings.webhooks.clone().map(|webhooks| {
            let sending = webhooks::serve(engine.clone(), webhooks, shutdown.clone());
            work.spawn_on(sending, &runtime).abort_handle()
        });
        let deciding = bulk::serve(engine.clone(), shutdown.clone());
        let deciding = work.spawn_on(deciding, &runtime).abort_handle();
        let history = History::default();
        let looking =
            history
                .clone()
                .keep(engine.clone(), settings.history_every, shutdown.clone());
        let looking = work.spawn_on(looking, &runtime).abort_handle();
        let keeping = auth.tokens().cloned().map(|tokens| {
            let shutdown = shutdown.clone();
            let keeping = async move { tokens.keep_keys(&shutdown).await };
            work.spawn_on(keeping, &runtime).abort_handle()
        });
        Self {
            engine,
            auth,
            rates: Rates::new(settings.requests_per_second),
            uploads: Shares::of(settings.uploads_per_caller),
            settings,
            shutdown,
            waiting,
            events,
            gauges,
            history,
            process_page,
            readiness,
            document: OnceLock::new(),
            runtime,
            work,
            background: sending
                .into_iter()
                .chain(keeping)
                .chain([deciding, looking])
                .collect(),
        }
    }

    /// Runs what must not be cut off when the client goes away: the server drops a request's future
    /// then, but a transaction under way or the clean-up after an upload must come to its end.
    pub(crate) async fn finish<T, F>(&self, doing: &'static str, work: F) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        match self
            .work
            .spawn_on(work.in_current_span(), &self.runtime)
            .await
        {
            Ok(result) => result,
            Err(error) => Err(Refused::internal(doing, &error)),
        }
    }

    /// Waits for what outlived its request, up to the drain time, unless the process is to hurry.
    pub(crate) async fn drained(&self) {
        self.work.close();
        let drained = tokio::time::timeout(self.settings.drain, self.work.wait());
        let hurry = &self.engine.settings.hurry;
        if !matches!(hurry.run_until_cancelled(drained).await, Some(Ok(()))) {
            tracing::warn!(
                left = self.work.len(),
                "stopping before every upload was cleaned up; the sweep will"
            );
        }
    }
}

impl Process for Api {
    fn webhooks(&self) -> Result<&Webhooks, Refused> {
        self.settings.webhooks.as_ref().ok_or_else(webhooks_off)
    }

    fn forget_key(&self, id: &str) {
        self.auth.forget(id);
    }
}
