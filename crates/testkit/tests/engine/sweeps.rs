//! A sweep finds code that is wrong in one place: of each kind of step a type whose step repeats its effect,
//! forgets the effect of an attempt that gave no result, keeps its effect when it is undone, cannot be
//! undone twice, or not where it came to no effect. And it passes the same type whose code is right.

use crate::errand::QUICK;
use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::error::panic_message;
use counterstep_steps::ports::{ServiceAnswer, ServiceRequest};
use counterstep_steps::{
    AwaitSignal, AwaitTask, Classify, DistributedTask, HttpCall, Registry, ScratchFile, Sql, State,
    StepContext, StepResult, UndoResult,
};
use counterstep_testkit::sweep::{Surroundings, every_fault_amid};
use counterstep_testkit::{Form, Harness, TestTask};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the code of the struck step is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// It is right.
    Nowhere,
    /// Each attempt has the effect once more.
    Repeats,
    /// Its undo does nothing where the step gave no result.
    Forgets,
    /// Its undo does nothing.
    Keeps,
    /// Its undo panics at its second call.
    UndoneOnce,
    /// Its undo panics where no attempt came to the effect.
    NeedsEffect,
}

#[derive(Debug, Serialize, Deserialize)]
struct Anything {}

#[derive(Debug, Default)]
struct Books {
    /// How often by step.
    effects: BTreeMap<String, u32>,
    /// Those that have ever had one.
    begun: BTreeSet<String>,
    undone: BTreeSet<String>,
}

/// What stands outside of the engine.
#[derive(Debug, Clone)]
struct Outside {
    wrong: Wrong,
    books: Arc<Mutex<Books>>,
}

impl Outside {
    fn new(wrong: Wrong) -> Self {
        let books = Arc::default();
        Self { wrong, books }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self, step: &str) {
        let mut books = self.books();
        books.begun.insert(step.to_owned());
        let times = books.effects.entry(step.to_owned()).or_default();
        *times = match self.wrong {
            Wrong::Repeats => *times + 1,
            _ => 1,
        };
    }

    fn undo(&self, step: &str, has_result: bool) {
        let mut books = self.books();
        let again = !books.undone.insert(step.to_owned());
        match self.wrong {
            Wrong::Forgets if !has_result => {}
            Wrong::Keeps => {}
            Wrong::UndoneOnce if again => panic!("there is nothing left to undo"),
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
            "/book" => self.book(&step),
            path => self.undo(&step, path == "/undo"),
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
                rows <= 1 && times.iter().all(|times| *times == 1),
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
        struct $type;

        #[distributed_task(name = $name, cancellable)]
        impl $type {
            type Request = Anything;
            type Response = u8;

            #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK $($act)*)]
            async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
                outside.book(&ctx.step_key());
                Ok(1)
            }

            async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
                outside.undo(&ctx.step_key(), out.is_some());
                Ok(())
            }

            $($more)*

            #[step(2, host = "worker", no_undo = "no effect" $($tell)*)]
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
one_step!(Grouped, "Grouped", (, group = "both"), (, group = "both", retry = QUICK),);
one_step!(
    Falls,
    "Falls",
    (, fallback = otherwise),
    (),
    async fn otherwise(ctx: &StepContext, outside: &State<Outside>) -> StepResult<u8> {
        outside.book(&ctx.step_key());
        Ok(2)
    }
);

struct OnlyIf;

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
        outside.book(&ctx.step_key());
        Ok(1)
    }

    fn is_true(look: &bool) -> bool {
        *look
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
        outside.undo(&ctx.step_key(), out.is_some());
        Ok(())
    }

    fn respond(act: Option<&u8>) -> u8 {
        act.copied().unwrap_or(0)
    }
}

struct Waits;

#[distributed_task(name = "Waits", cancellable)]
impl Waits {
    type Request = Anything;
    type Response = bool;

    #[step(1, host = "worker", undo = back, undo_retry = QUICK)]
    fn act() -> AwaitSignal<bool> {
        AwaitSignal::within("1h")
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<bool>) -> UndoResult {
        outside.undo(&ctx.step_key(), out.is_some());
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

struct Scratches;

#[distributed_task(name = "Scratches", cancellable)]
impl Scratches {
    type Request = Anything;
    type Response = u64;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, outside: &State<Outside>) -> StepResult<ScratchFile> {
        outside.book(&ctx.step_key());
        let draft = ctx.scratch("note.txt").await?;
        std::fs::write(draft.path(), "note").transient("writing")?;
        draft.seal().await
    }

    async fn back(
        ctx: &StepContext,
        outside: &State<Outside>,
        out: Option<ScratchFile>,
    ) -> UndoResult {
        outside.undo(&ctx.step_key(), out.is_some());
        Ok(())
    }

    #[step(2, host = "worker", retry = QUICK, no_undo = "no effect")]
    async fn read(ctx: &StepContext, act: &ScratchFile) -> StepResult<u64> {
        let path = ctx.scratch_path(act).await?;
        Ok(std::fs::metadata(path).transient("reading")?.len())
    }

    fn respond(read: &u64) -> u64 {
        *read
    }
}

struct Calls;

#[distributed_task(name = "Calls", cancellable)]
impl Calls {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext, _outside: &State<Outside>) -> StepResult<u8> {
        let call = HttpCall::post("bank", "/book");
        ctx.call(call.json(&ctx.step_key())).await
    }

