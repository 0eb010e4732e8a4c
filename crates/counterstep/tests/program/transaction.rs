//! Submission in a transaction of the caller's own, on real servers: the task is there exactly where the
//! caller's rows are, and is announced without a wait.

mod late_commits;

use counterstep::client::{Client, ClientError, SqlConnection, Submit, Uncommitted};
use counterstep::contracts::{Host, StepStatus, TaskId, TaskStatus};
use counterstep::kernel::host::{HostSettings, serve};
use counterstep::kernel::ports::Ports;
use counterstep::kernel::{Engine, EngineSettings};
use counterstep::prelude::*;
use counterstep::reconciler::{redispatch, relay};
use counterstep::steps::CancelToken;
use counterstep_adapters::nats::{Nats, NatsOptions};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::servers::{shared_nats, shared_postgres};
use counterstep_testkit::{Harness, invariants};
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Client as Postgres, NoTls};

/// A host that polls so seldom gets its tasks by messages alone.
const NEVER: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    number: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Shipped {
    parcel: u64,
}

struct Ship;

static STARTED: Mutex<Option<HashMap<u64, Instant>>> = Mutex::new(None);

#[distributed_task(queue = "shop")]
impl Ship {
    type Request = Order;
    type Response = Shipped;

    #[step(1, host = "api")]
    #[pure]
    async fn weigh(order: &Order) -> StepResult<u64> {
        Ok(order.number * 10)
    }

    #[step(2, host = "worker", no_undo = "an example")]
    async fn send(order: &Order, weigh: &u64) -> StepResult<Shipped> {
        let mut started = STARTED.lock().expect("no panic");
        started
            .get_or_insert_default()
            .insert(order.number, Instant::now());
        Ok(Shipped { parcel: *weigh })
    }

    fn respond(send: &Shipped) -> Shipped {
        Shipped {
            parcel: send.parcel,
        }
    }
}

struct Store;

#[distributed_task]
impl Store {
    type Request = Files;
    type Response = ();

    #[step(1, host = "api")]
    fn upload(files: &Files) -> UploadMany {
        UploadMany::to("incoming", &files.files)
    }

    fn respond(_files: &Files) {}
}

#[derive(Debug, Serialize, Deserialize)]
struct Files {
    files: Vec<UploadedFile>,
}

/// An engine on PostgreSQL and NATS of its own, beside an application with a table of its own.
struct Shop {
    engine: Engine,
    client: Client,
    url: String,
    /// Keeps the folders of the ports that are no servers.
    _site: Site,
}

fn registry() -> Registry {
    Registry::new().with::<Ship>().with::<Store>()
}

impl Shop {
    async fn open() -> Self {
        Self::of(registry).await
    }

    async fn of(registry: fn() -> Registry) -> Self {
        let site = Harness::embedded(registry()).start().await;
        let url = shared_postgres().database();
        let options = PostgresOptions {
            connections: 6,
            ..PostgresOptions::default()
        };
        PostgresStore::migrate(&url, &options)
            .await
            .expect("a schema");
        let prefix = format!("t{}", uuid::Uuid::now_v7().simple());
        let nats = Nats::open(NatsOptions {
            prefix: Some(prefix),
            ..NatsOptions::new(shared_nats().url())
        });
        let nats = nats.await.expect("the settings are usable");
        let ports = Ports {
            store: PostgresStore::open(&url, options)
                .await
                .expect("a store")
                .into(),
            queue: Arc::new(nats.queue()),
            signals: Arc::new(nats.signals()),
            ..site.engine.ports.clone()
        };
        let settings = EngineSettings {
            events: true,
            ..EngineSettings::default()
        };
        let engine = Engine::new(ports, Arc::new(registry()), settings, "shop");
        let shop = Self {
            client: Client::of(&engine),
            engine,
            url,
            _site: site,
        };
        let admin = shop.connect().await;
        admin
            .batch_execute("CREATE TABLE orders (number BIGINT PRIMARY KEY)")
            .await
            .expect("a table");
        shop
    }

