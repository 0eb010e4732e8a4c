//! A database and objects as files, written the way the engine and its crashes leave them. Rows are
//! committed; objects are put where their adapter would put them, because their
//! age has to be chosen.

use counterstep_adapters::buckets::settings::Credentials;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_adapters::s3::{self, S3Settings};
use counterstep_contracts::overrides::OTHERS;
use counterstep_contracts::overrides::OrphanOverride;
use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, Outcome, Rev, StepNo, TaskId,
    TaskStatus, Tenant,
};
use counterstep_kernel::change::transition::{
    AttemptWrite, Guard, ObjectsFate, ReceiveWrite, TaskWrite, Time, Transition,
};
use counterstep_kernel::ports::Store;
use counterstep_kernel::record::{StepRow, TaskRow};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::{ReconcilerSettings, Report, pass};
use counterstep_steps::Registry;
use counterstep_steps::keys::attempt_prefix;
use counterstep_steps::times::DbTime;
use counterstep_tasks::CreateZipFromFiles;
use counterstep_testkit::TestClock;
use counterstep_testkit::servers::S3;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The step of every attempt.
pub(crate) const STEP: &str = "upload_source_files";
/// The declared bucket of every object.
const BUCKET: &str = "incoming-files";
/// Older than any attempt of the type may take.
const OLD: Duration = Duration::from_secs(2 * 3600);

/// The type of every task.
pub(crate) fn types() -> Registry {
    Registry::new().with::<CreateZipFromFiles>()
}

/// A pass after which nothing has failed.
pub(crate) async fn one_pass(place: &Place<'_>) -> Report {
    let report = pass(&place.engine, &place.settings).await.expect("a pass");
    assert_eq!(report.failed, Vec::<String>::new());
    report
}

/// Listings at each pass, so that a test need not wait for one.
pub(crate) fn at_each_pass(settings: &mut ReconcilerSettings) {
    let often = OrphanOverride {
        every: Some(Duration::from_micros(1)),
        grace: None,
    };
    settings.orphans.types.insert(OTHERS.to_owned(), often);
}

/// The same, and objects of unknown tasks and attempts are orphans once they are a minute old, or
/// as old as any need be.
pub(crate) fn at_each_pass_with_unknown(settings: &mut ReconcilerSettings) {
    at_each_pass(settings);
    settings.orphans.without_task = Some(Duration::from_secs(60));
}

/// What the record of its task says of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// It succeeded, and its objects are an output.
    Kept,
    /// Its end is unknown, and its time is over.
    Overdue,
    /// Its end is unknown, and its time is not over.
    Live,
    /// A sweep has been there.
    Swept,
}

/// An attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row(i32, Kind);

impl Row {
    /// With this number.
    pub(crate) const fn of(attempt: i32, kind: Kind) -> Self {
        Self(attempt, kind)
    }
}

/// Where a test takes place.
pub(crate) struct Place<'a> {
    pub(crate) engine: Engine,
    /// Of the passes here.
    pub(crate) settings: ReconcilerSettings,
    /// The time of its database and of all its engines.
    pub(crate) clock: TestClock,
    folder: TempDir,
    /// The folder of the bucket.
    bucket: PathBuf,
    server: Option<(&'a S3, &'a str)>,
}

impl<'a> Place<'a> {
    /// With objects in a folder.
    pub(crate) async fn new(
        registry: Registry,
        change: impl FnOnce(&mut ReconcilerSettings),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = EmbeddedPaths {
            database: folder.path().join("tasks.db"),
            objects: folder.path().join("objects"),
            scratch: folder.path().join("scratch"),
        };
        let clock = TestClock::new();
        let ports = embedded::open(paths, clock.embedded())
            .await
            .expect("the adapters open");
        let mut settings = ReconcilerSettings::default();
        change(&mut settings);
        let (registry, engine) = (Arc::new(registry), EngineSettings::default());
        let engine = Engine::new(ports, registry, engine, "reconciler");
        let bucket = folder.path().join("objects").join(BUCKET);
        std::fs::create_dir_all(&bucket).expect("a bucket");
        Self {
            engine,
            settings,
            clock,
            folder,
            bucket,
            server: None,
        }
    }

