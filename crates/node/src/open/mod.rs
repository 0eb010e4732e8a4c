//! Opens the adapters that the settings name: a file and folders, or servers.

mod access_tokens;
mod links;
mod payloads;
mod secret_file;
mod webhooks;

#[cfg(feature = "servers")]
pub(crate) mod servers;
#[cfg(not(feature = "servers"))]
#[path = "unsupported.rs"]
pub(crate) mod servers;

use crate::exit::Exit;
use crate::metrics::Metrics;
use crate::readable_secrets::{OpenSecret, open_to_others};
use crate::settings::{Database, ObjectBackend, SPOOL_MAX_BYTES, Service, Settings, in_effect};
use crate::step_process;
use crate::traces;
use counterstep_adapters::file_signals::FileSignals;
use counterstep_adapters::folder::{FolderObjects, FolderScratch};
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::local_queue::{LocalQueue, QueueOptions};
use counterstep_adapters::new_folders::make_folders;
use counterstep_adapters::spool::{FileSpool, Sealing};
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_adapters::step_threads::StepThreads;
use counterstep_adapters::system::{SystemClock, SystemRandom};
use counterstep_contracts::Host;
use counterstep_kernel::SealSecrets;
use counterstep_kernel::ports::{
    Hints, HttpServices, Locks, NoServices, Objects, Ports, Queue, Signals, StepRunner, Store,
};
use counterstep_kernel::{Engine, EngineSettings, status::progress};
use counterstep_steps::Registry;
use counterstep_steps::error::chain;
use counterstep_steps::task::KnownType;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access_tokens::access_tokens;
pub use links::links;
pub use servers::install_provider;
pub use webhooks::webhooks;

/// Makes what the program provides to its steps, and opens the adapters that the settings name.
///
/// # Errors
/// [`Exit`], saying which part cannot be used.
pub fn open<'a>(
    settings: &'a Settings,
    mut registry: Registry,
    role: &'a str,
) -> BoxFuture<'a, Result<Engine, Exit>> {
    Box::pin(async move {
        let policies = in_effect(&registry, settings.overrides.clone())?;
        settings.upkeep.check(&registry)?;
        registry.check_types().map_err(Exit::config)?;
        registry.check_states().map_err(Exit::config)?;
        match role {
            "api" => step_process::check(&registry, settings, &[Host::Api])?,
            "worker" => step_process::check(&registry, settings, &[Host::Worker])?,
            "dev" => step_process::check(&registry, settings, &[Host::Api, Host::Worker])?,
            // A reconciler runs none, and a service says itself what it runs.
            _ => {}
        }
        // No error: several programs may share what makes a registry.
        for type_name in registry.unused_states() {
            tracing::warn!(
                type_name,
                "the program provides a state that no step takes: is it of another type than the steps' `&State<..>`?"
            );
        }
        // A reconciler runs no steps but pure ones ahead of a submission, and those only where they
        // can.
        if role != "reconciler" {
            registry.make_states().await.map_err(Exit::failed)?;
        }
        let registry = Arc::new(registry);
        let engine = EngineSettings {
            policies: Arc::new(policies),
            ..settings.engine.clone()
        };
        crate::install_provider();
        for OpenSecret {
            setting,
            file,
            mode,
        } in open_to_others(settings)
        {
            tracing::warn!(
                setting,
                file,
                mode,
                "other users of this machine can read a secret: set its mode to 0600"
            );
        }
        let (store, queue, signals) = database(settings, &registry, role).await?;
        let (locks, hints) = best_effort(settings).await?;
        if settings.redis.is_none() && settings.nats.is_some() {
            // The hints are this process's own: what others say of their progress is known by
            // hearing it.
            tokio::spawn(progress::keep_what_is_heard(
                signals.subscribe(),
                hints.clone(),
            ));
        }
        let scratch = FolderScratch::open(&made(&settings.scratch)?)
            .map_err(|error| unusable(&settings.scratch, "used", &error))?;
        let ports = Ports {
            store: payloads::in_front(settings, store)?,
            queue,
            signals,
            locks,
            hints,
            services: http_services(settings, &registry, role)?,
            objects: objects(settings)?,
            scratch: Arc::new(scratch.clone()),
            steps: steps(role)?,
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
        };
        let processes = step_process::processes(settings, scratch);
        let metrics = Metrics::of(&registry, &engine.metrics_labels);
        let spool = spool(settings, &registry, role)?;
        let engine = Engine::new(ports, registry, engine, role)
            .recorded_by(Arc::new(metrics))
            .traced_by(traces::port())
            .isolated_by(Arc::new(processes));
        Ok(match spool {
            Some(spool) => engine.spooled_by(Arc::new(spool)),
            None => engine,
        })
    })
}

