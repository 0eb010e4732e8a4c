//! A worker that alone is cut off from PostgreSQL: it stops when its lease is over, not when it
//! learns of its successor.

use crate::postgres;
use crate::suite::{LIMIT, eventually};
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelReason, CancelToken, Registry};
use counterstep_steps::{StepContext, StepError, StepResult};
use counterstep_testkit::servers::Proxy;
use counterstep_testkit::{Form, TestClock, form};
use futures::future::{Either, select};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Notify;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Nothing {}

/// When the first attempt was told to stop, and when the second one started.
static STOPPED: Mutex<Option<(Instant, CancelReason)>> = Mutex::new(None);
static SUCCEEDED: Mutex<Option<Instant>> = Mutex::new(None);
static STARTED: Mutex<bool> = Mutex::new(false);

fn set<T>(place: &Mutex<T>, value: T) {
    *place.lock() = value;
}

fn get<T: Copy>(place: &Mutex<T>) -> T {
    *place.lock()
}

struct Watch;

#[distributed_task(name = "Watch", queue = "watches")]
impl Watch {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it only waits")]
    async fn keep(ctx: &StepContext) -> StepResult<u32> {
        if ctx.attempt().0 > 1 {
            set(&SUCCEEDED, Some(Instant::now()));
            return Ok(ctx.attempt().0.unsigned_abs());
        }
        set(&STARTED, true);
        let reason = ctx.cancel().cancelled().await;
        set(&STOPPED, Some((Instant::now(), reason)));
        Err(StepError::cancelled())
    }

    fn respond(keep: &u32) -> u32 {
        *keep
    }
}

/// Opened by the test once the first attempt may end.
static HELD: Notify = Notify::const_new();
static HOLDS: Mutex<bool> = Mutex::new(false);

struct Hold;

#[distributed_task(name = "Hold", queue = "holds", lease = "6s")]
impl Hold {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it only waits")]
    async fn keep(ctx: &StepContext) -> StepResult<u32> {
        set(&HOLDS, true);
        match select(pin!(ctx.cancel().cancelled()), pin!(HELD.notified())).await {
            Either::Left(_) => Err(StepError::cancelled()),
            Either::Right(_) => Ok(ctx.attempt().0.unsigned_abs()),
        }
    }

    fn respond(keep: &u32) -> u32 {
        *keep
    }
}

async fn engine(url: &str, registry: Registry, clock: &TestClock) -> (Engine, TempDir) {
    let embedded = crate::embedded::fixture_under(clock).await;
    let store = postgres::open(url, postgres::options()).await;
    let ports = counterstep_kernel::ports::Ports {
        store,
        ..embedded.ports
    };
    let settings = EngineSettings {
        lease: Duration::from_secs(2),
        ..EngineSettings::default()
    };
    (
        Engine::new(ports, Arc::new(registry), settings, "worker"),
        embedded.folder,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_alone_is_cut_off_stops_when_its_lease_is_over() {
    let (url, clock) = (postgres::database().await, TestClock::new());
    clock.drive_postgres(&url);
    let port = url
        .rsplit(['/', ':'])
        .nth(1)
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let proxy = Proxy::to(port);
    let watch = || Registry::new().with::<Watch>();
    let (cut_off, _one) = engine(&proxy.url(&url), watch(), &clock).await;
    let (successor, _other) = engine(&url, watch(), &clock).await;
    let task = form::submit(&successor, Form::new()).await;
    let doomed =
        tokio::spawn(async move { turn(&cut_off, Host::Worker, task, &CancelToken::new()).await });
    eventually("the first attempt", || async {
        get(&STARTED).then_some(())
    })
    .await;
    proxy.silence();
    clock.advance("2s");

    eventually("a lost task", || async {
        let plan = recovery::plan(&successor, Lost::default(), 10)
            .await
            .expect("a plan");
        recovery::run(&successor, plan, &CancelToken::new())
            .await
            .taken_back
            .contains(&task)
            .then_some(())
    })
    .await;
    let end = turn(&successor, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    // The network is still silent: nothing but its own timer can have told it.
    let (stopped, reason) =
        eventually("the end of the first attempt", || async { get(&STOPPED) }).await;
    assert_eq!(reason, CancelReason::LeaseLost);
    let overlap = stopped.saturating_duration_since(get(&SUCCEEDED).expect("the second attempt"));
    // Without a timer of its own it goes on for as long as the network is silent.
    assert!(
        overlap < Duration::from_secs(10),
        "it worked on beside its successor for {overlap:?}"
    );

    proxy.heal();
    let end = tokio::time::timeout(LIMIT, doomed)
        .await
        .expect("its turn ends")
        .expect("no panic");
    assert!(matches!(end, TurnEnd::Lost | TurnEnd::StoreDown), "{end:?}");
}

/// A firewall has forgotten the connections: nothing says so, and only new ones reach the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_over_a_dead_connection_is_followed_by_one_over_another_connection() {
    let (url, clock) = (postgres::database().await, TestClock::new());
    clock.drive_postgres(&url);
    let port = url
        .rsplit(['/', ':'])
        .nth(1)
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let proxy = Proxy::to(port);
    let hold = || Registry::new().with::<Hold>();
    let (worker, _one) = engine(&proxy.url(&url), hold(), &clock).await;
    let (observer, _other) = engine(&url, hold(), &clock).await;
    let task = form::submit(&observer, Form::new()).await;
    let running =
        tokio::spawn(async move { turn(&worker, Host::Worker, task, &CancelToken::new()).await });
    eventually("the attempt", || async { get(&HOLDS).then_some(()) }).await;
    let lease = || async {
        let record = observer
            .ports
            .store
            .load(task)
            .await
            .expect("an answer")
            .expect("the task");
        record.task.lease_expires_at.expect("a lease")
    };
    proxy.silence_open();

    let first = lease().await;
    // The first heartbeat, at a third of the lease, goes over a connection that is dead, for as long
    // as it may take: another third.
    for _ in 0..46 {
        clock.advance("100ms");
        assert!(lease().await >= first);
    }
    eventually("a heartbeat that prolongs the lease", || async {
        (lease().await > first).then_some(())
    })
    .await;
    HELD.notify_one();
    let end = tokio::time::timeout(LIMIT, running)
        .await
        .expect("its turn ends")
        .expect("no panic");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    let record = observer
        .ports
        .store
        .load(task)
        .await
        .expect("an answer")
        .expect("the task");
    assert_eq!(
        (record.task.recovery_attempts, record.steps[0].attempts.0),
        (0, 1)
    );
}
