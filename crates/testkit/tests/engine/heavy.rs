//! Heavy steps: few run side by side, and light tasks of the same queue go past those that wait for
//! room.

use async_trait::async_trait;
use counterstep_adapters::step_threads::StepThreads;
use counterstep_contracts::{
    Host, Labels, QueueName, StepStatus, TaskId, TaskStatus, Tenant, WorkerMessage,
};
use counterstep_kernel::client::{self, Submission, UploadSession};
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::ports::{Delivery, DeliveryTag, MessageSource, Queue, QueueError, Settle};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    CancelReason, CancelToken, Classify, Limit, Registry, RetryPolicy, ScratchFile, StepContext,
    StepError, StepResult,
};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Heavy steps that one process runs side by side in these tests.
const ROOM: usize = 2;

/// Heavy steps inside their code now, and the most there ever were.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A permit for each heavy step that may go on.
static GATE: Semaphore = Semaphore::const_new(0);

async fn weigh_down() {
    let inside = INSIDE.fetch_add(1, Ordering::SeqCst) + 1;
    MOST.fetch_max(inside, Ordering::SeqCst);
    GATE.acquire().await.expect("the gate").forget();
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

struct Grind;

#[distributed_task(name = "Grind", queue = "mixed", heavy)]
impl Grind {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn grind(_ctx: &StepContext) -> StepResult<u32> {
        weigh_down().await;
        Ok(1)
    }

    fn respond() {}
}

struct LookThenGrind;

#[distributed_task(name = "LookThenGrind", queue = "mixed")]
impl LookThenGrind {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn look(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", heavy, no_undo = "does nothing")]
    async fn grind(_ctx: &StepContext, look: &u32) -> StepResult<u32> {
        weigh_down().await;
        Ok(*look)
    }

    fn respond() {}
}

struct Light;

#[distributed_task(name = "Light", queue = "mixed")]
impl Light {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn glance(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

async fn submit(site: &Site, name: &str, tasks: usize) -> Vec<TaskId> {
    let mut submitted = Vec::new();
    for _ in 0..tasks {
        let task_type = site.engine.registry.get(name, 1).expect("the type");
        let submission = Submission {
            tenant: Tenant::default(),
            actor: "client".to_owned(),
            key: None,
            traceparent: None,
            webhook: None,
            labels: Labels::new(),
        };
        let mut session = UploadSession::begin(&site.engine, task_type, submission)
            .await
            .expect("the session begins");
        session.body(json!({})).expect("the body is accepted");
        submitted.push(
            session
                .submit()
                .await
                .expect("the request is accepted")
                .answer
                .task_id,
        );
    }
    submitted
}

#[tokio::test]
async fn few_heavy_steps_run_side_by_side_and_light_tasks_go_past_those_that_wait() {
    let registry = Registry::new()
        .with::<Grind>()
        .with::<LookThenGrind>()
        .with::<Light>();
    let mut site = Harness::embedded(registry)
        .settings(|settings| {
            (settings.heavy, settings.step_timeout) = (ROOM, Duration::from_secs(60))
        })
        .start()
        .await;
    let heavy = submit(&site, "Grind", 6).await;
    site.serve(8);
    eventually("heavy steps in all of the room", || async {
        (INSIDE.load(Ordering::SeqCst) == ROOM).then_some(())
    })
    .await;
    let light = submit(&site, "Light", 12).await;
    site.all_are(TaskStatus::Completed, &light).await;

    // What is heavy only later is given back there: it holds neither a lease nor a slot while it
    // waits.
    let later = submit(&site, "LookThenGrind", 3).await;
    let given_back = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Completed && record.task.lease_owner.is_none()
    };
    site.all("given back before its heavy step", &later, given_back)
        .await;
    let mut claimed = 0;
    for task in heavy.iter().chain(&later) {
        claimed += usize::from(site.record(*task).await.task.lease_owner.is_some());
    }
    assert_eq!(claimed, ROOM, "only what has room is claimed");

    GATE.add_permits(heavy.len() + later.len());
    let mut records = site.all_are(TaskStatus::Completed, &heavy).await;
    records.extend(site.all_are(TaskStatus::Completed, &later).await);
    assert_eq!(MOST.load(Ordering::SeqCst), ROOM);
    for record in &records {
        let last = record.steps.last().expect("a step");
        assert_eq!(
            (record.task.recovery_attempts, last.attempts.0),
            (0, 1),
            "{record:?}"
        );
    }
    site.assert_invariants(&[heavy, later, light].concat())
        .await;
    site.stop().await;
}

/// Longer than the limit of an attempt of each of its siblings, and than all of those limits
/// together.
const LONG: Duration = Duration::from_millis(1500);

const NEVER: RetryPolicy = RetryPolicy::NONE;

struct Develop;

#[distributed_task(name = "Develop", queue = "film")]
impl Develop {
    type Request = serde_json::Value;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "writes scratch only")]
    async fn shoot(ctx: &StepContext) -> StepResult<ScratchFile> {
        let draft = ctx.scratch("film").await?;
        std::fs::write(draft.path(), "film").transient("writing")?;
        draft.seal().await
    }

    #[step(2, host = "worker", heavy, group = "prints", retry = NEVER, no_undo = "does nothing")]
    async fn poster(ctx: &StepContext, shoot: &ScratchFile) -> StepResult<u32> {
        work_for(ctx.task_id(), LONG).await;
        Ok(u32::from(shoot.size_bytes == 4))
    }

    #[step(3, host = "worker", heavy, group = "prints", timeout = "400ms", retry = NEVER, no_undo = "does nothing")]
    async fn thumbnail(_ctx: &StepContext, shoot: &ScratchFile) -> StepResult<u32> {
        Ok(u32::from(shoot.size_bytes == 4))
    }

    #[step(4, host = "worker", group = "prints", timeout = "400ms", retry = NEVER, no_undo = "does nothing")]
    async fn label(_ctx: &StepContext, shoot: &ScratchFile) -> StepResult<u32> {
        Ok(u32::from(shoot.size_bytes == 4))
    }

    fn respond(poster: &u32, thumbnail: &u32, label: &u32) -> u32 {
        poster + thumbnail + label
    }
}

#[tokio::test]
async fn a_heavy_step_of_a_group_starts_once_it_has_room_however_long_that_takes() {
    let registry = Registry::new().with::<Develop>();
    let mut site = Harness::embedded(registry)
        .settings(|settings| settings.heavy = 1)
        .start()
        .await;
    site.serve(4);
    let task = site.submit(Form::new()).await;
    // A light sibling waits for no room.
    let others_go_on = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[1].status == StepStatus::Running
            && record.steps[3].status == StepStatus::Completed
    };
    let record = site
        .all("at its poster", &[task], others_go_on)
        .await
        .remove(0);
    assert_eq!(
        (record.steps[2].status, record.steps[2].attempts.0),
        (StepStatus::Pending, 0),
        "it has no room"
    );
    until_works(task).await;
    site.clock.advance_by(LONG);

    let record = site.all_are(TaskStatus::Completed, &[task]).await.remove(0);
    assert_eq!(record.task.response, Some(json!(3)));
    for row in &record.steps {
        assert_eq!((row.attempts.0, row.retries_used), (1, 0), "{row:?}");
    }
    site.assert_invariants(&[task]).await;
    site.stop().await;
}

