//! The measurements: which servers, which processes, and what is read before and after.

use crate::cost::{self, Counters, Processors};
use crate::failed::Failed;
use crate::limits::{self, Limits};
use crate::load::{self, LoadResult};
use crate::mode::Mode;
use crate::report::{Measured, Report};
use crate::{engine, services, work};
use counterstep_adapters::system::LocalSignals;
use counterstep_kernel::Engine;
use counterstep_node::settings::{Database, NatsBackend, RedisBackend, Server};
use counterstep_node::{Settings, open};
use counterstep_reconciler::audit::{Finding, Scope};
use counterstep_reconciler::fsck::fsck;
use counterstep_testkit::servers::{Nats, Postgres, Redis};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    pub(crate) in_flight: Vec<u16>,
    pub(crate) duration: Duration,
    /// Of each task that is submitted over HTTP.
    pub(crate) labels: u8,
    /// Of this process.
    pub(crate) own: Settings,
}

pub(crate) async fn all(plan: &Plan) -> Result<Report, Failed> {
    let Plan { duration, own, .. } = plan;
    let duration = *duration;
    let mut measured = Vec::new();
    let on_servers = plan.modes.iter().any(|mode| *mode != Mode::Embedded);
    let servers = on_servers.then(|| (Postgres::durable(), Nats::start(), Redis::start()));
    let limits = |servers: &Option<Servers>| -> Result<Option<Limits>, Failed> {
        servers
            .as_ref()
            .map(|(postgres, ..)| limits::measure(postgres, duration))
            .transpose()
    };
    let before = limits(&servers)?;
    for mode in &plan.modes {
        for in_flight in &plan.in_flight {
            let one = match (mode, &servers) {
                (Mode::Http | Mode::Failing, Some(servers)) => {
                    http(servers, *mode, *in_flight, plan).await?
                }
                (Mode::Engine, Some(servers)) => {
                    on_postgres(servers, *in_flight, duration, own).await?
                }
                _ => embedded(*in_flight, duration).await?,
            };
            measured.push(one);
        }
    }
    // Once more: the machine may have changed its pace meanwhile.
    let after = limits(&servers)?;
    let both = before.zip(after).map(|(before, after)| [before, after]);
    if let Some([before, after]) = both {
        let mean = (before.statements_32 + after.statements_32) / 2.0;
        for one in measured.iter_mut().filter(|one| one.mode != Mode::Embedded) {
            one.ratio = Some(one.tasks_per_second / mean);
        }
    }
    Ok(Report {
        limits: both,
        measured,
    })
}

type Servers = (Postgres, Nats, Redis);

/// Settings for a new and migrated database of these servers.
async fn settings_on(servers: &Servers, own: &Settings) -> Result<(Settings, String), Failed> {
    let database = servers.0.database();
    let settings = Settings {
        database: Database::Postgres(Server::at(database.clone())),
        nats: Some(NatsBackend::at(servers.1.url())),
        redis: Some(RedisBackend {
            server: Server::at(servers.2.url()),
            prefix: None,
        }),
        ..own.clone()
    };
    counterstep_node::migrate(&settings, false)
        .await
        .map_err(|exit| Failed(exit.message))?;
    Ok((settings, database))
}

async fn http(
    servers: &Servers,
    mode: Mode,
    in_flight: u16,
    plan: &Plan,
) -> Result<Measured, Failed> {
    let (settings, database) = settings_on(servers, &plan.own).await?;
    let services = services::start(&database, &servers.1, &servers.2).await?;
    let processors = Processors::default()
        .with("client", Some(std::process::id()))
        .with("api", Some(services.api.pid()))
        .with("worker", Some(services.worker.pid()))
        .with("reconciler", Some(services.reconciler.pid()))
        .with("postgres", servers.0.pid())
        .with("nats", servers.1.pid())
        .with("redis", servers.2.pid());
    let mut marks = Vec::new();
    let counter = Counters::of(&database).await?;
    let before = counter.read().await?;
    let client = services.client(mode == Mode::Failing, plan.labels);
    let result = load::run(client, in_flight.into(), plan.duration, || {
        marks.push(processors.used())
    })
    .await?;
    // Statistics arrive with a delay; over the whole run, warm-up included, they are exact.
    drop(services);
    let spent = counter.since(before).await?;
    let verified_per_second = verify(&settings).await?;
    let mut one = measured(mode, in_flight, &result, &marks);
    one.verified_per_second = Some(verified_per_second);
    one.commits_per_task = Some(spent.changes);
    one.round_trips_per_task = spent.transactions;
    one.row_versions_per_task = Some(spent.row_versions);
    one.wal_bytes_per_task = Some(spent.wal_bytes);
    // The clients are this process, and so are all others its children.
    let children: f64 = one
        .cpu_ms_per_task
        .iter()
        .filter(|(name, _)| **name != "client")
        .map(|(_, ms)| ms)
        .sum();
    one.cpu_ms_per_task
        .entry("client")
        .and_modify(|ms| *ms -= children);
    Ok(one)
}

