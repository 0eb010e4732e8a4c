//! Opens the servers that the settings name.

use super::{Advisers, Truth};
use crate::exit::Exit;
use crate::settings::{SecretUrl, Server, Settings};
use counterstep_adapters::nats::{Events, Hears, Nats, NatsAuth, NatsOptions};
use counterstep_adapters::postgres::{self, PostgresOptions, PostgresStore};
use counterstep_adapters::redis::{self, RedisOptions};
use counterstep_adapters::s3::{S3Objects, S3Settings};
pub use counterstep_adapters::tls::install_provider;
use counterstep_contracts::Host;
use counterstep_kernel::Registry;
use counterstep_kernel::error::chain;
use counterstep_kernel::ports::{Objects, Store};
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn truth(
    settings: &Settings,
    server: &Server,
    nats: &Server,
    registry: &Registry,
    role: &str,
) -> Result<Truth, Exit> {
    let opened = PostgresStore::open(server.url.expose(), postgres_options(settings, server, role)).await;
    let store = opened.map_err(|error| of_postgres(&error))?;
    let nats = self::nats(settings, nats, registry, role).await?;
    Ok((Arc::new(store), Arc::new(nats.queue()), Arc::new(nats.signals())))
}

pub(super) fn look(settings: &Settings, server: &Server, role: &str) -> Result<Arc<dyn Store>, Exit> {
    let looked = PostgresStore::look(server.url.expose(), &postgres_options(settings, server, role));
    Ok(Arc::new(looked.map_err(|error| of_postgres(&error))?))
}

pub(super) async fn migrate(settings: &Settings, server: &Server) -> Result<(), Exit> {
    let options = postgres_options(settings, server, "migrate");
    PostgresStore::migrate(server.url.expose(), &options).await.map_err(|error| of_postgres(&error))
}

pub(super) async fn advisers(settings: &Settings, server: &Server) -> Result<Advisers, Exit> {
    let redis = redis::open(redis_options(settings, server)).await.map_err(|error| Exit::config(chain(&error)))?;
    Ok((redis.locks.clone(), redis.hints.clone()))
}

pub(super) fn objects(settings: &Settings, url: &SecretUrl) -> Result<Arc<dyn Objects>, Exit> {
    Ok(Arc::new(S3Objects::open(&s3_settings(settings, url)?).map_err(Exit::config)?))
}

pub(crate) fn postgres_options(settings: &Settings, server: &Server, role: &str) -> PostgresOptions {
    PostgresOptions {
        application_name: format!("counterstep {role}"),
        password_file: server.secret_file.clone(),
        ca_file: server.ca_file.clone(),
        allow_plaintext: settings.allow_plaintext,
        ..PostgresOptions::default()
    }
}

fn of_postgres(error: &postgres::OpenError) -> Exit {
    match error {
        // It may be there in a moment; a supervisor should try again.
        postgres::OpenError::Connection(_) => Exit::unavailable(chain(error)),
        _ => Exit::config(chain(error)),
    }
}

pub(crate) async fn nats(settings: &Settings, server: &Server, registry: &Registry, role: &str) -> Result<Nats, Exit> {
    let options = NatsOptions {
        urls: separate(server),
        auth: server.secret_file.clone().map_or(NatsAuth::None, NatsAuth::Credentials),
        ca_file: server.ca_file.clone(),
        allow_plaintext: settings.allow_plaintext,
        ack_wait: settings.engine.lease.max(Duration::from_secs(15)),
        hears: if role == "worker" { Hears::Cancels } else { Hears::Everything },
        ..NatsOptions::new(String::new())
    };
    let nats = Nats::open(options).await.map_err(|error| Exit::config(chain(&error)))?;
    let queues = [Host::Api, Host::Worker].iter().flat_map(|host| registry.queues(*host)).collect();
    let events = if settings.engine.events { Events::Published } else { Events::None };
    if let Err(why) = nats.prepare(queues, events).await {
        tracing::warn!(error = %why, "streams and consumers are not all there; they are made when they are needed");
    }
    Ok(nats)
}

pub(crate) fn redis_options(settings: &Settings, server: &Server) -> RedisOptions {
    RedisOptions {
        urls: separate(server),
        ca_file: server.ca_file.clone(),
        password_file: server.secret_file.clone(),
        allow_plaintext: settings.allow_plaintext,
        ..RedisOptions::at("")
    }
}

pub(crate) fn s3_settings(settings: &Settings, url: &SecretUrl) -> Result<S3Settings, Exit> {
    let mut s3 = S3Settings::from_url(url.expose()).map_err(Exit::config)?;
    s3.allow_http |= settings.allow_plaintext;
    Ok(s3)
}

fn separate(server: &Server) -> Vec<String> {
    server.url.expose().split(',').map(str::to_owned).collect()
}