/// The secrets that seal results in the spool: where no setting names their file, one is made beside it.
fn sealing(settings: &Settings) -> Result<Sealing, Exit> {
    const SETTING: &str = "secret_files.seal";
    let file = match &settings.seal_secret_file {
        Some(file) => file.clone(),
        None => {
            let file = settings.spool.with_file_name("seal-secret");
            secret_file::make(&file, SealSecrets::line)?;
            file
        }
    };
    let secrets = SealSecrets::parse(&secret_file::read(SETTING, &file)?);
    let secrets = secrets.map_err(|error| {
        Exit::config(format_args!(
            "setting `{SETTING}`: `{}`, {error}",
            file.display()
        ))
    })?;
    Ok(Sealing {
        secrets,
        accepts_unsealed: settings.accept_spool,
    })
}

/// The spool of a process that may run steps of worker hosts. A database file needs none: where it cannot be written, its disk
/// mostly cannot either.
fn spool(settings: &Settings, registry: &Registry, role: &str) -> Result<Option<FileSpool>, Exit> {
    let runs_steps = !matches!(role, "api" | "reconciler");
    if !runs_steps || matches!(settings.database, Database::Sqlite(_)) {
        return Ok(None);
    }
    let known: BTreeSet<String> = registry.known().iter().map(KnownType::key).collect();
    let takes = |task_type: &str| known.contains(task_type);
    let opened = FileSpool::open(&settings.spool, SPOOL_MAX_BYTES, sealing(settings)?, &takes);
    let spool = opened.map_err(|error| Exit::of_disk(chain(&error), &error))?;
    tracing::debug!(path = %spool.path().display(), "the spool is open");
    Ok(Some(spool))
}

/// Threads for the code of steps: one for each core, besides those that it blocks. A reconciler
/// runs only the pure steps at the head of what a schedule submits, one at a time.
fn steps(role: &str) -> Result<Arc<dyn StepRunner>, Exit> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let threads = StepThreads::start(if role == "reconciler" { 1 } else { cores });
    Ok(Arc::new(threads.map_err(|error| {
        Exit::failed(format_args!("the threads for steps cannot start: {error}"))
    })?))
}

/// Brings the schema of the database up to date; `vacuums`: and writes an SQLite file anew.
///
/// # Errors
/// [`Exit`], when it cannot be, or a newer program has changed it.
pub fn migrate(settings: &Settings, vacuums: bool) -> BoxFuture<'_, Result<(), Exit>> {
    Box::pin(async move {
        crate::install_provider();
        match &settings.database {
            // Opening a file does it: an account that may write the file may change its schema.
            Database::Sqlite(path) => {
                let store = sqlite(settings, path).await?;
                if !vacuums {
                    return Ok(());
                }
                store.vacuum().await.map_err(|error| {
                    let why = format!(
                        "the database file cannot be written anew: {}",
                        chain(&error)
                    );
                    Exit::of_disk(why, &error)
                })
            }
            Database::Postgres(_) if vacuums => Err(Exit::usage(
                "--vacuum is for an SQLite file: PostgreSQL vacuums its tables itself",
            )),
            Database::Postgres(server) => servers::migrate(settings, server).await,
        }
    })
}

