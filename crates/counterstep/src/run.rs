//! One function that runs any set of roles on any set of adapters: `dev` is all roles on the
//! embedded ones, and nothing else.

use counterstep_api::ApiSettings;
use counterstep_contracts::Host;
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::{Engine, host::scratch_sweep};
use counterstep_node::{Exit, spawner};
use counterstep_reconciler::ReconcilerSettings;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_worker::WorkerSettings;
use futures::future::BoxFuture;
use std::net::TcpListener;

/// Maximum number of steps placed on the api host that one API process runs at a time.
const API_STEPS: usize = 16;

/// The roles of a process; by default none.
#[derive(Debug, Default)]
pub struct Roles {
    /// Serves HTTP on this listener, and runs the steps placed on the api host.
    pub api: Option<(TcpListener, ApiSettings)>,
    /// Runs the steps placed on worker hosts.
    pub worker: Option<WorkerSettings>,
    /// Recovers, sweeps, and does what else a reconciler does, by these settings alone: what the
    /// flags and the settings file give (`[orphans]`, `[retention]`, intervals) is read by
    /// [`reconciler::cli::resolve`](counterstep_reconciler::cli::resolve). Settings that a program
    /// makes itself are checked by [`ReconcilerSettings::check`].
    pub reconciler: Option<ReconcilerSettings>,
}

/// Runs the roles until `shutdown`, each to its orderly end.
///
/// # Errors
/// [`Exit`], when the API cannot serve.
pub fn run<'a>(
    engine: &'a Engine,
    roles: Roles,
    shutdown: CancelToken,
) -> BoxFuture<'a, Result<(), Exit>> {
    Box::pin(async move {
        let has_api = roles.api.is_some();
        let api = async {
            let Some((listener, settings)) = roles.api else {
                return Ok(());
            };
            let served =
                counterstep_api::serve(engine.clone(), settings, listener, shutdown.clone()).await;
            // Without its API the process is of no use: the other roles end too.
            shutdown.cancel(CancelReason::Shutdown);
            served.map_err(|error| Exit::failed(format_args!("the API ended: {error}")))
        };
        let api_steps = async {
            if has_api {
                api_steps(engine, &shutdown).await;
            }
        };
        let worker = async {
            if let Some(settings) = roles.worker {
                counterstep_worker::serve(engine.clone(), settings, shutdown.clone(), spawner())
                    .await;
            }
        };
        let reconciler = async {
            if let Some(settings) = roles.reconciler {
                counterstep_reconciler::serve(engine.clone(), settings, shutdown.clone()).await;
            }
        };
        let (served, (), (), ()) = tokio::join!(api, api_steps, worker, reconciler);
        served
    })
}

/// Runs the steps placed on the api host until `shutdown`.
pub(crate) async fn api_steps(engine: &Engine, shutdown: &CancelToken) {
    let settings = HostSettings::for_all(&engine.registry, Host::Api, API_STEPS);
    let serving = host::serve(engine.clone(), settings, shutdown.clone(), spawner());
    scratch_sweep::beside(engine, shutdown, serving).await;
}
