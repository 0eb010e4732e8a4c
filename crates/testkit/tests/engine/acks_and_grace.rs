//! What a run without a fault does not need: a message is kept until its turn has ended, and
//! what an attempt stores is left alone while a writer may be alive.

use crate::errand::{ErrandRequest, Stubborn, only};
use crate::limits::{inside, service};
use crate::lost::lost_in;
use async_trait::async_trait;
use counterstep_contracts::{QueueName, TaskId, TaskStatus, WorkerMessage};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::ports::{Delivery, DeliveryTag, Queue, QueueError, Settle, Store};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{orphans, recovery};
use counterstep_steps::CancelToken;
use counterstep_steps::{StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site, sweep};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// A queue that notes each word on a message, and in which state the task is then.
#[derive(Debug)]
struct Watched {
    queue: Arc<dyn Queue>,
    store: Store,
    task: TaskId,
    /// After this a message is delivered again.
    ack_wait: Duration,
    settled: Mutex<Vec<(Settle, TaskStatus)>>,
}

impl Watched {
    /// In the place of the queue of a site.
    fn at(site: &mut Site, task: TaskId, ack_wait: Duration) -> Arc<Self> {
        let watched = Arc::new(Self {
            queue: site.engine.ports.queue.clone(),
            store: site.engine.ports.store.clone(),
            task,
            ack_wait,
            settled: Mutex::default(),
        });
        site.engine.ports.queue = watched.clone();
        watched
    }

    fn settled(&self, how: Settle) -> Vec<TaskStatus> {
        let settled = self.settled.lock();
        let so = settled.iter().filter(|it| it.0 == how);
        so.map(|it| it.1).collect()
    }
}

#[async_trait]
impl Queue for Watched {
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        self.queue.publish(queue, message).await
    }

    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        self.queue.fetch(queues, max, wait).await
    }

    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        let record = self.store.load(self.task).await.expect("an answer");
        let status = record.expect("the task").task.status;
        self.settled.lock().push((settle.clone(), status));
        self.queue.settle(tag, settle).await
    }

    fn ack_wait(&self) -> Duration {
        self.ack_wait
    }

    fn hands_out_tasks(&self) -> bool {
        self.queue.hands_out_tasks()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_acknowledged_only_when_its_turn_has_ended() {
    let mut site = Harness::embedded(only::<Stubborn>()).start().await;
    let task = site.submit(Form::new()).await;
    let ack_wait = site.engine.ports.queue.ack_wait();
    let queue = Watched::at(&mut site, task, ack_wait);
    site.serve(1);
    // A task that was found as due needs no message; then the message comes later, and finds it at
    // rest.
    let acked = eventually("an acknowledged message", || async {
        let acked = queue.settled(Settle::Ack);
        (!acked.is_empty()).then_some(acked)
    })
    .await;
    assert!(
        acked.iter().all(|status| status.is_at_rest()),
        "acknowledged under a running turn: {acked:?}"
    );
    site.stop().await;
}

/// The time after which an attempt's objects are swept has three parts, and each of them alone
/// keeps a sweep away: the attempt's limit, the grace of its cancellation, and the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_leaves_an_attempt_alone_while_its_writer_may_be_alive() {
    const LONG: Duration = Duration::from_secs(3_600);
    const SHORT: Duration = Duration::from_millis(200);
    for (limit, grace, lease) in [
        (LONG, SHORT, SHORT),
        (SHORT, LONG, SHORT),
        (SHORT, SHORT, LONG),
        (SHORT, SHORT, SHORT),
    ] {
        let fault = Fault::at("one", FaultKind::HangBefore);
        let harness = Harness::embedded(only::<Stubborn>())
            .fault(fault.clone())
            .settings(|settings| {
                (settings.step_timeout, settings.cancel_grace, settings.lease) =
                    (limit, grace, lease);
            });
        let task = harness.submit(Form::new()).await;
        lost_in(&task.engine, task.id, &fault).await;
        // A sweep looks at a task once it is taken back.
        let planned = || async {
            let lost = recovery::plan(&task.engine, Lost::default(), 10)
                .await
                .expect("the plan");
            recovery::run(&task.engine, lost, &CancelToken::new()).await;
            orphans::plan(&task.engine, 10)
                .await
                .expect("the plan")
                .condemn
        };
        if [limit, grace, lease].contains(&LONG) {
            // Longer than the short parts together.
            task.clock.advance_by(SHORT * 4);
            assert_eq!(
                planned().await,
                [],
                "limit {limit:?}, grace {grace:?}, lease {lease:?}"
            );
        } else {
            task.clock.advance_by(SHORT * 4);
            eventually("a sweep of the attempt", || async {
                (!planned().await.is_empty()).then_some(())
            })
            .await;
        }
    }
}

/// Undone where its host is lost.
pub(crate) struct Fragile;

#[distributed_task(name = "Fragile", queue = "fragile", on_lost = "fail")]
impl Fragile {
    type Request = ErrandRequest;
    type Response = u32;

    #[step(1, host = "worker", undo = put_back)]
    async fn take(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn put_back(_ctx: &StepContext, _out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", undo = fetch_back)]
    async fn send(_ctx: &StepContext, taken: &u32) -> StepResult<u64> {
        if *taken == 0 {
            return Err(StepError::permanent("nothing was taken"));
        }
        Ok(2)
    }

    async fn fetch_back(_ctx: &StepContext, _out: Option<u64>) -> UndoResult {
        Ok(())
    }

    fn respond(take: &u32) -> u32 {
        *take
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_of_a_type_that_fails_with_its_host_comes_out_right() {
    sweep::every_fault(only::<Fragile>, Form::new).await;
}

struct Holds;

#[distributed_task(name = "Holds", queue = "acks", timeout = "10m")]
impl Holds {
    type Request = ErrandRequest;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn hold(_req: &ErrandRequest) -> StepResult<u32> {
        service("acks").call().await;
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_extended_before_its_queue_delivers_it_again() {
    let mut site = Harness::embedded(only::<Holds>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let task = site.submit(Form::new()).await;
    let queue = Watched::at(&mut site, task, Duration::from_secs(3));
    site.serve(1);
    let held = service("acks");
    inside(&held, 1).await;
    for extended in 1..=3 {
        site.clock.advance("1s");
        eventually("an extension", || async {
            (queue.settled(Settle::Progress).len() >= extended).then_some(())
        })
        .await;
    }
    held.gate.add_permits(1);
    site.all_are(TaskStatus::Completed, &[task]).await;
    site.stop().await;
}
