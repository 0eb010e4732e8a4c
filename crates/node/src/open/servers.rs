//! Opens the servers that the settings name.

use super::{BestEffortPorts, DatabasePorts};
use crate::exit::Exit;
use crate::settings::{NatsBackend, NatsLogin, RedisBackend, SecretUrl, Server, Settings};
use counterstep_adapters::azure::{self, AzureSettings};
use counterstep_adapters::buckets::settings::{BucketSettings, Credentials};
use counterstep_adapters::nats::{Events, Hears, Nats, NatsAuth, NatsOptions};
use counterstep_adapters::postgres::{self, PostgresOptions, PostgresStore};
use counterstep_adapters::redis::{self, RedisOptions};
use counterstep_adapters::s3::{self, S3Settings};
pub use counterstep_adapters::tls::install_provider;
use counterstep_contracts::Host;
use counterstep_kernel::ports::{Objects, Store};
use counterstep_steps::error::chain;
use counterstep_steps::{Registry, TableRights};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn database(
    settings: &Settings,
    server: &Server,
    nats: &NatsBackend,
    registry: &Registry,
    role: &str,
) -> Result<DatabasePorts, Exit> {
    let store = open_postgres(settings, server, role).await?;
    // A reconciler runs no step that writes, and a program that embeds the engine may only submit.
    if matches!(role, "api" | "worker") {
        check_tables(&store, registry).await?;
    }
    let nats = self::nats(settings, nats, registry, role).await?;
    Ok((
        store.into(),
        Arc::new(nats.queue()),
        Arc::new(nats.signals()),
    ))
}

/// Whether this process may do to the tables of the program's own what its steps do.
async fn check_tables(store: &PostgresStore, registry: &Registry) -> Result<(), Exit> {
    let rights = table_rights(registry);
    let missing = store.missing_table_rights(&rights, &[]);
    let missing = missing
        .await
        .map_err(|error| Exit::unavailable(chain(&error)))?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Exit::config(format_args!(
        "steps write tables that this process may not write: {}; run the rendered postgres/roles.sql after the tables are made",
        missing.join("; ")
    )))
}

pub(crate) fn table_rights(registry: &Registry) -> Vec<(String, &'static str)> {
    let of = |(table, rights): (&'static str, TableRights)| {
        rights
            .iter()
            .map(|right| (table.to_owned(), right.as_str()))
    };
    registry.tables().flat_map(of).collect()
}

pub(super) async fn store(settings: &Settings, server: &Server, role: &str) -> Result<Store, Exit> {
    Ok(open_postgres(settings, server, role).await?.into())
}

/// The database as a role that sees API keys.
pub(super) async fn with_keys(settings: &Settings, server: &Server) -> Result<Store, Exit> {
    let store = open_postgres(settings, server, "keys").await?;
    let sees = store.sees_api_keys().await;
    match sees.map_err(|error| Exit::unavailable(chain(&error)))? {
        true => Ok(store.into()),
        false => Err(Exit::config(
            "the role of the database may not see API keys: use that of the API (`counterstep_api`), or the owner of the tables",
        )),
    }
}

async fn open_postgres(
    settings: &Settings,
    server: &Server,
    role: &str,
) -> Result<PostgresStore, Exit> {
    let options = postgres_options(settings, server, role);
    let opened = PostgresStore::open(server.url.expose(), options).await;
    opened.map_err(|error| of_postgres(&error))
}

pub(super) fn look(settings: &Settings, server: &Server, role: &str) -> Result<Store, Exit> {
    let looked = PostgresStore::look(
        server.url.expose(),
        &postgres_options(settings, server, role),
    );
    Ok(looked.map_err(|error| of_postgres(&error))?.into())
}

pub(super) async fn migrate(settings: &Settings, server: &Server) -> Result<(), Exit> {
    let options = postgres_options(settings, server, "migrate");
    PostgresStore::migrate(server.url.expose(), &options)
        .await
        .map_err(|error| of_postgres(&error))
}

pub(super) async fn best_effort(
    settings: &Settings,
    server: &RedisBackend,
) -> Result<BestEffortPorts, Exit> {
    let redis = redis::open(redis_options(settings, server))
        .await
        .map_err(|error| Exit::config(chain(&error)))?;
    Ok((redis.locks.clone(), redis.hints.clone()))
}

pub(crate) fn objects(
    settings: &Settings,
    url: &SecretUrl,
    credentials_file: Option<&Path>,
) -> Result<Arc<dyn Objects>, Exit> {
    let url = url.expose();
    let opened = if url.starts_with("az://") {
        let mut azure = AzureSettings::from_url(url).map_err(Exit::config)?;
        complete(&mut azure.common, settings, credentials_file)?;
        azure::open(&azure)
    } else {
        let mut s3 = S3Settings::from_url(url).map_err(Exit::config)?;
        complete(&mut s3.common, settings, credentials_file)?;
        s3::open(&s3)
    };
    Ok(Arc::new(opened.map_err(Exit::config)?))
}

