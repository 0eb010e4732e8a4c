//! Locks beside the lease: they spare vain claims, and whatever they say, each task runs once and
//! none starves.

use crate::errand::{Errand, only};
use async_trait::async_trait;
use counterstep_contracts::{Direction, Host, QueueName, TaskId, TaskStatus, WorkerMessage};
use counterstep_kernel::Engine;
use counterstep_kernel::host::{HostSettings, serve};
use counterstep_kernel::ports::{Acquired, LockError, LockTag, Locks};
use counterstep_kernel::turn::{Offer, TurnEnd, turn, turn_for};
use counterstep_steps::CancelReason;
use counterstep_steps::CancelToken;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask, invariants};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A service that takes every question and never answers.
#[derive(Debug)]
struct Hanging;

#[async_trait]
impl Locks for Hanging {
    async fn acquire(&self, _: TaskId, _: Duration) -> Result<Acquired, LockError> {
        std::future::pending().await
    }

    async fn extend(&self, _: TaskId, _: &LockTag, _: Duration) -> Result<bool, LockError> {
        std::future::pending().await
    }

    async fn release(&self, _: TaskId, _: &LockTag) -> Result<(), LockError> {
        std::future::pending().await
    }
}

/// A service that grants every lock at once and then knows nothing of it: as wrong as can be.
#[derive(Debug)]
struct Generous;

#[async_trait]
impl Locks for Generous {
    async fn acquire(&self, _: TaskId, _: Duration) -> Result<Acquired, LockError> {
        Ok(Acquired::Held(LockTag(Vec::new())))
    }

    async fn extend(&self, _: TaskId, _: &LockTag, _: Duration) -> Result<bool, LockError> {
        Ok(false)
    }

    async fn release(&self, _: TaskId, _: &LockTag) -> Result<(), LockError> {
        Err(LockError("it forgot".to_owned()))
    }
}

async fn with(form: Form, lease: Duration) -> TestTask {
    Harness::embedded(only::<Errand>())
        .settings(|settings| (settings.lease, settings.step_timeout) = (lease, LONG))
        .submit(form)
        .await
}

/// Past the api host, so that a worker is to claim it.
async fn for_a_worker(form: Form, lease: Duration) -> TestTask {
    let task = with(form, lease).await;
    assert_eq!(
        turn(&task.engine, Host::Api, task.id, &CancelToken::new()).await,
        TurnEnd::GivenBack
    );
    task
}

async fn hold(engine: &Engine, task: TaskId) -> LockTag {
    match engine
        .ports
        .locks
        .acquire(task, LONG)
        .await
        .expect("the lock service answers")
    {
        Acquired::Held(tag) => tag,
        Acquired::Elsewhere => panic!("the lock is held"),
    }
}

async fn claims(task: &TestTask) -> usize {
    task.history()
        .await
        .audit
        .iter()
        .filter(|row| row.entry.event == "claimed")
        .count()
}

/// Counts how often a lock was elsewhere.
#[derive(Debug)]
struct Counted {
    locks: Arc<dyn Locks>,
    elsewhere: Arc<AtomicUsize>,
}

#[async_trait]
impl Locks for Counted {
    fn is_shared(&self) -> bool {
        self.locks.is_shared()
    }

    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError> {
        let answer = self.locks.acquire(task, ttl).await?;
        self.elsewhere
            .fetch_add(usize::from(answer == Acquired::Elsewhere), Ordering::SeqCst);
        Ok(answer)
    }

    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError> {
        self.locks.extend(task, tag, ttl).await
    }

    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError> {
        self.locks.release(task, tag).await
    }
}

