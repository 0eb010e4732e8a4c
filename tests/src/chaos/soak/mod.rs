//! A soak: what processes, tables and folders of a chaos run have at each moment, and whether something of it grows for good.
//! Strikes nothing.

mod plot;
mod slope;

use super::fleet::Fleet;
use counterstep_testkit::servers::first_value;
use parking_lot::Mutex;
use slope::{Bound, Trend, trend};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// How long a key, and with it its task, is kept.
pub(super) const KEY_KEPT: Duration = Duration::from_secs(90);

/// How long a task is kept after its end.
pub(super) const ENDED_KEPT: Duration = Duration::from_secs(30);

/// A client begins a task this often. A machine that is faster or slower for a while has as many tasks then.
pub(super) const BETWEEN_TASKS: Duration = Duration::from_millis(1_500);

/// Settings with which ended tasks are deleted during the run.
pub(super) fn settings() -> String {
    let (key, ended) = (KEY_KEPT.as_secs(), ENDED_KEPT.as_secs());
    let ends = ["completed", "failed", "cancelled"];
    let ends = ends.map(|end| format!("{end} = {{ after = \"{ended}s\", then = \"delete\" }}\n"));
    format!(
        "idempotency_ttl = \"{key}s\"\n[retention.\"*\"]\n{}",
        ends.concat()
    )
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Memory,
    Descriptors,
    Rows,
    Files,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Memory, Self::Descriptors, Self::Rows, Self::Files];

    /// Memory and descriptors have the few megabytes and connections that a process takes when it is busy; rows and files are those
    /// of a minute or two of tasks, and so are up and down with the faults.
    const fn bound(self) -> Bound {
        let (share, least) = match self {
            Self::Memory => (0.1, 10.0),
            Self::Descriptors => (0.1, 10.0),
            Self::Rows | Self::Files => (0.25, 50.0),
        };
        Bound { share, least }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "MiB of memory",
            Self::Descriptors => "descriptors",
            Self::Rows => "rows",
            Self::Files => "files",
        })
    }
}

/// A kind, of a process, a table or a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    kind: Kind,
    of: String,
}

impl Series {
    /// A process that is killed and started again has no slope; the first one of each role lives through the run. Rows of the
    /// worker registry are kept for a day (`docs/http.md`, Processes), one for each start.
    fn is_judged(&self) -> bool {
        match self.kind {
            Kind::Memory | Kind::Descriptors => self.of.ends_with(" 1"),
            Kind::Rows => self.of != "documents worker",
            Kind::Files => true,
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.of)
    }
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    /// Seconds since the begin.
    at: Vec<f64>,
    /// Values by the number of their sample.
    series: BTreeMap<Series, BTreeMap<usize, f64>>,
}

impl Samples {
    fn add(&mut self, at: f64, values: impl IntoIterator<Item = (Series, f64)>) {
        let number = self.at.len();
        self.at.push(at);
        for (series, value) in values {
            self.series.entry(series).or_default().insert(number, value);
        }
    }

    /// What is before that is a warm-up: caches fill, and no task is old enough to be deleted.
    fn judged_from(&self) -> f64 {
        let end = self.at.last().copied().unwrap_or_default();
        (end / 4.0).max(1.5 * KEY_KEPT.as_secs_f64())
    }

    fn trends(&self) -> Vec<(&Series, Trend)> {
        let from = self.judged_from();
        let of = |values: &BTreeMap<usize, f64>| {
            let samples = values.iter().map(|(at, value)| (self.at[*at], *value));
            samples.filter(|(at, _)| *at >= from).collect::<Vec<_>>()
        };
        let judged = self.series.iter().filter(|(series, _)| series.is_judged());
        let trends =
            judged.map(|(series, values)| Some((series, trend(&of(values), series.kind.bound())?)));
        trends.flatten().collect()
    }

    /// How each series went, in words; and which of them grow for good.
    pub(super) fn verdict(&self) -> (Vec<String>, Vec<String>) {
        let (mut went, mut leaks) = (Vec::new(), Vec::new());
        let end = self.at.last().copied().unwrap_or_default();
        let minutes = (end - self.judged_from()).max(0.0) / 60.0;
        for (series, it) in self.trends() {
            let Trend {
                median,
                growth,
                bound,
            } = it;
            let text = format!(
                "{series}: median {median:.0}, grows by {growth:.1} in {minutes:.0} min, may by {bound:.0}"
            );
            if it.is_leak() {
                leaks.push(format!("soak: {text}"));
            }
            went.push(text);
        }
        if went.is_empty() {
            leaks.push("soak: too few samples to judge: let it run for longer".to_owned());
        }
        (went, leaks)
    }

