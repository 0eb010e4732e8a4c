//! Whose the objects of an attempt are: a success keeps them, a probe finds that they are an
//! output, or a sweep takes them, and never two of these.

use crate::errand::{QUICK, only};
use crate::lost::lost_at;
use counterstep_contracts::{Attempt, Direction, Host, Outcome, StepNo, StepStatus, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::change::intents::{self, Intent};
use counterstep_kernel::ports::{Clock, JournalPage, Lane, Ports};
use counterstep_kernel::record::{Intention, TaskRecord};
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_reconciler::OrphanSettings;
use counterstep_reconciler::orphans::{self, Swept};
use counterstep_steps::contracts::FileName;
use counterstep_steps::{
    CancelToken, Probe, Sql, StepContext, StepError, StepResult, StoredFile, UndoResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use futures::StreamExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

async fn put(ctx: &StepContext) -> StepResult<StoredFile> {
    let body = futures::stream::once(async { Ok("minutes".into()) }).boxed();
    let name = FileName::parse("minutes").expect("a name");
    ctx.objects().put("files", &name, "text/plain", body).await
}

/// What the lost attempt has stored. A catalogue outside would know.
static FILED: Mutex<Option<StoredFile>> = Mutex::new(None);

#[derive(Serialize, Deserialize)]
struct Minutes {}

struct Filing;

#[distributed_task(cancellable)]
impl Filing {
    type Request = Minutes;
    type Response = String;

    #[step(1, host = "worker", probe = look, undo = remove)]
    async fn file(ctx: &StepContext) -> StepResult<StoredFile> {
        let stored = put(ctx).await?;
        *FILED.lock().expect("no holder of the lock panics") = Some(stored);
        std::future::pending().await
    }

    async fn look() -> StepResult<Probe<StoredFile>> {
        let filed = FILED.lock().expect("no holder of the lock panics").clone();
        Ok(filed.map_or(Probe::NothingHappened, Probe::Done))
    }

    async fn remove(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(file: &StoredFile) -> String {
        file.key.clone()
    }
}

/// Sweeps these, whatever a plan would say of them.
async fn sweep(task: &TestTask, condemn: Vec<Intent>) -> Swept {
    let mut plan = orphans::plan(&task.engine, 10).await.expect("the plan");
    plan.condemn = condemn;
    orphans::run(
        &task.engine,
        &OrphanSettings::default(),
        plan,
        &CancelToken::new(),
    )
    .await
    .expect("the sweep")
}

/// Whose the objects of each attempt are.
fn objects(record: &TaskRecord) -> Vec<Intention> {
    record.marks.iter().map(|mark| mark.objects).collect()
}

/// What sweeps have written into the journal.
async fn said_by_sweeps(task: &TestTask) -> Vec<String> {
    let page = JournalPage {
        task: Some(task.id.to_string()),
        after: None,
        limit: 1000,
        lane: Lane::People,
    };
    let rows = task
        .engine
        .ports
        .store
        .journal(&page)
        .await
        .expect("the rows");
    let by_a_sweep =
        |entries: &String| entries.contains("\"condemn\"") || entries.contains("\"swept\":");
    rows.into_iter()
        .map(|row| row.entries)
        .filter(by_a_sweep)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_probe_has_found_is_kept_from_the_sweep() {
    // The attempt must outlast the host, however busy the machine is.
    let harness = Harness::embedded(only::<Filing>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(60));
    let task = harness.submit(Form::new()).await;
    lost_at(&task.engine, task.id, || {
        FILED
            .lock()
            .expect("no holder of the lock panics")
            .is_some()
    })
    .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    assert_eq!(record.steps[0].attempts, Attempt(1), "it did not run again");
    assert_eq!(
        (objects(&record), record.task.sweep_at),
        (vec![Intention::Kept], None)
    );
    let intent = Intent {
        task: task.id,
        task_type: Some("Filing".to_owned()),
        of: Some((StepNo(1), Direction::Forward, Attempt(1))),
        prefix: task.history().await.attempts[0].prefix.clone(),
        overdue: Duration::ZERO,
    };
    assert_eq!(
        sweep(&task, vec![intent]).await,
        Swept::default(),
        "the output of a completed step"
    );
    assert_eq!(task.objects().await.len(), 1);
}

/// What the lost attempt of a meeting has stored.
static MET: Mutex<Option<StoredFile>> = Mutex::new(None);

/// Two steps side by side, both in doubt, and the probe of one gives up.
struct Meeting;

#[distributed_task(name = "Meeting", queue = "meetings")]
impl Meeting {
    type Request = Minutes;
    type Response = String;

    #[step(1, host = "worker", group = "day", probe = look, undo = remove)]
    async fn file(ctx: &StepContext) -> StepResult<StoredFile> {
        let stored = put(ctx).await?;
        *MET.lock().expect("no holder of the lock panics") = Some(stored);
        std::future::pending().await
    }

    async fn look() -> StepResult<Probe<StoredFile>> {
        let filed = MET.lock().expect("no holder of the lock panics").clone();
        ASKED.notify_one();
        Ok(filed.map_or(Probe::NothingHappened, Probe::Done))
    }

    async fn remove(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    #[step(2, host = "worker", group = "day", probe = ask, no_undo = "words")]
    async fn talk() -> StepResult<u8> {
        std::future::pending().await
    }

    async fn ask() -> StepResult<Probe<u8>> {
        ASKED.notified().await;
        // The other answer comes first.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Err(StepError::permanent("the minutes do not show it"))
    }

    fn respond(file: &StoredFile, talk: &u8) -> String {
        format!("{} {talk}", file.key)
    }
}

/// The probe of the other step has looked.
static ASKED: Notify = Notify::const_new();

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sweep_has_taken_is_not_kept_beside_a_probe_that_gives_up() {
    let harness = Harness::embedded(only::<Meeting>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(60));
    let task = harness.submit(Form::new()).await;
    let met = || MET.lock().expect("no holder of the lock panics").is_some();
    lost_at(&task.engine, task.id, met).await;
    task.clock.advance("1d");
    let overdue = intents::overdue(&task.record().await);
    assert_eq!(sweep(&task, overdue).await.objects, 1);
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let row = &task.record().await.steps[0];
    assert_eq!((row.status, &row.output), (StepStatus::InDoubt, &None));
    task.assert_invariants().await;
}

/// Its first attempt fails when it has stored its object.
struct Sorting;

#[distributed_task(name = "Sorting", queue = "sorting")]
impl Sorting {
    type Request = Minutes;
    type Response = String;

    #[step(1, host = "worker", retry = QUICK, undo = remove)]
    async fn sort(ctx: &StepContext) -> StepResult<StoredFile> {
        let stored = put(ctx).await?;
        if ctx.attempt() == Attempt(1) {
            Err(StepError::transient("out of order"))
        } else {
            Ok(stored)
        }
    }

    async fn remove(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(sort: &StoredFile) -> String {
        sort.key.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_attempt_has_stored_is_swept_and_what_the_next_one_kept_stays() {
    let task = Harness::embedded(only::<Sorting>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let (before, past) = (task.record().await, task.history().await);
    let last = before.marks.len() - 1;
    assert!(
        last >= 1
            && before.marks[..last]
                .iter()
                .all(|mark| mark.objects == Intention::Open),
        "{before:?}"
    );
    assert_eq!(objects(&before)[last], Intention::Kept);
    assert!(
        before
            .task
            .sweep_at
            .is_some_and(|at| at <= before.marks[0].sweep_at),
        "{before:?}"
    );
    assert!(task.objects().await.len() > 1);

    task.clock.advance("1m");
    let after = eventually("the last of the sweeps", || async {
        let plan = orphans::plan(&task.engine, 10).await.expect("the plan");
        orphans::run(
            &task.engine,
            &OrphanSettings::default(),
            plan,
            &CancelToken::new(),
        )
        .await
        .expect("the sweep");
        Some(task.record().await).filter(|record| record.task.sweep_at.is_none())
    });
    let after = after.await;
    assert!(
        after.marks[..last]
            .iter()
            .all(|mark| mark.objects == Intention::Swept),
        "{after:?}"
    );
    assert_eq!(objects(&after)[last], Intention::Kept);
    let [kept] = &task.objects().await[..] else {
        panic!("one object")
    };
    assert_eq!(
        after.steps[0]
            .output
            .as_ref()
            .map(|output| output["key"] == kept.key),
        Some(true)
    );
    // It stands in the journal, and nowhere else: the task has ended as it had.
    let said = said_by_sweeps(&task).await;
    assert!(
        said[0].contains(r#"{"swept":{"step":1,"attempt":1}}"#),
        "{said:?}"
    );
    let history = task.history().await;
    assert_eq!(
        (&history.audit, &history.attempts),
        (&past.audit, &past.attempts)
    );
    assert_eq!(history.changes.len(), past.changes.len() + said.len());
    assert_eq!(
        (after.task.updated_at, after.task.status),
        (before.task.updated_at, before.task.status)
    );
    task.assert_invariants().await;
    // Nothing is left for the next one.
    let plan = orphans::plan(&task.engine, 10).await.expect("the plan");
    assert!(
        plan.condemn.is_empty() && plan.unreadable.is_empty(),
        "{plan:?}"
    );
}

/// A clock whose timers never end: of a host that stands still while its step goes on.
#[derive(Debug)]
struct Still(Arc<dyn Clock>);

impl Clock for Still {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn unix_millis(&self) -> u64 {
        self.0.unix_millis()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Its first attempt has stored its object, and goes on when it is told to.
static GOES_ON: Notify = Notify::const_new();

struct Late;

#[distributed_task(name = "Late", queue = "late")]
impl Late {
    type Request = Minutes;
    type Response = String;

    #[step(1, host = "worker", retry = QUICK, undo = remove)]
    async fn file(ctx: &StepContext) -> StepResult<StoredFile> {
        let stored = put(ctx).await?;
        if ctx.attempt() == Attempt(1) {
            GOES_ON.notified().await;
        }
        ctx.in_transaction(
            Sql::new("INSERT INTO filed VALUES ($1)")
                .bind(i64::from(ctx.attempt().0))
                .rows(1),
        );
        Ok(stored)
    }

    async fn remove(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(file: &StoredFile) -> String {
        file.key.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_lease_ran_out_cannot_keep_what_a_sweep_has_condemned_meanwhile() {
    let task = Harness::embedded(only::<Late>()).submit(Form::new()).await;
    let database = task.database();
    let mut rows =
        SqliteConnection::establish(database.to_str().expect("UTF-8")).expect("the database");
    rows.batch_execute("PRAGMA busy_timeout = 10000; CREATE TABLE filed (attempt BIGINT NOT NULL)")
        .expect("a table");
    let clock = Arc::new(Still(task.engine.ports.clock.clone()));
    let mut settings = (*task.engine.settings).clone();
    let short = Duration::from_millis(100);
    (settings.step_timeout, settings.cancel_grace, settings.lease) = (short, short, short);
    let ports = Ports {
        clock,
        ..task.engine.ports.clone()
    };
    let owner = Engine::new(ports, task.engine.registry.clone(), settings, "owner");
    let id = task.id;
    let running =
        tokio::spawn(async move { turn(&owner, Host::Worker, id, &CancelToken::new()).await });

    let overdue = eventually("an attempt whose time is over", || async {
        let record = task.record().await;
        let is_stored = task.objects().await.len() == 1;
        Some(intents::overdue(&record)).filter(|overdue| is_stored && !overdue.is_empty())
    });
    let overdue = overdue.await;
    // A sweep finds it once the task is taken back. A listing of all objects finds it before that.
    let planned = orphans::plan(&task.engine, 10).await.expect("the plan");
    assert_eq!(planned.condemn, []);
    let before = task.record().await;
    let swept = sweep(&task, overdue).await;
    assert_eq!(
        (swept.prefixes, swept.objects, &swept.failed),
        (1, 1, &Vec::new())
    );
    let swept = task.record().await;
    assert_eq!(
        (objects(&swept), swept.task.rev),
        (vec![Intention::Swept], before.task.rev.next().next())
    );
    let said = said_by_sweeps(&task).await;
    assert_eq!(
        said,
        [
            r#"{"condemn":{"step":1,"attempt":1}}"#,
            r#"{"swept":{"step":1,"attempt":1}}"#
        ]
        .map(|what| format!(r#"{{"attempts":[{what}]}}"#))
    );

    // The step succeeds now. No other host has come, so its epoch is the task's.
    GOES_ON.notify_one();
    let ended = eventually("the end of the attempt", || async {
        task.history()
            .await
            .attempts
            .into_iter()
            .next()
            .filter(|attempt| attempt.outcome.is_some())
    });
    let ended = ended.await;
    assert_eq!(
        (ended.attempt, ended.outcome),
        (Attempt(1), Some(Outcome::Failed))
    );
    assert!(
        ended
            .error
            .as_ref()
            .is_some_and(|error| error.message.contains("condemned")),
        "{ended:?}"
    );
    running.abort();
    let _ = running.await;
    let refused = task.record().await;
    assert_eq!(
        (objects(&refused), refused.task.epoch),
        (vec![Intention::Swept], swept.task.epoch)
    );
    assert!(
        refused.steps[0].output.is_none() && refused.steps[0].status != StepStatus::Completed,
        "{refused:?}"
    );

    // Another attempt does it, and of the first nothing is there.
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    let last = i64::from(record.steps[0].attempts.0);
    assert_eq!(
        (objects(&record).first(), objects(&record).last()),
        (Some(&Intention::Swept), Some(&Intention::Kept))
    );
    assert!(last >= 2, "{record:?}");
    let filed: Vec<i64> = diesel::dsl::sql::<BigInt>("SELECT attempt FROM filed")
        .load(&mut rows)
        .expect("the rows");
    assert_eq!(filed, [last]);
    task.assert_no_orphans().await;
    task.assert_invariants().await;
}