async fn until(what: &str, so: impl AsyncFn() -> bool) {
    eventually(what, || async { so().await.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_holds_the_lock_and_lets_it_go_with_the_lease() {
    let task = for_a_worker(Form::new().field("pick_ms", 4500), Duration::from_secs(2)).await;
    // The api host has let go of it: its turn is over.
    let tag = hold(&task.engine, task.id).await;
    task.engine
        .ports
        .locks
        .release(task.id, &tag)
        .await
        .expect("released");

    let (engine, id) = (task.engine.clone(), task.id);
    let running =
        tokio::spawn(async move { turn(&engine, Host::Worker, id, &CancelToken::new()).await });
    until("a claim", async || claims(&task).await == 2).await;
    // The step takes twice the lock's first term: it is prolonged with the lease.
    let is_free_at_the_end_only = async || {
        let answer = task
            .engine
            .ports
            .locks
            .acquire(task.id, LONG)
            .await
            .expect("an answer");
        // Looked at afterwards: a task that is still running was running when the lock was asked
        // for.
        let status = task.record().await.task.status;
        if let Acquired::Held(tag) = answer {
            assert_eq!(
                status,
                TaskStatus::Completed,
                "the lock was free during the turn"
            );
            task.engine
                .ports
                .locks
                .release(task.id, &tag)
                .await
                .expect("released");
        }
        status == TaskStatus::Completed
    };
    for _ in 0..6 {
        assert!(!is_free_at_the_end_only().await, "it ended too soon");
        task.pass_under_lease(Duration::from_millis(750)).await;
    }
    until("completion", is_free_at_the_end_only).await;
    assert_eq!(
        running.await.expect("the turn ends"),
        TurnEnd::Rests(TaskStatus::Completed)
    );
    hold(&task.engine, task.id).await;
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_fails_lets_the_lock_go() {
    let harness = Harness::embedded(only::<Errand>()).fail_at("deliver");
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    hold(&task.engine, task.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_task_whose_lock_is_elsewhere_comes_again_and_completes() {
    let mut task = for_a_worker(Form::new(), LONG).await;
    let tag = hold(&task.engine, task.id).await;
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let locks = task.engine.ports.locks.clone();
    task.engine.ports.locks = Arc::new(Counted {
        locks,
        elsewhere: elsewhere.clone(),
    });
    let end = turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    assert!(
        matches!(end, TurnEnd::Busy(left) if left < Duration::from_secs(1)),
        "{end:?}"
    );
    assert_eq!(claims(&task).await, 1, "it was not claimed by a worker");

    let shutdown = CancelToken::new();
    // Only deliveries: no host looks for tasks whose message was lost.
    let settings = HostSettings {
        unclaimed_for: LONG,
        ..HostSettings::for_all(&task.engine.registry, Host::Worker, 2)
    };
    let spawn = Arc::new(|work| {
        tokio::spawn(work);
    });
    let host = tokio::spawn(serve(
        task.engine.clone(),
        settings,
        shutdown.clone(),
        spawn,
    ));
    // Once in the turn above, and then as a delivery that comes again.
    until("a second delivery", async || {
        elsewhere.load(Ordering::SeqCst) >= 3
    })
    .await;
    assert_eq!(
        claims(&task).await,
        1,
        "each time that it came, the lock was elsewhere"
    );
    task.engine
        .ports
        .locks
        .release(task.id, &tag)
        .await
        .expect("released");
    until("completion", async || {
        task.record().await.task.status == TaskStatus::Completed
    })
    .await;
    shutdown.cancel(CancelReason::Shutdown);
    host.await.expect("the host ends");
    assert_eq!(claims(&task).await, 2);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_delivery_asks_for_no_lock_and_a_redelivery_does() {
    let mut task = for_a_worker(Form::new(), LONG).await;
    hold(&task.engine, task.id).await;
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let locks = task.engine.ports.locks.clone();
    task.engine.ports.locks = Arc::new(Counted {
        locks,
        elsewhere: elsewhere.clone(),
    });
    let row = task.record().await.task;
    let queue = QueueName(row.queue.clone());
    let message = WorkerMessage {
        task: task.id,
        tenant: None,
        task_type: row.task_type,
        version: row.version,
        rev: row.rev,
        traceparent: None,
        outputs: serde_json::Map::new(),
    };
    let offer = async |is_first| {
        let offer = Offer {
            message: &message,
            queue: &queue,
            is_first,
        };
        turn_for(&task.engine, Host::Worker, offer, &CancelToken::new()).await
    };
    assert!(matches!(offer(false).await, TurnEnd::Busy(_)));
    assert_eq!(
        (elsewhere.load(Ordering::SeqCst), claims(&task).await),
        (1, 1)
    );
    assert_eq!(offer(true).await, TurnEnd::Rests(TaskStatus::Completed));
    assert_eq!(
        (elsewhere.load(Ordering::SeqCst), claims(&task).await),
        (1, 2)
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_beats_a_held_lock() {
    let task = for_a_worker(Form::new().field("pick_ms", 60_000), Duration::from_secs(1)).await;
    let run = || {
        let (engine, id) = (task.engine.clone(), task.id);
        tokio::spawn(async move { turn(&engine, Host::Worker, id, &CancelToken::new()).await })
    };
    let lost = run();
    until("a claim", async || claims(&task).await == 2).await;
    lost.abort();
    let _ = lost.await;
    task.clock.advance("1s");
    // The next holder of the lock does nothing with it.
    until("the end of the dead host's lock", async || {
        matches!(
            task.engine.ports.locks.acquire(task.id, LONG).await,
            Ok(Acquired::Held(_))
        )
    })
    .await;
    until("the end of the lease", async || {
        task.record().await.lease_has_expired()
    })
    .await;
    let claimed = run();
    until("another claim", async || claims(&task).await == 3).await;
    assert!(!claimed.is_finished(), "it runs");
    claimed.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_lock_does_not_starve_a_task_that_nobody_claims() {
    let task = for_a_worker(Form::new(), Duration::from_secs(1)).await;
    hold(&task.engine, task.id).await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "though the lock is held to the end"
    );
    assert_eq!(
        task.engine
            .ports
            .locks
            .acquire(task.id, LONG)
            .await
            .expect("an answer"),
        Acquired::Elsewhere
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_service_that_hangs_costs_its_limit_and_no_lease() {
    let mut task = with(Form::new().field("pick_ms", 3000), Duration::from_secs(2)).await;
    task.engine.ports.locks = Arc::new(Hanging);
    let works = async {
        until("a claim", async || claims(&task).await == 2).await;
        task.pass_under_lease(Duration::from_secs(3)).await;
    };
    let (status, ()) = futures::join!(task.run_to_rest(), works);
    assert_eq!(status, TaskStatus::Completed);
    assert_eq!(claims(&task).await, 2);
    assert_eq!(task.record().await.task.recovery_attempts, 0);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_locks_worth_the_name_the_epoch_still_picks_one_of_ten_hosts() {
    let mut task = for_a_worker(Form::new().field("pick_ms", 500), LONG).await;
    task.engine.ports.locks = Arc::new(Generous);
    let token = CancelToken::new();
    let ends = futures::future::join_all(
        (0..10).map(|_| turn(&task.engine, Host::Worker, task.id, &token)),
    )
    .await;
    assert!(
        ends.contains(&TurnEnd::Rests(TaskStatus::Completed)),
        "{ends:?}"
    );
    assert_eq!(claims(&task).await, 2);
    assert_eq!(
        invariants::successes(&task.history().await, Direction::Forward),
        4
    );
    task.assert_invariants().await;
}

#[cfg(feature = "servers")]
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_of_redis_and_its_end_in_the_middle_of_a_turn_change_nothing() {
    use counterstep_adapters::redis::{RedisOptions, open};
    let server = counterstep_testkit::servers::Redis::start();
    // Not to be taken for away when the machine is busy.
    let options = RedisOptions {
        limit: Duration::from_secs(2),
        ..RedisOptions::at(&server.url())
    };
    let redis = open(options).await.expect("it opens");
    let mut task = with(Form::new().field("pick_ms", 5000), Duration::from_secs(2)).await;
    (task.engine.ports.locks, task.engine.ports.hints) = (redis.locks, redis.hints);
    turn(&task.engine, Host::Api, task.id, &CancelToken::new()).await;
    let (engine, id) = (task.engine.clone(), task.id);
    let running =
        tokio::spawn(async move { turn(&engine, Host::Worker, id, &CancelToken::new()).await });
    until("a claim", async || claims(&task).await == 2).await;
    assert_eq!(
        task.engine
            .ports
            .locks
            .acquire(task.id, LONG)
            .await
            .expect("an answer"),
        Acquired::Elsewhere
    );
    server.flush();
    // Any host may now have the lock. The lease is live, and no host gets the task.
    let end = turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    assert!(matches!(end, TurnEnd::Busy(_)), "{end:?}");
    // A heartbeat goes through that finds its lock forgotten.
    task.pass_under_lease(Duration::from_secs(1)).await;
    server.stop();
    let end = turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    assert!(matches!(end, TurnEnd::Busy(_)), "{end:?}");
    task.pass_under_lease(Duration::from_secs(4)).await;
    assert_eq!(
        running.await.expect("the turn ends"),
        TurnEnd::Rests(TaskStatus::Completed)
    );
    assert_eq!(
        (
            claims(&task).await,
            task.record().await.task.recovery_attempts
        ),
        (2, 0)
    );
    assert_eq!(
        invariants::successes(&task.history().await, Direction::Forward),
        4
    );
    task.assert_invariants().await;
}