/// The database of the settings alone, for commands that write to it beside the services.
///
/// # Errors
/// [`Exit`], where it cannot be used, or its schema is not that of this program.
pub fn open_store<'a>(settings: &'a Settings, role: &'a str) -> BoxFuture<'a, Result<Store, Exit>> {
    Box::pin(async move {
        crate::install_provider();
        let store = match &settings.database {
            Database::Sqlite(path) => sqlite(settings, path).await?.into(),
            Database::Postgres(server) => servers::store(settings, server, role).await?,
        };
        payloads::in_front(settings, store)
    })
}

/// The same for those who make and list API keys, which not every role of the database sees.
///
/// # Errors
/// [`Exit`], as above, and where the role sees none.
pub fn open_keys(settings: &Settings) -> BoxFuture<'_, Result<Store, Exit>> {
    Box::pin(async move {
        match &settings.database {
            Database::Sqlite(_) => open_store(settings, "keys").await,
            Database::Postgres(server) => {
                crate::install_provider();
                payloads::in_front(settings, servers::with_keys(settings, server).await?)
            }
        }
    })
}

/// The database file of the settings, where there is none yet: a service makes one, and a command that looks for something has the
/// wrong address.
#[must_use]
pub fn missing_file(settings: &Settings) -> Option<&Path> {
    match &settings.database {
        Database::Sqlite(path) if path.try_exists().is_ok_and(|is| !is) => Some(path),
        Database::Sqlite(_) | Database::Postgres(_) => None,
    }
}

/// That there is no such file.
#[must_use]
pub fn no_file(path: &Path) -> Exit {
    Exit::config(format_args!(
        "there is no database file `{}`: are --data-dir and --database right?",
        path.display()
    ))
}

/// The database of the settings, for looking only: its schema is left as it is, also where it is of
/// another program.
///
/// # Errors
/// [`Exit`], where there is no such file, or the settings cannot be used.
pub fn look(settings: &Settings, role: &str) -> Result<Store, Exit> {
    crate::install_provider();
    let store = match &settings.database {
        Database::Sqlite(path) => SqliteStore::look(path, &SqliteOptions::default())
            .map_err(|_| no_file(path))?
            .into(),
        Database::Postgres(server) => servers::look(settings, server, role)?,
    };
    payloads::in_front(settings, store)
}

/// The objects of the settings, for looking only.
///
/// # Errors
/// [`Exit`], where the settings cannot be used.
pub fn look_at_objects(settings: &Settings) -> Result<Arc<dyn Objects>, Exit> {
    crate::install_provider();
    if let ObjectBackend::Folder(folder) = &settings.objects
        && !folder.is_dir()
    {
        let folder = folder.display();
        return Err(Exit::config(format_args!(
            "there is no folder `{folder}`: are --data-dir and --objects right?"
        )));
    }
    objects(settings)
}

type DatabasePorts = (Store, Arc<dyn Queue>, Arc<dyn Signals>);

async fn database(
    settings: &Settings,
    registry: &Registry,
    role: &str,
) -> Result<DatabasePorts, Exit> {
    match (&settings.database, &settings.nats) {
        (Database::Postgres(server), Some(nats)) => {
            servers::database(settings, server, nats, registry, role).await
        }
        (Database::Postgres(_), None) => Err(Exit::config(
            "setting `nats`: a PostgreSQL database needs a NATS server for its messages: set --nats nats://HOST:4222",
        )),
        (Database::Sqlite(path), _) => {
            let store = sqlite(settings, path).await?;
            let queue = LocalQueue::new(store.database(), QueueOptions::default());
            let signals = FileSignals::of(store.database());
            Ok((store.into(), Arc::new(queue), Arc::new(signals)))
        }
    }
}

async fn sqlite(settings: &Settings, path: &Path) -> Result<SqliteStore, Exit> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        made(folder)?;
    }
    let options = SqliteOptions {
        accepts_clock: settings.accept_clock,
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options).await.map_err(|error| {
        let why = format!("the database file cannot be used: {}", chain(&error));
        Exit::of_disk(why, &error)
    })
}

