//! The measurements: which servers, which processes, and what is read before and after.

use crate::cost::{self, Processors, Transactions};
use crate::load::{self, Seen};
use crate::report::{Measured, Report};
use crate::{Failed, Mode, baseline, engine, services, work};
use counterstep_adapters::system::LocalSignals;
use counterstep_kernel::Engine;
use counterstep_node::settings::{Database, NatsPlace, RedisPlace, Server};
use counterstep_node::{Settings, open};
use counterstep_testkit::servers::{Nats, Postgres, Redis};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    pub(crate) in_flight: Vec<u16>,
    pub(crate) duration: Duration,
    /// Of this process.
    pub(crate) own: Settings,
}

pub(crate) async fn all(plan: &Plan) -> Result<Report, Failed> {
    let Plan { duration, own, .. } = plan;
    let duration = *duration;
    let mut measured = Vec::new();
    let on_servers = plan.modes.iter().any(|mode| *mode != Mode::Embedded);
    let servers = on_servers.then(|| (Postgres::durable(), Nats::start(), Redis::start()));
    let first = match &servers {
        Some((postgres, ..)) => Some(baseline::statements_per_second(postgres, duration)?),
        None => None,
    };
    for mode in &plan.modes {
        for in_flight in &plan.in_flight {
            let one = match (mode, &servers) {
                (Mode::Http, Some(servers)) => http(servers, *in_flight, duration, own).await?,
                (Mode::Engine, Some(servers)) => on_postgres(servers, *in_flight, duration, own).await?,
                _ => embedded(*in_flight, duration).await?,
            };
            measured.push(one);
        }
    }
    let baseline = match (first, &servers) {
        // Once more: the machine may have changed its pace meanwhile.
        (Some(first), Some((postgres, ..))) => Some([first, baseline::statements_per_second(postgres, duration)?]),
        _ => None,
    };
    if let Some([first, last]) = baseline {
        for one in &mut measured {
            one.ratio = (one.mode != Mode::Embedded).then_some(one.tasks_per_second / ((first + last) / 2.0));
        }
    }
    Ok(Report { baseline, measured })
}

type Servers = (Postgres, Nats, Redis);

/// Settings for a new and migrated database of these servers.
async fn settings_on(servers: &Servers, own: &Settings) -> Result<(Settings, String), Failed> {
    let database = servers.0.database();
    let settings = Settings {
        database: Database::Postgres(Server::at(database.clone())),
        nats: Some(NatsPlace::at(servers.1.url())),
        redis: Some(RedisPlace { server: Server::at(servers.2.url()), prefix: None }),
        ..own.clone()
    };
    counterstep_node::migrate(&settings).await.map_err(|exit| Failed(exit.message))?;
    Ok((settings, database))
}

async fn http(servers: &Servers, in_flight: u16, duration: Duration, own: &Settings) -> Result<Measured, Failed> {
    let (_, database) = settings_on(servers, own).await?;
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
    let counter = Transactions::of(&database).await?;
    let before = counter.read().await?;
    let seen = load::run(services.client(), in_flight.into(), duration, || marks.push(processors.used())).await?;
    // Statistics arrive with a delay; over the whole run, warm-up included, they are exact.
    drop(services);
    let (transactions, changes, tasks) = counter.since(before).await?;
    let mut one = measured(Mode::Http, in_flight, &seen, &marks);
    one.commits_per_task = Some(changes / tasks);
    one.round_trips_per_task = transactions / tasks;
    // The clients are this process, and so are all others its children.
    let children: f64 = one.cpu_ms_per_task.iter().filter(|(name, _)| **name != "client").map(|(_, ms)| ms).sum();
    one.cpu_ms_per_task.entry("client").and_modify(|ms| *ms -= children);
    Ok(one)
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
    open(settings, Arc::new(work::registry()), "bench").await.map_err(|exit| Failed(exit.message))
}

async fn in_process(
    mode: Mode,
    engine: Engine,
    in_flight: u16,
    duration: Duration,
    postgres: Option<u32>,
) -> Result<Measured, Failed> {
    let running = engine::start(engine);
    let processors = Processors::default().with("engine", Some(std::process::id())).with("postgres", postgres);
    let (mut marks, mut asked) = (Vec::new(), Vec::new());
    let seen = load::run(running.client.clone(), in_flight.into(), duration, || {
        marks.push(processors.used());
        asked.push(running.counted.asked());
    })
    .await?;
    running.stop().await;
    let mut one = measured(mode, in_flight, &seen, &marks);
    let between = |read: fn(&engine::Asked) -> u64| match asked.as_slice() {
        [first, last] => (read(last) - read(first)) as f64 / seen.tasks() as f64,
        _ => f64::NAN,
    };
    let commits = between(|asked| asked.commits);
    one.commits_per_task = Some(commits);
    one.round_trips_per_task = commits + between(|asked| asked.others);
    let postgres = one.cpu_ms_per_task.get("postgres").copied().unwrap_or_default();
    one.cpu_ms_per_task.entry("engine").and_modify(|ms| *ms -= postgres);
    Ok(one)
}

fn measured(mode: Mode, in_flight: u16, seen: &Seen, marks: &[BTreeMap<&'static str, Duration>]) -> Measured {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let cpu = match marks {
        [before, after] => cost::between(before, after),
        _ => BTreeMap::new(),
    };
    Measured {
        mode,
        in_flight,
        tasks_per_second: seen.per_second(),
        p50_ms: ms(seen.percentile(50)),
        p99_ms: ms(seen.percentile(99)),
        commits_per_task: None,
        round_trips_per_task: f64::NAN,
        cpu_ms_per_task: cpu.into_iter().map(|(name, used)| (name, ms(used) / seen.tasks() as f64)).collect(),
        ratio: None,
    }
}
