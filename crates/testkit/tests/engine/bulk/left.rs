//! Operations, and tasks of them, with which one process cannot go on: others can.

use super::above::{SendAll, SendParcel, all_of_the_batch, children_of, family};
use super::{Bench, execute, parked, redrive, serve_until, serve_until_it, spec};
use counterstep_adapters::payload_keys::{EncryptedPayloads, PayloadKey, PayloadKeys, TenantKeys};
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::ports::{
    Document, DocumentKind, DocumentQuery, PayloadError, Ports, Store,
};
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepResult};
use counterstep_testkit::form::try_submit;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The keys of tenants, as one process has them.
#[derive(Debug, Clone, Default)]
struct Keys(Arc<Mutex<HashMap<String, TenantKeys>>>);

impl Keys {
    fn set(&self, tenant: &str, bytes: &[u8], change: impl FnOnce(&mut TenantKeys)) {
        let keys = bytes.iter().map(|byte| PayloadKey::new([*byte; 32]));
        let mut keys = TenantKeys {
            keys: keys.collect(),
            ..TenantKeys::default()
        };
        change(&mut keys);
        let mut all = self.0.lock().expect("no panic");
        all.insert(tenant.to_owned(), keys);
    }
}

impl PayloadKeys for Keys {
    fn of(&self, tenant: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        let all = self.0.lock().expect("no panic");
        Ok(Arc::new(all.get(&tenant.0).cloned().unwrap_or_default()))
    }
}

/// The operations of a tenant as they lie in the database.
async fn stored(store: &Store, tenant: &str) -> Vec<Document> {
    let page = DocumentQuery::Page {
        kind: DocumentKind::Bulk,
        tenant: Tenant(tenant.to_owned()),
        after: None,
        limit: 100,
    };
    store.documents(&page).await.expect("documents").rows
}

/// A process that has these keys, on the store of a bench.
fn with_keys(bench: &Bench, keys: &Keys) -> Engine {
    let mut ports = bench.engine().ports.clone();
    let codec = Arc::new(EncryptedPayloads::new(keys.clone()));
    ports.store = ports.store.with_codec(Some(codec));
    other(&bench.site, ports, bench.engine().registry.clone())
}

fn other(site: &Site, ports: Ports, types: Arc<Registry>) -> Engine {
    let settings = (*site.engine.settings).clone();
    Engine::new(ports, types, settings, "other")
}

/// More operations of the tenant `umbra` than a process executes side by side.
async fn of_umbra(engine: &Engine) {
    for _ in 0..20 {
        let theirs = BulkSpec {
            selection: parked("umbra"),
            ..redrive(None)
        };
        bulk::start(engine, theirs).await.expect("started");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_whose_key_is_not_here_stay_as_they_are_and_delay_no_others() {
    let bench = Bench::with(1).await;
    let inner = bench.engine().ports.store.clone();
    let (keys, all) = (Keys::default(), Keys::default());
    for keys in [&keys, &all] {
        keys.set("default", &[1], |_| {});
        keys.set("umbra", &[2], |_| {});
    }
    let (engine, with_all) = (with_keys(&bench, &keys), with_keys(&bench, &all));
    of_umbra(&engine).await;
    let before = stored(&inner, "umbra").await;
    assert_eq!(before.len(), 20);
    for (what, there, erased) in [
        ("missing", &[][..], false),
        ("a newer one alone", &[3][..], false),
        ("deleted", &[][..], true),
        ("deleted, and another made", &[3][..], true),
    ] {
        keys.set("umbra", there, |keys| keys.erased = erased);
        let own = bulk::start(&engine, redrive(None)).await.expect("started");
        let ended = execute(&engine, &own.id).await;
        assert_eq!(ended.status, BulkStatus::Done, "{what}");
        assert_eq!(stored(&inner, "umbra").await, before, "{what}");
    }
    // A process that has the key goes on at once.
    let done = eventually("all of them are done", || async {
        let tenant = Tenant("umbra".to_owned());
        let all = bulk::list(&with_all.ports.store, &tenant).await;
        let mut all = all.expect("a list").into_iter();
        all.all(|it| it.status == BulkStatus::Done).then_some(())
    });
    serve_until(&with_all, done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_cannot_be_written_here_delay_no_others() {
    let bench = Bench::with(1).await;
    let keys = Keys::default();
    keys.set("default", &[1], |_| {});
    keys.set("umbra", &[2], |_| {});
    let engine = with_keys(&bench, &keys);
    of_umbra(&engine).await;
    keys.set("umbra", &[2], |keys| keys.closing = true);
    let own = bulk::start(&engine, redrive(None)).await.expect("started");
    let ended = execute(&engine, &own.id).await;
    assert_eq!(ended.status, BulkStatus::Done);
}

#[derive(Debug, Serialize, Deserialize)]
struct Words {}

struct Letter;

#[distributed_task(name = "Letter", version = 1, queue = "letters", cancellable)]
impl Letter {
    type Request = Words;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "nothing is kept")]
    async fn write() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(write: &u32) -> u32 {
        *write
    }
}

struct NewLetter;

#[distributed_task(name = "Letter", version = 2, queue = "letters", cancellable)]
impl NewLetter {
    type Request = Words;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "nothing is kept")]
    async fn write() -> StepResult<u32> {
        Ok(2)
    }

    fn respond(write: &u32) -> u32 {
        *write
    }
}

