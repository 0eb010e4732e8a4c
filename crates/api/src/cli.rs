//! The API's part of a command line.

use crate::{AllowedHosts, ApiSettings, serve};
use counterstep_contracts::Host;
use counterstep_kernel::host::{self, HostSettings};
use counterstep_node::{Exit, Settings, SettingsArgs, open, run, shutdown_on_signals, spawner};
use counterstep_steps::Registry;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// Steps placed on the api host that one API process runs at a time.
const API_STEPS: usize = 16;

/// A long poll looks again after this where the other processes announce what they do.
const SIGNALS_REACH_US: Duration = Duration::from_secs(1);

/// Flags of the API service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ApiArgs {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "COUNTERSTEP_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Listen on an address that other machines can reach, although the API authenticates no caller
    #[arg(long)]
    pub allow_unauthenticated: bool,
    /// Names by which the API may be addressed, besides localhost and IP addresses:
    /// comma-separated, `*` for any
    #[arg(long, env = "COUNTERSTEP_ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Option<Vec<String>>,
}

impl ApiArgs {
    /// Starts to listen.
    ///
    /// # Errors
    /// When the address is taken, or open to other machines without saying so.
    pub fn bind(&self, settings: &Settings) -> Result<(TcpListener, ApiSettings), Exit> {
        let address = self
            .listen
            .or(settings.listen)
            .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080)));
        if !address.ip().is_loopback() && !self.allow_unauthenticated {
            return Err(Exit::config(format_args!(
                "{address} can be reached from other machines, and this API authenticates no caller: listen on \
                 127.0.0.1 behind a proxy that does, or set --allow-unauthenticated"
            )));
        }
        let listener = TcpListener::bind(address).map_err(|error| {
            Exit::config(format_args!("{address} cannot be listened on: {error}"))
        })?;
        let hosts = self
            .allowed_hosts
            .as_ref()
            .or(settings.allowed_hosts.as_ref());
        let allowed_hosts = AllowedHosts::parse(hosts.into_iter().flatten().map(String::as_str))
            .map_err(|error| Exit::config(format_args!("setting `allowed_hosts`: {error}")))?;
        let mut api = ApiSettings {
            allowed_hosts,
            drain: settings.engine.drain,
            ..ApiSettings::default()
        };
        if settings.nats.is_some() {
            // The processes tell each other of a rest; looking is for the signal that was lost.
            api.wait_poll = SIGNALS_REACH_US;
        }
        Ok((listener, api))
    }
}

/// The whole service: HTTP, and the steps placed on the api host.
///
/// # Errors
/// [`Exit`], when it cannot start or serve.
pub fn main(registry: Registry, settings: &SettingsArgs, args: &ApiArgs) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    let (listener, api) = args.bind(&settings)?;
    run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, Arc::new(registry), "api").await?;
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
