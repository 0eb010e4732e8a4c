//! Servers that are away for longer than a lease, under running steps: no finished work is repeated, each outcome is committed
//! once, and one that comes too late is dropped and named.

use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::{Outcome, TaskId, TaskStatus};
use counterstep_testkit::servers::Proxy;
use counterstep_tests::api::Api;
use counterstep_tests::effects::{Fleet, submit};
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::rows::{Known, Rows};
use counterstep_tests::wait::{LATER, SOON, until};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

const LEASE: Duration = Duration::from_secs(3);

const TIMES: &[&str] = &[
    "--lease",
    "3s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "5s",
];

/// Number of steps that run when servers go away and are declared to go on, and of steps that are not.
const STEPS: usize = 50;

/// Over while the servers are away, and not before they are back.
const SHORT_MS: u64 = 6_000;
const LONG_MS: u64 = 13_000;

/// What a worker says of each result that it keeps.
const KEPT: &str = "it is kept in the spool";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    Postgres,
    Nats,
    Both,
}

impl Away {
    fn is_without_database(self) -> bool {
        self != Self::Nats
    }

    fn stop(self, fleet: &Fleet) {
        if self != Self::Nats {
            fleet.cluster.servers.postgres.stop();
        }
        if self != Self::Postgres {
            fleet.cluster.servers.nats.stop();
        }
    }

    fn begin(self, fleet: &Fleet) {
        if self != Self::Postgres {
            fleet.cluster.servers.nats.begin();
        }
        if self != Self::Nats {
            fleet.cluster.servers.postgres.begin();
        }
    }
}

fn kept_by(worker: &Process) -> usize {
    worker.log().matches(KEPT).count()
}

async fn submit_all(
    api: &Api,
    route: &str,
    count: usize,
    step_ms: impl Fn(usize) -> u64,
) -> Vec<TaskId> {
    let mut tasks = Vec::with_capacity(count);
    for number in 0..count {
        tasks.push(submit(api, route, &json!({"step_ms": step_ms(number)})).await);
    }
    tasks
}

async fn until_begun(fleet: &Fleet, tasks: &[&[TaskId]], step: &str) {
    until("running steps", SOON, || async {
        let begun = fleet.begun();
        let has_begun = |task: &TaskId| begun.contains_key(&format!("{task}:{step}"));
        tasks.concat().iter().all(has_begun).then_some(())
    })
    .await;
}

async fn completed(api: &Api, rows: &Rows, task: TaskId) -> Known {
    api.at_rest_within(task, LATER).await;
    let known = rows.task(task).await;
    let status = known.record.task.status;
    assert_eq!(status, TaskStatus::Completed, "{}", known.trail());
    let wrong = known.outputs_not_once();
    assert!(wrong.is_empty(), "{wrong:?}: {}", known.trail());
    known
}

fn attempts_in_doubt(known: &Known) -> usize {
    let attempts = known.history.attempts.iter();
    attempts
        .filter(|attempt| attempt.outcome == Some(Outcome::InDoubt))
        .count()
}

