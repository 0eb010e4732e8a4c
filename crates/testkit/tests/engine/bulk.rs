//! Parked tasks by cause, and operations on many of them: redriven from where they stood, stopped in the
//! middle, and taken over from an executor that ended.

mod above;
mod left;
mod paced;

use crate::errand::only;
use counterstep_contracts::SettledAs;
use counterstep_contracts::bulk::{BulkAction, BulkStatus, BulkView};
use counterstep_contracts::{Host, TaskId, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::client::{self, RunAgain};
use counterstep_kernel::dead_letters::{Selection, groups};
use counterstep_kernel::operator::{self, Retrial};
use counterstep_kernel::ports::{DocumentKind, DocumentQuery, FailureFilter, TaskLine, TaskQuery};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, State, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A bank that is down at first, and how often its steps have started.
#[derive(Clone, Default)]
struct Bank(Arc<(AtomicBool, AtomicU32, AtomicU32)>);

impl Bank {
    fn is_up(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    fn repair(&self) {
        self.0.0.store(true, Ordering::SeqCst);
    }

    fn starts(&self) -> (u32, u32) {
        let (_, reserved, charged) = &*self.0;
        (
            reserved.load(Ordering::SeqCst),
            charged.load(Ordering::SeqCst),
        )
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Charge {
    cause: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reserved(u32);

struct ChargeCard;

#[distributed_task(name = "ChargeCard", queue = "cards", cancellable)]
impl ChargeCard {
    type Request = Charge;
    type Response = u32;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(bank: &State<Bank>) -> StepResult<Reserved> {
        Ok(Reserved(bank.0.1.fetch_add(1, Ordering::SeqCst)))
    }

    async fn release() -> UndoResult {
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        on_exhausted = "dead_letter",
        no_undo = "the bank books nothing"
    )]
    async fn charge(
        ctx: &StepContext,
        req: &Charge,
        _reserved: &Reserved,
        bank: &State<Bank>,
    ) -> StepResult<u32> {
        let count = bank.0.2.fetch_add(1, Ordering::SeqCst);
        if bank.is_up() {
            return Ok(count);
        }
        let id = ctx.task_id();
        Err(StepError::permanent(match req.cause {
            0 => format!("the bank refused payment {id} after {count}ms"),
            1 => format!("no account 'acme-{count}' for task {id}"),
            _ => format!("connection {count:08x} to 10.0.{}.7 was lost", count % 200),
        }))
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

struct Bench {
    site: Site,
    bank: Bank,
    tasks: Vec<TaskId>,
}

impl Bench {
    /// With `count` dead letters, of three causes in turn.
    async fn with(count: u32) -> Self {
        let bank = Bank::default();
        let harness = Harness::embedded(only::<ChargeCard>()).provide(bank.clone());
        let mut site = harness.start().await;
        let submit = |number| site.submit(Form::new().field("cause", number % 3));
        let mut tasks: Vec<_> = futures::stream::iter(0..count)
            .map(submit)
            .buffer_unordered(64)
            .collect()
            .await;
        tasks.sort_unstable();
        site.serve(32);
        site.all_are(TaskStatus::DeadLettered, &tasks).await;
        site.stop().await;
        Self { site, bank, tasks }
    }

    fn engine(&self) -> &Engine {
        &self.site.engine
    }

    async fn start(&self, spec: BulkSpec) -> BulkView {
        bulk::start(self.engine(), spec).await.expect("started")
    }

    async fn show(&self, id: &str) -> BulkView {
        show(self.engine(), id).await
    }

    async fn execute(&self, id: &str) -> BulkView {
        execute(self.engine(), id).await
    }

    /// The newest are redriven first: one is.
    async fn has_begun(&self) {
        let newest = *self.tasks.last().expect("a task");
        while self.site.record(newest).await.task.status == TaskStatus::DeadLettered {
            tokio::task::yield_now().await;
        }
    }

    async fn in_status(&self, status: TaskStatus) -> Vec<TaskId> {
        let mut found = Vec::new();
        for task in &self.tasks {
            if self.site.record(*task).await.task.status == status {
                found.push(*task);
            }
        }
        found
    }

    /// How often an operation has redriven a task.
    async fn redriven(&self, task: TaskId, id: &str) -> usize {
        let history = self.site.history(task).await;
        let by_it = history.audit.iter().filter(|row| {
            row.entry.event == "step_redriven" && row.entry.details["bulk_operation"] == id
        });
        by_it
            .inspect(|row| assert_eq!(row.entry.actor, "operator:kim"))
            .count()
    }
}

fn redrive(group: Option<String>) -> BulkSpec {
    BulkSpec {
        action: BulkAction::Redrive,
        settled: None,
        patch: None,
        from: None,
        pace: None,
        selection: Selection {
            group,
            ..parked("default")
        },
        note: "the bank is back".to_owned(),
        actor: "operator:kim".to_owned(),
    }
}

fn spec(action: BulkAction, statuses: &[TaskStatus]) -> BulkSpec {
    BulkSpec {
        action,
        selection: Selection {
            statuses: statuses.to_vec(),
            ..parked("default")
        },
        ..redrive(None)
    }
}

async fn show(engine: &Engine, id: &str) -> BulkView {
    let shown = bulk::show(&engine.ports.store, &Tenant::default(), id).await;
    shown.expect("it is there")
}

/// Executes operations as a process does, until this has happened. It is killed then.
async fn serve_until<T>(engine: &Engine, happened: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        happened = happened => happened,
        () = bulk::serve(engine.clone(), CancelToken::new()) => panic!("it ends with its process"),
    }
}

/// Executes operations until this one is as wanted.
async fn serve_until_it(
    engine: &Engine,
    id: &str,
    what: &str,
    is_wanted: impl Fn(&BulkView) -> bool,
) -> BulkView {
    let wanted = eventually(what, || async {
        Some(show(engine, id).await).filter(&is_wanted)
    });
    serve_until(engine, wanted).await
}

/// Executes operations until this one has ended.
async fn execute(engine: &Engine, id: &str) -> BulkView {
    serve_until_it(engine, id, "its end", |it| it.status.has_ended()).await
}

fn parked(tenant: &str) -> Selection {
    Selection {
        tenant: Tenant(tenant.to_owned()),
        task_type: None,
        statuses: vec![TaskStatus::CompensationFailed, TaskStatus::DeadLettered],
        labels: counterstep_contracts::Labels::new(),
        failure: FailureFilter::default(),
        group: None,
        since: None,
        until: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_dead_letters_of_three_causes_are_three_groups_and_one_is_redriven() {
    let mut bench = Bench::with(5_000).await;
    let store = bench.engine().ports.store.clone();
    let found = groups(&store, &parked("default")).await.expect("groups");
    let seen: Vec<_> = found
        .groups
        .iter()
        .map(|it| (it.text.as_str(), it.count))
        .collect();
    assert_eq!(
        seen,
        [
            ("no account 'acme-#' for task #", 1_667),
            ("the bank refused payment # after #ms", 1_667),
            ("connection # to # was lost", 1_666),
        ],
        "{found:?}"
    );
    assert!(found.complete && found.counted == 5_000 && found.others == 0);
    assert_eq!(bench.bank.starts(), (5_000, 5_000));

    bench.bank.repair();
    let group = &found.groups[2];
    let spec = redrive(Some(group.id.clone()));
    let counted = bulk::preview(bench.engine(), &spec)
        .await
        .expect("a preview");
    assert_eq!(
        (counted.count, counted.complete, counted.tasks.len()),
        (1_666, true, 20)
    );
    assert_eq!(counted.tasks[0], group.example);
    let started = bench.start(spec).await;
    assert_eq!(
        (started.status, started.left),
        (BulkStatus::Running, Some(1_666))
    );
    let ended = bench.execute(&started.id).await;
    assert_eq!(
        (ended.status, ended.done),
        (BulkStatus::Done, 1_666),
        "{ended:?}"
    );
    assert_eq!((ended.failed, ended.skipped, ended.left), (0, 0, Some(0)));

    let redriven = bench.in_status(TaskStatus::Dispatched).await;
    assert_eq!(redriven.len(), 1_666);
    bench.site.serve(32);
    bench.site.all_are(TaskStatus::Completed, &redriven).await;
    assert_eq!(
        bench.bank.starts(),
        (5_000, 6_666),
        "they go on behind the first step"
    );
    bench.site.assert_invariants(&redriven[..3]).await;
    let left = groups(&store, &parked("default")).await.expect("groups");
    assert_eq!(
        left.groups[..],
        found.groups[..2],
        "the others are as they were"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_operation_ends_what_it_has_begun_and_leaves_the_rest_as_it_is() {
    let mut bench = Bench::with(450).await;
    let started = bench.start(redrive(None)).await;
    serve_until(bench.engine(), bench.has_begun()).await;
    bench.site.restart().await;
    let store = bench.engine().ports.store.clone();
    let stop = async || {
        let stopped = bulk::stop(&store, &Tenant::default(), &started.id, "operator:kim").await;
        stopped.expect("stopped")
    };
    assert_eq!(stop().await.status, BulkStatus::Stopping);
    bench.site.clock.advance("61s");
    let stopped = bench.execute(&started.id).await;
    assert_eq!((stopped.status, stopped.done), (BulkStatus::Stopped, 200));
    assert_eq!(stopped.left, Some(250));
    assert_eq!(bench.in_status(TaskStatus::DeadLettered).await.len(), 250);
    let as_it_is = BulkView {
        results: None,
        ..stopped
    };
    assert_eq!(stop().await, as_it_is);
    let unclaimed = bench.start(redrive(None)).await;
    let unclaimed = bulk::stop(&store, &Tenant::default(), &unclaimed.id, "operator:kim").await;
    assert_eq!(unclaimed.expect("stopped").status, BulkStatus::Stopped);
    // After their time to be listed they go.
    bench.site.clock.advance("31d");
    let gone = eventually("no operation", || async {
        let left = bulk::list(&store, &Tenant::default()).await;
        left.expect("a list").is_empty().then_some(())
    });
    serve_until(bench.engine(), gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_takes_over_what_a_killed_one_has_begun_and_does_none_twice() {
    let mut bench = Bench::with(450).await;
    let started = bench.start(redrive(None)).await;
    serve_until(bench.engine(), bench.has_begun()).await;
    let begun = bench.show(&started.id).await;
    assert_eq!(
        (begun.status, begun.done),
        (BulkStatus::Running, 0),
        "nothing is noted yet"
    );
    bench.site.restart().await;
    // What it has redriven gives up once more meanwhile.
    bench.site.serve(8);
    bench
        .site
        .all_are(TaskStatus::DeadLettered, &bench.tasks)
        .await;
    bench.site.stop().await;
    let due = DocumentQuery::Due {
        kind: DocumentKind::Bulk,
        after: None,
        limit: 10,
    };
    let due = bench.engine().ports.store.documents(&due).await;
    assert_eq!(due.expect("a look").rows, [], "it is claimed still");
    bench.site.restart().await;
    bench.site.clock.advance("61s");
    let ended = bench.execute(&started.id).await;
    assert_eq!(
        (ended.status, ended.done, ended.skipped),
        (BulkStatus::Done, 450, 0)
    );
    for task in &bench.tasks {
        assert_eq!(bench.redriven(*task, &started.id).await, 1, "{task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_tasks_run_again_once_each_also_where_an_executor_is_killed() {
    let mut bench = Bench::with(300).await;
    let settle = BulkSpec {
        action: BulkAction::Resolve,
        settled: Some(SettledAs::NotNeeded),
        ..redrive(None)
    };
    let settled = bench.start(settle).await;
    bench.execute(&settled.id).await;
    let again = spec(BulkAction::RunAgain, &[TaskStatus::Resolved]);
    let started = bench.start(again).await;
    let begun = async {
        while listed(&bench, &NEW).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    serve_until(bench.engine(), begun).await;
    bench.site.restart().await;
    bench.site.clock.advance("61s");
    let ended = bench.execute(&started.id).await;
    assert_eq!((ended.done, ended.skipped, ended.failed), (300, 0, 0));
    let found = listed(&bench, &NEW).await;
    let old: BTreeSet<_> = found
        .iter()
        .filter_map(|line| line.labels.predecessor())
        .map(|it| it.0)
        .collect();
    assert_eq!(
        (found.len(), old),
        (300, bench.tasks.iter().copied().collect())
    );

    let cancel = spec(BulkAction::Cancel, &NEW);
    let started = bench.start(cancel).await;
    // The newest are cancelled first.
    let newest = found.iter().map(|line| line.task).max().expect("a task");
    let begun = async {
        while NEW.contains(&bench.site.record(newest).await.task.status) {
            tokio::task::yield_now().await;
        }
    };
    serve_until(bench.engine(), begun).await;
    bench.site.restart().await;
    bench.site.clock.advance("61s");
    let ended = bench.execute(&started.id).await;
    assert_eq!((ended.done, ended.skipped, ended.failed), (300, 0, 0));
    assert_eq!(listed(&bench, &[TaskStatus::Cancelled]).await.len(), 300);
}

/// A bench with this many tasks that have ended as resolved.
async fn settled(count: u32) -> Bench {
    let bench = Bench::with(count).await;
    let settle = BulkSpec {
        action: BulkAction::Resolve,
        settled: Some(SettledAs::NotNeeded),
        ..redrive(None)
    };
    let started = bench.start(settle).await;
    assert_eq!(bench.execute(&started.id).await.done, u64::from(count));
    bench
}

async fn counted(bench: &Bench, spec: &BulkSpec) -> (u64, Option<u64>) {
    let preview = bulk::preview(bench.engine(), spec).await;
    let preview = preview.expect("a preview");
    assert_eq!(preview.tasks.len() as u64, preview.count);
    (preview.count, preview.already_run_again)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_have_run_again_before_do_not_run_again_with_many() {
    let bench = settled(4).await;
    let again = spec(BulkAction::RunAgain, &[TaskStatus::Resolved]);
    // A person names one of them.
    let one = RunAgain {
        from: None,
        edit: None,
        actor: "operator:lee".to_owned(),
        note: "by hand".to_owned(),
        key: None,
        traceparent: None,
        bulk: None,
    };
    let by_hand = client::run_again(bench.engine(), bench.tasks[0], one.clone()).await;
    by_hand.expect("it has ended");
    assert_eq!(counted(&bench, &again).await, (3, Some(1)));
    // Chosen before: it is decided again when its turn comes.
    let started = bench.start(again.clone()).await;
    let by_hand = client::run_again(bench.engine(), bench.tasks[1], one.clone()).await;
    by_hand.expect("it has ended");
    let ended = bench.execute(&started.id).await;
    assert_eq!(
        (ended.done, ended.already_run_again, ended.left),
        (2, Some(2), Some(0)),
        "{ended:?}"
    );
    assert_eq!((ended.failed, ended.skipped), (0, 0));
    assert_eq!(listed(&bench, &NEW).await.len(), 4);

    assert_eq!(counted(&bench, &again).await, (0, Some(4)));
    let once_more = bench.start(again).await;
    assert_eq!(once_more.left, Some(4));
    let ended = bench.execute(&once_more.id).await;
    assert_eq!((ended.done, ended.already_run_again), (0, Some(4)));
    assert_eq!(listed(&bench, &NEW).await.len(), 4);
    // Who names the task may have it run as often as it is wanted.
    let by_hand = client::run_again(bench.engine(), bench.tasks[0], one).await;
    by_hand.expect("it has ended");
    assert_eq!(listed(&bench, &NEW).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operations_that_are_executed_side_by_side_run_each_task_again_once() {
    let bench = settled(60).await;
    let again = spec(BulkAction::RunAgain, &[TaskStatus::Resolved]);
    let other = BulkSpec {
        patch: Some(serde_json::json!({"cause": 7})),
        ..again.clone()
    };
    let started = [
        bench.start(again.clone()).await,
        bench.start(again).await,
        bench.start(other).await,
    ];
    // By one process to its end: one that ends in the middle keeps what it had claimed for a lease.
    let all = eventually("their ends", || async {
        let mut all = Vec::new();
        for it in &started {
            all.push(show(bench.engine(), &it.id).await);
        }
        let have_ended = all.iter().all(|it| it.status.has_ended());
        have_ended.then_some(all)
    });
    let mut done = 0;
    for ended in serve_until(bench.engine(), all).await {
        let already = ended.already_run_again.expect("a number");
        assert_eq!((ended.done + already, ended.failed), (60, 0), "{ended:?}");
        done += ended.done;
    }
    let new = listed(&bench, &NEW).await;
    let old: BTreeSet<_> = new
        .iter()
        .filter_map(|line| line.labels.predecessor())
        .map(|it| it.0)
        .collect();
    assert_eq!((done, new.len(), old.len()), (60, 60, 60));
}

/// Where a task is that no worker has begun.
const NEW: [TaskStatus; 2] = [TaskStatus::Submitted, TaskStatus::Dispatched];

/// The tasks in these states.
async fn listed(bench: &Bench, statuses: &[TaskStatus]) -> Vec<TaskLine> {
    let query = TaskQuery {
        statuses: statuses.to_vec(),
        limit: 1_000,
        ..TaskQuery::default()
    };
    let found = bench.engine().ports.store.list(&query).await;
    found.expect("the store answers").lines
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_others_have_decided_on_or_that_are_parked_later_are_left_alone() {
    let mut bench = Bench::with(6).await;
    let started = bench.start(redrive(None)).await;
    let by_hand = counterstep_kernel::operator::Retrial {
        direction: Some(counterstep_contracts::Direction::Undo),
        edit: None,
        actor: "operator:lee".to_owned(),
        note: "not needed".to_owned(),
        bulk: None,
    };
    let undone = bench.tasks[0];
    counterstep_kernel::operator::retry(bench.engine(), undone, by_hand)
        .await
        .expect("undone");
    let later = bench.site.submit(Form::new().field("cause", 0)).await;
    bench.site.serve(2);
    bench.site.all_are(TaskStatus::DeadLettered, &[later]).await;
    bench.site.stop().await;
    let ended = bench.execute(&started.id).await;
    assert_eq!((ended.status, ended.done), (BulkStatus::Done, 5));
    assert_eq!(
        bench.site.record(later).await.task.status,
        TaskStatus::DeadLettered
    );
    assert_eq!(bench.redriven(undone, &started.id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_settled_by_hand_and_those_of_another_tenant_are_not() {
    let mut bench = Bench::with(6).await;
    let theirs = bench
        .site
        .submit(Form::new().field("cause", 0).tenant("umbra"))
        .await;
    bench.site.serve(2);
    bench
        .site
        .all_are(TaskStatus::DeadLettered, &[theirs])
        .await;
    bench.site.stop().await;
    let store = bench.engine().ports.store.clone();
    let (own, other) = (parked("default"), parked("umbra"));
    assert_eq!(groups(&store, &own).await.expect("groups").counted, 6);
    assert_eq!(groups(&store, &other).await.expect("groups").counted, 1);
    let spec = BulkSpec {
        action: BulkAction::Resolve,
        settled: Some(SettledAs::Skipped),
        patch: None,
        from: None,
        ..redrive(None)
    };
    let started = bench.start(spec).await;
    let ended = bench.execute(&started.id).await;
    assert_eq!((ended.status, ended.done), (BulkStatus::Done, 6));
    bench.site.all_are(TaskStatus::Resolved, &bench.tasks).await;
    assert_eq!(
        bench.site.record(theirs).await.task.status,
        TaskStatus::DeadLettered
    );
    let umbra = Tenant("umbra".to_owned());
    assert!(bulk::list(&store, &umbra).await.expect("a list").is_empty());
    bulk::show(&store, &umbra, &started.id)
        .await
        .expect_err("not theirs");
    bulk::stop(&store, &umbra, &started.id, "operator")
        .await
        .expect_err("not theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_changes_its_state_while_tasks_are_selected_is_selected_once() {
    let bench = Bench::with(8).await;
    let all = spec(BulkAction::Cancel, TaskStatus::ALL);
    let changes = async {
        // Parked, running and parked again, some hundred times.
        for _ in 0..40 {
            for task in &bench.tasks {
                let retrial = Retrial {
                    direction: None,
                    edit: None,
                    actor: "operator:kim".to_owned(),
                    note: "once more".to_owned(),
                    bulk: None,
                };
                let retried = operator::retry(bench.engine(), *task, retrial).await;
                retried.expect("it is parked");
                let (engine, stop) = (bench.engine(), CancelToken::new());
                let end = turn(engine, Host::Worker, *task, &stop).await;
                assert_eq!(end, TurnEnd::Rests(TaskStatus::DeadLettered));
            }
        }
    };
    let is_over = AtomicBool::new(false);
    let previews = async {
        while !is_over.load(Ordering::SeqCst) {
            let preview = bulk::preview(bench.engine(), &all).await;
            assert_eq!(preview.expect("a preview").count, 8);
        }
    };
    futures::join!(previews, async {
        changes.await;
        is_over.store(true, Ordering::SeqCst);
    });
}