/// A site of both versions with three tasks of the new one, submitted after 210 of the old one, and a process that
/// knows the old one alone.
async fn letters() -> (Site, Engine, Vec<TaskId>) {
    let types = Registry::new().with::<Letter>().with::<NewLetter>();
    let site = Harness::embedded(types).start().await;
    let types = Arc::new(Registry::new().with::<Letter>());
    let old = other(&site, site.engine.ports.clone(), types);
    let submit = |_| try_submit(&old, Form::new());
    let submitted = futures::stream::iter(0..210)
        .map(submit)
        .buffer_unordered(32);
    let submitted: Vec<_> = submitted.collect().await;
    assert!(submitted.iter().all(Result::is_ok));
    let mut new = Vec::new();
    for _ in 0..3 {
        new.push(site.submit(Form::to::<NewLetter>()).await);
    }
    assert_eq!(site.record(new[0]).await.task.version, 2);
    (site, old, new)
}

async fn cancel_of_letters(engine: &Engine) -> String {
    let all = spec(BulkAction::Cancel, &[TaskStatus::Dispatched]);
    let started = bulk::start(engine, all).await;
    started.expect("started").id
}

/// The one operation is claimed from now on, and given back.
async fn given_back(engine: &Engine) -> impl Future<Output = ()> {
    let before = stored(&engine.ports.store, "default").await[0].rev;
    eventually("a try", move || async move {
        let now = stored(&engine.ports.store, "default").await[0].rev;
        (now.0 >= before.0 + 2).then_some(())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_version_that_one_process_does_not_know_are_left_to_another() {
    let (site, old, new) = letters().await;
    let id = cancel_of_letters(&site.engine).await;
    // The newest are first: those behind them do not wait for a process that knows them.
    let by_old = serve_until_it(&old, &id, "the others are done", |it| it.done == 210).await;
    assert_eq!((by_old.status, by_old.failed), (BulkStatus::Running, 0));
    site.all_are(TaskStatus::Dispatched, &new).await;
    site.clock.advance("61s");
    let ended = execute(&site.engine, &id).await;
    assert_eq!((ended.done, ended.failed, ended.skipped), (213, 0, 0));
    site.all_are(TaskStatus::Cancelled, &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_cannot_be_read_here_are_left_to_another_process() {
    let (site, _, new) = letters().await;
    let form = |change: &str| {
        let _ = site.rows(&format!(
            "UPDATE journal SET form = form {change} WHERE task = '{}'",
            new[0]
        ));
    };
    // A newer program has written it.
    form("+ 1");
    let id = cancel_of_letters(&site.engine).await;
    let others = serve_until_it(&site.engine, &id, "the others", |it| it.done == 212).await;
    assert_eq!((others.status, others.failed), (BulkStatus::Running, 0));
    form("- 1");
    site.clock.advance("61s");
    let ended = execute(&site.engine, &id).await;
    assert_eq!((ended.done, ended.failed, ended.skipped), (213, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_no_process_knows_count_as_failed_after_a_time() {
    let (site, old, new) = letters().await;
    let id = cancel_of_letters(&site.engine).await;
    serve_until_it(&old, &id, "the others are done", |it| it.done == 210).await;
    site.clock.advance("14m");
    serve_until(&old, given_back(&old).await).await;
    site.clock.advance("1m");
    let ended = execute(&old, &id).await;
    assert_eq!((ended.status, ended.done), (BulkStatus::Done, 210));
    assert_eq!((ended.failed, ended.skipped, ended.left), (3, 0, Some(0)));
    let why = &ended.failures[0];
    assert!(why.reason.contains("does not know"), "{why:?}");
    site.all_are(TaskStatus::Dispatched, &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_waits_for_another_process_can_be_stopped() {
    let (site, old, new) = letters().await;
    let id = cancel_of_letters(&site.engine).await;
    serve_until_it(&old, &id, "the others are done", |it| it.done == 210).await;
    site.clock.advance("61s");
    let stopped = bulk::stop(&old.ports.store, &Tenant::default(), &id, "operator:kim").await;
    stopped.expect("stopped");
    let ended = execute(&old, &id).await;
    assert_eq!((ended.status, ended.left), (BulkStatus::Stopped, Some(3)));
    site.all_are(TaskStatus::Dispatched, &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_below_one_that_is_left_to_another_process_are_left_with_it() {
    let (site, parent) = family(Form::to::<SendAll>(), 3).await;
    let types = Arc::new(Registry::new().with::<SendParcel>());
    let old = other(&site, site.engine.ports.clone(), types);
    let started = bulk::start(&site.engine, all_of_the_batch()).await;
    let id = started.expect("started").id;
    serve_until(&old, given_back(&old).await).await;
    let children = children_of(&site, parent).await;
    site.all_are(TaskStatus::Dispatched, &children).await;
    site.clock.advance("61s");
    let ended = execute(&site.engine, &id).await;
    assert_eq!((ended.done, ended.failed, ended.skipped), (4, 0, 0));
}