    /// With objects in a real bucket of a server, which `url` maps the declared one to.
    pub(crate) async fn in_bucket(
        registry: Registry,
        server: &'a S3,
        bucket: &'a str,
        url: &str,
    ) -> Self {
        let mut place = Self::new(registry, |_| {}).await;
        let file = place.folder.path().join("credentials");
        let (id, secret) = (server.access_key(), server.secret_key());
        std::fs::write(
            &file,
            format!("aws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
        )
        .expect("a file");
        let mut settings = S3Settings::from_url(url).expect("the settings");
        settings.common.credentials = Credentials::File(file);
        place.engine.ports.objects = Arc::new(s3::open(&settings).expect("the adapter opens"));
        place.bucket = server.folder().join(bucket);
        place.server = Some((server, bucket));
        place
    }

    /// Another reconciler on the same database and objects.
    pub(crate) fn another(&self) -> Engine {
        let Engine {
            ports,
            registry,
            settings,
            ..
        } = self.engine.clone();
        Engine::new(ports, registry, (*settings).clone(), "reconciler")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("tasks.db")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.path().join("objects")
    }

    pub(crate) fn new_task(&self) -> TaskId {
        self.engine.new_task_id()
    }

    /// Writes a task in this state with these attempts. It has no lease.
    pub(crate) async fn task(&self, status: TaskStatus, attempts: &[Row]) -> TaskId {
        self.task_with(status, attempts, |_| {}).await
    }

    /// The same, with a row that is changed.
    pub(crate) async fn task_with(
        &self,
        status: TaskStatus,
        attempts: &[Row],
        change: impl FnOnce(&mut TaskRow),
    ) -> TaskId {
        let id = self.new_task();
        let mut row = row(id, status, self.engine.new_change_id());
        row.sweep_at = self.sweep_at(attempts);
        change(&mut row);
        let task = TaskWrite {
            finished: if status.is_at_rest() {
                Time::In(Duration::ZERO)
            } else {
                Time::Keep
            },
            ..TaskWrite::new(row)
        };
        let change = Transition {
            task: Some(task),
            steps: vec![StepRow::pending(StepNo(1), STEP)],
            attempts: attempts.iter().flat_map(|row| attempt(*row)).collect(),
            ..Transition::new(self.engine.new_change_id(), id)
        };
        let store: &Store = &self.engine.ports.store;
        store
            .commit(
                Guard::Free { rev: Rev(0) },
                change.with_journal(None, "test"),
            )
            .await
            .expect("the rows are written");
        id
    }

    /// Begins a request with files, which a sweep may take from then on. There is no task of its
    /// id.
    pub(crate) async fn receive(&self, sweep_after: Duration) -> TaskId {
        let id = self.new_task();
        let change = Transition {
            receive: Some(ReceiveWrite::Begun {
                tenant: Tenant::default(),
                sweep_after,
            }),
            ..Transition::new(self.engine.new_change_id(), id)
        };
        self.engine
            .ports
            .store
            .commit(Guard::Free { rev: Rev(0) }, change.clone())
            .await
            .expect("the row is written");
        id
    }

    /// When a sweep is to look at a task with these attempts: as an engine works it out, a little
    /// early.
    fn sweep_at(&self, attempts: &[Row]) -> Option<DbTime> {
        let millis = i64::try_from(self.engine.ports.clock.unix_millis()).expect("a time of today");
        let now = DbTime(millis * 1000);
        let at = |Row(_, kind): &Row| match kind {
            Kind::Overdue => Some(now),
            Kind::Live => Some(now.later(OLD)),
            Kind::Kept | Kind::Swept => None,
        };
        attempts.iter().filter_map(at).min()
    }

    /// Writes an object of an attempt that is old; its key.
    pub(crate) fn old(&self, task: TaskId, attempt: i32, name: &str) -> String {
        let key = self.new_object(task, attempt, name);
        self.age(&key);
        key
    }

    /// Writes `count` objects of an attempt that are old. One file under many names: a hundred thousand files
    /// of their own would take minutes to make and to remove.
    pub(crate) fn many_old(&self, task: TaskId, attempt: i32, count: usize) -> Vec<String> {
        let first = self.old(task, attempt, "0");
        let others = (1..count).map(|n| format!("{}{n}", prefix(task, attempt)));
        let linked = others.inspect(|key| {
            std::fs::hard_link(self.bucket.join(&first), self.bucket.join(key))
                .expect("another name");
        });
        std::iter::once(first.clone()).chain(linked).collect()
    }

    /// Writes an object of an attempt that is new; its key.
    pub(crate) fn new_object(&self, task: TaskId, attempt: i32, name: &str) -> String {
        let key = format!("{}{name}", prefix(task, attempt));
        self.write(&key);
        key
    }

    /// Leaves a half-done upload of an attempt that began long ago; the file that tells of it.
    pub(crate) fn half(&self, task: TaskId, attempt: i32, name: &str) -> String {
        let key = format!("{}{name}", prefix(task, attempt));
        let path = match self.server {
            Some((server, bucket)) => server
                .begin_upload(bucket, &key)
                .to_string_lossy()
                .into_owned(),
            None => {
                let staged = format!("{key}#1");
                self.write(&staged);
                staged
            }
        };
        self.age(&path);
        path
    }

    pub(crate) fn write(&self, key: &str) {
        let path = self.bucket.join(key);
        std::fs::create_dir_all(path.parent().expect("a folder above")).expect("its folder");
        std::fs::write(path, "x").expect("an object");
    }

    /// Makes an object old.
    pub(crate) fn age(&self, key: &str) {
        self.age_by(key, OLD);
    }

    /// Makes an object this old.
    pub(crate) fn age_by(&self, key: &str, age: Duration) {
        let file = File::options()
            .write(true)
            .open(self.bucket.join(key))
            .expect("the object");
        file.set_modified(SystemTime::now() - age)
            .expect("its time");
    }

    /// Of these objects those that are not there.
    pub(crate) fn missing(&self, keys: &[String]) -> Vec<String> {
        keys.iter()
            .filter(|key| !self.bucket.join(key).exists())
            .cloned()
            .collect()
    }

    /// Whether none of these is there. Cheaper than to look for all.
    pub(crate) fn all_gone(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| !self.bucket.join(key).exists())
    }
}