type BestEffortPorts = (Arc<dyn Locks>, Arc<dyn Hints>);

async fn best_effort(settings: &Settings) -> Result<BestEffortPorts, Exit> {
    let Some(server) = &settings.redis else {
        return Ok((
            Arc::new(LocalLocks::default()),
            Arc::new(LocalHints::default()),
        ));
    };
    servers::best_effort(settings, server).await
}

/// The services that steps call. One that is missing among others is worth a word at the start;
/// where none is set, the program may well have task types that this installation does not use.
fn http_services(
    settings: &Settings,
    registry: &Registry,
    role: &str,
) -> Result<Arc<dyn HttpServices>, Exit> {
    if role == "reconciler" {
        // It runs neither steps nor undos, and should not need their secrets.
        return Ok(Arc::new(NoServices));
    }
    let services = services(settings, &settings.services)?;
    for service in missing_services(settings, registry) {
        tracing::warn!(
            service,
            "steps call a service that the settings do not have: add [services.{service}]"
        );
    }
    Ok(services)
}

/// Services that steps call and that the settings leave out, though they have others.
pub(crate) fn missing_services(settings: &Settings, registry: &Registry) -> Vec<&'static str> {
    let services = &settings.services;
    registry
        .services()
        .filter(|service| !services.is_empty() && !services.contains_key(*service))
        .collect()
}

/// Why services of the settings cannot be called, each by itself.
pub(crate) fn unusable_services(settings: &Settings) -> Vec<String> {
    let one = |(name, service): (&String, &Service)| {
        let one = BTreeMap::from([(name.clone(), service.clone())]);
        services(settings, &one).err().map(|exit| exit.message)
    };
    settings.services.iter().filter_map(one).collect()
}

#[cfg(feature = "http")]
fn services(
    settings: &Settings,
    services: &BTreeMap<String, Service>,
) -> Result<Arc<dyn HttpServices>, Exit> {
    use counterstep_adapters::http::{ReqwestServices, ServiceSettings, Token};
    let given = services.iter().map(|(name, service)| {
        let service = service.clone();
        let given = ServiceSettings {
            url: service.url,
            token: service
                .token
                .map(Token::Text)
                .or(service.token_file.map(Token::File)),
            header_files: service.header_files,
            ca_file: service.ca_file,
            allow_plaintext: service.allow_plaintext || settings.allow_plaintext,
        };
        (name.clone(), given)
    });
    Ok(Arc::new(
        ReqwestServices::open(&given.collect()).map_err(|error| Exit::config(chain(&error)))?,
    ))
}

#[cfg(not(feature = "http"))]
fn services(
    _: &Settings,
    services: &BTreeMap<String, Service>,
) -> Result<Arc<dyn HttpServices>, Exit> {
    if services.is_empty() {
        return Ok(Arc::new(NoServices));
    }
    Err(Exit::config(
        "setting `services`: this program was built without a client for them: build it with `--features servers`, or \
         leave the setting out",
    ))
}

fn objects(settings: &Settings) -> Result<Arc<dyn Objects>, Exit> {
    match &settings.objects {
        ObjectBackend::Folder(folder) => {
            let opened = FolderObjects::open(&made(folder)?);
            let opened = opened.map_err(|error| unusable(folder, "used", &error));
            Ok(Arc::new(opened?))
        }
        ObjectBackend::Server {
            url,
            credentials_file,
        } => servers::objects(settings, url, credentials_file.as_deref()),
    }
}

fn made(folder: &Path) -> Result<PathBuf, Exit> {
    make_folders(folder, 0o777).map_err(|error| unusable(folder, "made", &error))?;
    Ok(folder.to_owned())
}

fn unusable(folder: &Path, what: &str, error: &std::io::Error) -> Exit {
    let folder = folder.display();
    let message = format!("the folder `{folder}` cannot be {what}: {error}");
    Exit::of_disk(message, error)
}