    /// Writes `soak.csv` and `soak.svg`.
    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("soak.csv"), plot::csv(self))?;
        std::fs::write(folder.join("soak.svg"), plot::svg(self, self.judged_from()))
    }
}

/// Processes by their names, with the ids that they have at the moment.
pub(super) type Pids = Arc<Mutex<BTreeMap<String, u32>>>;

/// Takes samples beside the run.
pub(super) struct Sampler {
    stop: Sender<()>,
    running: JoinHandle<Samples>,
}

impl Sampler {
    pub(super) fn start(fleet: &Fleet) -> Self {
        let (stop, stopped) = mpsc::channel();
        let looks = Looks {
            pids: fleet.pids.clone(),
            database: direct(fleet),
            folders: [
                ("objects", fleet.cluster.bucket()),
                ("data directory", fleet.cluster.place.data()),
            ],
        };
        let sample = move || {
            let (began, mut samples) = (Instant::now(), Samples::default());
            let mut next = Duration::ZERO;
            loop {
                samples.add(began.elapsed().as_secs_f64(), looks.values());
                next = (next + EVERY).max(began.elapsed());
                match stopped.recv_timeout(next.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return samples,
                }
            }
        };
        Self {
            stop,
            running: std::thread::spawn(sample),
        }
    }

    pub(super) fn stop(self) -> Samples {
        let _ = self.stop.send(());
        self.running.join().expect("samples are taken to the end")
    }
}

struct Looks {
    pids: Pids,
    /// Of the server itself: what cuts off the processes cuts off no look.
    database: String,
    folders: [(&'static str, PathBuf); 2],
}

impl Looks {
    fn values(&self) -> Vec<(Series, f64)> {
        let series = |kind, of: &str| Series {
            kind,
            of: of.to_owned(),
        };
        let mut values = Vec::new();
        for (name, pid) in self.pids.lock().clone() {
            // One that was killed in between has neither.
            let memory = memory(pid).map(|it| (series(Kind::Memory, &name), it));
            let open = descriptors(pid).map(|it| (series(Kind::Descriptors, &name), it));
            values.extend(memory.into_iter().chain(open));
        }
        // A server that is away has no rows now.
        let rows = first_value(&self.database, ROWS).ok().flatten();
        for line in rows.unwrap_or_default().lines() {
            let counted = line.split_once('=');
            let counted = counted.and_then(|(of, rows)| Some((of, rows.parse().ok()?)));
            values.extend(counted.map(|(of, rows)| (series(Kind::Rows, of), rows)));
        }
        for (name, folder) in &self.folders {
            values.push((series(Kind::Files, name), f64::from(files(folder))));
        }
        values
    }
}

/// Rows of each table, and of `documents` of each kind.
const ROWS: &str = r#"
SELECT string_agg(name || '=' || counted, E'\n') FROM (
  SELECT relname AS name, (xpath('/row/n/text()',
    query_to_xml(format('SELECT count(*) AS n FROM %I', relname), false, true, '')))[1]::text AS counted
  FROM pg_class
  WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
    AND relname NOT LIKE '\_\_%' AND relname <> 'documents'
  UNION ALL
  SELECT 'documents ' || kind, count(*)::text FROM documents GROUP BY kind
) AS tables"#;

fn direct(fleet: &Fleet) -> String {
    let name = fleet.cluster.database.rsplit('/').next();
    let name = name.expect("the name of a database");
    fleet.cluster.servers.postgres.url_of(name)
}

/// Resident memory in MiB.
fn memory(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024.0)
}

fn descriptors(pid: u32) -> Option<f64> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(open.count() as f64)
}

/// Number of files in a folder and those below it. One that is deleted meanwhile does not count.
fn files(folder: &Path) -> u32 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(of) if of.is_dir() => files(&entry.path()),
            Ok(_) => 1,
            Err(_) => 0,
        })
        .sum()
}
