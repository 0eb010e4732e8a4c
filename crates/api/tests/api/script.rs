//! Task types whose steps do what the request says, attempt by attempt, and one for each way to
//! wait.

use counterstep_macros::distributed_task;
use counterstep_steps::contracts::RetryPolicy;
use counterstep_steps::{
    AwaitSignal, BreakerPolicy, Classify, Probe, Registry, ScratchFile, Sleep, Sql, StepContext,
    StepError, StepResult, UndoResult, UploadMany, UploadedFile,
};
use counterstep_testkit::clock::work_for;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one attempt does.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    #[default]
    Ok,
    /// Fails for now.
    Busy,
    /// Fails permanently.
    Broken,
    /// Takes a few seconds, and fails for now.
    Slow,
    /// Goes on until it is told to stop.
    Hang,
}

/// What the attempts do, one by one; those after the last succeed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Script {
    make: Vec<Act>,
    unmake: Vec<Act>,
    finish: Vec<Act>,
    /// What a probe finds: `done`, `nothing`, or that it is unknown; `down`: it fails each time.
    probe: String,
    /// A task whose rows are to be spoiled.
    victim: String,
    skip: bool,
}

/// How long what is slow takes.
pub(crate) const SLOW: Duration = Duration::from_secs(3);

async fn act(ctx: &StepContext, script: &[Act]) -> StepResult<()> {
    let at = usize::try_from(ctx.attempt().0 - 1).expect("attempts count from one");
    match script.get(at).copied().unwrap_or_default() {
        Act::Ok => Ok(()),
        Act::Busy => Err(StepError::transient("busy")),
        Act::Broken => Err(StepError::permanent("broken")),
        Act::Slow => {
            work_for(ctx.task_id(), SLOW).await;
            Err(StepError::transient("slow"))
        }
        Act::Hang => {
            ctx.cancel().cancelled().await;
            Err(StepError::cancelled())
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Made(u32);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Finished(u32);

/// Long enough to be slept through.
pub(crate) const SOON: RetryPolicy = RetryPolicy::constant("2500ms").max_retries(1).jitter(false);
pub(crate) const AT_ONCE: RetryPolicy = RetryPolicy::constant("10ms").max_retries(1).jitter(false);

pub(crate) fn types(registry: Registry) -> Registry {
    registry
        .with::<Plain>()
        .with::<Patient>()
        .with::<Uploads>()
        .with::<Weighs>()
        .with::<LeavesIt>()
        .with::<Fragile>()
        .with::<Parks>()
        .with::<Careful>()
        .with::<Naps>()
        .with::<AsksFirst>()
        .with::<Behind>()
        .with::<Scratches>()
        .with::<Spoils>()
        .with::<Hides>()
}

/// Two steps on workers, the first with an undo.
pub(crate) struct Plain;

#[distributed_task(name = "Plain", queue = "plain", cancellable, max_recoveries = 1)]
impl Plain {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", retry = SOON, undo = unmake, undo_retry = SOON)]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    async fn unmake(ctx: &StepContext, req: &Script) -> UndoResult {
        act(ctx, &req.unmake).await
    }

    #[step(2, host = "worker", retry = SOON, no_undo = "it only looks", fallback = look_elsewhere, when = wanted)]
    async fn finish(ctx: &StepContext, req: &Script, _made: &Made) -> StepResult<Finished> {
        act(ctx, &req.finish).await.map(|()| Finished(2))
    }

    async fn look_elsewhere(ctx: &StepContext, req: &Script) -> StepResult<Finished> {
        act(ctx, &req.finish).await.map(|()| Finished(3))
    }

    fn wanted(req: &Script) -> bool {
        !req.skip
    }

    fn respond(make: &Made) -> u32 {
        make.0
    }
}

/// Longer than any test.
pub(crate) const MUCH_LATER: RetryPolicy = RetryPolicy::constant("1h").max_retries(1);

/// Waits between two attempts for longer than anybody looks.
pub(crate) struct Patient;

#[distributed_task(name = "Patient", queue = "patient", cancellable)]
impl Patient {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", retry = MUCH_LATER, undo = unmake)]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    async fn unmake() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = MUCH_LATER, no_undo = "it only looks")]
    async fn finish(ctx: &StepContext, req: &Script, _made: &Made) -> StepResult<Finished> {
        act(ctx, &req.finish).await.map(|()| Finished(2))
    }

    fn respond(finish: &Finished) -> u32 {
        finish.0
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Parcel {
    files: Vec<UploadedFile>,
}

/// An upload, then steps on the API, on a worker, and on the API again.
pub(crate) struct Uploads;

#[distributed_task(name = "Uploads", queue = "uploads", cancellable)]
impl Uploads {
    type Request = Parcel;
    type Response = u32;

    #[step(1, host = "api")]
    fn upload(req: &Parcel) -> UploadMany {
        UploadMany::to("incoming-files", &req.files).or_none()
    }

    #[step(2, host = "api", no_undo = "it only looks")]
    async fn weigh() -> StepResult<Made> {
        Ok(Made(1))
    }

    #[step(3, host = "worker", no_undo = "it only looks")]
    async fn measure(_made: &Made) -> StepResult<Finished> {
        Ok(Finished(2))
    }

    #[step(4, host = "api", no_undo = "it only looks")]
    async fn note(finished: &Finished) -> StepResult<u32> {
        Ok(finished.0)
    }

    fn respond(note: &u32) -> u32 {
        *note
    }
}

/// Begins on the API, with nothing to undo.
pub(crate) struct Weighs;

#[distributed_task(name = "Weighs", queue = "weighs", cancellable)]
impl Weighs {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "api", no_undo = "it only looks")]
    async fn weigh() -> StepResult<Made> {
        Ok(Made(1))
    }

    fn respond(weigh: &Made) -> u32 {
        weigh.0
    }
}

/// Leaves what was done when it gives up.
pub(crate) struct LeavesIt;

#[distributed_task(name = "LeavesIt", queue = "leaves", cancellable, max_recoveries = 0)]
impl LeavesIt {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", on_exhausted = "fail", no_undo = "it only looks")]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    fn respond(make: &Made) -> u32 {
        make.0
    }
}

/// Must not run twice: a lost host has it undone.
pub(crate) struct Fragile;

#[distributed_task(
    name = "Fragile",
    queue = "fragile",
    cancellable,
    on_lost = "fail",
    max_recoveries = 1
)]
impl Fragile {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = unmake, when = wanted)]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    async fn unmake(ctx: &StepContext, req: &Script) -> UndoResult {
        act(ctx, &req.unmake).await
    }

    #[step(2, host = "worker", no_undo = "it only looks")]
    async fn finish(ctx: &StepContext, req: &Script) -> StepResult<Finished> {
        act(ctx, &req.finish).await.map(|()| Finished(2))
    }

    fn wanted(req: &Script) -> bool {
        !req.skip
    }

    fn respond(finish: &Finished) -> u32 {
        finish.0
    }
}