#[tokio::test]
async fn a_cancel_reaches_a_task_that_waits_for_room() {
    let registry = Registry::new().with::<Print>();
    let mut site = Harness::embedded(registry)
        .settings(|settings| settings.heavy = 1)
        .start()
        .await;
    site.serve(4);
    let first = site.submit(Form::new()).await;
    let prints = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[1].status == StepStatus::Running
    };
    site.all("printing", &[first], prints).await;
    let second = site.submit(Form::new()).await;
    let waits = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Completed
    };
    site.all("shot", &[second], waits).await;
    client::cancel(&site.engine, second, "client")
        .await
        .expect("it is accepted");
    let record = site
        .all_are(TaskStatus::Cancelled, &[second])
        .await
        .remove(0);
    assert_eq!(record.steps[1].attempts.0, 0, "it never had room");
    PRINTED.add_permits(1);
    site.all_are(TaskStatus::Completed, &[first]).await;
    site.assert_invariants(&[first, second]).await;
    site.stop().await;
}

/// A permit for each print that may come out.
static PRINTED: Semaphore = Semaphore::const_new(0);

struct Print;

#[distributed_task(name = "Print", queue = "film", cancellable)]
impl Print {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "writes scratch only")]
    async fn shoot(ctx: &StepContext) -> StepResult<ScratchFile> {
        let draft = ctx.scratch("film").await?;
        std::fs::write(draft.path(), "film").transient("writing")?;
        draft.seal().await
    }

    #[step(2, host = "worker", heavy, no_undo = "does nothing")]
    async fn print(_ctx: &StepContext, shoot: &ScratchFile) -> StepResult<u64> {
        PRINTED
            .acquire()
            .await
            .map_err(StepError::transient)?
            .forget();
        Ok(shoot.size_bytes)
    }

    fn respond() {}
}

/// Whether code that blocks its thread may let go of it.
static LET_GO: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

