//! What a turn has taken for a step is given back wherever the turn ends: room for a heavy step, a permit of its limit, and the
//! one probe of its breaker.

use super::{Order, PAYMENTS, breaker, open, pass};
use crate::cut_off::connect;
use crate::limits::{inside, service};
use crate::manual::TestHints;
use async_trait::async_trait;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::client;
use counterstep_kernel::ports::{HintError, Hints};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::breaker::BreakerState;
use counterstep_steps::{
    CancelReason, CancelToken, DistributedTask, Limit, Registry, StepContext, StepError, StepResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site, TestClock};
use diesel::connection::SimpleConnection;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

/// Happens once, however often it is waited for.
type Event = Shared<BoxFuture<'static, ()>>;

/// What happens in the code of a task, by its bank.
static IN_CODE: LazyLock<Mutex<HashMap<String, (Event, Fault)>>> = LazyLock::new(Mutex::default);

/// Hints by which something happens once a probe is taken: before the change of which it is a part is written.
#[derive(Debug)]
struct AtProbe {
    hints: Arc<TestHints>,
    event: Event,
}

#[async_trait]
impl Hints for AtProbe {
    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        self.hints.seen(key).await
    }

    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        self.hints.remember(key, ttl).await
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        self.hints.bump(counter, window).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        self.hints.get(key).await
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        self.hints.left(key).await
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        self.hints.set(key, value, ttl).await
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        let is_swapped = self.hints.swap(key, was, value, ttl).await?;
        if is_swapped && was.is_none() && key.ends_with(":probe") {
            self.event.clone().await;
        }
        Ok(is_swapped)
    }
}

const ONE_CALL: Limit = Limit::named("one-call").at_once(1);

/// Less than a lease.
const TIMEOUT: &str = "20s";

async fn call(ctx: &StepContext, bank: &str) -> StepResult<u32> {
    let planned = IN_CODE.lock().unwrap().get(bank).cloned();
    let Some((event, fault)) = planned else {
        return Ok(1);
    };
    event.await;
    match fault {
        Fault::Panic => panic!("planted"),
        Fault::StoreRefuses | Fault::Fenced => Ok(1),
        Fault::Cancel | Fault::Shutdown | Fault::Deadline | Fault::LeaseOver => {
            ctx.cancel().cancelled().await;
            Err(StepError::cancelled())
        }
    }
}

/// Takes all that there is for its first step.
struct AtFirst;

#[distributed_task(name = "AtFirst", queue = "given-back", timeout = "20s", cancellable)]
impl AtFirst {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", heavy, breaker = PAYMENTS, limit = ONE_CALL, no_undo = "test")]
    async fn pay(ctx: &StepContext, order: &Order) -> StepResult<u32> {
        call(ctx, &order.bank).await
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

/// The same for a later one.
struct Later;

#[distributed_task(name = "Later", queue = "given-back", timeout = "20s", cancellable)]
impl Later {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "test")]
    async fn note() -> StepResult<bool> {
        Ok(true)
    }

    #[step(2, host = "worker", heavy, breaker = PAYMENTS, limit = ONE_CALL, no_undo = "test")]
    async fn pay(ctx: &StepContext, order: &Order, _note: &bool) -> StepResult<u32> {
        call(ctx, &order.bank).await
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The database takes no change of a task.
    StoreRefuses,
    /// Another host has claimed the task.
    Fenced,
    Cancel,
    Shutdown,
    Deadline,
    /// Of the turn; no heartbeat has got through.
    LeaseOver,
    /// Of the step's code.
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    /// All of it is taken, and the change that uses it is not written.
    Taken,
    /// The attempt runs.
    InCode,
}

const REFUSES: &str =
    "CREATE TRIGGER refuses BEFORE UPDATE ON tasks BEGIN SELECT RAISE(ABORT, 'planted'); END";
const TAKES_AGAIN: &str = "DROP TRIGGER IF EXISTS refuses";

/// A site with room for one heavy step, whose breaker lets one attempt probe.
async fn half_open(registry: Registry) -> (Site, Arc<TestHints>) {
    let harness = Harness::embedded(registry).settings(|settings| {
        settings.heavy = 1;
        settings.drain = Duration::ZERO;
        settings.cancel_grace = Duration::from_millis(100);
    });
    let (site, hints) = super::site(harness).await;
    open(&site).await;
    pass(&site, &hints);
    assert_eq!(breaker(&site).standing().await, BreakerState::HalfOpen);
    (site, hints)
}

/// Where a fault strikes.
#[derive(Clone)]
struct Struck {
    engine: Engine,
    clock: TestClock,
    folder: PathBuf,
    task: TaskId,
    shutdown: CancelToken,
}

impl Struck {
    fn execute(&self, sql: &str) {
        let mut database = connect(&self.folder);
        database.batch_execute(sql).expect("it is executed");
    }

