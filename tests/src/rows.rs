//! The rows and objects that processes leave behind, seen through the adapters' ports. Changes
//! nothing.

use crate::cluster::Cluster;
use crate::place::Place;
use crate::wait::{LATER, pause};
use bytes::Bytes;
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_adapters::s3::{self, S3Settings};
use counterstep_contracts::{Direction, Outcome, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::change::intents;
use counterstep_kernel::ports::{ObjectInfo, Ports, ReceiveOp, TaskQuery};
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_reconciler::audit::{Finding, Scope};
use counterstep_reconciler::fsck;
use counterstep_steps::digest::hex;
use counterstep_steps::keys::ObjectKey;
use counterstep_steps::{Registry, TaskType};
use counterstep_testkit::{invariants, trail};
use diesel::connection::SimpleConnection;
use diesel::sql_types::{BigInt, Text};
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task with its past.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its rows.
    pub record: TaskRecord,
    /// Its past.
    pub history: History,
    /// What is wrong with its journal, its chain and its row, in words.
    pub found_by_fsck: Vec<String>,
}

impl Known {
    /// What happened, in words.
    #[must_use]
    pub fn trail(&self) -> String {
        trail::of(&self.record, &self.history)
    }

    /// What of the rows contradicts itself, in words; where the task is at rest, open attempts too.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let Some(task_type) = type_of(&self.record) else {
            return vec![format!(
                "no task type {} is known",
                self.record.task.task_type
            )];
        };
        let mut broken = invariants::broken(task_type.decl, &self.record, &self.history);
        broken.extend_from_slice(&self.found_by_fsck);
        if self.record.task.status.is_at_rest() {
            let open = self
                .history
                .attempts
                .iter()
                .filter(|attempt| attempt.outcome.is_none());
            broken.extend(open.map(|open| format!("at rest with an open attempt: {open:?}")));
        }
        broken
    }

    /// The rows agree with each other; and where the task is at rest, no attempt is open.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_sound(&self) {
        let broken = self.broken();
        assert!(
            broken.is_empty(),
            "task {}: {}\nin: {}",
            self.record.task.id,
            broken.join("; "),
            self.trail()
        );
    }

    /// Steps that do not have exactly one committed output, in words.
    #[must_use]
    pub fn outputs_not_once(&self) -> Vec<String> {
        let skipped = |status| status == StepStatus::Skipped;
        let steps = self
            .record
            .steps
            .iter()
            .filter(|step| !skipped(step.status));
        let counted = steps.map(|step| {
            let committed = self.history.attempts.iter().filter(|attempt| {
                attempt.step == step.no
                    && attempt.direction == Direction::Forward
                    && attempt.outcome == Some(Outcome::Succeeded)
            });
            // A rebuild of lost scratch succeeds once more, and its audit entry records it.
            let superseded = self.history.audit.iter().filter(|row| {
                row.entry.step == Some(step.no)
                    && matches!(
                        row.entry.event.as_str(),
                        "step_scratch_lost" | "step_rebuilt"
                    )
            });
            (step, committed.count(), 1 + superseded.count())
        });
        let wrong = counted.filter(|(_, committed, expected)| committed != expected);
        wrong
            .map(|(step, committed, expected)| {
                format!(
                    "{} has {committed} committed outputs instead of {expected}",
                    step.name
                )
            })
            .collect()
    }

    /// It completed, and each of its steps has one committed output.
    ///
    /// # Panics
    /// When it has not.
    pub fn assert_completed_once(&self) {
        let (id, status) = (self.record.task.id, self.record.task.status);
        let failure = &self.record.task.failure;
        assert_eq!(
            status,
            TaskStatus::Completed,
            "task {id}: {}: {failure:?}",
            self.trail()
        );
        let wrong = self.outputs_not_once();
        assert!(
            wrong.is_empty(),
            "task {id}: {}: {}",
            wrong.join("; "),
            self.trail()
        );
    }
}

/// The stores of a place.
#[derive(Debug)]
pub struct Rows {
    ports: Ports,
    registry: Registry,
}

