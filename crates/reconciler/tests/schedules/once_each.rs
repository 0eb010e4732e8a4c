//! Each due time fires once, however many reconcilers there are and whatever becomes of them.

use crate::{SECOND, engine, row, tasks, tenant, types};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Misfire, Overlap, ScheduleSpec, TaskId};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::Store;
use counterstep_kernel::schedule;
use counterstep_reconciler::{ReconcilerSettings, serve};
use counterstep_steps::CancelToken;
use counterstep_steps::times::DbTime;
use counterstep_steps::times::rfc3339;
use counterstep_testkit::TestClock;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::seed::seeded;
use counterstep_testkit::servers::shared_postgres;
use rand::Rng;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The due time that the audit of a task names.
async fn due_of(store: &Store, task: TaskId) -> String {
    let history = store.history(task).await.expect("a history");
    let scheduled = &history.audit[0].entry.details["scheduled"];
    scheduled["due"].as_str().expect("a due time").to_owned()
}

/// How many due times the test passes; each comes a second after the other.
const DUE_TIMES: i64 = 20;

/// How many times a reconciler is aborted, about five times in a second of their time: nearly to the last due
/// time, and then no more.
const ABORTS: usize = 80;

/// Maximum number of reads of the test for which a reconciler lives: some passes, and some within one.
const LONGEST_LIFE: usize = 20;

/// Three reconcilers, aborted wherever they are and started again, and a schedule for each second.
async fn each_due_time_fires_once(folder: &Path, postgres: Option<&str>) {
    let clock = TestClock::new();
    if let Some(url) = postgres {
        clock.drive_postgres(url);
    }
    let stage = (postgres, &clock);
    let watcher = engine(folder, types(), stage).await;
    let each_second = ScheduleSpec {
        cron: Some("* * * * * *".to_owned()),
        misfire: Misfire::CatchUp,
        overlap: Overlap::Allow,
        ..ScheduleSpec::of("Tick")
    };
    let set = schedule::set(&watcher, &tenant(), "each-second", each_second, "kim")
        .await
        .expect("it is set");
    let first = set.row.next_due_at.expect("a due time");
    let last = DbTime(first.0 + (DUE_TIMES - 1) * SECOND);

    let start = |engine: Engine| -> JoinHandle<()> {
        let settings = ReconcilerSettings {
            every: Duration::from_secs(1),
            ..ReconcilerSettings::default()
        };
        tokio::spawn(serve(engine, settings, CancelToken::new()))
    };
    let mut reconcilers = Vec::new();
    for _ in 0..3 {
        reconcilers.push(start(engine(folder, types(), stage).await));
    }
    let mut chance = seeded();
    for _ in 0..ABORTS {
        clock.advance_by(Duration::from_millis(chance.random_range(20..400)));
        // They choose the moment, between passes and in the middle of them.
        for _ in 0..chance.random_range(0..LONGEST_LIFE) {
            row(&watcher, "each-second").await;
        }
        let victim = chance.random_range(0..reconcilers.len());
        reconcilers[victim].abort();
        reconcilers[victim] = start(engine(folder, types(), stage).await);
    }
    eventually("the last due time", || async {
        clock.advance("1s");
        (row(&watcher, "each-second").await.last_due_at >= Some(last)).then_some(())
    })
    .await;
    let paused = schedule::pause(&watcher, &tenant(), "each-second", true, "kim")
        .await
        .expect("it is paused")
        .row;
    for reconciler in reconcilers {
        reconciler.abort();
        drop(reconciler.await);
    }

    let store = &watcher.ports.store;
    let mut fired = Vec::new();
    for task in tasks(store).await {
        fired.push(due_of(store, task).await);
    }
    fired.sort();
    let end = paused.last_due_at.expect("it has fired").0;
    let expected: Vec<_> = (0..=(end - first.0) / SECOND)
        .map(|n| rfc3339(DbTime(first.0 + n * SECOND)))
        .collect();
    assert!(expected.len() >= usize::try_from(DUE_TIMES).expect("small"));
    assert_eq!(fired, expected, "one task for each due time");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_reconcilers_on_one_file_each_due_time_fires_once() {
    let folder = tempfile::tempdir().expect("a folder");
    each_due_time_fires_once(folder.path(), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_reconcilers_on_one_server_each_due_time_fires_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = shared_postgres().database();
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("the schema");
    each_due_time_fires_once(folder.path(), Some(&url)).await;
}