struct Jam;

#[distributed_task(name = "Jam", queue = "film")]
impl Jam {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", heavy, timeout = "1s", retry = NEVER, no_undo = "does nothing")]
    async fn block(_ctx: &StepContext) -> StepResult<u32> {
        drop(
            LET_GO
                .1
                .wait_while(LET_GO.0.lock().expect("a flag"), |free| !*free)
                .expect("a flag"),
        );
        Ok(1)
    }

    fn respond() {}
}

struct Proof;

#[distributed_task(name = "Proof", queue = "film")]
impl Proof {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "writes scratch only")]
    async fn shoot(ctx: &StepContext) -> StepResult<ScratchFile> {
        let draft = ctx.scratch("film").await?;
        std::fs::write(draft.path(), "film").transient("writing")?;
        draft.seal().await
    }

    #[step(2, host = "worker", heavy, no_undo = "does nothing")]
    async fn print(_ctx: &StepContext, shoot: &ScratchFile) -> StepResult<u64> {
        Ok(shoot.size_bytes)
    }

    fn respond() {}
}

#[tokio::test]
async fn a_task_whose_heavy_step_reads_scratch_is_given_back_when_all_room_is_in_abandoned_code() {
    let registry = Registry::new().with::<Jam>().with::<Proof>();
    let mut site = Harness::embedded(registry)
        .settings(|settings| settings.heavy = 1)
        .start()
        .await;
    site.engine.ports.steps = Arc::new(StepThreads::start(2).expect("threads"));
    site.serve(4);
    let jam = submit(&site, "Jam", 1).await;
    let runs = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Running
    };
    site.all("in the heavy step", &jam, runs).await;
    // It gets to its own heavy step while the other one has the room, or finds the room abandoned
    // already.
    let proof = submit(&site, "Proof", 1).await;
    let given_back = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Completed && record.task.lease_owner.is_none()
    };
    site.all("given back before its heavy step", &proof, given_back)
        .await;
    site.all_are(TaskStatus::Failed, &jam).await;

    *LET_GO.0.lock().expect("a flag") = true;
    LET_GO.1.notify_all();
    site.all_are(TaskStatus::Completed, &proof).await;
    site.assert_invariants(&[jam, proof].concat()).await;
    site.stop().await;
}

/// Brings each message once: a task that is left is not offered again.
#[derive(Debug, Clone, Default)]
struct Once {
    messages: Arc<Mutex<Vec<(QueueName, WorkerMessage)>>>,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl Queue for Once {
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        let mut messages = self.messages.lock().expect("messages");
        messages.push((queue.clone(), message.clone()));
        Ok(())
    }

    async fn fetch(
        &self,
        _: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        let fetched: Vec<_> = {
            let mut messages = self.messages.lock().expect("messages");
            let count = max.min(messages.len());
            messages.drain(..count).collect()
        };
        if fetched.is_empty() {
            let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        }
        let delivery = |(queue, message): (QueueName, WorkerMessage)| Delivery {
            tag: DeliveryTag(message.task.to_string()),
            queue,
            source: MessageSource::default(),
            is_first: true,
            message: Ok(message),
        };
        Ok(fetched.into_iter().map(delivery).collect())
    }

    async fn settle(&self, _: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        self.left.fetch_add(
            usize::from(matches!(settle, Settle::Nak(_))),
            Ordering::SeqCst,
        );
        Ok(())
    }
}

/// A permit for each task of this type that may end.
static MILL: Semaphore = Semaphore::const_new(0);
static MILLING: AtomicUsize = AtomicUsize::new(0);

struct Mill;

#[distributed_task(name = "Mill", queue = "mill", heavy)]
impl Mill {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn mill(_ctx: &StepContext) -> StepResult<u32> {
        MILLING.fetch_add(1, Ordering::SeqCst);
        MILL.acquire().await.expect("the gate").forget();
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test]
async fn room_that_gets_free_is_taken_by_a_deferred_task_at_once() {
    let mut site = Harness::embedded(Registry::new().with::<Mill>())
        .settings(|settings| (settings.heavy, settings.step_timeout) = (1, Duration::from_secs(60)))
        .start()
        .await;
    let queue = Once::default();
    site.engine.ports.queue = Arc::new(queue.clone());
    // Polling finds none of them either.
    let mut settings = HostSettings::for_all(&site.engine.registry, Host::Worker, 8);
    settings.unclaimed_for = Duration::from_secs(3600);
    let shutdown = CancelToken::new();
    let spawn: host::Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let serving = tokio::spawn(host::serve(
        site.engine.clone(),
        settings,
        shutdown.clone(),
        spawn,
    ));
    let tasks = submit(&site, "Mill", 6).await;
    eventually("one in the room, and tasks that are left", || async {
        let is_in = MILLING.load(Ordering::SeqCst) == 1;
        (is_in && queue.left.load(Ordering::SeqCst) >= 2).then_some(())
    })
    .await;
    MILL.add_permits(tasks.len());
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.assert_invariants(&tasks).await;
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.expect("it ends");
}

/// One start an hour: what is used up while there is no room is missing afterwards.
const HOURLY: Limit = Limit::named("hourly").rate(1, "1h");

/// A permit for each task that may leave the room.
static FIRING: Semaphore = Semaphore::const_new(0);
static GLAZING: Semaphore = Semaphore::const_new(0);

struct Fire;

#[distributed_task(name = "Fire", queue = "pottery", heavy)]
impl Fire {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn fire(_ctx: &StepContext) -> StepResult<u32> {
        FIRING.acquire().await.expect("the gate").forget();
        Ok(1)
    }

