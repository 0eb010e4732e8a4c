//! Of each kind of step a type whose code is wrong where a test says so, and what stands outside of the engine.

use crate::errand::QUICK;
use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::ports::{ServiceAnswer, ServiceRequest};
use counterstep_steps::{
    AwaitSignal, AwaitTask, Classify, DistributedTask, HttpCall, ScratchFile, Sql, State,
    StepContext, StepResult, UndoResult,
};
use counterstep_testkit::sweep::Surroundings;
use counterstep_testkit::{Harness, TestTask};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the code of the struck step is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is right.
    Nowhere,
    /// Each attempt has the effect once more.
    Repeats,
    /// An attempt behind the first takes the effect for there.
    SkipsLater,
    /// Its undo does nothing where the step gave no result.
    Forgets,
    /// Its undo does nothing.
    Keeps,
    /// An attempt of its undo behind the first does nothing.
    KeepsLater,
    /// Its undo panics at its second call.
    UndoneOnce,
    /// The same where it has a result, and only there.
    ResultUndoneOnce,
    /// Its undo panics where no attempt came to the effect.
    NeedsEffect,
    /// It and its undo take a call without an answer for one that succeeded.
    TakesSilence,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Anything {}

#[derive(Debug, Default)]
pub(super) struct Books {
    /// How often by step.
    effects: BTreeMap<String, u32>,
    /// Those that have ever had one.
    begun: BTreeSet<String>,
    undone: BTreeSet<String>,
}

/// What stands outside of the engine.
#[derive(Debug, Clone)]
pub(super) struct Outside {
    wrong: Wrong,
    /// How many effects a task that has completed has.
    effects: usize,
    books: Arc<Mutex<Books>>,
}

impl Outside {
    pub(super) fn of<T: DistributedTask>(wrong: Wrong) -> Arc<Self> {
        // A wait has none.
        let effects = usize::from(T::NAME != "Waits");
        let books = Arc::default();
        Arc::new(Self {
            wrong,
            effects,
            books,
        })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    /// Whether this attempt does nothing, because it is not the first.
    fn skips(&self, ctx: &StepContext, wrong: Wrong) -> bool {
        self.wrong == wrong && ctx.attempt().0 > 1
    }

    fn book(&self, ctx: &StepContext) {
        if !self.skips(ctx, Wrong::SkipsLater) {
            self.book_of(&ctx.step_key());
        }
    }

    fn book_of(&self, step: &str) {
        let mut books = self.books();
        books.begun.insert(step.to_owned());
        let times = books.effects.entry(step.to_owned()).or_default();
        *times = match self.wrong {
            Wrong::Repeats => *times + 1,
            _ => 1,
        };
    }

    fn undo(&self, ctx: &StepContext, has_result: bool) {
        if !self.skips(ctx, Wrong::KeepsLater) {
            self.undo_of(&ctx.step_key(), has_result);
        }
    }

    fn undo_of(&self, step: &str, has_result: bool) {
        let mut books = self.books();
        let again = !books.undone.insert(step.to_owned());
        match self.wrong {
            Wrong::Forgets if !has_result => {}
            Wrong::Keeps => {}
            Wrong::UndoneOnce if again => panic!("there is nothing left to undo"),
            Wrong::ResultUndoneOnce if again && has_result => panic!("its result is undone"),
            Wrong::NeedsEffect if !books.begun.contains(step) => {
                panic!("there is nothing to undo")
            }
            _ => {
                books.effects.remove(step);
            }
        }
    }

    /// The service `bank`: the body names the step.
    fn answer(&self, request: &ServiceRequest) -> ServiceAnswer {
        let body = request.body.as_deref().unwrap_or_default();
        let step: String = serde_json::from_slice(body).expect("the name of the step");
        match request.path.as_str() {
            "/book" => self.book_of(&step),
            path => self.undo_of(&step, path == "/undo"),
        }
        ServiceAnswer::json(200, &json!(1))
    }
}

impl Surroundings for Outside {
    fn around(&self, harness: Harness) -> Harness {
        let bank = self.clone();
        harness
            .provide(self.clone())
            .service("bank", move |request| Ok(bank.answer(request)))
            .tables("CREATE TABLE booked (step TEXT NOT NULL)")
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        let tasks = task.rows("SELECT id, residue FROM tasks");
        let books = self.books();
        let is_of = |step: &str, row: &serde_json::Value| {
            step.starts_with(&format!("{}:", row["id"].as_str().expect("an id")))
        };
        let effects = books.effects.iter();
        let of_tasks = effects.filter(|(step, _)| tasks.iter().any(|row| is_of(step, row)));
        let times: Vec<u32> = of_tasks.map(|(_, times)| *times).collect();
        let rows = task.rows("SELECT step FROM booked").len();
        if status == TaskStatus::Completed {
            assert!(
                rows + times.len() == self.effects && times.iter().all(|times| *times == 1),
                "effects of a task that has completed: {times:?}, {rows} rows"
            );
        } else if tasks.iter().all(|row| row["residue"] == 0) {
            assert!(
                rows == 0 && times.is_empty(),
                "effects of a task that is {status}: {times:?}, {rows} rows"
            );
        }
    }
}

/// A type with the step that is struck, and one behind it: what their declarations have besides, and further functions.
macro_rules! one_step {
    ($type:ident, $name:tt, ($($act:tt)*), ($($tell:tt)*), $($more:tt)*) => {
        pub(in crate::sweeps) struct $type;

        #[distributed_task(name = $name, cancellable)]
        impl $type {
            type Request = Anything;
            type Response = u8;

            #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK $($act)*)]
            async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
                outside.book(ctx);
                Ok(1)
            }

            async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
                outside.undo(ctx, out.is_some());
                Ok(())
            }

            $($more)*

            #[step(9, host = "worker", no_undo = "no effect" $($tell)*)]
            async fn tell(_ctx: &StepContext) -> StepResult<u16> {
                Ok(2)
            }

            fn respond(act: &u8, _tell: &u16) -> u8 {
                *act
            }
        }
    };
}