    async fn by(self, fault: Fault) {
        match fault {
            Fault::StoreRefuses => self.execute(REFUSES),
            Fault::Fenced => self.execute("UPDATE tasks SET epoch = epoch + 1, rev = rev + 1"),
            Fault::Cancel => {
                let cancelled = client::cancel(&self.engine, self.task, "client").await;
                cancelled.expect("it is accepted");
            }
            Fault::Shutdown => self.shutdown.cancel(CancelReason::Shutdown),
            Fault::Deadline => self.clock.advance(TIMEOUT),
            Fault::LeaseOver => self.clock.advance_by(self.engine.settings.lease),
            Fault::Panic => {}
        }
    }
}

async fn gives_all_back<T: DistributedTask>(when: When, fault: Fault) {
    let (site, hints) = half_open(Registry::new().with::<AtFirst>().with::<Later>()).await;
    let case = format!("{} {when:?} {fault:?}", T::task_type().decl.name);
    let form = Form::to::<T>().field("bank", &*case);
    let struck = Struck {
        engine: site.engine.clone(),
        clock: site.clock.clone(),
        folder: site.folder().to_owned(),
        task: site.submit(form).await,
        shutdown: CancelToken::new(),
    };
    let event: Event = struck.clone().by(fault).boxed().shared();
    let mut engine = site.engine.clone();
    match when {
        When::Taken => {
            let (hints, event) = (hints.clone(), event.clone());
            engine.ports.hints = Arc::new(AtProbe { hints, event });
        }
        When::InCode => {
            let planned = (event.clone(), fault);
            IN_CODE.lock().unwrap().insert(case.clone(), planned);
        }
    }
    let turning = {
        let (engine, struck) = (engine.clone(), struck.clone());
        tokio::spawn(
            async move { turn(&engine, Host::Worker, struck.task, &struck.shutdown).await },
        )
    };
    eventually("the end of the turn", || async {
        // It tries to write for two leases.
        if fault == Fault::StoreRefuses && event.peek().is_some() {
            site.clock.advance("1s");
        }
        turning.is_finished().then_some(())
    })
    .await;
    let end = turning.await.expect("it ends");
    assert!(
        event.peek().is_some(),
        "{case}: nothing has struck: {end:?}"
    );
    struck.execute(TAKES_AGAIN);
    // A probe that has failed has opened the breaker anew.
    pass(&site, &hints);
    let next = site
        .submit(Form::to::<AtFirst>().field("bank", "next"))
        .await;
    let next = turn(&engine, Host::Worker, next, &CancelToken::new()).await;
    let completed = TurnEnd::Rests(TaskStatus::Completed);
    assert_eq!(next, completed, "{case}: the turn has ended with {end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_anywhere_gives_all_back() {
    let faults = [
        Fault::StoreRefuses,
        Fault::Fenced,
        Fault::Cancel,
        Fault::Shutdown,
        Fault::Deadline,
        Fault::LeaseOver,
    ];
    for fault in faults {
        gives_all_back::<AtFirst>(When::Taken, fault).await;
        gives_all_back::<Later>(When::Taken, fault).await;
        gives_all_back::<AtFirst>(When::InCode, fault).await;
    }
    gives_all_back::<AtFirst>(When::InCode, Fault::Panic).await;
}

const PRESSES: Limit = Limit::named("presses").at_once(5);

/// One start an hour: one that is lost is missed.
const HOURLY: Limit = Limit::named("hourly-start").rate(1, "1h");

struct Press;

#[distributed_task(name = "Press", queue = "given-back")]
impl Press {
    type Request = Order;
    type Response = ();

    #[step(1, host = "worker", heavy, no_undo = "test")]
    async fn press(order: &Order) -> StepResult<u32> {
        service(&order.bank).call().await;
        Ok(1)
    }

    fn respond() {}
}

struct PressAndPay;

#[distributed_task(name = "PressAndPay", queue = "given-back")]
impl PressAndPay {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "test")]
    async fn note() -> StepResult<bool> {
        Ok(true)
    }