    async fn back(ctx: &StepContext, out: Option<u8>) -> UndoResult {
        let path = out.map_or("/undo-unknown", |_| "/undo");
        let call = HttpCall::<u8>::post("bank", path);
        ctx.call(call.json(&ctx.step_key())).await.map(drop)
    }

    fn respond(act: &u8) -> u8 {
        *act
    }
}

struct Writes;

#[distributed_task(name = "Writes", cancellable)]
impl Writes {
    type Request = Anything;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = back, undo_retry = QUICK)]
    async fn act(ctx: &StepContext) -> StepResult<u8> {
        ctx.in_transaction(Sql::new("INSERT INTO booked VALUES ($1)").bind(ctx.step_key()));
        Ok(1)
    }

    async fn back(ctx: &StepContext, outside: &State<Outside>, out: Option<u8>) -> UndoResult {
        // Without a result nothing was committed.
        let is_committed = out.is_some() || outside.wrong == Wrong::NeedsEffect;
        if is_committed && outside.wrong != Wrong::Keeps {
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

struct Parent;

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

async fn sweep<T: DistributedTask>(wrong: Wrong) -> Result<(), String> {
    let types = || match T::NAME {
        "Parent" => Registry::new().with::<T>().with::<Plain>(),
        _ => Registry::new().with::<T>(),
    };
    let form = || match T::NAME {
        "Waits" => Form::to::<T>().answer("act", true),
        _ => Form::to::<T>(),
    };
    let swept = every_fault_amid(Arc::new(Outside::new(wrong)), types, form);
    let swept = AssertUnwindSafe(swept).catch_unwind().await;
    swept.map_err(|panic| panic_message(panic.as_ref()).to_owned())
}

/// That the sweep passes the type where its code is right, and finds each of these mistakes.
async fn assert_found<T: DistributedTask>(mistakes: &[Wrong]) {
    if let Err(panic) = sweep::<T>(Wrong::Nowhere).await {
        panic!("the code is right: {panic}");
    }
    for wrong in mistakes {
        let Err(found) = sweep::<T>(*wrong).await else {
            panic!("{wrong:?} is not found");
        };
        let named = ["act", "effects of a task"]
            .iter()
            .any(|it| found.contains(it));
        assert!(named, "{wrong:?}: {found}");
    }
}

const ALL: [Wrong; 5] = [
    Wrong::Repeats,
    Wrong::Forgets,
    Wrong::Keeps,
    Wrong::UndoneOnce,
    Wrong::NeedsEffect,
];

macro_rules! found {
    ($($test:ident: $type:ty, $mistakes:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            assert_found::<$type>(&$mistakes).await;
        }
    )*};
}

found! {
    mistakes_of_a_plain_step_are_found: Plain, ALL;
    mistakes_of_a_step_that_is_parked_are_found: DeadLetter, ALL;
    mistakes_of_a_step_with_a_fallback_are_found: Falls, ALL;
    mistakes_of_a_step_in_a_group_are_found: Grouped, ALL;
    mistakes_of_a_step_with_a_condition_are_found: OnlyIf, ALL;
    mistakes_of_a_step_with_scratch_are_found: Scratches, ALL;
    mistakes_of_a_step_that_calls_a_service_are_found: Calls, ALL;
    mistakes_of_a_step_of_a_child_are_found: Parent, ALL;
    // It is undone because a later step fails, so it has given a result.
    mistakes_of_a_step_that_fails_without_undo_are_found: Fails, [Wrong::Repeats, Wrong::Keeps, Wrong::UndoneOnce];
    // A wait has no effect of its own, and a statement that was not committed has none.
    mistakes_of_the_undo_of_a_wait_are_found: Waits, [Wrong::UndoneOnce, Wrong::NeedsEffect];
    mistakes_of_a_step_with_statements_are_found: Writes, [Wrong::Keeps, Wrong::NeedsEffect];
}
