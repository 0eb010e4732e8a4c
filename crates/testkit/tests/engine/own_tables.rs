//! Steps that write to tables of their own, together with their outcome: exactly once, whatever
//! strikes.

use crate::errand::{QUICK, only};
use counterstep_contracts::TaskStatus;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{Classify, Probe, ScratchFile, Sql, StepContext, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, TestTask, sweep};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Purchase {
    /// More than there is: the step is refused.
    too_many: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sold {
    pieces: i64,
}

struct Sale;

#[distributed_task(name = "Sale", queue = "sale")]
impl Sale {
    type Request = Purchase;
    type Response = i64;

    #[step(1, host = "worker", retry = QUICK, no_undo = "the table and its stock are part of the shop")]
    async fn set_up(ctx: &StepContext) -> StepResult<String> {
        ctx.in_transaction(Sql::new(
            "CREATE TABLE stock (pieces BIGINT NOT NULL CHECK (pieces >= 0))",
        ));
        ctx.in_transaction(Sql::new("CREATE TABLE sales (effect TEXT, attempt BIGINT)"));
        ctx.in_transaction(
            Sql::new("INSERT INTO stock VALUES ($1)")
                .bind(10_i64)
                .rows(1),
        );
        Ok("shop".to_owned())
    }

    #[step(2, host = "worker", retry = QUICK, undo = take_back)]
    async fn sell(ctx: &StepContext, req: &Purchase) -> StepResult<Sold> {
        let pieces = if req.too_many { 11 } else { 3 };
        ctx.in_transaction(
            Sql::new("UPDATE stock SET pieces = pieces - $1")
                .bind(pieces)
                .rows(1),
        );
        let attempt = i64::from(ctx.attempt().0);
        ctx.in_transaction(
            Sql::new("INSERT INTO sales VALUES ($1, $2)")
                .bind(ctx.effect_key())
                .bind(attempt),
        );
        Ok(Sold { pieces })
    }

    async fn take_back(ctx: &StepContext, sold: Option<Sold>) -> UndoResult {
        // Without an output nothing was committed, so nothing was sold.
        if let Some(sold) = sold {
            ctx.in_transaction(
                Sql::new("UPDATE stock SET pieces = pieces + $1")
                    .bind(sold.pieces)
                    .rows(1),
            );
            ctx.in_transaction(Sql::new("DELETE FROM sales").rows(1));
        }
        Ok(())
    }

    #[step(3, host = "worker", retry = QUICK, no_undo = "no effect")]
    async fn announce(_sold: &Sold) -> StepResult<String> {
        Ok("sold".to_owned())
    }

    fn respond(sold: &Sold) -> i64 {
        sold.pieces
    }
}

struct Pretender;

#[distributed_task(name = "Pretender", queue = "sale")]
impl Pretender {
    type Request = Purchase;
    type Response = i64;

    #[step(1, host = "worker")]
    #[pure]
    async fn claims_to_be_pure(ctx: &StepContext) -> StepResult<i64> {
        ctx.in_transaction(Sql::new("CREATE TABLE pretended (x BIGINT)"));
        Ok(1)
    }

    fn respond(claims_to_be_pure: &i64) -> i64 {
        *claims_to_be_pure
    }
}

struct Leaves;

#[distributed_task(name = "Leaves", queue = "sale")]
impl Leaves {
    type Request = Purchase;
    type Response = i64;

    #[step(1, host = "worker", no_undo = "nothing stays")]
    async fn makes_a_file(ctx: &StepContext) -> StepResult<ScratchFile> {
        ctx.in_transaction(Sql::new("CREATE TABLE left_over (x BIGINT)"));
        let draft = ctx.scratch("note.txt").await?;
        std::fs::write(draft.path(), "note").transient("writing")?;
        draft.seal().await
    }

    #[step(2, host = "worker", no_undo = "it only reads")]
    async fn reads_it(_makes_a_file: &ScratchFile) -> StepResult<i64> {
        Ok(1)
    }

    fn respond(reads_it: &i64) -> i64 {
        *reads_it
    }
}

struct Asks;

#[distributed_task(name = "Asks", queue = "sale")]
impl Asks {
    type Request = Purchase;
    type Response = i64;

    #[step(1, host = "worker", no_undo = "nothing stays", probe = look)]
    async fn writes(ctx: &StepContext) -> StepResult<i64> {
        ctx.in_transaction(Sql::new("CREATE TABLE asked (x BIGINT)"));
        Ok(1)
    }

    async fn look() -> StepResult<Probe<i64>> {
        Ok(Probe::Done(1))
    }

    fn respond(writes: &i64) -> i64 {
        *writes
    }
}

/// What is in stock, and how many sales there were.
fn books(task: &TestTask) -> (i64, i64) {
    let path = task.database();
    let mut connection =
        SqliteConnection::establish(path.to_str().expect("UTF-8")).expect("the database");
    let mut one = |text: &str| {
        let number = diesel::dsl::sql::<BigInt>(text);
        diesel::select(number)
            .get_result::<i64>(&mut connection)
            .expect("a number")
    };
    (
        one("(SELECT pieces FROM stock)"),
        one("(SELECT count(*) FROM sales)"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_writes_is_there_once_however_often_it_runs() {
    for kind in [
        FaultKind::FailTransiently,
        FaultKind::Panic,
        FaultKind::Hang,
    ] {
        let harness =
            Harness::embedded(only::<Sale>()).fault(Fault::at("sell", kind).on_attempt(1));
        let harness = harness.settings(|settings| {
            settings.longest_attempt = Some(std::time::Duration::from_millis(500))
        });
        let task = harness.submit(Form::new()).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Completed, "{kind:?}");
        assert_eq!(task.record().await.steps[1].attempts.0, 2, "{kind:?}");
        assert_eq!(books(&task), (7, 1), "{kind:?}");
    }
    let task = Harness::embedded(only::<Sale>())
        .crash_at("sell")
        .submit(Form::new())
        .await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "a lost host"
    );
    assert_eq!(books(&task), (7, 1), "a lost host");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_takes_it_back_once() {
    for attempt in 0..3 {
        let mut harness = Harness::embedded(only::<Sale>()).fail_at("announce");
        for n in 1..=attempt {
            harness = harness.fault(
                Fault::at("sell", FaultKind::FailTransiently)
                    .in_undo()
                    .on_attempt(n),
            );
        }
        let task = harness.submit(Form::new()).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        assert_eq!(
            books(&task),
            (10, 0),
            "after {attempt} failures of the undo"
        );
        task.assert_invariants().await;
    }
    let harness = Harness::embedded(only::<Sale>())
        .fail_at("announce")
        .crash_in_undo_of("sell");
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(books(&task), (10, 0), "after a host was lost in the undo");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_fails_the_step_for_good_and_nothing_of_it_is_there() {
    let form = Form::new().field("too_many", true);
    let task = Harness::embedded(only::<Sale>()).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(books(&task), (10, 0));
    let record = task.record().await;
    assert_eq!(
        record.steps[1].attempts.0, 1,
        "a broken constraint is not tried again"
    );
    let failure = record.task.failure.expect("a failure");
    assert!(
        failure.message.contains("UPDATE stock SET pieces") && failure.class == "permanent",
        "{failure:?}"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_be_written_twice_or_not_at_all_is_refused() {
    for (task, said) in [
        (
            Harness::embedded(only::<Leaves>())
                .submit(Form::new())
                .await,
            "makes no scratch file",
        ),
        (
            Harness::embedded(only::<Asks>()).submit(Form::new()).await,
            "has no probe",
        ),
    ] {
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed, "{said}");
        let failure = task.record().await.task.failure.expect("a failure");
        assert!(
            failure.message.contains(said) && failure.class == "permanent",
            "{failure:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_step_must_not_write() {
    let task = Harness::embedded(only::<Pretender>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert!(failure.message.contains("is not pure"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_comes_out_right() {
    sweep::every_fault(only::<Sale>, Form::new).await;
}
