//! The API's part of a command line.

use crate::{AllowedHosts, ApiSettings, Beside, serve};
use counterstep_contracts::Host;
use counterstep_kernel::host::{self, HostSettings};
use counterstep_node::{
    Exit, Layers, Settings, SettingsArgs, metrics, open, run, shutdown_on_signals, spawner,
};
use counterstep_steps::Registry;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// Steps placed on the api host that one API process runs at a time.
const API_STEPS: usize = 16;

/// A long poll looks again after this where the other processes announce what they do.
const SIGNALS_REACH_US: Duration = Duration::from_secs(1);

/// Starts to listen, for metrics too where they have an address of their own.
///
/// # Errors
/// When the address is taken, or open to other machines without saying so.
pub fn bind(given: &Layers, settings: &Settings) -> Result<(TcpListener, ApiSettings), Exit> {
    let address = given.listen()?;
    if !address.ip().is_loopback() && !given.allow_unauthenticated()? {
        return Err(Exit::config(format_args!(
            "{address} can be reached from other machines, and this API authenticates no caller: listen on \
             127.0.0.1 behind a proxy that does, or set --allow-unauthenticated"
        )));
    }
    let listener = TcpListener::bind(address)
        .map_err(|error| Exit::config(format_args!("{address} cannot be listened on: {error}")))?;
    let hosts = given.allowed_hosts()?;
    let allowed_hosts = AllowedHosts::parse(hosts.iter().flatten().map(String::as_str))
        .map_err(|error| Exit::config(format_args!("setting `allowed_hosts`: {error}")))?;
    let mut api = ApiSettings {
        allowed_hosts,
        event_streams: given.event_streams()?,
        event_heartbeat: given.event_heartbeat()?,
        drain: settings.engine.drain,
        metrics_listener: metrics::bind(settings)?.map(Arc::new),
        ..ApiSettings::default()
    };
    if settings.nats.is_some() {
        // The processes tell each other of a rest; looking is for the signal that was lost.
        api.wait_poll = SIGNALS_REACH_US;
    }
    Ok((listener, api))
}

/// The whole service: HTTP, with what the program serves beside, and the steps placed on the api host.
///
/// # Errors
/// [`Exit`], when it cannot start or serve.
pub fn main(registry: Registry, args: &SettingsArgs, beside: Beside) -> Result<(), Exit> {
    let given = args.read()?;
    let settings = given.resolve()?;
    let (listener, api) = bind(&given, &settings)?;
    let api = ApiSettings { beside, ..api };
    run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, registry, "api").await?;
            if let Ok(address) = listener.local_addr() {
                tracing::info!(api = %engine.id, %address, "API started");
            }
            let host = HostSettings::for_all(&engine.registry, Host::Api, API_STEPS);
            let steps = host::serve(engine.clone(), host, shutdown.clone(), spawner());
            let http = async {
                let served = serve(engine.clone(), api, listener, shutdown.clone()).await;
                shutdown.cancel(counterstep_steps::CancelReason::Shutdown);
                served
            };
            let (served, ()) = tokio::join!(http, steps);
            served.map_err(|error| Exit::failed(format_args!("the API ended: {error}")))
        }),
    )
}
