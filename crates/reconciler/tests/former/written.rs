//! Writes the fixtures: by hand, at the commit whose rows they are to hold.

use crate::types::{Trouble, World, types, types_before};
use crate::{Contents, Expected, engine, fixtures, go, load, ports};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::BulkAction;
use counterstep_contracts::{FileName, Host, Labels, QueueName, Rate, ScheduleSpec, SettledAs};
use counterstep_contracts::{StepStatus, TaskId, TaskStatus, Tenant, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::access::api_keys::{self, KeySpec};
use counterstep_kernel::admission::disable::{TypeDecision, disable_type};
use counterstep_kernel::admission::limits::{NewLimit, set_limit};
use counterstep_kernel::admission::paused_queues::pause_queue;
use counterstep_kernel::admission::paused_workers::{Processes, pause_workers};
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::client::{self, Submission, UploadSession};
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::dead_letters::poison::{self, MessageSource};
use counterstep_kernel::documents::ListingOp;
use counterstep_kernel::operator::{self, Resolution};
use counterstep_kernel::ports::{
    DocumentKind, DocumentQuery, EndedTask, FailureFilter, Lost, Ports, PurgeOp,
};
use counterstep_kernel::schedule;
use counterstep_kernel::turn::turn;
use counterstep_kernel::webhooks::{AllowedNets, WebhookUrl};
use counterstep_kernel::workers::worker_registry::write_single_pass;
use counterstep_reconciler::recovery;
use counterstep_steps::CancelToken;
use counterstep_testkit::TestClock;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::servers::shared_postgres;
use futures::StreamExt;
use futures::future::{Either, select};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

/// Whose the tasks are.
pub(crate) const TENANT: &str = "acme";
const BY: &str = "operator:kim";
const NOTE: &str = "for the fixture";

fn tenant() -> Tenant {
    Tenant(TENANT.to_owned())
}

/// Engines on one database, and the tasks that they have left there.
struct Writer {
    /// It tells other services of each change.
    told: Engine,
    plain: Engine,
    /// It does not know the second greeting.
    before: Engine,
    world: World,
    clock: TestClock,
    tasks: BTreeMap<String, TaskId>,
}

impl Writer {
    async fn new(ports: &Ports, clock: TestClock) -> Self {
        let world = World::default();
        Self {
            told: engine(ports, types(&world), true).await,
            plain: engine(ports, types(&world), false).await,
            before: engine(ports, types_before(), false).await,
            world,
            clock,
            tasks: BTreeMap::new(),
        }
    }

    /// A request on its way in.
    async fn begun(engine: &Engine, to: &str, key: Option<&str>) -> UploadSession {
        let mut labels = Labels::default();
        labels.add("region", "eu").expect("a label");
        let submission = Submission {
            tenant: tenant(),
            actor: "client:anna".to_owned(),
            key: key.map(str::to_owned),
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            webhook: Some(
                WebhookUrl::parse("https://example.com/hook", &AllowedNets::default())
                    .expect("an address"),
            ),
            labels,
        };
        let task_type = engine.registry.newest(to).expect("a type");
        let session = UploadSession::begin(engine, task_type, submission).await;
        session.expect("an upload session")
    }

    async fn submit(&mut self, name: &str, to: &str, fields: Value) -> TaskId {
        let mut session = Self::begun(&self.told, to, Some(name)).await;
        session.body(fields).expect("a body");
        let submitted = session.submit().await.expect("a task");
        let task = submitted.answer.task_id;
        self.clock.runs(task);
        self.tasks.insert(name.to_owned(), task);
        task
    }

    async fn order(&mut self, name: &str, trouble: Trouble) -> TaskId {
        let fields = json!({"customer": name, "trouble": trouble});
        self.submit(name, "Order", fields).await
    }

    async fn went(&mut self, name: &str, to: &str, fields: Value) -> TaskId {
        let task = self.submit(name, to, fields).await;
        go(&self.told, task).await;
        task
    }

    /// Gives a task a turn until one of its steps hangs. Its host is lost then.
    async fn hung(&self, task: TaskId) {
        let before = self.world.hanging();
        let hangs = eventually("a step that hangs", || async {
            (self.world.hanging() > before).then_some(())
        });
        let token = CancelToken::new();
        let turn = turn(&self.told, Host::Worker, task, &token);
        match select(pin!(hangs), turn).await {
            Either::Left(_) => {}
            Either::Right((end, _)) => panic!("no step hangs: {end:?}"),
        }
    }

    async fn tasks(&mut self) {
        self.order("submitted", Trouble::None).await;
        for (name, trouble) in [
            ("completed", Trouble::None),
            ("gift", Trouble::None),
            ("waits for a retry", Trouble::PickRetries),
            ("dead letter", Trouble::PayFails),
            ("dead letter of a bulk operation", Trouble::PayFails),
            ("resolved", Trouble::PayFails),
            ("failed", Trouble::DeliverFails),
            ("compensating", Trouble::UndoRetries),
            ("compensation failed", Trouble::UndoFails),
            ("undone by hand", Trouble::UndoFails),
        ] {
            let task = self.order(name, trouble).await;
            go(&self.told, task).await;
        }
        for (name, step) in [("resolved", None), ("undone by hand", Some("pick"))] {
            let resolution = Resolution {
                step: step.map(str::to_owned),
                settled: SettledAs::Undone,
                output: None,
                task: None,
                actor: BY.to_owned(),
                note: NOTE.to_owned(),
                bulk: None,
            };
            let resolved = operator::resolve(&self.told, self.tasks[name], resolution).await;
            resolved.expect("it is resolved");
        }
        let cancelled = self.order("cancelled", Trouble::PickRetries).await;
        go(&self.told, cancelled).await;
        client::cancel(&self.told, cancelled, "client:anna")
            .await
            .expect("a cancel");
        go(&self.told, cancelled).await;

        let dispatched = self.order("dispatched", Trouble::None).await;
        turn(&self.told, Host::Api, dispatched, &CancelToken::new()).await;
        self.submit("of a paused queue", "Errand", json!({})).await;

        self.went("waits for a timer", "Nap", json!({"rest": "1h"}))
            .await;
        self.went("waits for a signal", "Ask", json!({})).await;
        self.went(
            "waits for children",
            "Naps",
            json!({"naps": [{"rest": "1h"}, {"rest": "2h"}, {"rest": "3h"}]}),
        )
        .await;
        self.went("called", "Call", json!({})).await;
        self.went("waits for a limit", "Call", json!({})).await;
        let sale = self.went("waits for a breaker", "Sale", json!({})).await;
        self.clock.advance("1s");
        go(&self.told, sale).await;
        self.went("imports", "ImportInTurn", json!({"customer": "a"}))
            .await;
        self.went(
            "waits for a place",
            "ImportInTurn",
            json!({"customer": "a"}),
        )
        .await;
        self.went("waits for the last", "ImportLast", json!({"customer": "a"}))
            .await;
        let greeting = self
            .submit("waits for a version", "Greeting", json!({}))
            .await;
        turn(&self.before, Host::Worker, greeting, &CancelToken::new()).await;

        let papers = self.papers(Some("papers")).await;
        self.tasks.insert("papers".to_owned(), papers);
        let counted = self.papers(Some("papers that are counted")).await;
        go(&self.told, counted).await;
        self.tasks
            .insert("papers that are counted".to_owned(), counted);
    }

    /// Files, and the task that is made of them.
    async fn papers(&self, key: Option<&str>) -> TaskId {
        let mut session = self.received(key).await;
        session.submit().await.expect("a task").answer.task_id
    }

    async fn received(&self, key: Option<&str>) -> UploadSession {
        let mut session = Self::begun(&self.told, "Papers", key).await;
        for name in ["one.txt", "two.txt"] {
            let (file, body) = (
                FileName::parse(name).expect("a name"),
                format!("the text of {name}"),
            );
            let body = futures::stream::once(async move { Ok(body.into()) }).boxed();
            let received = session.file("files", file, "text/plain", body).await;
            received.expect("the file is received");
        }
        session
    }

    /// What is beside the tasks: documents of each kind, a request that has not arrived whole, a tombstone.
    async fn beside(&self) -> String {
        let (engine, store) = (&self.told, &self.told.ports.store);
        // Neither submitted nor abandoned: its process was lost.
        drop(self.received(Some("half")).await);

        for (name, paused) in [("hourly", false), ("paused", true)] {
            let spec = ScheduleSpec {
                cron: Some("0 * * * *".to_owned()),
                request: json!({}),
                ..ScheduleSpec::of("Errand")
            };
            let set = schedule::set(engine, &tenant(), name, spec, BY).await;
            set.expect("a schedule");
            if paused {
                let set = schedule::pause(engine, &tenant(), name, true, BY).await;
                set.expect("a pause");
            }
        }
        let decision = TypeDecision {
            actor: BY,
            name: Some("kim"),
            note: NOTE,
        };
        disable_type(engine, "Sale", decision)
            .await
            .expect("a disabled type");
        let limit = NewLimit {
            at_once: None,
            rate: Some(Rate {
                starts: 2,
                per: Duration::from_secs(3600),
            }),
            actor: BY,
            note: NOTE,
        };
        set_limit(engine, "rarely", limit).await.expect("a limit");
        let queues = counterstep_kernel::admission::paused_queues::queues(engine)
            .await
            .expect("the queues");
        let errands = queues
            .into_iter()
            .find(|row| row.name.0.contains("errands"))
            .expect("the queue");
        pause_queue(engine, &errands.name, BY, NOTE)
            .await
            .expect("a pause");
        let seen = engine.ports.store.workers().await.expect("processes").rows;
        let takes = seen.iter().find(|seen| !seen.row.queues.is_empty());
        let takes = takes.expect("a process that takes tasks");
        let processes = Processes {
            machine: takes.row.machine.clone(),
            role: takes.role().to_owned(),
        };
        pause_workers(engine, &processes, BY, NOTE)
            .await
            .expect("a pause");
        let message = MessageSource {
            name: "orders-1".to_owned(),
            subject: "orders.worker".to_owned(),
            payload: "no JSON".into(),
        };
        let queue = QueueName("orders".to_owned());
        poison::keep(
            store,
            &queue,
            &message.poison("it cannot be read".to_owned()),
        )
        .await
        .expect("poison");
        let listing = ListingOp::Claim {
            every: Duration::from_secs(86_400),
            by: "fixture".to_owned(),
            hold: Duration::from_secs(60),
        };
        store
            .listing(&listing)
            .await
            .expect("a turn")
            .expect("it is free");
        write_single_pass(engine, BTreeMap::from([("taken_back".to_owned(), 1)])).await;
        let selection = Selection {
            tenant: tenant(),
            task_type: Some("Order".to_owned()),
            statuses: vec![TaskStatus::DeadLettered],
            labels: {
                let mut labels = Labels::default();
                labels
                    .add("customer", "dead letter of a bulk operation")
                    .expect("a label");
                labels
            },
            failure: FailureFilter::default(),
            group: None,
            since: None,
            until: None,
        };
        let spec = BulkSpec {
            action: BulkAction::Redrive,
            settled: None,
            patch: None,
            from: None,
            pace: None,
            selection,
            note: NOTE.to_owned(),
            actor: BY.to_owned(),
        };
        bulk::start(engine, spec).await.expect("a bulk operation");

        let task = Self::begun(&self.plain, "Errand", None).await;
        let purged = {
            let mut task = task;
            task.body(json!({})).expect("a body");
            task.submit().await.expect("a task").answer.task_id
        };
        let ended = go(&self.plain, purged).await.task;
        let ended = EndedTask {
            task: purged,
            tenant: ended.tenant,
            rev: ended.rev,
        };
        let purged = store
            .purge(&PurgeOp::Purge(vec![ended]))
            .await
            .expect("an answer");
        assert_eq!(purged.len(), 1, "a tombstone");

        let spec = KeySpec {
            tenant: tenant(),
            subject: "anna".to_owned(),
            role: Role::Submit,
            expires_in: None,
        };
        let made = api_keys::make(store, &*engine.ports.random, spec, BY).await;
        made.expect("a key").0.expose()
    }

    /// Tasks that have or had a lease: last, since time passes for that.
    async fn leases(&mut self) {
        let lost = self.order("in doubt", Trouble::PickHangs).await;
        turn(&self.told, Host::Api, lost, &CancelToken::new()).await;
        self.hung(lost).await;
        self.clock.advance("31s");
        let plan = recovery::plan(&self.told, Lost::default(), 100)
            .await
            .expect("a plan");
        recovery::run(&self.told, plan, &CancelToken::new()).await;
        for (name, trouble) in [
            ("running", Trouble::PickHangs),
            ("undo runs", Trouble::UndoHangs),
        ] {
            let task = self.order(name, trouble).await;
            turn(&self.told, Host::Api, task, &CancelToken::new()).await;
            self.hung(task).await;
        }
    }

    async fn contents(self, api_key: String) -> Contents {
        let mut tasks = BTreeMap::new();
        let (mut steps, mut states, mut waits) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (name, id) in self.tasks {
            let record = load(&self.told, id).await;
            let (status, waiting) = (record.task.status, record.task.waiting);
            println!("{name}: {status} {waiting:?}");
            steps.extend(record.steps.iter().map(|step| step.status));
            states.insert(status);
            waits.extend(waiting);
            tasks.insert(
                name,
                Expected {
                    id,
                    status,
                    waiting,
                },
            );
        }
        let missing: Vec<_> = TaskStatus::ALL
            .iter()
            .filter(|it| !states.contains(it))
            .collect();
        assert!(missing.is_empty(), "no task in {missing:?}");
        let missing: Vec<_> = WaitReason::ALL
            .iter()
            .filter(|it| !waits.contains(it))
            .collect();
        assert!(missing.is_empty(), "no task that waits for {missing:?}");
        let missing: Vec<_> = StepStatus::ALL
            .iter()
            .filter(|it| !steps.contains(it))
            .collect();
        assert!(missing.is_empty(), "no step in {missing:?}");
        for kind in DocumentKind::ALL {
            let query = DocumentQuery::Latest { kind, limit: 10 };
            let found = self
                .told
                .ports
                .store
                .documents(&query)
                .await
                .expect("documents");
            assert!(!found.rows.is_empty(), "no document of {kind:?}");
        }
        let at = self
            .told
            .ports
            .store
            .types()
            .await
            .expect("an answer")
            .now
            .0;
        Contents { at, api_key, tasks }
    }
}

async fn written(ports: &Ports, clock: TestClock) -> Contents {
    let mut writer = Writer::new(ports, clock).await;
    writer.tasks().await;
    let api_key = writer.beside().await;
    writer.leases().await;
    writer.contents(api_key).await
}

/// Packs what a fixture says of itself, and files.
fn pack(name: &str, contents: &Contents, folder: &Path) {
    std::fs::create_dir_all(fixtures()).expect("a folder");
    let file = std::fs::File::create(fixtures().join(name)).expect("a file");
    let mut packed = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default()
        .compression_level(Some(9))
        .compression_method(zip::CompressionMethod::Deflated);
    let mut add = |name: &str, bytes: &[u8]| {
        packed.start_file(name, options).expect("an entry");
        packed.write_all(bytes).expect("its bytes");
    };
    add(
        "contents.json",
        &serde_json::to_vec_pretty(contents).expect("JSON"),
    );
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(folder)
                .expect("below it")
                .to_str()
                .expect("UTF-8");
            // Of the files of SQLite those that hold rows; no scratch.
            let is_packed =
                name == "tasks.db" || name == "tasks.sql" || name.starts_with("objects/");
            if is_packed {
                add(name, &std::fs::read(&path).expect("its bytes"));
            }
        }
    }
    packed.finish().expect("a whole file");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the fixture of SQLite; tests/fixtures/README.md says when"]