impl Rows {
    /// Opens them beside whatever process is on them.
    ///
    /// # Panics
    /// When they cannot be opened.
    pub async fn of(place: &Place) -> Self {
        let paths = EmbeddedPaths {
            database: place.database(),
            objects: place.data().join("objects"),
            scratch: place.data().join("scratch"),
        };
        let ports = embedded::open(paths, EmbeddedOptions::default())
            .await
            .expect("the stores open");
        Self {
            ports,
            registry: counterstep_tasks::tasks(),
        }
    }

    /// Opens those of a cluster.
    ///
    /// # Panics
    /// When they cannot be opened.
    pub async fn of_cluster(cluster: &Cluster) -> Self {
        let Self { ports, registry } = Self::of(&cluster.place).await;
        let store = PostgresStore::open(&cluster.database, PostgresOptions::default())
            .await
            .expect("the database opens");
        let settings =
            S3Settings::from_url(&cluster.objects).expect("settings of the object store");
        let objects = s3::open(&settings).expect("the object store opens");
        Self {
            ports: Ports {
                store: store.into(),
                objects: Arc::new(objects),
                ..ports
            },
            registry,
        }
    }

    /// A task.
    ///
    /// # Panics
    /// When there is none.
    pub async fn task(&self, id: TaskId) -> Known {
        self.known(id).await.expect("the task exists")
    }

    /// A task; `None`: there is none, or it was deleted while it was read.
    async fn known(&self, id: TaskId) -> Option<Known> {
        let record = self.load(id).await?;
        let history = self
            .ports
            .store
            .history(id)
            .await
            .expect("the store answers");
        let found_by_fsck = invariants::found_by_fsck(&self.ports.store, &self.registry, id).await;
        let is_whole = !history.audit.is_empty() && found_by_fsck.is_empty();
        if !is_whole && self.load(id).await.is_none() {
            return None;
        }
        Some(Known {
            record,
            history,
            found_by_fsck,
        })
    }

    /// The state of a task; `None`: there is no such task.
    ///
    /// # Panics
    /// When the store does not answer.
    pub async fn status(&self, id: TaskId) -> Option<TaskStatus> {
        Some(self.load(id).await?.task.status)
    }

    async fn load(&self, id: TaskId) -> Option<TaskRecord> {
        let loaded = self.ports.store.load(id).await;
        loaded.expect("the store answers")
    }

    /// What is wrong with any task, and with the objects of its outputs, as `fsck` finds it.
    ///
    /// # Panics
    /// When it cannot look.
    pub async fn fsck(&self) -> Vec<String> {
        let (objects, mut found) = (Some(&*self.ports.objects), Vec::new());
        let mut note = |finding: Finding| found.push(finding.to_string());
        let scope = Scope::default();
        let checked = fsck::fsck(
            &self.ports.store,
            &self.registry,
            objects,
            &scope,
            &mut note,
        );
        checked.await.expect("the stores answer");
        found
    }

    /// Objects that are not what an output says of them: of its length, with its SHA-256.
    ///
    /// # Panics
    /// When the stores do not answer.
    pub async fn wrong_objects(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for known in self.tasks().await {
            let kept = fsck::referenced_keys(&known.record);
            let outputs = known
                .record
                .steps
                .iter()
                .filter_map(|it| it.output.as_ref());
            for object in outputs.flat_map(objects_in) {
                if !kept.contains(&object.key) {
                    continue;
                }
                let stored = self.ports.objects.get(&object.bucket, &object.key).await;
                let bytes: Result<Vec<Bytes>, String> = match stored {
                    Ok(stored) => stored
                        .try_collect()
                        .await
                        .map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                let found = bytes.map(|bytes| {
                    let bytes = bytes.concat();
                    (bytes.len() as u64, hex(&Sha256::digest(&bytes)))
                });
                if found.as_ref() != Ok(&(object.size_bytes, object.sha256.clone())) {
                    wrong.push(format!("{object:?}: {found:?}"));
                }
            }
        }
        wrong
    }

    /// All tasks, the newest first, without those that retention deletes meanwhile.
    ///
    /// # Panics
    /// When they cannot be read.
    pub async fn tasks(&self) -> Vec<Known> {
        let mut found: Vec<Known> = Vec::new();
        let mut before = None;
        loop {
            let query = TaskQuery {
                before,
                limit: 200,
                ..TaskQuery::default()
            };
            let page = self
                .ports
                .store
                .list(&query)
                .await
                .expect("the store answers")
                .lines;
            if page.is_empty() {
                return found;
            }
            for line in page {
                before = Some(line.task);
                found.extend(self.known(line.task).await);
            }
        }
    }

    /// Tasks that are leased to this host, of the newest two hundred that are running.
    ///
    /// # Panics
    /// When they cannot be read.
    pub async fn leased_to(&self, host: &str) -> Vec<TaskId> {
        let query = TaskQuery {
            statuses: vec![TaskStatus::Running],
            limit: 200,
            ..TaskQuery::default()
        };
        let mut leased = Vec::new();
        for line in self
            .ports
            .store
            .list(&query)
            .await
            .expect("the store answers")
            .lines
        {
            let record = self.task(line.task).await.record;
            if record.task.lease_owner.as_deref() == Some(host) {
                leased.push(line.task);
            }
        }
        leased
    }

    /// Age of the oldest event that is not published.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn oldest_unpublished(&self) -> Option<Duration> {
        let gauges = self.ports.store.gauges(&[]).await;
        gauges.expect("the store answers").oldest_unpublished
    }

