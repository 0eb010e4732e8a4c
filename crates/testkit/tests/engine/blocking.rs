//! Steps that block their threads: the engine goes on beside them, their leases hold, and past
//! their limit they are abandoned.

use crate::errand::only;
use counterstep_adapters::step_threads::StepThreads;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::status::health;
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::CancelToken;
use counterstep_steps::{StepContext, StepResult};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Free threads of steps in these tests.
const THREADS: usize = 2;

/// Tests that have let their steps go on.
static OPEN: (Mutex<Option<HashSet<u64>>>, Condvar) = (Mutex::new(None), Condvar::new());

fn open(gate: u64) {
    OPEN.0
        .lock()
        .expect("the gates")
        .get_or_insert_default()
        .insert(gate);
    OPEN.1.notify_all();
}

fn block_until_open(gate: u64) {
    let gates = OPEN.0.lock().expect("the gates");
    drop(
        OPEN.1
            .wait_while(gates, |gates| {
                !gates.get_or_insert_default().contains(&gate)
            })
            .expect("the gates"),
    );
}

#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    /// 0: it does not block.
    gate: u64,
}

struct Blocks;

#[distributed_task(name = "Blocks", queue = "blocks")]
impl Blocks {
    type Request = Wanted;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn block(_ctx: &StepContext, wanted: &Wanted) -> StepResult<()> {
        if wanted.gate > 0 {
            block_until_open(wanted.gate);
        }
        Ok(())
    }

    fn respond() {}
}

/// Steps on threads of their own.
async fn site(harness: Harness, step_timeout: Duration) -> Site {
    let harness = harness.settings(|settings| settings.step_timeout = step_timeout);
    let mut site = harness.start().await;
    site.engine.ports.steps = Arc::new(StepThreads::start(THREADS).expect("threads"));
    site
}

fn form(gate: u64) -> Form {
    Form::new().field("gate", gate)
}

// One thread for the whole engine: a step that ran on it would stop everything.
#[tokio::test]
async fn steps_that_block_their_threads_for_longer_than_the_lease_keep_it_and_hold_nobody_up() {
    const GATE: u64 = 1;
    let mut site = site(
        Harness::embedded(only::<Blocks>()),
        Duration::from_secs(120),
    )
    .await;
    site.serve(16);
    let mut blocked = Vec::new();
    for _ in 0..2 * THREADS {
        blocked.push(site.submit(form(GATE)).await);
    }
    let running = site
        .all("running", &blocked, |record| {
            record.steps[0].status == StepStatus::Running
        })
        .await
        .into_iter()
        .map(|record| record.task.lease_expires_at.expect("a lease"))
        .collect::<Vec<_>>();
    let neighbours = [site.submit(form(0)).await, site.submit(form(0)).await];
    site.all_are(TaskStatus::Completed, &neighbours).await;
    // Each lease lives on past its first end, and a reconciler finds no host lost.
    let mut leases = running;
    for _ in 0..3 {
        site.clock.advance("4s");
        for (task, lease) in blocked.iter().zip(&mut leases) {
            let before = *lease;
            *lease = eventually("a heartbeat", || async {
                let plan = recovery::plan(&site.engine, Lost::default(), 100)
                    .await
                    .expect("a plan");
                recovery::run(&site.engine, plan, &CancelToken::new()).await;
                let until = site.record(*task).await.task.lease_expires_at;
                until.filter(|until| *until > before)
            })
            .await;
        }
    }
    open(GATE);
    for record in site.all_are(TaskStatus::Completed, &blocked).await {
        assert_eq!(
            (record.task.recovery_attempts, record.steps[0].attempts.0),
            (0, 1),
            "{record:?}"
        );
    }
    site.assert_invariants(&blocked).await;
    site.stop().await;
}

#[tokio::test]
async fn a_process_with_as_much_abandoned_code_as_slots_takes_nothing_until_some_returns() {
    const GATE: u64 = 2;
    let mut site = site(
        Harness::embedded(only::<Blocks>()),
        Duration::from_millis(300),
    )
    .await;
    site.serve(1);
    let late = [site.submit(form(GATE)).await];
    let failed = site.all_are(TaskStatus::Failed, &late).await;
    let error = failed[0].steps[0].error.as_ref();
    assert_eq!(error.map(|error| error.class.as_str()), Some("timed_out"));
    assert!(health::of(&site.engine).jammed, "a probe fails");

    let next = [site.submit(form(0)).await];
    // A worker with a free slot looks for work every 50 ms, and one without asks for nothing, so
    // that no event shows what it does not do. A pause that is too short for a busy machine can
    // only miss a fault.
    let taken = tokio::time::timeout(
        Duration::from_millis(500),
        site.all_are(TaskStatus::Completed, &next),
    )
    .await;
    assert!(
        taken.is_err(),
        "the only slot was given away while its step still ran: {taken:?}"
    );
    open(GATE);
    site.all_are(TaskStatus::Completed, &next).await;
    assert!(!health::of(&site.engine).jammed);
    site.assert_invariants(&[late[0], next[0]]).await;
    site.stop().await;
}

#[tokio::test]
async fn an_abandoned_step_gives_its_slot_back() {
    const GATE: u64 = 3;
    const OTHERS: u64 = 4;
    let mut site = site(
        Harness::embedded(only::<Blocks>()),
        Duration::from_millis(300),
    )
    .await;
    site.serve(2);
    let late = [site.submit(form(GATE)).await];
    site.all_are(TaskStatus::Failed, &late).await;
    // Both slots are free: two others run at the same time.
    let next = [
        site.submit(form(OTHERS)).await,
        site.submit(form(OTHERS)).await,
    ];
    site.all("running", &next, |record| {
        record.steps[0].status == StepStatus::Running
    })
    .await;
    open(OTHERS);
    open(GATE);
    site.all("at rest", &next, |record| record.task.status.is_at_rest())
        .await;
    site.stop().await;
}