fn prefix(task: TaskId, attempt: i32) -> String {
    attempt_prefix(&Tenant::default(), task, STEP, Epoch(1), Attempt(attempt))
}

fn attempt(Row(number, kind): Row) -> Vec<AttemptWrite> {
    let sweep_after = if matches!(kind, Kind::Live) {
        OLD
    } else {
        Duration::ZERO
    };
    let (step, direction, attempt) = (StepNo(1), Direction::Forward, Attempt(number));
    let start = AttemptWrite::Start {
        step,
        direction,
        attempt,
        epoch: Epoch(1),
        sweep_after,
    };
    let outcome = Outcome::Succeeded;
    let end = |kept| AttemptWrite::End {
        step,
        direction,
        attempt,
        outcome,
        error: None,
        kept,
    };
    match kind {
        Kind::Kept => vec![start, end(ObjectsFate::Output)],
        Kind::Swept => vec![start, end(ObjectsFate::None)],
        Kind::Overdue | Kind::Live => vec![start],
    }
}

fn row(id: TaskId, status: TaskStatus, change_id: ChangeId) -> TaskRow {
    TaskRow {
        parent: None,
        webhook: None,
        place_key: None,
        place_no: None,
        id,
        tenant: Tenant::default(),
        task_type: "CreateZipFromFiles".to_owned(),
        version: 1,
        definition_hash: "hash".to_owned(),
        status,
        waiting: None,
        host: Host::Worker,
        queue: "files".to_owned(),
        rev: Rev(1),
        epoch: Epoch(1),
        lease_owner: None,
        lease_expires_at: None,
        due_at: None,
        deadline_at: None,
        cancel_requested_at: None,
        goal: None,
        recovery_attempts: 0,
        audit_seq: AuditSeq(0),
        audit_seal: None,
        request: serde_json::json!({"files": 2}),
        client_key: None,
        response: None,
        failure: None,
        residue: false,
        settled: None,
        earlier_requests: Vec::new(),
        traceparent: None,
        labels: Labels::new(),
        created_at: DbTime(0),
        updated_at: DbTime(0),
        finished_at: None,
        sweep_at: None,
        change_id,
    }
}