    /// All objects, half-done uploads too.
    ///
    /// # Panics
    /// When they cannot be listed.
    pub async fn objects(&self) -> Vec<ObjectInfo> {
        self.ports
            .objects
            .list("")
            .try_collect()
            .await
            .expect("the objects are listed")
    }

    /// Waits until there is no object that no committed output refers to. A reconciler must sweep
    /// meanwhile. At no time is an output without its object.
    ///
    /// # Panics
    /// When an orphan stays, or an output has no object.
    pub async fn assert_no_orphans(&self) {
        let kept: BTreeSet<String> = self
            .tasks()
            .await
            .iter()
            .flat_map(|known| fsck::referenced_keys(&known.record))
            .collect();
        let started = Instant::now();
        let there: BTreeSet<String> = loop {
            let objects = self.objects().await;
            let orphans: Vec<_> = objects
                .iter()
                .filter(|object| !kept.contains(&object.key))
                .collect();
            if orphans.is_empty() {
                break objects.into_iter().map(|object| object.key).collect();
            }
            if started.elapsed() >= LATER {
                panic!(
                    "no sweep takes these objects: {}",
                    self.of_orphans(&orphans).await
                );
            }
            tokio::time::sleep(pause(Duration::ZERO, started.elapsed())).await;
        };
        let missing: Vec<_> = kept.difference(&there).collect();
        assert!(
            missing.is_empty(),
            "outputs without their object: {missing:?}"
        );
    }

    /// Orphans with what the rows say of them, in words.
    async fn of_orphans(&self, orphans: &[&ObjectInfo]) -> String {
        let mut said = String::new();
        for object in orphans {
            let Some(key) = ObjectKey::parse(&object.key) else {
                _ = write!(said, "\n{object:?}, which is no key of a task");
                continue;
            };
            let receives = self
                .ports
                .store
                .receives(&ReceiveOp::Of(vec![key.task]))
                .await
                .expect("the store answers");
            let history = self
                .ports
                .store
                .history(key.task)
                .await
                .expect("the store answers");
            _ = write!(said, "\n{object:?}\n  its request: {:?}", receives.rows);
            if let Some(record) = self
                .ports
                .store
                .load(key.task)
                .await
                .expect("the store answers")
            {
                let (marks, sweep_at) = (&record.marks, record.task.sweep_at);
                _ = write!(
                    said,
                    "\n  attempts of its task: {marks:?}; a sweep is to look at {sweep_at:?}"
                );
                _ = write!(said, " and may take {:?}", intents::overdue(&record));
                _ = write!(said, "\n  {}", trail::of(&record, &history));
            }
        }
        said
    }
}

/// An object to which an output refers.
#[derive(Debug, Deserialize)]
struct Named {
    bucket: String,
    key: String,
    size_bytes: u64,
    sha256: String,
}

