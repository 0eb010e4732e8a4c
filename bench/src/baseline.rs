//! The baseline: what PostgreSQL itself does in one statement with the same three writes.

use crate::Failed;
use counterstep_testkit::servers::Postgres;
use std::process::Command;
use std::time::Duration;

const CLIENTS: u32 = 32;

const TABLES: &str = "
    CREATE TABLE base_tasks (id int PRIMARY KEY, status text NOT NULL, rev bigint NOT NULL, updated_at timestamptz);
    CREATE TABLE base_steps (task int NOT NULL, no bigserial, output jsonb NOT NULL, PRIMARY KEY (task, no));
    CREATE TABLE base_audit (task int NOT NULL, seq bigserial, event text NOT NULL, details jsonb NOT NULL,
                             at timestamptz NOT NULL, PRIMARY KEY (task, seq));
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

/// Statements a second, each a transaction of its own, from 32 clients.
pub(crate) fn statements_per_second(postgres: &Postgres, duration: Duration) -> Result<f64, Failed> {
    let url = postgres.database();
    // One by one: VACUUM refuses to run inside the transaction that several statements make.
    for statement in TABLES.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        postgres.run_sql(&url, statement).map_err(Failed)?;
    }
    let folder = tempfile::tempdir().map_err(Failed::of)?;
    let script = folder.path().join("baseline.sql");
    std::fs::write(&script, STATEMENT).map_err(Failed::of)?;
    let program = pgbench()?;
    let output = Command::new(program)
        .args(["--no-vacuum", "--protocol", "prepared", "--jobs", "2", "--client", &CLIENTS.to_string()])
        .args(["--time", &duration.as_secs().max(1).to_string(), "--file"])
        .arg(&script)
        .arg(&url)
        .output()
        .map_err(|error| Failed(format!("pgbench cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .ok_or_else(|| Failed(format!("pgbench said no figure: {text}{}", String::from_utf8_lossy(&output.stderr))))
}

fn pgbench() -> Result<std::path::PathBuf, Failed> {
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|v| v.path().join("bin"));
    on_path
        .chain(debian)
        .map(|folder| folder.join("pgbench"))
        .find(|program| program.is_file())
        .ok_or_else(|| Failed("pgbench is not installed: it comes with PostgreSQL (Debian: postgresql)".to_owned()))
}