pub(crate) fn postgres_options(
    settings: &Settings,
    server: &Server,
    role: &str,
) -> PostgresOptions {
    PostgresOptions {
        connections: settings.database_use.connections,
        prepared_statements: settings.database_use.prepared_statements,
        application_name: format!("counterstep {role}"),
        password_file: server.secret_file.clone(),
        ca_file: server.ca_file.clone(),
        certificate: server.certificate.clone(),
        allow_plaintext: settings.allow_plaintext,
        ..PostgresOptions::default()
    }
}

fn of_postgres(error: &postgres::OpenError) -> Exit {
    match error {
        // It may be there in a moment, as may be the schema: a supervisor should try again.
        postgres::OpenError::Connection(_) | postgres::OpenError::OlderSchema { .. } => {
            Exit::unavailable(chain(error))
        }
        _ => Exit::config(chain(error)),
    }
}

async fn nats(
    settings: &Settings,
    server: &NatsBackend,
    registry: &Registry,
    role: &str,
) -> Result<Nats, Exit> {
    let nats = Nats::open(nats_options(settings, server, role))
        .await
        .map_err(|error| Exit::config(chain(&error)))?;
    let queues = [Host::Api, Host::Worker]
        .iter()
        .flat_map(|host| registry.queues(*host))
        .collect();
    compare_rights(&nats, registry, role).await;
    let events = if settings.engine.events {
        Events::Published
    } else {
        Events::None
    };
    if !server.create_streams {
        return Ok(nats);
    }
    if let Err(why) = nats.prepare(queues, events).await {
        tracing::warn!(error = %why, "streams and consumers are not all there; they are made when they are needed");
    }
    Ok(nats)
}

/// Logs which rights the user of NATS lacks for the queues of this process. The process goes on: polling finds their tasks, seconds
/// later, and /readyz of a worker fails.
async fn compare_rights(nats: &Nats, registry: &Registry, role: &str) {
    let host = match role {
        "api" => Host::Api,
        "worker" => Host::Worker,
        _ => return,
    };
    match nats.missing_rights(&registry.lanes(host)).await {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => tracing::error!(
            missing = missing.join(", "),
            "the NATS account may not publish what the queues of this process need: `deploy render` writes the lines that \
             nats/accounts.conf lacks"
        ),
        // That NATS is not there yet was logged.
        Err(why) => {
            tracing::debug!(error = %why, "the rights of the NATS account were not compared")
        }
    }
}

pub(crate) fn nats_options(settings: &Settings, server: &NatsBackend, role: &str) -> NatsOptions {
    let defaults = NatsOptions::new(String::new());
    NatsOptions {
        urls: separate(&server.url),
        auth: match server.login.clone() {
            NatsLogin::None => NatsAuth::None,
            NatsLogin::User {
                user,
                password_file,
            } => NatsAuth::UserPassword {
                user,
                password_file,
            },
            NatsLogin::Secret(path) => NatsAuth::Secret(path),
        },
        ca_file: server.ca_file.clone(),
        certificate: server.certificate.clone(),
        allow_plaintext: settings.allow_plaintext,
        prefix: server.prefix.clone(),
        // No delivery outlives the lease that its turn holds. A shorter one than this would need refreshes at intervals so short that a
        // busy process falls behind.
        ack_wait: settings.engine.lease.max(Duration::from_secs(15)),
        create_streams: server.create_streams,
        inbox: format!("_INBOX.{role}"),
        replicas: server.replicas.unwrap_or(defaults.replicas),
        hears: if role == "worker" {
            Hears::Cancels
        } else {
            Hears::Everything
        },
        ..defaults
    }
}

pub(crate) fn redis_options(settings: &Settings, redis: &RedisBackend) -> RedisOptions {
    let defaults = RedisOptions::at("");
    RedisOptions {
        urls: separate(&redis.server.url),
        ca_file: redis.server.ca_file.clone(),
        certificate: redis.server.certificate.clone(),
        password_file: redis.server.secret_file.clone(),
        allow_plaintext: settings.allow_plaintext,
        prefix: redis.prefix.clone().unwrap_or(defaults.prefix.clone()),
        ..defaults
    }
}

/// What other settings add to the URL of the object store.
fn complete(
    buckets: &mut BucketSettings,
    settings: &Settings,
    credentials_file: Option<&Path>,
) -> Result<(), Exit> {
    buckets.allow_http |= settings.allow_plaintext;
    match (credentials_file, &buckets.credentials) {
        (None, _) => {}
        (Some(path), Credentials::Environment) => {
            buckets.credentials = Credentials::File(path.to_owned())
        }
        (Some(_), Credentials::File(_)) => {
            return Err(Exit::config(
                "secret `objects`: the URL of `objects` names a `credentials_file` too; expected one of \
                 them",
            ));
        }
    }
    Ok(())
}

fn separate(urls: &SecretUrl) -> Vec<String> {
    urls.expose().split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitKind;

    #[test]
    fn a_service_that_is_started_before_the_migration_is_started_again() {
        let version = "1".to_owned();
        let older = postgres::OpenError::OlderSchema {
            found: version.clone(),
            needed: "2".to_owned(),
        };
        assert_eq!(of_postgres(&older).kind, ExitKind::Unavailable);
        let newer = postgres::OpenError::NewerSchema { version };
        assert_eq!(of_postgres(&newer).kind, ExitKind::Config);
    }
}
