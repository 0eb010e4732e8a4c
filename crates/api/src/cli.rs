//! The API's part of a command line.

use crate::{AllowedHosts, ApiSettings, AuthSettings, Beside, TrustedPeers, serve};
use counterstep_contracts::Host;
use counterstep_contracts::installation::{BarColor, Installation};
use counterstep_kernel::host::scratch_sweep;
use counterstep_kernel::host::{self, HostSettings};
use counterstep_node::settings::AuthMode;
use counterstep_node::{
    Exit, Layers, Settings, SettingsArgs, access_tokens, links, metrics, open, run_service,
    shutdown_on_signals, spawner, webhooks,
};
use counterstep_steps::Registry;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of steps placed on the api host that one API process runs at a time.
const API_STEPS: usize = 16;

/// Poll interval of a long poll where the other processes announce changes.
const SIGNALS_REACH_US: Duration = Duration::from_secs(1);

/// Starts to listen, for metrics too where they have an address of their own.
///
/// # Errors
/// When the address is taken, or open to other machines without saying so.
pub fn bind(given: &Layers, settings: &Settings) -> Result<(TcpListener, ApiSettings), Exit> {
    let address = given.listen()?;
    let auth = auth(given)?;
    let installation = installation(given)?;
    if !address.ip().is_loopback() && matches!(auth, AuthSettings::None) {
        return Err(Exit::config(format_args!(
            "{address} can be reached from other machines, and the API would authenticate no caller: set `--auth keys` \
             and make a key with `keys create`, or `--auth jwt` or `--auth proxy`, or listen on 127.0.0.1"
        )));
    }
    let listener = TcpListener::bind(address).map_err(|error| {
        Exit::config(format_args!(
            "setting `listen`: {address} cannot be listened on: {error}; choose another address with `--listen`"
        ))
    })?;
    let hosts = given.allowed_hosts()?;
    let allowed_hosts = AllowedHosts::parse(hosts.iter().flatten().map(String::as_str))
        .map_err(|error| Exit::config(format_args!("setting `allowed_hosts`: {error}")))?;
    let mut api = ApiSettings {
        auth,
        links: links(given, settings)?,
        webhooks: webhooks(given, settings)?,
        allowed_hosts,
        installation,
        max_json_bytes: given.max_json_bytes()?,
        max_form_bytes: given.max_form_bytes()? as u64,
        max_file_bytes: given.max_file_bytes()? as u64,
        streams_per_caller: given.streams_per_caller()?,
        uploads_per_caller: given.streams_per_caller()?,
        requests_per_second: requests_per_second(given)?,
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

fn installation(given: &Layers) -> Result<Installation, Exit> {
    let (name, color) = (given.ui_name()?, given.ui_color()?);
    if name.is_none() && color != BarColor::None {
        return Err(Exit::config(
            "setting `ui_color`: it is set without `ui_name`, and a person who does not see the colour has no other sign: set `ui_name` too",
        ));
    }
    Ok(Installation { name, color })
}

fn requests_per_second(given: &Layers) -> Result<Option<NonZeroU32>, Exit> {
    let rate = given.requests_per_second()?;
    Ok(rate.and_then(|rate| NonZeroU32::new(u32::try_from(rate).unwrap_or(u32::MAX))))
}

fn auth(given: &Layers) -> Result<AuthSettings, Exit> {
    let proxies = given.auth_proxies()?.unwrap_or_default();
    let peers = TrustedPeers::parse(proxies.iter().map(String::as_str))
        .map_err(|error| Exit::config(format_args!("setting `auth_proxies`: {error}")))?;
    let (mode, tokens) = (given.auth()?, access_tokens(given)?);
    if mode != AuthMode::Proxy && !peers.is_empty() {
        return Err(Exit::config(
            "setting `auth_proxies`: it counts with `--auth proxy` alone",
        ));
    }
    if mode != AuthMode::Jwt && tokens.is_some() {
        return Err(Exit::config(
            "setting `jwt_issuer`: it counts with `--auth jwt` alone",
        ));
    }
    match (mode, tokens) {
        (AuthMode::None, _) => Ok(AuthSettings::None),
        (AuthMode::Keys, _) => Ok(AuthSettings::Keys),
        (AuthMode::Proxy, _) if peers.is_empty() => Err(Exit::config(
            "setting `auth`: `proxy` needs the addresses of the proxy: set `auth_proxies`",
        )),
        (AuthMode::Proxy, _) => Ok(AuthSettings::Proxy(peers)),
        (AuthMode::Jwt, Some(tokens)) => Ok(AuthSettings::Jwt(tokens)),
        (AuthMode::Jwt, None) => Err(Exit::config(
            "setting `auth`: `jwt` needs the issuer of the tokens: set `jwt_issuer`, `jwt_audience` and `jwt_keys`",
        )),
    }
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
    run_service(
        &settings,
        "api",
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
            let steps = scratch_sweep::beside(&engine, &shutdown, steps);
            let (served, ()) = tokio::join!(http, steps);
            served.map_err(|error| Exit::failed(format_args!("the API ended: {error}")))
        }),
    )
}