    #[step(2, host = "worker", group = "both", heavy, limit = PRESSES, no_undo = "test")]
    async fn press(_note: &bool) -> StepResult<u8> {
        Ok(1)
    }

    #[step(3, host = "worker", group = "both", breaker = PAYMENTS, limit = HOURLY, no_undo = "test")]
    async fn pay(_note: &bool) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

struct NoteAndPress;

#[distributed_task(name = "NoteAndPress", queue = "given-back")]
impl NoteAndPress {
    type Request = Order;
    type Response = ();

    #[step(1, host = "worker", no_undo = "test")]
    async fn note() -> StepResult<bool> {
        Ok(true)
    }

    #[step(2, host = "worker", heavy, breaker = PAYMENTS, no_undo = "test")]
    async fn press(_note: &bool) -> StepResult<u8> {
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_room_takes_no_probe() {
    const BANK: &str = "probe";
    let registry = Registry::new().with::<Press>().with::<NoteAndPress>();
    let (site, hints) = half_open(registry).await;
    let presses = site.submit(Form::to::<Press>().field("bank", BANK)).await;
    let pressing = {
        let engine = site.engine.clone();
        tokio::spawn(async move { turn(&engine, Host::Worker, presses, &CancelToken::new()).await })
    };
    let pressed = service(BANK);
    inside(&pressed, 1).await;
    let probe: Event = async {}.boxed().shared();
    let mut engine = site.engine.clone();
    engine.ports.hints = Arc::new(AtProbe {
        hints,
        event: probe.clone(),
    });
    let task = site.submit(Form::to::<NoteAndPress>()).await;
    let end = turn(&engine, Host::Worker, task, &CancelToken::new()).await;
    assert!(probe.peek().is_none(), "a probe was taken: {end:?}");
    pressed.gate.add_permits(1);
    pressing.await.expect("it ends");
    let end = turn(&engine, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    assert!(probe.peek().is_some(), "the breaker was not asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_frees_while_a_group_is_asked_for_takes_no_start_of_a_sibling() {
    const BANK: &str = "group";
    let registry = Registry::new().with::<Press>().with::<PressAndPay>();
    let (site, hints) = half_open(registry).await;
    let presses = site.submit(Form::to::<Press>().field("bank", BANK)).await;
    let pressing = {
        let engine = site.engine.clone();
        tokio::spawn(async move { turn(&engine, Host::Worker, presses, &CancelToken::new()).await })
    };
    let pressed = service(BANK);
    inside(&pressed, 1).await;
    // `press` lacks room when it is asked for. Once `pay` has its start and its probe, there is room.
    let event = async move {
        pressed.gate.add_permits(1);
        pressing.await.expect("it ends");
    };
    let mut engine = site.engine.clone();
    engine.ports.hints = Arc::new(AtProbe {
        hints,
        event: event.boxed().shared(),
    });
    let task = site.submit(Form::to::<PressAndPay>()).await;
    let end = turn(&engine, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
}