/// Is parked when its second step gives up.
pub(crate) struct Parks;

#[distributed_task(name = "Parks", queue = "parks", cancellable)]
impl Parks {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = unmake)]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    async fn unmake(ctx: &StepContext, req: &Script) -> UndoResult {
        act(ctx, &req.unmake).await
    }

    #[step(2, host = "worker", on_exhausted = "dead_letter", undo = unfinish)]
    async fn finish(ctx: &StepContext, req: &Script, _made: &Made) -> StepResult<Finished> {
        act(ctx, &req.finish).await.map(|()| Finished(2))
    }

    async fn unfinish() -> UndoResult {
        Ok(())
    }

    fn respond(finish: &Finished) -> u32 {
        finish.0
    }
}

/// Asks before it decides on a step in doubt.
pub(crate) struct Careful;

#[distributed_task(name = "Careful", queue = "careful", cancellable)]
impl Careful {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = unmake, probe = look, probe_retry = SOON)]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    async fn look(req: &Script) -> StepResult<Probe<Made>> {
        Ok(match req.probe.as_str() {
            "done" => Probe::Done(Made(9)),
            "nothing" => Probe::NothingHappened,
            "down" => return Err(StepError::transient("the look-up is down")),
            _ => Probe::Unknown,
        })
    }

    async fn unmake() -> UndoResult {
        Ok(())
    }

    fn respond(make: &Made) -> u32 {
        make.0
    }
}

/// Sleeps for long before it does anything.
pub(crate) struct Naps;

