//! Results that outlive the process that has kept them.

use super::{Drive, Ferry, Machine, Process, THREE_LEASES, Walk};
use async_trait::async_trait;
use counterstep_adapters::payload_keys::{EncryptedPayloads, PayloadKey, PayloadKeys, TenantKeys};
use counterstep_adapters::spool::FileSpool;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus, Tenant};
use counterstep_kernel::host::{HostSettings, Spawn, serve};
use counterstep_kernel::ports::{
    Clock, ENCRYPTED, PayloadError, Spool, SpoolEntry, SpoolError, SpoolKey, SpoolStats, Store,
};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings, client};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use counterstep_testkit::clock::until_works;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, TestClock};
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

/// A task whose step has ended while the database was away, and whose worker was killed then. Its lease is over.
async fn killed(machine: &Machine) -> TaskId {
    killed_with(machine, Form::to::<Drive>().field("first_s", 1)).await
}

async fn killed_with(machine: &Machine, form: Form) -> TaskId {
    let process = machine.process();
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance("1s");
    process.until_keeps(1).await;
    turn.abort();
    let _ = turn.await;
    drop(cut);
    machine.until_written().await;
    machine.clock.advance(THREE_LEASES);
    task
}

/// Serves the process, which takes up what the spool has.
fn serve_kept(
    machine: &Machine,
    process: &Process,
    spawn: Spawn,
    shutdown: &CancelToken,
) -> JoinHandle<()> {
    let mut settings = HostSettings::for_all(&machine.registry, Host::Worker, 1);
    // What it takes up is not what it finds due.
    settings.queues.clear();
    tokio::spawn(serve(
        process.engine.clone(),
        settings,
        shutdown.clone(),
        spawn,
    ))
}

