//! `counterstep bench`: tasks a second of this program on this machine, beside what the database itself can do.

mod baseline;
mod cost;
mod engine;
mod load;
mod services;
mod work;

use crate::cli::{print, table};
use cost::Processors;
use counterstep_adapters::system::LocalSignals;
use counterstep_api::cli::ApiArgs;
use counterstep_kernel::Engine;
use counterstep_node::settings::{Database, NatsPlace, RedisPlace, Server};
use counterstep_node::{Exit, Settings, SettingsArgs, open};
use counterstep_reconciler::cli::ReconcilerArgs;
use counterstep_testkit::servers::{Nats, Postgres, Redis};
use counterstep_worker::cli::WorkerArgs;
use load::Seen;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Failed(pub(super) String);

/// How the tasks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Over HTTP with three services on PostgreSQL, NATS and Redis.
    Http,
    /// The engine in this process on PostgreSQL.
    Engine,
    /// The engine in this process on a file.
    Embedded,
}

/// A service that `bench` starts as a process of its own.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Role {
    Api,
    Worker,
    Reconciler,
}

/// Flags of `bench`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BenchArgs {
    /// Tasks in flight, one measurement for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50, 200])]
    in_flight: Vec<u16>,
    /// How long each measurement lasts, after two seconds to warm up
    #[arg(long, default_value = "10s")]
    duration: String,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Http, Mode::Engine, Mode::Embedded])]
    modes: Vec<Mode>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Serve as this service: what `bench` starts itself
    #[arg(long, hide = true, value_enum)]
    role: Option<Role>,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Measured {
    mode: Mode,
    in_flight: u16,
    tasks_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Changes of a task; none where the database counts them together with all else.
    commits_per_task: Option<f64>,
    /// Round trips to the store, commits included.
    round_trips_per_task: f64,
    /// Processor milliseconds a task, by process.
    cpu_ms_per_task: BTreeMap<&'static str, f64>,
    /// Tasks per statement of the baseline.
    ratio: Option<f64>,
}

pub(super) fn main(settings: &SettingsArgs, args: &BenchArgs) -> Result<(), Exit> {
    if let Some(role) = args.role {
        let registry = work::registry();
        return match role {
            Role::Api => counterstep_api::cli::main(registry, settings, &listening()?),
            Role::Worker => counterstep_worker::cli::main(registry, settings, &WorkerArgs::default()),
            Role::Reconciler => counterstep_reconciler::cli::main(registry, settings, &ReconcilerArgs::default()),
        };
    }
    let duration = counterstep_node::settings::duration("duration", &args.duration)?;
    counterstep_node::install_provider();
    let folder = tempfile::tempdir().map_err(|error| Exit::failed(format_args!("no temporary folder: {error}")))?;
    let own = Settings { log: "error".to_owned(), ..Settings::in_folder(folder.path()) };
    counterstep_node::run(
        &own,
        Box::pin(async {
            let report = measure(args, duration, &own).await.map_err(|Failed(why)| Exit::failed(why))?;
            print(&if args.json { report.json()? } else { report.text() })
        }),
    )
}

/// The variables say it: a role is no command of its own, whose parser would read them.
fn variable<T: std::str::FromStr>(name: &str) -> Result<Option<T>, Exit> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Exit::config(format_args!("the variable `{name}` cannot be read")))
}

fn listening() -> Result<ApiArgs, Exit> {
    Ok(ApiArgs { listen: variable("COUNTERSTEP_LISTEN")?, ..ApiArgs::default() })
}

/// All measurements.
#[derive(Debug, Serialize)]
struct Report {
    /// The database's own statements a second, before and after; none where only files were measured.
    baseline: Option<[f64; 2]>,
    measured: Vec<Measured>,
}

async fn measure(args: &BenchArgs, duration: Duration, own: &Settings) -> Result<Report, Failed> {
    let mut measured = Vec::new();
    let on_servers = args.modes.iter().any(|mode| *mode != Mode::Embedded);
    let servers = on_servers.then(|| (Postgres::durable(), Nats::start(), Redis::start()));
    let first = match &servers {
        Some((postgres, ..)) => Some(baseline::statements_per_second(postgres, duration)?),
        None => None,
    };
    for mode in &args.modes {
        for in_flight in &args.in_flight {
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
    let folder = tempfile::tempdir().map_err(|error| Failed(error.to_string()))?;
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

/// What the database counts itself.
struct Transactions {
    client: tokio_postgres::Client,
}

impl Transactions {
    async fn of(database: &str) -> Result<Self, Failed> {
        let connected = tokio_postgres::connect(database, tokio_postgres::NoTls).await;
        let (client, connection) = connected.map_err(|error| Failed(error.to_string()))?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    async fn number(&self, question: &str) -> Result<i64, Failed> {
        let row = self.client.query_one(question, &[]).await.map_err(|error| Failed(error.to_string()))?;
        Ok(row.get(0))
    }

    /// Committed so far in this database.
    async fn read(&self) -> Result<i64, Failed> {
        self.number("SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = current_database()").await
    }

    /// Transactions since then, changes of tasks, and tasks. The database learns what a connection has done when it
    /// ends, or within a moment.
    async fn since(&self, before: i64) -> Result<(f64, f64, f64), Failed> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let changes = self.number("SELECT count(DISTINCT change_id) FROM audit").await?;
        let tasks = self.number("SELECT count(*) FROM tasks").await?;
        Ok(((self.read().await? - before) as f64, changes as f64, tasks as f64))
    }
}

impl Report {
    fn json(&self) -> Result<String, Exit> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(Exit::failed)
    }

    fn text(&self) -> String {
        let head = ["mode", "in flight", "tasks/s", "p50 ms", "p99 ms", "commits", "round trips", "CPU ms", "ratio"];
        let mut rows = table::table(&head);
        for one in &self.measured {
            let cpu: Vec<_> = one.cpu_ms_per_task.iter().map(|(name, ms)| format!("{name} {ms:.2}")).collect();
            rows.add_row([
                format!("{:?}", one.mode).to_lowercase(),
                one.in_flight.to_string(),
                format!("{:.0}", one.tasks_per_second),
                format!("{:.1}", one.p50_ms),
                format!("{:.1}", one.p99_ms),
                one.commits_per_task.map_or_else(String::new, |commits| format!("{commits:.2}")),
                format!("{:.2}", one.round_trips_per_task),
                cpu.join(", "),
                one.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
            ]);
        }
        let mut text = String::new();
        if let Some([first, last]) = self.baseline {
            text += &format!(
                "Baseline, one statement with the same three writes from 32 clients: {first:.0}/s before, {last:.0}/s after\n"
            );
        }
        text + "Commits, round trips and CPU are for one task; the ratio is tasks per statement of the baseline\n"
            + &format!("{rows}\n")
    }
}
