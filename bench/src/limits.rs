//! What PostgreSQL and its disk do by themselves, in the same run: the measure of the tasks'
//! figures.

use crate::failed::Failed;
use counterstep_testkit::servers::Postgres;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// Clients whose rate the tasks are compared with.
pub(crate) const COMPARED: u32 = 32;

/// Rows that one statement appends.
const BATCH: u32 = 100;

const TABLES: &str = "
    CREATE TABLE base_tasks (id int PRIMARY KEY, status text NOT NULL, rev bigint NOT NULL, updated_at timestamptz);
    CREATE TABLE base_steps (task int NOT NULL, no bigserial, output jsonb NOT NULL, PRIMARY KEY (task, no));
    CREATE TABLE base_audit (task int NOT NULL, seq bigserial, event text NOT NULL, details jsonb NOT NULL,
                             at timestamptz NOT NULL, PRIMARY KEY (task, seq));
    CREATE TABLE base_journal (task uuid NOT NULL, rev int NOT NULL, at timestamptz NOT NULL, actor text NOT NULL,
                               entries text NOT NULL, seal bytea NOT NULL, PRIMARY KEY (task, rev));
    INSERT INTO base_tasks SELECT n, 'running', 0, now() FROM generate_series(1, 100000) n;
    VACUUM ANALYZE base_tasks;
";

/// One row of each of three tables, as a transition writes them.
const STATEMENT: &str = r#"\set task random(1, 100000)
WITH task AS (
    UPDATE base_tasks SET status = 'running', rev = rev + 1, updated_at = now() WHERE id = :task RETURNING id
), step AS (
    INSERT INTO base_steps (task, output) SELECT id, to_jsonb(repeat('x', 200)) FROM task
)
INSERT INTO base_audit (task, event, details, at) SELECT id, 'step_succeeded', '{"step": 1}', now() FROM task;
"#;

/// A batch of rows that are only appended.
const APPEND: &str = "INSERT INTO base_journal (task, rev, at, actor, entries, seal)
SELECT gen_random_uuid(), n, now(), 'worker:1', repeat('x', 450), decode(repeat('ab', 32), 'hex')
FROM generate_series(1, 100) n;
";

/// What the database and the disk can do, each a second.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Limits {
    /// One statement with the same three writes, each a transaction of its own, from one client.
    pub(crate) statements_1: f64,
    /// From eight.
    pub(crate) statements_8: f64,
    /// From 32.
    pub(crate) statements_32: f64,
    /// Rows of half a kilobyte appended in batches of 100 by two clients.
    pub(crate) appended_rows: f64,
    /// Writes of 4 KiB that are flushed to the disk one by one.
    pub(crate) disk_flushes: f64,
}

/// Measures them, each for `duration`.
pub(crate) fn measure(postgres: &Postgres, duration: Duration) -> Result<Limits, Failed> {
    let url = postgres.database();
    // One by one: VACUUM refuses to run inside the transaction that several statements make.
    for statement in TABLES
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
    {
        postgres.run_sql(&url, statement).map_err(Failed)?;
    }
    let rate =
        |script: &str, clients: u32| transactions_per_second(&url, script, clients, duration);
    Ok(Limits {
        statements_1: rate(STATEMENT, 1)?,
        statements_8: rate(STATEMENT, 8)?,
        statements_32: rate(STATEMENT, COMPARED)?,
        appended_rows: rate(APPEND, 2)? * f64::from(BATCH),
        disk_flushes: disk_flushes_per_second(duration)?,
    })
}

/// Transactions a second of a script, as `pgbench` counts them.
fn transactions_per_second(
    url: &str,
    script: &str,
    clients: u32,
    duration: Duration,
) -> Result<f64, Failed> {
    let folder = tempfile::tempdir().map_err(Failed::of)?;
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).map_err(Failed::of)?;
    let output = Command::new(pgbench()?)
        .args([
            "--no-vacuum",
            "--protocol",
            "prepared",
            "--jobs",
            &clients.min(2).to_string(),
        ])
        .args([
            "--client",
            &clients.to_string(),
            "--time",
            &duration.as_secs().max(1).to_string(),
            "--file",
        ])
        .arg(&file)
        .arg(url)
        .output()
        .map_err(|error| Failed(format!("pgbench cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .ok_or_else(|| {
            Failed(format!(
                "pgbench printed no figure: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            ))
        })
}

/// In a temporary folder, which is where the servers of a run have theirs.
fn disk_flushes_per_second(duration: Duration) -> Result<f64, Failed> {
    let folder = tempfile::tempdir().map_err(Failed::of)?;
    let mut file = File::create(folder.path().join("flushed")).map_err(Failed::of)?;
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < duration {
        file.write_all(&[b'x'; 4096])
            .and_then(|()| file.sync_data())
            .map_err(Failed::of)?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn pgbench() -> Result<std::path::PathBuf, Failed> {
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|v| v.path().join("bin"));
    on_path
        .chain(debian)
        .map(|folder| folder.join("pgbench"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Failed(
                "pgbench is not installed: it comes with PostgreSQL (Debian: postgresql)"
                    .to_owned(),
            )
        })
}