one_step!(Plain, "Plain", (), (),);
one_step!(DeadLetter, "DeadLetter", (, on_exhausted = "dead_letter"), (),);
one_step!(Fails, "Fails", (, on_exhausted = "fail"), (),);
one_step!(
    Grouped,
    "Grouped",
    (, group = "both"),
    (),
    #[step(3, host = "worker", group = "both", retry = QUICK, no_undo = "no effect")]
    async fn beside(_ctx: &StepContext) -> StepResult<u32> {
        Ok(3)
    }
);
one_step!(
    Falls,
    "Falls",
    (, fallback = otherwise),
    (),
    async fn otherwise(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
        outside.book(ctx);
        Ok(2)
    }
);

pub(super) struct OnlyIf;

#[distributed_task(name = "OnlyIf", cancellable)]
impl OnlyIf {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker", no_undo = "no effect")]
    async fn look(_ctx: &StepContext) -> StepResult<bool> {
        Ok(true)
    }

    #[step(2, host = "worker", when = is_true, retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
        outside.book(ctx);
        Ok(1)
    }

    fn is_true(look: &bool) -> bool {
        *look
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
        outside.undo(ctx, out.is_some());
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "no effect")]
    async fn tell(_ctx: &StepContext) -> StepResult<u16> {
        Ok(2)
    }

    fn respond(act: Option<&u8>, _tell: &u16) -> u8 {
        act.copied().unwrap_or(0)
    }
}

pub(super) struct Waits;

#[distributed_task(name = "Waits", cancellable)]
impl Waits {
    type Request = Anything;
    type Response = bool;

    #[step(1, host = "worker", undo = back, undo_retry = QUICK)]
    fn act() -> AwaitSignal<bool> {
        AwaitSignal::within("1h")
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<bool>) -> UndoResult {
        outside.undo(ctx, out.is_some());
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "no effect")]
    async fn tell(_act: &bool) -> StepResult<u16> {
        Ok(2)
    }

    fn respond(act: &bool, _tell: &u16) -> bool {
        *act
    }
}

pub(super) struct Scratches;

#[distributed_task(name = "Scratches", cancellable)]
impl Scratches {
    type Request = Anything;
    type Response = u64;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<ScratchFile> {
        outside.book(ctx);
        let draft = ctx.scratch("note.txt").await?;
        std::fs::write(draft.path(), "note").transient("writing")?;
        draft.seal().await
    }

    async fn back(
        ctx: &StepContext,
        outside: &State<Outside>,
        out: Option<ScratchFile>,
    ) -> UndoResult {
        outside.undo(ctx, out.is_some());
        Ok(())
    }

    #[step(2, host = "worker", retry = QUICK, no_undo = "no effect")]
    async fn tell(ctx: &StepContext, act: &ScratchFile) -> StepResult<u64> {
        let path = ctx.scratch_path(act).await?;
        Ok(std::fs::metadata(path).transient("reading")?.len())
    }

    fn respond(tell: &u64) -> u64 {
        *tell
    }
}

pub(super) struct Calls;

#[distributed_task(name = "Calls", cancellable)]
impl Calls {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
        if outside.skips(ctx, Wrong::SkipsLater) {
            return Ok(1);
        }
        let call = HttpCall::post("bank", "/book");
        let answer = ctx.call(call.json(&ctx.step_key())).await;
        match outside.wrong {
            Wrong::TakesSilence => answer.or(Ok(1)),
            _ => answer,
        }
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
        if outside.skips(ctx, Wrong::KeepsLater) {
            return Ok(());
        }
        let path = out.map_or("/undo-unknown", |_| "/undo");
        let call = HttpCall::<u8>::post("bank", path);
        let answer = ctx.call(call.json(&ctx.step_key())).await.map(drop);
        match outside.wrong {
            Wrong::TakesSilence => Ok(()),
            _ => answer,
        }
    }

    #[step(2, host = "worker", no_undo = "no effect")]
    async fn tell(_act: &u8) -> StepResult<u16> {
        Ok(2)
    }

    fn respond(act: &u8, _tell: &u16) -> u8 {
        *act
    }
}

pub(super) struct Writes;

#[distributed_task(name = "Writes", cancellable)]
impl Writes {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
        if !outside.skips(ctx, Wrong::SkipsLater) {
            ctx.in_transaction(Sql::new("INSERT INTO booked VALUES ($1)").bind(ctx.step_key()));
        }
        Ok(1)
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
        // Without a result nothing was committed.
        let is_committed = out.is_some() || outside.wrong == Wrong::NeedsEffect;
        let keeps = outside.wrong == Wrong::Keeps || outside.skips(ctx, Wrong::KeepsLater);
        if is_committed && !keeps {
            ctx.in_transaction(Sql::new("DELETE FROM booked").rows(1));
        }
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "no effect")]
    async fn tell(_act: &u8) -> StepResult<u16> {
        Ok(2)
    }

    fn respond(act: &u8, _tell: &u16) -> u8 {
        *act
    }
}

pub(super) struct Parent;

#[distributed_task(name = "Parent", cancellable)]
impl Parent {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker")]
    fn plain() -> AwaitTask<Plain> {
        AwaitTask::of(&Anything {})
    }

    #[step(2, host = "worker", no_undo = "no effect")]
    async fn tell(_plain: &u8) -> StepResult<u16> {
        Ok(2)
    }

    fn respond(plain: &u8, _tell: &u16) -> u8 {
        *plain
    }
}