    async fn connect(&self) -> Postgres {
        let connected = tokio_postgres::connect(&self.url, NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        client
    }

    async fn count(&self, table: &str) -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        let row = self.connect().await.query_one(&*query, &[]).await;
        row.expect("a number").get(0)
    }

    /// Takes tasks from now on.
    fn serve(&self, poll: Duration, unclaimed_for: Duration) {
        let settings = HostSettings {
            poll,
            unclaimed_for,
            ..HostSettings::for_all(&self.engine.registry, Host::Worker, 4)
        };
        let spawn = Arc::new(|work| drop(tokio::spawn(work)));
        tokio::spawn(serve(
            self.engine.clone(),
            settings,
            CancelToken::new(),
            spawn,
        ));
    }

    /// Commits an order and its task, and says nothing of it.
    async fn order(&self, number: u64) -> Uncommitted<Ship> {
        let mut connection = self.connect().await;
        let transaction = connection.transaction().await.expect("a transaction");
        let (transaction, task) = self.order_in(transaction, number).await;
        transaction.commit().await.expect("a commit");
        task
    }

    async fn order_in<'a>(
        &self,
        mut transaction: tokio_postgres::Transaction<'a>,
        number: u64,
    ) -> (tokio_postgres::Transaction<'a>, Uncommitted<Ship>) {
        let row = i64::try_from(number).expect("a small number");
        transaction
            .execute("INSERT INTO orders VALUES ($1)", &[&row])
            .await
            .expect("a row");
        let order = Order { number };
        let task = self
            .client
            .submit_in::<Ship>(&mut transaction, &order)
            .await;
        let task = task.expect("a statement that is executed");
        (transaction, task)
    }

    async fn completed(&self, task: TaskId) {
        eventually("a completed task", || async {
            let record = self.engine.ports.store.load(task).await.expect("an answer");
            (record?.task.status == TaskStatus::Completed).then_some(())
        })
        .await;
        let store = &self.engine.ports.store;
        let found = invariants::found_by_fsck(store, &self.engine.registry, task).await;
        assert!(found.is_empty(), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_leaves_no_task() {
    let shop = Shop::open().await;
    let mut connection = shop.connect().await;
    let transaction = connection.transaction().await.expect("a transaction");
    let (transaction, task) = shop.order_in(transaction, 1).await;
    let early = task.committed().await.expect_err("not committed yet");
    assert!(matches!(early, ClientError::Transaction(_)), "{early}");
    transaction.rollback().await.expect("a rollback");
    for table in ["orders", "tasks", "journal", "outbox", "idempotency"] {
        assert_eq!(shop.count(table).await, 0, "{table}");
    }
    let nothing = task.committed().await.expect_err("rolled back");
    assert!(matches!(nothing, ClientError::Transaction(_)), "{nothing}");
    // The same statement is good for another try.
    let mut again = connection.transaction().await.expect("a transaction");
    task.execute(&mut again).await.expect("executed");
    again.commit().await.expect("a commit");
    task.committed().await.expect("it is there");
    assert_eq!(shop.count("tasks").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_is_one_task_that_is_announced_at_once() {
    let shop = Shop::open().await;
    let task = shop.order(7).await;
    let store = &shop.engine.ports.store;
    let record = store.load(task.task_id()).await.expect("an answer");
    let steps = record.expect("it is there").steps;
    assert_eq!(
        steps[0].status,
        StepStatus::Completed,
        "the pure step ran before"
    );
    shop.serve(NEVER, NEVER);
    let handle = task.committed().await.expect("it is there");
    let response = tokio::time::timeout(Duration::from_secs(30), handle.response()).await;
    assert_eq!(
        response.expect("a message brought it").expect("a response"),
        Shipped { parcel: 70 }
    );
    shop.completed(task.task_id()).await;
    assert_eq!(
        (shop.count("orders").await, shop.count("tasks").await),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_diesel_submits_too() {
    let shop = Shop::open().await;
    let mut connection = AsyncPgConnection::establish(&shop.url)
        .await
        .expect("a connection");
    connection
        .batch_execute("BEGIN")
        .await
        .expect("a transaction");
    let order = Order { number: 3 };
    let task = shop
        .client
        .submit_once_in::<Ship>(&mut connection, "order-3", &order)
        .await;
    let task = task.expect("executed");
    connection.batch_execute("COMMIT").await.expect("a commit");
    task.committed().await.expect("it is there");
    // Taken behind the back of a request that had seen it free.
    let late = shop
        .client
        .prepare_with::<Ship>(Submit::new().key("order-4"), &order)
        .await
        .expect("free");
    let mut other = shop.connect().await;
    take_key(&shop, &mut other, "order-4").await;
    let taken = late.execute(&mut connection).await.expect_err("taken");
    assert!(matches!(taken, ClientError::Unavailable(_)), "{taken}");
}

/// By a transaction that commits.
async fn take_key(shop: &Shop, connection: &mut impl SqlConnection, key: &str) -> TaskId {
    let order = Order { number: 3 };
    let task = shop
        .client
        .submit_once_in::<Ship>(connection, key, &order)
        .await;
    let task = task.expect("executed");
    task.committed().await.expect("it is there").task_id()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_gives_the_task_that_it_has_made() {
    let shop = Shop::open().await;
    let mut connection = shop.connect().await;
    let first = take_key(&shop, &mut connection, "order-3").await;
    let order = Order { number: 3 };
    let again = shop
        .client
        .submit_once_in::<Ship>(&mut connection, "order-3", &order)
        .await;
    let again = again.expect("a repetition");
    assert!(again.statement().is_none(), "{again:?}");
    assert_eq!(
        again.committed().await.expect("it is there").task_id(),
        first
    );
    let outside = shop
        .client
        .submit_once::<Ship>("order-3", &order)
        .await
        .expect("a repetition");
    assert_eq!(outside.task_id(), first);
    let other = Order { number: 4 };
    let refused = shop
        .client
        .submit_once_in::<Ship>(&mut connection, "order-3", &other)
        .await;
    assert!(
        matches!(refused, Err(ClientError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(shop.count("tasks").await, 1);
    // Two that have both seen it free.
    let (one, two) = (
        shop.client
            .prepare_with::<Ship>(Submit::new().key("order-5"), &order)
            .await
            .expect("free"),
        shop.client
            .prepare_with::<Ship>(Submit::new().key("order-5"), &order)
            .await
            .expect("free"),
    );
    one.execute(&mut connection).await.expect("executed");
    let taken = two.execute(&mut connection).await.expect_err("taken");
    assert!(matches!(taken, ClientError::Unavailable(_)), "{taken}");
    assert_eq!(shop.count("tasks").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_before_it_announces_costs_time_only() {
    let shop = Shop::open().await;
    let (polled, offered) = (shop.order(1).await.task_id(), shop.order(2).await.task_id());
    // Its events stand in the outbox, and the relay publishes them.
    assert_eq!(shop.count("outbox").await, 2);
    let token = CancelToken::new();
    let relayed = relay::run(&shop.engine, Duration::ZERO, 10, &token).await;
    assert_eq!(relayed.expect("an answer"), 2);
    assert_eq!(shop.count("outbox").await, 0);
    // The reconciler offers to the hosts what none of them has claimed.
    let plan = redispatch::plan(&shop.engine, Duration::ZERO, 1)
        .await
        .expect("a plan");
    let oldest: Vec<TaskId> = plan.offer.iter().map(|due| due.task).collect();
    let done = redispatch::run(&shop.engine, plan, Duration::ZERO, &token).await;
    assert_eq!(done.offered, oldest, "{done:?}");
    assert_eq!(done.offered.len(), 1);
    shop.serve(NEVER, NEVER);
    shop.completed(done.offered[0]).await;
    // A host with a free slot looks for the other.
    shop.serve(Duration::from_millis(50), Duration::ZERO);
    for task in [polled, offered] {
        shop.completed(task).await;
    }
    assert_eq!(shop.count("tasks").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_transaction_can_hold_is_refused_before_a_statement() {
    let shop = Shop::open().await;
    let mut connection = shop.connect().await;
    let files = Files { files: Vec::new() };
    let refused = shop
        .client
        .submit_in::<Store>(&mut connection, &files)
        .await;
    let refused = refused.expect_err("it takes files");
    assert!(refused.to_string().contains("file"), "{refused}");
    let order = Order { number: 1 };
    for client in [
        Client::of(&shop._site.engine),
        Client::at("http://127.0.0.1:1").expect("an address"),
    ] {
        let refused = client.submit_in::<Ship>(&mut connection, &order).await;
        let refused = refused.expect_err("no PostgreSQL");
        assert!(refused.to_string().contains("PostgreSQL"), "{refused}");
    }
    let open = connection.transaction().await.expect("a transaction");
    let mut failed = open;
    failed
        .batch_execute("no SQL")
        .await
        .expect_err("it is none");
    let refused = shop.client.submit_in::<Ship>(&mut failed, &order).await;
    assert!(
        matches!(refused, Err(ClientError::Transaction(_))),
        "{refused:?}"
    );
    drop(failed);
    assert_eq!(shop.count("tasks").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_at_once_with_the_same_keys_make_one_task_of_each() {
    let shop = Shop::open().await;
    shop.serve(NEVER, NEVER);
    let orders: Vec<_> = (0..100_u64)
        .map(|number| (format!("k{number}"), Order { number }))
        .collect();
    let batch = |keep: fn(u64) -> bool| -> Vec<(Submit, &Order)> {
        let kept = orders.iter().filter(|(_, order)| keep(order.number));
        kept.map(|(key, order)| (Submit::new().key(key), order))
            .collect()
    };
    let (all, mut odd) = (batch(|_| true), batch(|number| number % 2 == 1));
    odd.reverse();
    let (all, odd) = futures::join!(
        shop.client.submit_batch::<Ship>(all),
        shop.client.submit_batch::<Ship>(odd)
    );
    let (all, odd) = (all.expect("an answer"), odd.expect("an answer"));
    for (at, again) in odd.iter().rev().enumerate() {
        let (first, again) = (&all[at * 2 + 1], again.as_ref().expect("accepted"));
        assert_eq!(first.as_ref().expect("accepted").task_id(), again.task_id());
    }
    assert_eq!(shop.count("tasks").await, 100);
    let changes = shop
        .count("(SELECT DISTINCT xmin::text FROM journal WHERE rev = 1) AS x")
        .await;
    assert!(changes <= 2, "{changes} transactions");
    for task in all.into_iter().flatten() {
        shop.completed(task.task_id()).await;
    }
}

/// How long it takes from a commit to the first line of its step on a worker, the claim's own commit
/// included:
/// `cargo test -p counterstep --all-features --test program -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the time from a commit to its claim; its comment says how to run it"]
async fn from_commit_to_claim() {
    const TASKS: u64 = 500;
    let shop = Shop::open().await;
    shop.serve(Duration::from_millis(500), Duration::from_secs(5));
    let mut connection = shop.connect().await;
    let mut took = Vec::new();
    for number in 0..TASKS {
        let transaction = connection.transaction().await.expect("a transaction");
        let (transaction, task) = shop.order_in(transaction, number).await;
        transaction.commit().await.expect("a commit");
        let committed = Instant::now();
        let handle = task.committed().await.expect("it is there");
        handle.response().await.expect("a response");
        let started = STARTED.lock().expect("no panic");
        let started = started.as_ref().and_then(|all| all.get(&number)).copied();
        took.push(
            started
                .expect("it ran")
                .saturating_duration_since(committed),
        );
    }
    took.sort_unstable();
    let at = |part: usize| took[took.len() * part / 100];
    println!(
        "from commit to claim, {TASKS} tasks: p50 {:?}, p90 {:?}, p99 {:?}",
        at(50),
        at(90),
        at(99)
    );
}