/// Every task has ended, and its journal, its chain and its row agree: a figure for wrong work is
/// none. Returns the tasks that `fsck` has checked a second.
async fn verify(settings: &Settings) -> Result<f64, Failed> {
    let store = counterstep_node::look(settings, "bench").map_err(|exit| Failed(exit.message))?;
    let open = store.in_flight().await.map_err(Failed::of)?;
    if !open.is_empty() {
        return Err(Failed(format!("tasks have not ended: {open:?}")));
    }
    let mut findings = Vec::new();
    let mut found = |finding: Finding| findings.push(finding.to_string());
    let (registry, scope, began) = (work::registry(), Scope::default(), Instant::now());
    let checked = fsck(&store, &registry, None, &scope, &mut found)
        .await
        .map_err(Failed::of)?;
    match findings.first() {
        None => Ok(checked.verified.tasks as f64 / began.elapsed().as_secs_f64()),
        Some(first) => Err(Failed(format!(
            "fsck has {} findings, the first: {first}",
            findings.len()
        ))),
    }
}

async fn on_postgres(
    servers: &Servers,
    in_flight: u16,
    duration: Duration,
    own: &Settings,
) -> Result<Measured, Failed> {
    let (settings, _) = settings_on(servers, own).await?;
    let mut engine = opened(&settings).await?;
    engine.ports.queue = Arc::new(engine::MemoryQueue::default());
    engine.ports.signals = Arc::new(LocalSignals::new());
    in_process(Mode::Engine, engine, in_flight, duration, servers.0.pid()).await
}

async fn embedded(in_flight: u16, duration: Duration) -> Result<Measured, Failed> {
    let folder = tempfile::tempdir().map_err(Failed::of)?;
    let engine = opened(&Settings::in_folder(folder.path())).await?;
    in_process(Mode::Embedded, engine, in_flight, duration, None).await
}

async fn opened(settings: &Settings) -> Result<Engine, Failed> {
    open(settings, work::registry(), "bench")
        .await
        .map_err(|exit| Failed(exit.message))
}

async fn in_process(
    mode: Mode,
    engine: Engine,
    in_flight: u16,
    duration: Duration,
    postgres: Option<u32>,
) -> Result<Measured, Failed> {
    let running = engine::start(engine);
    let processors = Processors::default()
        .with("engine", Some(std::process::id()))
        .with("postgres", postgres);
    let (mut marks, mut asked) = (Vec::new(), Vec::new());
    let result = load::run(running.client.clone(), in_flight.into(), duration, || {
        marks.push(processors.used());
        asked.push(running.counted.around.asked());
    })
    .await?;
    running.stop().await;
    let mut one = measured(mode, in_flight, &result, &marks);
    let between = |read: fn(&engine::Asked) -> u64| match asked.as_slice() {
        [first, last] => (read(last) - read(first)) as f64 / result.tasks() as f64,
        _ => f64::NAN,
    };
    let commits = between(|asked| asked.commits);
    one.commits_per_task = Some(commits);
    one.round_trips_per_task = commits + between(|asked| asked.others);
    let postgres = one
        .cpu_ms_per_task
        .get("postgres")
        .copied()
        .unwrap_or_default();
    one.cpu_ms_per_task
        .entry("engine")
        .and_modify(|ms| *ms -= postgres);
    Ok(one)
}

fn measured(
    mode: Mode,
    in_flight: u16,
    result: &LoadResult,
    marks: &[BTreeMap<&'static str, Duration>],
) -> Measured {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let cpu = match marks {
        [before, after] => cost::between(before, after),
        _ => BTreeMap::new(),
    };
    Measured {
        mode,
        in_flight,
        tasks_per_second: result.per_second(),
        p50_ms: ms(result.percentile(50)),
        p99_ms: ms(result.percentile(99)),
        commits_per_task: None,
        round_trips_per_task: f64::NAN,
        row_versions_per_task: None,
        wal_bytes_per_task: None,
        verified_per_second: None,
        cpu_ms_per_task: cpu
            .into_iter()
            .map(|(name, used)| (name, ms(used) / result.tasks() as f64))
            .collect(),
        ratio: None,
    }
}