/// Those in an output.
fn objects_in(output: &Value) -> Vec<Named> {
    match output {
        Value::Object(map) => match Named::deserialize(output) {
            Ok(object) => vec![object],
            Err(_) => map.values().flat_map(objects_in).collect(),
        },
        Value::Array(list) => list.iter().flat_map(objects_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The task type under test.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn task_type() -> TaskType {
    *counterstep_tasks::tasks()
        .iter()
        .next()
        .expect("a task type")
}

/// The shipped type of a task.
fn type_of(record: &TaskRecord) -> Option<TaskType> {
    counterstep_tasks::tasks()
        .iter()
        .find(|it| it.decl.name == record.task.task_type)
        .copied()
}

/// Whether some process keeps all others from writing to the database: one that stands still inside
/// of a transaction holds SQLite's lock until it goes on, and no lease helps against that.
///
/// # Panics
/// When the database cannot be opened.
#[must_use]
pub fn is_locked(place: &Place) -> bool {
    // Transactions of processes that are alive are over in a moment.
    let begun =
        connect(place).batch_execute("PRAGMA busy_timeout = 1000; BEGIN IMMEDIATE; ROLLBACK");
    begun.is_err()
}

/// Makes the database one that a newer program has changed. Nothing may have it open.
///
/// # Panics
/// When it cannot be written.
pub fn make_newer(place: &Place) {
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000000');
        PRAGMA wal_checkpoint(TRUNCATE)";
    connect(place)
        .batch_execute(newer)
        .expect("the migration is noted");
}

/// What SQLite's own check finds in the database file, where there is one.
///
/// # Panics
/// When it cannot be looked at.
#[must_use]
pub fn damage(place: &Place) -> Vec<String> {
    #[derive(QueryableByName)]
    struct Found {
        #[diesel(sql_type = Text)]
        integrity_check: String,
    }
    if !place.database().exists() {
        return Vec::new();
    }
    let found = diesel::sql_query("PRAGMA integrity_check").load::<Found>(&mut connect(place));
    let found = found.expect("the file can be checked").into_iter();
    let found = found.map(|row| row.integrity_check);
    found.filter(|text| text != "ok").collect()
}

/// Whether the database file is there and has its tables.
///
/// # Panics
/// When it cannot be looked at.
#[must_use]
pub fn has_tables(place: &Place) -> bool {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let clocks = "SELECT count(*) AS count FROM sqlite_schema WHERE name = 'clock'";
    place.database().exists() && {
        let count = diesel::sql_query(clocks).get_result::<Count>(&mut connect(place));
        count.expect("the file can be read").count > 0
    }
}

/// Writes hours of a type as a reconciler counts them, so that a page has a past to show: `took` are milliseconds.
///
/// # Panics
/// When they cannot be written.
pub fn add_hours(place: &Place, task_type: &str, step: &str, slowest: TaskId) {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).expect("a time");
    let last = i64::try_from(now.as_secs() / 3_600).expect("an hour");
    // A time in milliseconds stands in the bucket of its logarithm, eight for each doubling.
    let bucket = |millis: f64| format!("{}", (millis.log2() * 8.0).floor());
    for back in (0..24).filter(|back| back % 7 != 3) {
        let scale = f64::from(1 + back % 5);
        let took = |millis: f64| serde_json::json!({bucket(millis * scale): 40, bucket(millis * scale * 8.0): 3, bucket(millis * scale * 40.0): 1});
        let body = serde_json::json!({
            "ended": {"completed": 44, "failed": 2},
            "tasks": took(900.0),
            "steps": {step: {"took": took(300.0), "max_ms": 61_000, "slowest": slowest}},
        });
        diesel::sql_query(
            "INSERT INTO documents (kind, tenant, name, rev, body, due_at, seen_at) VALUES ('durations', 'default', ?, 1, ?, NULL, 0)",
        )
        .bind::<Text, _>(format!("{task_type} {}", last - i64::from(back)))
        .bind::<Text, _>(body.to_string())
        .execute(&mut connect(place))
        .expect("an hour");
    }
}

/// Makes the last write of the database one of before a restart of the machine.
///
/// # Panics
/// When it cannot be written.
pub fn restart_machine(place: &Place) {
    connect(place)
        .batch_execute("UPDATE clock SET origin = 'another boot'")
        .expect("the row is there");
}

fn connect(place: &Place) -> SqliteConnection {
    let path = place.database();
    let path = path.to_str().expect("UTF-8");
    let mut connection = SqliteConnection::establish(path).expect("the database opens");
    // Its processes write as well.
    connection
        .batch_execute("PRAGMA busy_timeout = 10000")
        .expect("a pragma");
    connection
}
