//! Many lost tasks on PostgreSQL, and several reconcilers at once: each task is taken back once.

use crate::postgres;
use crate::suite::chain::check;
use crate::suite::{LIMIT, eventually};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::{Host, Rev, StepStatus, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{JournalPage, Lane, Lost, StoreError, TaskHead};
use counterstep_kernel::record::load;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::webhooks::alerts;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::audit::{Damage, Part, Scope};
use counterstep_reconciler::recovery::{self, Recover, Recovered};
use counterstep_reconciler::redispatch::{self, RedispatchPlan};
use counterstep_steps::times::DbTime;
use counterstep_steps::{CancelToken, Registry, Sql, StepContext, StepError, StepResult};
use counterstep_testkit::{Form, form};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RECONCILERS: usize = 5;

/// How much a reconciler plans at a time.
const PLAN: u32 = 1_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Nothing {}

struct Lasts;

#[distributed_task(name = "Lasts", queue = "lasts", cancellable)]
impl Lasts {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it only waits")]
    async fn wait(ctx: &StepContext) -> StepResult<u32> {
        ctx.cancel().cancelled().await;
        Err(StepError::cancelled())
    }

    fn respond(wait: &u32) -> u32 {
        *wait
    }
}

async fn engine(url: &str, role: &str) -> (Engine, TempDir) {
    let embedded = crate::embedded::fixture().await;
    let store = postgres::open(url, postgres::options()).await;
    let ports = counterstep_kernel::ports::Ports {
        store,
        ..embedded.ports
    };
    let settings = EngineSettings {
        lease: Duration::from_secs(1),
        alerts: true,
        ..EngineSettings::default()
    };
    (
        Engine::new(
            ports,
            Arc::new(Registry::new().with::<Lasts>()),
            settings,
            role,
        ),
        embedded.folder,
    )
}

/// Statements in a change of some task, which is the way to the database that this test has.
async fn execute(engine: &Engine, task: TaskId, statements: Vec<Sql>) {
    let record = engine.ports.store.load(task).await.unwrap().unwrap();
    let mut change = crate::suite::changes::after(&record);
    change.sql = statements;
    let change = change.with_journal(Some(&record), "test");
    engine
        .ports
        .store
        .commit(crate::suite::changes::free(&record), change.clone())
        .await
        .unwrap();
}

/// `count` tasks in the middle of their step, of a host that is gone. The first of them is another one's
/// template, and only a handle on the database.
async fn lost(engine: &Engine, count: i64) -> TaskId {
    let template = form::submit(engine, Form::new()).await;
    let doomed = tokio::spawn({
        let engine = engine.clone();
        async move { turn(&engine, Host::Worker, template, &CancelToken::new()).await }
    });
    eventually("a running step", || async {
        let record = engine.ports.store.load(template).await.unwrap().unwrap();
        (record.steps[0].status == StepStatus::Running).then_some(())
    })
    .await;
    doomed.abort();
    let _ = doomed.await;
    let copied = |text| Sql::new(text).bind(template.to_string());
    let statements = vec![
        copied(
            "INSERT INTO tasks SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).* \
             FROM tasks t, generate_series(1, $2) WHERE t.id = $1::uuid",
        )
        .bind(count),
        copied(
            "INSERT INTO journal (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal) \
             SELECT t.id, j.rev, j.epoch, j.at, j.change_id, j.actor, j.form, j.entries, j.data, j.link, j.seal \
             FROM journal j, tasks t WHERE j.task = $1::uuid AND t.id <> j.task",
        ),
        // Out of the way.
        copied(
            "UPDATE tasks SET lease_owner = NULL, lease_expires_at = NULL, status = 'completed' WHERE id = $1::uuid",
        ),
    ];
    execute(engine, template, statements).await;
    // All have the lease of the one that they were copied from.
    eventually("lost tasks", || async {
        (!recovery::plan(engine, Lost::default(), 1)
            .await
            .expect("a plan")
            .is_empty())
        .then_some(())
    })
    .await;
    template
}

/// Passes until there is nothing to take back.
async fn reconcile(engine: &Engine) -> Recovered {
    let mut all = Recovered::default();
    let until = Instant::now() + LIMIT * 5;
    loop {
        let plan = recovery::plan(engine, Lost::default(), PLAN)
            .await
            .expect("a plan");
        if plan.is_empty() {
            return all;
        }
        let some = recovery::run(engine, plan, &CancelToken::new()).await;
        all.taken_back.extend(some.taken_back);
        all.quarantined.extend(some.quarantined);
        all.failed.extend(some.failed);
        assert!(
            Instant::now() < until,
            "it does not come to an end: {} left over",
            all.moved_on.len()
        );
    }
}

async fn reconcile_all(url: &str) -> (Vec<Recovered>, Duration) {
    let mut engines = Vec::new();
    for _ in 0..RECONCILERS {
        engines.push(engine(url, "reconciler").await);
    }
    let began = Instant::now();
    let all = join_all(engines.iter().map(|(engine, _)| reconcile(engine))).await;
    (all, began.elapsed())
}

/// Each was taken back once, by one of them.
async fn assert_each_once(first: &Engine, template: TaskId, all: &[Recovered], count: usize) {
    let taken: Vec<_> = all.iter().flat_map(|done| &done.taken_back).collect();
    assert_eq!(
        taken.iter().collect::<BTreeSet<_>>().len(),
        taken.len(),
        "a task was taken back twice"
    );
    assert_eq!(taken.len(), count);
    assert!(
        all.iter().all(|done| done.failed.is_empty()),
        "{:?}",
        all.iter().map(|done| &done.failed).collect::<Vec<_>>()
    );
    let rows = u64::try_from(count).expect("a count");
    let once = "UPDATE tasks SET residue = residue WHERE status = 'dispatched' AND recovery_attempts = 1 AND epoch = 2";
    let written = r#"UPDATE journal SET actor = actor WHERE entries LIKE '%"event":"taken_back"%'"#;
    execute(
        first,
        template,
        vec![Sql::new(once).rows(rows), Sql::new(written).rows(rows)],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_lost_tasks_are_each_taken_back_once_by_five_reconcilers() {
    const COUNT: usize = 10_000;
    let url = postgres::database().await;
    let (first, _folder) = engine(&url, "worker").await;
    let template = lost(&first, COUNT as i64).await;
    let (all, took) = reconcile_all(&url).await;
    assert_each_once(&first, template, &all, COUNT).await;
    let shares: Vec<_> = all.iter().map(|done| done.taken_back.len()).collect();
    println!("{COUNT} lost tasks: {took:?}, shares {shares:?}");
    assert!(
        shares.iter().all(|share| *share > 0),
        "one did nothing: {shares:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unreadable_task_among_a_thousand_stops_nobody() {
    const COUNT: usize = 1_000;
    let url = postgres::database().await;
    let (first, _folder) = engine(&url, "worker").await;
    let template = lost(&first, COUNT as i64).await;
    let victim = recovery::plan(&first, Lost::default(), 1)
        .await
        .expect("a plan");
    let [Recover::TakeBack(victim)] = victim[..] else {
        panic!("{victim:?}")
    };
    let spoil = Sql::new("UPDATE journal SET data = '{' WHERE task = $1::uuid AND rev = 1")
        .bind(victim.to_string())
        .rows(1);
    execute(&first, template, vec![spoil]).await;

    let (all, _) = reconcile_all(&url).await;
    assert_each_once(&first, template, &all, COUNT - 1).await;
    let parked: Vec<_> = all.iter().flat_map(|done| &done.quarantined).collect();
    assert_eq!(parked, [&victim]);
    let record = load::read(&first, victim)
        .await
        .unwrap()
        .expect("it is shown");
    assert_eq!(record.task.status, TaskStatus::DeadLettered);
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.class, "unreadable");
    assert!(
        failure.message.contains("row 1 of the journal"),
        "{failure:?}"
    );
    let store = &first.ports.store;
    let [alert] = &alerts::list(store).await.expect("a list")[..] else {
        panic!("one alert")
    };
    assert_eq!(
        (alert.event, alert.data.example),
        (AlertEvent::Quarantined, Some(victim))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_journal_is_parked_where_it_would_be_offered_again() {
    let url = postgres::database().await;
    let (engine, _folder) = engine(&url, "reconciler").await;
    let other = form::submit(&engine, Form::new()).await;
    let task = form::submit(&engine, Form::new()).await;
    let spoil = Sql::new("DELETE FROM journal WHERE task = $1::uuid").bind(task.to_string());
    execute(&engine, other, vec![spoil.rows(1)]).await;
    let due = TaskHead {
        task,
        tenant: Tenant::default(),
        task_type: "Form".to_owned(),
        version: Some(1),
        status: Some(TaskStatus::Dispatched),
        rev: Rev(0),
        since: DbTime(0),
    };
    let plan = RedispatchPlan {
        offer: vec![due],
        ..RedispatchPlan::default()
    };
    let done = redispatch::run(&engine, plan, Duration::ZERO, &CancelToken::new()).await;
    assert_eq!((done.failed, done.moved_on), (vec![], vec![task]));
    let record = load::read(&engine, task).await.unwrap();
    let record = record.expect("it is shown");
    assert_eq!(record.task.status, TaskStatus::DeadLettered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_steps_are_not_the_declared_ones_is_parked_and_shown_with_those() {
    let url = postgres::database().await;
    let (first, _folder) = engine(&url, "worker").await;
    let template = lost(&first, 1).await;
    let plan = recovery::plan(&first, Lost::default(), 1)
        .await
        .expect("a plan");
    let [Recover::TakeBack(task)] = plan[..] else {
        panic!("{plan:?}")
    };
    let spoil = Sql::new(
        "UPDATE journal SET entries = replace(replace(entries, '\"no\":1', '\"no\":7'), '\"name\":\"wait\"', '\"name\":\"other\"')
         WHERE task = $1::uuid AND rev = 1",
    );
    let spoil = spoil.bind(task.to_string()).rows(1);
    execute(&first, template, vec![spoil]).await;
    assert_eq!(
        recovery::run(&first, plan, &CancelToken::new())
            .await
            .quarantined,
        [task]
    );
    let record = load::read(&first, task)
        .await
        .unwrap()
        .expect("it is shown");
    assert_eq!(record.task.status, TaskStatus::DeadLettered);
    assert_eq!(
        record
            .steps
            .iter()
            .map(|row| row.name.as_str())
            .collect::<Vec<_>>(),
        ["wait"]
    );
    let failure = record.task.failure.expect("a failure");
    assert!(failure.message.contains("7 other"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_of_a_task_that_cannot_be_read_goes_on_from_what_stands_in_its_row() {
    let url = postgres::database().await;
    let (engine, _folder) = engine(&url, "worker").await;
    let store = &engine.ports.store;
    for (spoil, is_found) in [
        (
            "UPDATE tasks SET waiting = 'for godot' WHERE id = $1::uuid",
            false,
        ),
        (
            r"UPDATE tasks SET waiting = 'for godot', audit_seal = '\x00' WHERE id = $1::uuid",
            true,
        ),
    ] {
        let task = form::submit(&engine, Form::new()).await;
        execute(
            &engine,
            task,
            vec![Sql::new(spoil).bind(task.to_string()).rows(1)],
        )
        .await;
        turn(&engine, Host::Worker, task, &CancelToken::new()).await;
        let last = store
            .history(task)
            .await
            .unwrap()
            .audit
            .pop()
            .expect("an entry")
            .entry;
        assert_eq!(
            (last.event.as_str(), last.to),
            ("quarantined", TaskStatus::DeadLettered)
        );
        let scope = Scope {
            task: Some(task),
            ..Scope::default()
        };
        let found = check(store, &scope).await.1;
        // A spoiled end of the chain shows at the row that had to go on from it.
        let page = JournalPage {
            task: Some(task.to_string()),
            after: None,
            limit: 9,
            lane: Lane::People,
        };
        let rev = store
            .journal(&page)
            .await
            .unwrap()
            .pop()
            .expect("a row")
            .rev;
        let expected: Vec<_> = is_found
            .then_some((Some(rev), Damage::Changed(Part::Text)))
            .into_iter()
            .collect();
        assert_eq!(
            found
                .iter()
                .map(|one| (one.rev, one.damage))
                .collect::<Vec<_>>(),
            expected,
            "{found:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_newer_program_is_neither_run_nor_parked_and_is_run_again_by_one_that_can_read_it()
 {
    let url = postgres::database().await;
    let (engine, _folder) = engine(&url, "worker").await;
    let template = lost(&engine, 1).await;
    let plan = recovery::plan(&engine, Lost::default(), 1)
        .await
        .expect("a plan");
    let [Recover::TakeBack(taken)] = plan[..] else {
        panic!("{plan:?}")
    };
    let fresh = form::submit(&engine, Form::new()).await;
    let newer_by = |forms: i64| {
        let text = "UPDATE journal SET form = (form + $3)::integer WHERE task IN ($1::uuid, $2::uuid) AND rev = 1";
        vec![
            Sql::new(text)
                .bind(taken.to_string())
                .bind(fresh.to_string())
                .bind(forms)
                .rows(2),
        ]
    };
    execute(&engine, template, newer_by(1)).await;
    let run = async |task| turn(&engine, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(run(fresh).await, TurnEnd::UnknownType);
    let recovered = recovery::run(&engine, plan.clone(), &CancelToken::new()).await;
    assert_eq!(
        recovered,
        Recovered {
            unknown: vec![taken],
            ..Recovered::default()
        }
    );
    for task in [taken, fresh] {
        let read = load::read(&engine, task).await;
        assert!(matches!(read, Err(StoreError::Unsupported(_))), "{read:?}");
    }

    execute(&engine, template, newer_by(-1)).await;
    assert_eq!(
        load::read(&engine, fresh)
            .await
            .unwrap()
            .unwrap()
            .task
            .status,
        TaskStatus::Dispatched
    );
    // A hold keeps the task from other reconcilers for a while; this one asks without it.
    let record = load::read(&engine, taken).await.unwrap().unwrap();
    assert!(
        record.lease_has_expired() && record.task.status == TaskStatus::Running,
        "{record:?}"
    );
}

/// Not a test of anything:
/// `cargo test --workspace --all-features --release --test adapters -- --ignored --nocapture sweep_grows`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: what a sweep of lost tasks costs"]
async fn how_the_cost_of_a_sweep_grows() {
    for count in [1_000, 2_000, 5_000, 10_000] {
        let url = postgres::database().await;
        let (first, _folder) = engine(&url, "worker").await;
        lost(&first, count).await;
        drop(first);
        // Of the whole server's counters, which each connection writes when it ends.
        let beside = postgres::raw(&url).await;
        let committed = async || {
            eventually("the end of all other connections", || async {
                let others =
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
                (postgres::number(&beside, others).await == 1).then_some(())
            })
            .await;
            let all = "SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = current_database()";
            postgres::number(&beside, all).await
        };
        let before = committed().await;
        let (all, took) = reconcile_all(&url).await;
        let transactions = committed().await - before;
        let taken: usize = all.iter().map(|done| done.taken_back.len()).sum();
        let each = transactions as f64 / taken as f64;
        println!(
            "{count}: {taken} taken back by {RECONCILERS} reconcilers in {took:?}, {each:.3} transactions each"
        );
    }
}