#[distributed_task(name = "Naps", queue = "naps", cancellable)]
impl Naps {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker")]
    fn nap() -> Sleep {
        Sleep::for_("1h")
    }

    #[step(2, host = "worker", no_undo = "it only looks")]
    async fn make() -> StepResult<Made> {
        Ok(Made(1))
    }

    fn respond(make: &Made) -> u32 {
        make.0
    }
}

/// Waits for a signal, and for a second one after a step with an undo.
pub(crate) struct AsksFirst;

#[distributed_task(name = "AsksFirst", queue = "asks", cancellable)]
impl AsksFirst {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = unmake)]
    async fn make() -> StepResult<Made> {
        Ok(Made(1))
    }

    async fn unmake() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker")]
    fn first() -> AwaitSignal<u8> {
        AwaitSignal::within("1h")
    }

    #[step(3, host = "worker")]
    fn second() -> AwaitSignal<u16> {
        AwaitSignal::within("1h")
    }

    fn respond(first: &u8, second: &u16) -> u32 {
        u32::from(*first) + u32::from(*second)
    }
}

pub(crate) const DOWN: BreakerPolicy = BreakerPolicy::named("down")
    .after_failures(1)
    .open_for("1h");

/// Goes over a line that is down after one failure.
pub(crate) struct Behind;

#[distributed_task(name = "Behind", queue = "behind", cancellable)]
impl Behind {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", retry = AT_ONCE, breaker = DOWN, no_undo = "it only looks")]
    async fn make(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        act(ctx, &req.make).await.map(|()| Made(1))
    }

    fn respond(make: &Made) -> u32 {
        make.0
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Leaf(ScratchFile);

/// Makes a local file that two steps read.
pub(crate) struct Scratches;

#[distributed_task(name = "Scratches", queue = "scratches", cancellable)]
impl Scratches {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = burn)]
    async fn write(ctx: &StepContext) -> StepResult<Leaf> {
        let draft = ctx.scratch("leaf.txt").await?;
        std::fs::write(draft.path(), "words").transient("writing")?;
        Ok(Leaf(draft.seal().await?))
    }

    async fn burn() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = SOON, no_undo = "it only reads")]
    async fn read(ctx: &StepContext, req: &Script, leaf: &Leaf) -> StepResult<Made> {
        act(ctx, &req.make).await?;
        ctx.scratch_path(&leaf.0).await.map(|_| Made(1))
    }

    #[step(3, host = "worker", retry = SOON, no_undo = "it only reads")]
    async fn read_again(ctx: &StepContext, req: &Script, leaf: &Leaf) -> StepResult<Finished> {
        act(ctx, &req.finish).await?;
        ctx.scratch_path(&leaf.0).await.map(|_| Finished(2))
    }

    fn respond(read_again: &Finished) -> u32 {
        read_again.0
    }
}

/// Spoils the request of another task, as a bug or a hand in the database would; with anything to
/// make, it gives the row a form of a newer program instead.
pub(crate) struct Spoils;

#[distributed_task(name = "Spoils", queue = "spoils")]
impl Spoils {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "impossible")]
    async fn spoil(ctx: &StepContext, req: &Script) -> StepResult<Made> {
        let what = if req.make.is_empty() {
            "UPDATE journal SET data = '{' WHERE task = $1 AND rev = 1"
        } else {
            "UPDATE journal SET form = form + 1 WHERE task = $1 AND rev = 1"
        };
        ctx.in_transaction(Sql::new(what).bind(req.victim.as_str()).rows(1));
        Ok(Made(1))
    }

    fn respond(spoil: &Made) -> u32 {
        spoil.0
    }
}

/// Makes the worker registry unreadable, and the other documents read-only.
pub(crate) struct Hides;

#[distributed_task(name = "Hides", queue = "spoils")]
impl Hides {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "impossible")]
    async fn hide(ctx: &StepContext) -> StepResult<Made> {
        ctx.in_transaction(Sql::new("ALTER TABLE documents RENAME TO gone"));
        ctx.in_transaction(Sql::new(
            "CREATE VIEW documents AS SELECT kind, tenant, name, CASE kind WHEN 'worker' THEN json('no JSON') ELSE rev END AS rev,
               body, due_at, seen_at FROM gone",
        ));
        Ok(Made(1))
    }

    fn respond(hide: &Made) -> u32 {
        hide.0
    }
}
