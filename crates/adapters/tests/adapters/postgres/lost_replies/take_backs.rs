//! Lost replies and take-backs: a lost host is counted once, and an owner whose lease was taken back
//! while it did not know of its own change writes and runs nothing more.

use super::{Nothing, Parcel, Stage, Tick};
use crate::suite::{LIMIT, eventually};
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::ports::{Clock, Ports};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelReason, CancelToken, Registry, StepResult};
use counterstep_testkit::servers::is_commit;
use counterstep_testkit::{Form, form};
use futures::future::{BoxFuture, Either};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;

#[tokio::test(flavor = "multi_thread")]
async fn a_take_back_whose_reply_is_lost_counts_one_lost_host() {
    let stage = Stage::of(Registry::new().with::<Tick>()).await;
    let task = form::submit(&stage.engine, Form::new()).await;
    let short = EngineSettings {
        lease: Duration::from_secs(1),
        ..EngineSettings::default()
    };
    let settings = EngineSettings {
        faults: vec![Fault::at("count", FaultKind::HangBefore)],
        ..short
    };
    let doomed = Engine::new(
        stage.engine.ports.clone(),
        stage.engine.registry.clone(),
        settings,
        "doomed",
    );
    let token = CancelToken::new();
    let running = turn(&doomed, Host::Worker, task, &token);
    let claimed = eventually("a claim", || async {
        stage.record(task).await.task.lease_owner.map(drop)
    });
    // The turn is dropped here, as with a killed process.
    futures::future::select(running, Box::pin(claimed)).await;

    let plan = eventually("a lost host", || async {
        let plan = recovery::plan(&stage.engine, Lost::default(), 10)
            .await
            .expect("a plan");
        (!plan.is_empty()).then_some(plan)
    })
    .await;
    stage.lose(1);
    let recovered = recovery::run(&stage.engine, plan, &CancelToken::new()).await;
    assert_eq!(
        (recovered.taken_back, recovered.failed),
        (vec![task], Vec::new())
    );
    assert_eq!(stage.proxy.lost(), 1);
    assert_eq!(stage.record(task).await.task.recovery_attempts, 1);
    assert_eq!(stage.drive(task).await, TaskStatus::Completed);
    let past = stage.past(task).await;
    assert_eq!(
        past.iter()
            .filter(|entry| entry.starts_with("taken_back"))
            .count(),
        1,
        "{past:?}"
    );
}

/// A clock whose waits do not end while its process is paused.
#[derive(Debug)]
struct Pausable {
    clock: Arc<dyn Clock>,
    paused: watch::Receiver<bool>,
}

impl Clock for Pausable {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn unix_millis(&self) -> u64 {
        self.clock.unix_millis()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (sleep, mut paused) = (self.clock.sleep(duration), self.paused.clone());
        Box::pin(async move {
            sleep.await;
            let _ = paused.wait_for(|paused| !paused).await;
        })
    }
}

/// A change lands, its reply is lost, and its author looks only when another host runs the task: in
/// the turn of a worker the commit after `before` others, while the other host stands in front of
/// `step`. How the author's turn ended, and the author's name.
async fn overtaken(
    stage: &Stage,
    task: TaskId,
    before: u32,
    step: &'static str,
) -> (TurnEnd, Arc<str>) {
    let (pause, paused) = watch::channel(false);
    let pause = Arc::new(pause);
    let clock = Arc::new(Pausable {
        clock: stage.engine.ports.clock.clone(),
        paused,
    });
    let ports = Ports {
        clock,
        ..stage.engine.ports.clone()
    };
    let settings = EngineSettings {
        lease: Duration::from_secs(1),
        ..EngineSettings::default()
    };
    let owner = Engine::new(ports, stage.engine.registry.clone(), settings, "owner");
    let (commits, pauses) = (AtomicU32::new(0), pause.clone());
    stage.proxy.lose_replies(1, move |text| {
        let is_it = is_commit(text) && commits.fetch_add(1, Ordering::SeqCst) == before;
        if is_it {
            pauses.send_replace(true);
        }
        is_it
    });
    let id = owner.id.clone();
    let running =
        tokio::spawn(async move { turn(&owner, Host::Worker, task, &CancelToken::new()).await });
    eventually("a take-back", || async {
        let plan = recovery::plan(&stage.engine, Lost::default(), 10)
            .await
            .expect("a plan");
        recovery::run(&stage.engine, plan, &CancelToken::new())
            .await
            .taken_back
            .contains(&task)
            .then_some(())
    })
    .await;
    assert_eq!(stage.proxy.lost(), 1);
    let settings = EngineSettings {
        faults: vec![Fault::at(step, FaultKind::HangBefore)],
        drain: Duration::ZERO,
        cancel_grace: Duration::from_millis(100),
        ..EngineSettings::default()
    };
    let other = Engine::new(
        stage.engine.ports.clone(),
        stage.engine.registry.clone(),
        settings,
        "other",
    );
    let token = CancelToken::new();
    let others = turn(&other, Host::Worker, task, &token);
    let mut ended = None;
    let looks = async {
        eventually("a claim", || async {
            stage.record(task).await.task.lease_owner.map(drop)
        })
        .await;
        pause.send_replace(false);
        ended = Some(
            tokio::time::timeout(LIMIT, running)
                .await
                .expect("an end")
                .expect("no panic"),
        );
        token.cancel(CancelReason::Shutdown);
        std::future::pending::<()>().await;
    };
    match futures::future::select(others, Box::pin(looks)).await {
        Either::Left((end, _)) => assert_eq!(end, TurnEnd::GivenBack),
        Either::Right(((), _)) => unreachable!("it waits for the other one"),
    }
    (ended.expect("it has ended before the other one"), id)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_change_stands_behind_a_take_back_writes_nothing_more() {
    let stage = Stage::of(Registry::new().with::<Parcel>()).await;
    let form = Form::new()
        .field("fate", "arrives")
        .file("files", "a.txt", "abc");
    let task = form::submit(&stage.engine, form).await;
    assert_eq!(stage.drive(task).await, TaskStatus::Waiting);
    client::signal(&stage.engine, task, "approval", json!("anna"), "client")
        .await
        .expect("accepted");

    // Behind the claim: the failure of a step that is tried again under the same lease.
    let (end, id) = overtaken(&stage, task, 1, "send").await;
    assert_eq!(end, TurnEnd::Lost);
    let audit = stage.direct.history(task).await.expect("an answer").audit;
    let back = audit
        .iter()
        .position(|row| row.entry.event == "taken_back")
        .expect("the take-back");
    assert!(
        audit[back..].iter().all(|row| *row.entry.actor != *id),
        "it wrote under another one's lease"
    );
    assert_eq!(stage.drive(task).await, TaskStatus::Completed);
}

/// How often [`Bell`] rang.
static RUNG: AtomicU32 = AtomicU32::new(0);

struct Bell;

#[distributed_task(name = "Bell", queue = "bells")]
impl Bell {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it was heard")]
    async fn ring() -> StepResult<u32> {
        Ok(RUNG.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn respond(ring: &u32) -> u32 {
        *ring
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_stands_behind_a_take_back_runs_no_step() {
    let stage = Stage::of(Registry::new().with::<Bell>()).await;
    let task = form::submit(&stage.engine, Form::new()).await;
    overtaken(&stage, task, 0, "ring").await;
    assert_eq!(
        RUNG.load(Ordering::SeqCst),
        0,
        "its host ran the step while another one had the task"
    );
    assert_eq!(stage.drive(task).await, TaskStatus::Completed);
    assert_eq!(RUNG.load(Ordering::SeqCst), 1);
}