/// Servers go away under running steps for three leases.
async fn outage(fleet: &Fleet, api: &Api, (worker, away): (&Process, Away)) {
    let step_ms = |number: usize| {
        if number.is_multiple_of(2) {
            SHORT_MS
        } else {
            LONG_MS
        }
    };
    let enduring = submit_all(api, "endure", STEPS, step_ms).await;
    let faltering = submit_all(api, "falter", STEPS, |_| LONG_MS).await;
    until_begun(fleet, &[&enduring], "endure").await;
    until_begun(fleet, &[&faltering], "falter").await;
    let kept_before = kept_by(worker);
    away.stop(fleet);
    let since = Instant::now();
    if away.is_without_database() {
        until("the results of the short steps", SOON, || async {
            (kept_by(worker) - kept_before >= STEPS / 2).then_some(())
        })
        .await;
    }
    until("three leases", SOON, || async {
        (since.elapsed() > LEASE * 3).then_some(())
    })
    .await;
    let was_away = since.elapsed();
    let kept = kept_by(worker) - kept_before;
    away.begin(fleet);

    let rows = Rows::of_cluster(&fleet.cluster).await;
    for &task in &enduring {
        let known = completed(api, &rows, task).await;
        assert_eq!(attempts_in_doubt(&known), 0, "{away:?}: {}", known.trail());
        assert_eq!(known.record.task.recovery_attempts, 0, "{}", known.trail());
        assert_eq!(known.record.task.epoch.0, 1, "{away:?}: {}", known.trail());
    }
    let mut in_doubt = 0;
    for &task in &faltering {
        let known = completed(api, &rows, task).await;
        let lost = usize::from(away.is_without_database());
        in_doubt += attempts_in_doubt(&known);
        assert_eq!(
            attempts_in_doubt(&known),
            lost,
            "{away:?}: {}",
            known.trail()
        );
    }
    assert_eq!(
        fleet.repeated(),
        Vec::<String>::new(),
        "{away:?}: finished twice"
    );
    let finished = fleet.finished();
    let effects = enduring
        .iter()
        .flat_map(|task| [format!("{task}:endure"), format!("{task}:report")]);
    let effects = effects.chain(faltering.iter().map(|task| format!("{task}:falter")));
    for effect in effects {
        assert_eq!(finished.get(&effect), Some(&1), "{away:?}: {effect}");
    }
    println!(
        "{away:?} away for {was_away:.1?}, lease {LEASE:?}: {} steps go on, {kept} results kept meanwhile, 0 in doubt; \
         {} stop, {in_doubt} in doubt; completed in {:.1?}, each effect once",
        enduring.len(),
        faltering.len(),
        since.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_then_nats_then_both_are_away_for_three_leases_and_no_finished_step_is_repeated() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&["--concurrency", "128"]);
    let reconciler = fleet.process(&["reconciler", "--every", "1s"]);
    for away in [Away::Postgres, Away::Nats, Away::Both] {
        outage(&fleet, &api, (&worker, away)).await;
    }
    for process in [worker, reconciler, api_process] {
        assert!(process.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_the_database_is_away_commits_what_it_has_kept_when_it_starts_again()
 {
    const TASKS: usize = 10;
    let fleet = Fleet::start(PROGRAM, &["--lease", "8s", "--drain", "5s"]);
    let (api_process, api) = fleet.api();
    let reconciler = fleet.process(&["reconciler", "--every", "1s"]);
    let machine = fleet.machine();
    let worker = fleet.worker_on(&machine, &["--concurrency", "16"]);
    let tasks = submit_all(&api, "endure", TASKS, |_| SHORT_MS).await;
    until_begun(&fleet, &[&tasks], "endure").await;
    fleet.cluster.servers.postgres.stop();
    until("all results", SOON, || async {
        (kept_by(&worker) == TASKS).then_some(())
    })
    .await;
    worker.kill();
    fleet.cluster.servers.postgres.begin();
    let worker = fleet.worker_on(&machine, &["--concurrency", "16"]);

    let rows = Rows::of_cluster(&fleet.cluster).await;
    for &task in &tasks {
        let known = completed(&api, &rows, task).await;
        assert_eq!(attempts_in_doubt(&known), 0, "{}", known.trail());
        assert_eq!(known.record.task.epoch.0, 1, "{}", known.trail());
    }
    assert_eq!(fleet.repeated(), Vec::<String>::new(), "finished twice");
    for process in [worker, reconciler, api_process] {
        assert!(process.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_a_worker_that_alone_was_cut_off_is_dropped_and_named() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let reconciler = fleet.process(&["reconciler", "--every", "1s"]);
    let proxy = Proxy::to(fleet.cluster.servers.postgres.port());
    let url = proxy.url(&fleet.cluster.database);
    let cut_off = fleet.worker(&["--database", &url]);
    let tasks = submit_all(&api, "endure", 1, |_| SHORT_MS).await;
    until_begun(&fleet, &[&tasks], "endure").await;
    proxy.silence();
    let other = fleet.worker(&[]);
    let rows = Rows::of_cluster(&fleet.cluster).await;
    let known = completed(&api, &rows, tasks[0]).await;
    assert_eq!(attempts_in_doubt(&known), 1, "{}", known.trail());
    until("a result that is kept", SOON, || async {
        (kept_by(&cut_off) == 1).then_some(())
    })
    .await;
    proxy.heal();

    let known = until("a result that is named", LATER, || async {
        let known = rows.task(tasks[0]).await;
        known
            .trail()
            .ends_with("endure result dropped")
            .then_some(known)
    })
    .await;
    let dropped = known.history.audit.last().expect("an entry");
    assert_eq!(dropped.entry.attempt.map(|attempt| attempt.0), Some(1));
    let worker = dropped.entry.details["worker"]
        .as_str()
        .expect("its worker");
    assert!(cut_off.log().contains(worker), "{worker}");
    assert_eq!(known.record.task.status, TaskStatus::Completed);
    assert_eq!(known.record.task.response, Some(json!(1)));
    let again = completed(&api, &rows, tasks[0]).await;
    assert_eq!(again.trail().matches("result dropped").count(), 1);
    for process in [cut_off, other, reconciler, api_process] {
        assert!(process.stop().success());
    }
}

async fn why(api: &Api, task: TaskId) -> Option<Why> {
    let path = format!("/api/tasks/{task}/why");
    let answer = api.request(Method::GET, &path).send().await.ok()?;
    let answer = answer.error_for_status().ok()?;
    Some(answer.json().await.expect("a reason"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_counts_as_gone_that_has_had_no_time_for_a_report_since_an_outage() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (mut api_process, api) = fleet.api();
    let worker = fleet.worker(&[]);
    until("its first report", SOON, || async {
        let answer = api.request(Method::GET, "/api/workers").send().await.ok()?;
        let processes = answer.text().await.ok()?;
        processes.contains(r#""role":"worker""#).then_some(())
    })
    .await;
    // One that is slow to report, and whose last report is as old as behind a long outage.
    worker.signal(Signal::Stop);
    let (postgres, database) = (&fleet.cluster.servers.postgres, &fleet.cluster.database);
    let old = "UPDATE documents SET seen_at = seen_at - interval '1 hour' WHERE kind = 'worker' AND name LIKE 'worker:%'";
    postgres.run_sql(database, old).expect("an old report");
    let task = submit(&api, "endure", &json!({"step_ms": 0})).await;
    let before = why(&api, task).await.expect("an answer");
    assert_eq!(before.because[0].code, WhyCode::HostsSilent, "{before:?}");
    postgres.stop();
    api_process.says("that the database is away", |said| {
        said.contains("looking for due tasks failed").then_some(())
    });
    postgres.begin();
    let behind = until("an answer", SOON, || why(&api, task)).await;
    let reason = &behind.because[0];
    assert_eq!(reason.code, WhyCode::DatabaseWasAway, "{behind:?}");
    assert!(reason.until.is_some(), "{reason:?}");

    worker.signal(Signal::Continue);
    until("the end of the task", SOON, || async {
        let now = why(&api, task).await?;
        for reason in &now.because {
            assert_ne!(reason.code, WhyCode::HostsSilent, "{now:?}");
            for word in ["gone", "lost"] {
                assert!(!reason.detail.contains(word), "{now:?}");
            }
        }
        (now.because[0].code == WhyCode::Ended).then_some(())
    })
    .await;

    for process in [worker, api_process] {
        assert!(process.stop().success());
    }
}
