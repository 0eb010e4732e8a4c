//! Opens the adapters that the settings name: a file and folders, or servers.

use crate::exit::Exit;
use crate::settings::{Database, ObjectPlace, SecretUrl, Server, Settings};
use counterstep_adapters::folder::{FolderObjects, FolderScratch};
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::local_queue::{LocalQueue, QueueOptions};
use counterstep_adapters::nats::{Events, Hears, Nats, NatsAuth, NatsOptions};
use counterstep_adapters::postgres::{self, PostgresOptions, PostgresStore};
use counterstep_adapters::redis::{self, RedisOptions};
use counterstep_adapters::s3::{S3Objects, S3Settings};
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_adapters::system::{LocalSignals, SystemClock, SystemRandom};
use counterstep_contracts::Host;
use counterstep_kernel::error::chain;
use counterstep_kernel::ports::{Hints, Locks, Objects, Ports, Queue, Signals, Store};
use counterstep_kernel::{Engine, Registry};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Opens the adapters that the settings name.
///
/// # Errors
/// [`Exit`], saying which part cannot be used.
pub fn open<'a>(settings: &'a Settings, registry: Arc<Registry>, role: &'a str) -> BoxFuture<'a, Result<Engine, Exit>> {
    Box::pin(async move {
        crate::install_provider();
        let (store, queue, signals) = truth(settings, &registry, role).await?;
        let (locks, hints) = advisers(settings).await?;
        let ports = Ports {
            store,
            queue,
            signals,
            locks,
            hints,
            objects: objects(settings)?,
            scratch: Arc::new(FolderScratch::open(&made(&settings.scratch)?).map_err(|error| {
                Exit::config(format_args!("the folder `{}` cannot be used: {error}", settings.scratch.display()))
            })?),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
        };
        Ok(Engine::new(ports, registry, settings.engine.clone(), role))
    })
}

/// Brings the schema of the database up to date.
///
/// # Errors
/// [`Exit`], when it cannot be, or a newer program has changed it.
pub fn migrate(settings: &Settings) -> BoxFuture<'_, Result<(), Exit>> {
    Box::pin(async move {
        crate::install_provider();
        match &settings.database {
            // Opening a file does it: whoever may write the file may change its schema.
            Database::Sqlite(path) => sqlite(path).await.map(drop),
            Database::Postgres(server) => {
                let migrated =
                    PostgresStore::migrate(server.url.expose(), &postgres_options(settings, server, "migrate"));
                migrated.await.map_err(|error| of_postgres(&error))
            }
        }
    })
}

type Truth = (Arc<dyn Store>, Arc<dyn Queue>, Arc<dyn Signals>);

async fn truth(settings: &Settings, registry: &Registry, role: &str) -> Result<Truth, Exit> {
    match (&settings.database, &settings.nats) {
        (Database::Postgres(server), Some(nats)) => {
            let options = postgres_options(settings, server, role);
            let opened = PostgresStore::open(server.url.expose(), options).await;
            let store = opened.map_err(|error| of_postgres(&error))?;
            let nats = self::nats(settings, nats, registry, role).await?;
            Ok((Arc::new(store), Arc::new(nats.queue()), Arc::new(nats.signals())))
        }
        (Database::Postgres(_), None) => Err(Exit::config(
            "setting `nats`: a PostgreSQL database needs a NATS server for its messages: set --nats nats://HOST:4222",
        )),
        (Database::Sqlite(path), _) => {
            let store = sqlite(path).await?;
            let queue = LocalQueue::new(store.database(), QueueOptions::default());
            Ok((Arc::new(store), Arc::new(queue), Arc::new(LocalSignals::new())))
        }
    }
}

async fn sqlite(path: &Path) -> Result<SqliteStore, Exit> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        made(folder)?;
    }
    SqliteStore::open(path, SqliteOptions::default())
        .await
        .map_err(|error| Exit::config(format_args!("the database file cannot be used: {}", chain(&error))))
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

type Advisers = (Arc<dyn Locks>, Arc<dyn Hints>);

async fn advisers(settings: &Settings) -> Result<Advisers, Exit> {
    let Some(server) = &settings.redis else {
        return Ok((Arc::new(LocalLocks::default()), Arc::new(LocalHints::default())));
    };
    let redis = redis::open(redis_options(settings, server)).await.map_err(|error| Exit::config(chain(&error)))?;
    Ok((redis.locks.clone(), redis.hints.clone()))
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

fn objects(settings: &Settings) -> Result<Arc<dyn Objects>, Exit> {
    match &settings.objects {
        ObjectPlace::Folder(folder) => {
            let opened = FolderObjects::open(&made(folder)?);
            Ok(Arc::new(opened.map_err(|error| {
                Exit::config(format_args!("the folder `{}` cannot be used: {error}", folder.display()))
            })?))
        }
        ObjectPlace::S3(url) => Ok(Arc::new(S3Objects::open(&s3_settings(settings, url)?).map_err(Exit::config)?)),
    }
}

fn made(folder: &Path) -> Result<PathBuf, Exit> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Exit::config(format_args!("the folder `{}` cannot be made: {error}", folder.display())))?;
    Ok(folder.to_owned())
}