    fn respond() {}
}

struct Glaze;

#[distributed_task(name = "Glaze", queue = "pottery", heavy)]
impl Glaze {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn glaze(_ctx: &StepContext) -> StepResult<u32> {
        GLAZING.acquire().await.expect("the gate").forget();
        Ok(1)
    }

    fn respond() {}
}

struct Vase;

#[distributed_task(name = "Vase", queue = "pottery", timeout = "50m")]
impl Vase {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn draw() -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", heavy, limit = HOURLY, no_undo = "does nothing")]
    async fn bake(draw: &u32) -> StepResult<u32> {
        Ok(*draw)
    }

    fn respond() {}
}

struct Tile;

#[distributed_task(name = "Tile", queue = "pottery", timeout = "50m")]
impl Tile {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "writes scratch only")]
    async fn draw(ctx: &StepContext) -> StepResult<ScratchFile> {
        let draft = ctx.scratch("drawing").await?;
        std::fs::write(draft.path(), "tile").transient("writing")?;
        draft.seal().await
    }

    #[step(2, host = "worker", heavy, limit = HOURLY, no_undo = "does nothing")]
    async fn bake(draw: &ScratchFile) -> StepResult<u64> {
        Ok(draw.size_bytes)
    }

    fn respond() {}
}

/// `later` comes to its heavy step, which has one start an hour, while `first` has the room. Once there is room, it has that
/// start still.
async fn takes_no_start(registry: Registry, [first, later]: [&str; 2], leaves: &Semaphore) {
    let mut site = Harness::embedded(registry)
        .settings(|settings| (settings.heavy, settings.step_timeout) = (1, Duration::from_secs(60)))
        .start()
        .await;
    site.serve(4);
    let in_room = submit(&site, first, 1).await;
    let runs = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Running
    };
    site.all("in the room", &in_room, runs).await;
    let tasks = submit(&site, later, 1).await;
    let is_drawn = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Completed
    };
    site.all("at its heavy step", &tasks, is_drawn).await;
    leaves.add_permits(1);
    site.all_are(TaskStatus::Completed, &in_room).await;
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.assert_invariants(&[in_room, tasks].concat()).await;
    site.stop().await;
}

#[tokio::test]
async fn a_step_without_room_takes_no_start_of_a_rate() {
    let registry = Registry::new().with::<Fire>().with::<Vase>();
    takes_no_start(registry, ["Fire", "Vase"], &FIRING).await;
}

#[tokio::test]
async fn a_step_that_waits_in_its_turn_for_room_takes_no_start_of_a_rate() {
    let registry = Registry::new().with::<Glaze>().with::<Tile>();
    takes_no_start(registry, ["Glaze", "Tile"], &GLAZING).await;
}

/// Two heavy steps side by side: with one room the first runs first. The second has one start an hour.
struct Kiln;

#[distributed_task(name = "Kiln", queue = "pottery", timeout = "50m")]
impl Kiln {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", group = "kiln", heavy, no_undo = "does nothing")]
    async fn stack(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    #[step(
        2,
        host = "worker",
        group = "kiln",
        heavy,
        limit = HOURLY,
        no_undo = "does nothing"
    )]
    async fn bake(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test]
async fn a_claim_takes_no_start_of_a_rate_for_a_heavy_step_that_is_not_the_first() {
    let mut site = Harness::embedded(Registry::new().with::<Kiln>())
        .settings(|settings| (settings.heavy, settings.step_timeout) = (1, Duration::from_secs(60)))
        .start()
        .await;
    site.serve(1);
    let tasks = submit(&site, "Kiln", 1).await;
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.assert_invariants(&tasks).await;
    site.stop().await;
}