async fn writes_the_fixture_of_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new();
    let contents = {
        let ports = ports(folder.path(), None, &clock).await;
        written(&ports, clock.clone()).await
    };
    // One file with all rows, also those that were still in the log.
    let whole = folder.path().join("whole.db");
    let mut sqlite = Command::new("sqlite3");
    sqlite
        .arg(folder.path().join("tasks.db"))
        .arg(format!("VACUUM INTO '{}'", whole.display()));
    assert!(sqlite.status().expect("sqlite3 runs").success());
    std::fs::rename(whole, folder.path().join("tasks.db")).expect("a file");
    pack("sqlite.zip", &contents, folder.path());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the fixture of PostgreSQL; tests/fixtures/README.md says when"]
async fn writes_the_fixture_of_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new();
    let url = shared_postgres().database();
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("the schema");
    clock.drive_postgres(&url);
    let contents = {
        let ports = ports(folder.path(), Some(&url), &clock).await;
        written(&ports, clock.clone()).await
    };
    let clock = "DROP FUNCTION public.now(); DROP TABLE public.test_clock";
    shared_postgres()
        .run_sql(&url, clock)
        .expect("without the clock of tests");
    let dump = shared_postgres().dump(&url).expect("the dump");
    std::fs::write(folder.path().join("tasks.sql"), dump).expect("a file");
    pack("postgres.zip", &contents, folder.path());
}