/// Serves the process until its spool is empty.
async fn serve_until_empty(machine: &Machine, process: &Process) {
    let spawn: Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let shutdown = CancelToken::new();
    let serving = serve_kept(machine, process, spawn, &shutdown);
    eventually("an empty spool", || async {
        (process.spool.stats().entries == 0).then_some(())
    })
    .await;
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_again_goes_on_with_what_its_predecessor_has_kept() {
    let machine = Machine::new().await;
    let task = killed(&machine).await;
    let next = machine.process();
    assert_eq!(next.spool.stats().entries, 1);
    serve_until_empty(&machine, &next).await;
    eventually("the end of the task", || async {
        let status = machine.record(task).await.task.status;
        // It is handed over where the process ends first.
        if status == TaskStatus::Dispatched {
            turn(&machine.other(), Host::Worker, task, &CancelToken::new()).await;
        }
        (status == TaskStatus::Completed).then_some(())
    })
    .await;
    let trail = machine.trail(task).await;
    assert!(trail.starts_with("drive ok, "), "{trail}");
    assert_eq!(machine.record(task).await.task.recovery_attempts, 0);
    assert_eq!(machine.drives(), 1);
    assert_eq!(next.observed(), [("committed", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_kept_result_are_kept_with_it_and_take_no_place_of_later_ones() {
    let machine = Machine::new().await;
    let form = Form::to::<Drive>().field("first_s", 1).field("logs", true);
    let task = killed_with(&machine, form).await;
    let log = || async {
        let rows = machine.ports.store.log(task).await.expect("its log");
        let bodies = rows.into_iter().map(|row| row.body);
        bodies.collect::<String>()
    };
    serve_until_empty(&machine, &machine.process()).await;
    let said = eventually("the lines of both steps", || async {
        if machine.record(task).await.task.status == TaskStatus::Dispatched {
            turn(&machine.other(), Host::Worker, task, &CancelToken::new()).await;
        }
        let said = log().await;
        (said.contains("parked")).then_some(said)
    })
    .await;
    assert_eq!(said.matches("arrived").count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_task_another_host_has_had_is_dropped_and_named_once() {
    let machine = Machine::new().await;
    let task = killed(&machine).await;
    assert_eq!(machine.take_back().await, [task]);
    let successor = machine.other();
    let done =
        tokio::spawn(
            async move { turn(&successor, Host::Worker, task, &CancelToken::new()).await },
        );
    until_works(task).await;
    machine.clock.advance("1s");
    let end = done.await.expect("it ends");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    let before = machine.record(task).await;

    let next = machine.process();
    let key = next.spool.keys().await.expect("keys")[0];
    let entry = next
        .spool
        .get(&key)
        .await
        .expect("an answer")
        .expect("it is there");
    serve_until_empty(&machine, &next).await;
    let dropped = || async {
        let audit = machine.history(task).await.audit;
        let dropped = audit
            .into_iter()
            .filter(|row| row.entry.event == "result_dropped");
        dropped.map(|row| row.entry).collect::<Vec<_>>()
    };
    let named = dropped().await;
    assert_eq!(named.len(), 1);
    assert_eq!(
        (named[0].step, named[0].attempt),
        (Some(key.step), Some(key.attempt))
    );
    let worker = &entry.worker;
    assert!(worker.starts_with("worker:"), "{worker}");
    assert_eq!(
        named[0].details,
        json!({"direction": "forward", "epoch": 1, "worker": worker})
    );
    assert_eq!(next.observed(), [("fenced", 1)]);

    // The process ended before it could remove it.
    next.spool.put(&entry).await.expect("it is kept");
    serve_until_empty(&machine, &next).await;
    assert_eq!(dropped().await.len(), 1);
    let after = machine.record(task).await;
    assert_eq!(after.task.status, TaskStatus::Completed);
    assert_eq!(after.task.response, before.task.response);
    assert_eq!(
        (after.task.finished_at, after.steps),
        (before.task.finished_at, before.steps)
    );
    machine
        .assert_trail(
            task,
            "drive in doubt, drive ok, park ok, completed, drive result dropped",
        )
        .await;
    assert_eq!(machine.drives(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_written_before_its_process_ended_is_written_once() {
    let machine = Machine::new().await;
    let task = killed(&machine).await;
    let next = machine.process();
    let key = next.spool.keys().await.expect("keys")[0];
    let entry = next
        .spool
        .get(&key)
        .await
        .expect("an answer")
        .expect("it is there");
    serve_until_empty(&machine, &next).await;
    let before = machine.record(task).await.task.rev;

    next.spool.put(&entry).await.expect("it is kept");
    serve_until_empty(&machine, &next).await;
    assert_eq!(machine.record(task).await.task.rev, before);
    assert_eq!(machine.drives(), 1);
    assert_eq!(next.observed(), [("committed", 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_a_step_is_none_of_its_undo() {
    let machine = Machine::new().await;
    let task = killed_with(&machine, Form::to::<Ferry>().field("first_s", 1)).await;
    let cancelled = client::cancel(&machine.other(), task, "client").await;
    cancelled.expect("accepted");
    // The next process writes the result and the start of the undo in one commit, and is killed before it has removed the
    // result.
    let second = machine.process();
    let key = second.spool.keys().await.expect("keys")[0];
    let entry = second.spool.get(&key).await.expect("an answer");
    let turns = Arc::new(Mutex::new(JoinSet::new()));
    let of_turns = turns.clone();
    let spawn: Spawn = Arc::new(move |turn| drop(of_turns.lock().expect("turns").spawn(turn)));
    let serving = serve_kept(&machine, &second, spawn, &CancelToken::new());
    eventually("the undo", || async {
        let row = &machine.record(task).await.steps[0];
        (row.status == StepStatus::Compensating).then_some(())
    })
    .await;
    until_works(task).await;
    serving.abort();
    let _ = serving.await;
    let mut turns = std::mem::take(&mut *turns.lock().expect("turns"));
    turns.shutdown().await;
    drop(second);
    machine.until_written().await;

    let third = machine.process();
    let entry = entry.expect("it is there");
    third.spool.put(&entry).await.expect("it is kept");
    serve_until_empty(&machine, &third).await;
    assert_eq!(machine.drives(), 0, "the undo has not ended");
    machine.clock.advance(THREE_LEASES);
    machine.take_back().await;
    let works = async {
        until_works(task).await;
        machine.clock.advance("1s");
    };
    let (ended, ()) = futures::join!(third.turn(task), works);
    assert_eq!(
        ended.expect("it ends"),
        TurnEnd::Rests(TaskStatus::Cancelled)
    );
    assert_eq!(machine.drives(), 1);
    let expected = "cross ok, cross undo in doubt, cross undone, cancelled";
    machine.assert_trail(task, expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_for_its_time_and_not_longer() {
    let machine = Machine::new().await;
    let task = killed(&machine).await;
    let next = machine.process_with(EngineSettings {
        spool_max_age: Duration::from_secs(3600),
        ..Machine::settings()
    });
    machine.clock.advance("61m");
    serve_until_empty(&machine, &next).await;
    assert_eq!(next.observed(), [("expired", 1)]);
    assert_eq!(machine.take_back().await, [task], "it is in doubt");
}

/// A clock whose calendar was set forward by two days.
#[derive(Debug)]
struct SetForward(TestClock);

impl Clock for SetForward {
    fn monotonic(&self) -> Duration {
        Clock::monotonic(&self.0)
    }

    fn unix_millis(&self) -> u64 {
        self.0.unix_millis() + 2 * 24 * 3_600_000
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_outlives_a_calendar_that_is_set_forward() {
    let machine = Machine::new().await;
    killed(&machine).await;
    let mut next = machine.process();
    next.engine.ports.clock = Arc::new(SetForward(machine.clock.clone()));
    serve_until_empty(&machine, &next).await;
    assert_eq!(next.observed(), [("committed", 1)]);
}

/// A spool that counts how often its entries are looked at.
#[derive(Debug)]
struct Looked(Arc<FileSpool>, Arc<AtomicUsize>);

#[async_trait]
impl Spool for Looked {
    async fn put(&self, entry: &SpoolEntry) -> Result<(), SpoolError> {
        self.0.put(entry).await
    }

    async fn keys(&self) -> Result<Vec<SpoolKey>, SpoolError> {
        self.0.keys().await
    }

    async fn get(&self, key: &SpoolKey) -> Result<Option<SpoolEntry>, SpoolError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.get(key).await
    }

    async fn remove(&self, key: &SpoolKey) -> Result<(), SpoolError> {
        self.0.remove(key).await
    }

    fn stats(&self) -> SpoolStats {
        self.0.stats()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_a_type_that_a_worker_leaves_to_others_stays() {
    let machine = Machine::new().await;
    let task = killed(&machine).await;
    let before = machine.record(task).await.task.rev;
    let (mut next, looks) = (machine.process(), Arc::new(AtomicUsize::new(0)));
    let registry = Registry::new().with::<Drive>().with::<Walk>();
    let others = Arc::new(registry.only(|name, _| name == "Walk"));
    let engine = Engine::new(machine.ports.clone(), others, Machine::settings(), "worker");
    next.engine = engine.spooled_by(Arc::new(Looked(next.spool.clone(), looks.clone())));
    let spawn: Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let shutdown = CancelToken::new();
    let serving = serve_kept(&machine, &next, spawn, &shutdown);
    // The second look comes when the first one is over.
    eventually("two looks, or the end of the entry", || async {
        machine.clock.advance("1s");
        let is_over = next.spool.stats().entries == 0 || looks.load(Ordering::SeqCst) >= 2;
        is_over.then_some(())
    })
    .await;
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.expect("it ends");
    assert_eq!(next.spool.stats().entries, 1);
    assert_eq!(machine.record(task).await.task.rev, before);
    drop(next);

    serve_until_empty(&machine, &machine.process()).await;
    assert_eq!(machine.drives(), 1);
}

/// All that stands in the files of the spool.
fn spooled(machine: &Machine) -> Vec<u8> {
    let folder = machine.folder.path().join("spool");
    let files = std::fs::read_dir(folder).expect("the folder of the spool");
    let read = |file: std::fs::DirEntry| std::fs::read(file.path()).expect("a file");
    files.flatten().flat_map(read).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|some| some == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_payloads_are_encrypted_results_are_too() {
    let fails = || Form::to::<Drive>().field("first_s", 1).field("fails", true);
    let machine = Machine::new().await;
    killed_with(&machine, fails()).await;
    assert!(
        holds(&spooled(&machine), "a flat tyre"),
        "there is something to find"
    );

    let mut machine = Machine::new().await;
    machine.ports.store = encrypted(&machine.ports.store);
    let task = killed_with(&machine, fails()).await;
    let bytes = spooled(&machine);
    assert!(!holds(&bytes, "a flat tyre") && holds(&bytes, ENCRYPTED));
    let next = machine.process();
    serve_until_empty(&machine, &next).await;
    let trail = machine.trail(task).await;
    assert!(trail.starts_with("drive retries"), "{trail}");
}

fn encrypted(store: &Store) -> Store {
    let codec = EncryptedPayloads::new(OneKey(Arc::new(TenantKeys {
        keys: vec![PayloadKey::new([7; 32])],
        ..TenantKeys::default()
    })));
    store.clone().with_codec(Some(Arc::new(codec)))
}

/// The same key for all tenants.
#[derive(Debug)]
struct OneKey(Arc<TenantKeys>);

impl PayloadKeys for OneKey {
    fn of(&self, _: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        Ok(self.0.clone())
    }
}
