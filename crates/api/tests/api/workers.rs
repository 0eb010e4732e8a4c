//! Which processes run, what is under way, and what is shown of both where it is unknown.

use crate::site::{Site, eventually};
use counterstep_contracts::http::Accepted;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::workers::{WorkerState, WorkerView, WorkersView};
use counterstep_contracts::{Host, QueueName, TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::operator::{Surroundings, why_among};
use counterstep_kernel::ports::{Activity, WorkerRow, Workers};
use counterstep_kernel::workers::worker_registry;
use counterstep_steps::CancelToken;
use counterstep_steps::times::DbTime;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Words about itself every few moments, and long patience with a busy machine.
pub(crate) async fn talkative(gauges_for: Duration) -> Site {
    Site::with(|api, engine| {
        api.gauges_for = gauges_for;
        engine.lost_after = Duration::from_secs(2);
        engine.lease = Duration::from_secs(1);
        engine.drain = Duration::from_millis(100);
        engine.cancel_grace = Duration::from_millis(100);
        engine.machine = "rack-7".to_owned();
    })
    .await
}

/// The id of the worker of a machine that has one.
pub(crate) const WORKER: &str = "worker:08a4bd91a6db";

/// A machine with a worker.
pub(crate) async fn registered(site: &Site) -> String {
    let machine = "rack-7".to_owned();
    let row = WorkerRow {
        id: WORKER.to_owned(),
        machine: machine.clone(),
        program: "0.1.0".to_owned(),
        queues: vec![QueueName("notes".to_owned())],
        types: Vec::new(),
        concurrency: 4,
        running: Vec::new(),
        running_count: 0,
        heavy: 1,
        heavy_count: 0,
        permits: BTreeMap::new(),
        abandoned_count: 0,
        lost_after: Duration::from_secs(3600),
        passed: None,
        kept: None,
        fetch_errors: Vec::new(),
        breakers: BTreeMap::new(),
        activity: Activity::default(),
        started_at: None,
        is_stopped: false,
    };
    let written = site.engine.ports.store.refresh_worker(&row).await;
    written.expect("a row");
    machine
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_a_role_that_a_machine_has_not_names_those_that_it_has() {
    let site = Site::start().await;
    let machine = registered(&site).await;
    for what in ["pause", "resume"] {
        let path = format!("/api/workers/{machine}/{what}");
        let refused = site.post(&path, r#"{"role":"dev","note":"why"}"#).await;
        let problem = refused.problem(404, "no-such-workers");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(
            detail.contains("processes of the role `worker`") && detail.contains("--role"),
            "{detail}"
        );
        assert_eq!(problem["pointer"], "role");
    }
    let nowhere = site.post("/api/workers/nowhere/pause", r#"{"note":"why"}"#);
    let problem = nowhere.await.problem(404, "no-such-workers");
    assert!(problem["pointer"].is_null(), "{problem}");
}

/// Another process on the same database.
pub(crate) fn worker_of(site: &Site) -> Engine {
    Engine::new(
        site.engine.ports.clone(),
        site.engine.registry.clone(),
        (*site.engine.settings).clone(),
        "worker",
    )
}

pub(crate) fn serve(engine: &Engine, stop: CancelToken) -> tokio::task::JoinHandle<()> {
    let mut settings = HostSettings::for_all(&engine.registry, Host::Worker, 4);
    settings.poll = Duration::from_millis(50);
    let spawn: host::Spawn = Arc::new(|work| drop(tokio::spawn(work)));
    tokio::spawn(host::serve(engine.clone(), settings, stop, spawn))
}

async fn seen(site: &Site, id: &str, what: &str, so: impl Fn(&WorkerView) -> bool) -> WorkerView {
    eventually(what, || async {
        let found: WorkersView = site.get("/api/workers").await.json(200);
        let found = found.workers.into_iter().find(|worker| worker.id == id);
        found.filter(&so).ok_or("it is not so")
    })
    .await
}

async fn hangs(site: &Site) -> TaskId {
    let accepted: Accepted = site
        .post("/api/tasks/plain", r#"{"finish":["hang"]}"#)
        .await
        .json(202);
    accepted.task_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_what_it_serves_and_what_it_runs_until_it_stops() {
    let site = talkative(Duration::ZERO).await;
    let task = hangs(&site).await;
    let before: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
    assert_eq!(before.because[0].code, WhyCode::Unclaimed);
    let (engine, stop) = (worker_of(&site), CancelToken::new());
    let serving = serve(&engine, stop.clone());
    let view = seen(&site, &engine.id, "it runs the task", |worker| {
        worker.running == [task]
    })
    .await;
    assert_eq!(
        (view.role.as_str(), view.machine.as_str(), view.state),
        ("worker", "rack-7", WorkerState::Alive)
    );
    assert_eq!(
        (view.concurrency, view.running_count, view.stopped_at),
        (4, 1, None)
    );
    assert_eq!(
        (view.heavy > 0, view.heavy_count, view.abandoned_count),
        (true, 0, 0)
    );
    let started_at = view.started_at;
    assert!(!view.program.is_empty() && view.queues.contains(&"plain".to_owned()));
    assert!(
        view.task_types
            .iter()
            .any(|of| of.name == "Plain" && of.version == 1 && of.definition.len() == 16)
    );
    eventually("why says that its owner is alive", || async {
        let why: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
        let says = why.because[0].owner_state == Some(WorkerState::Alive)
            && why.because[0].detail.contains("rack-7");
        if says {
            Ok(())
        } else {
            Err(format!("{why:?}"))
        }
    })
    .await;

    stop.cancel(counterstep_steps::CancelReason::Shutdown);
    serving.await.expect("it stops");
    let view = seen(&site, &engine.id, "it says that it stops", |worker| {
        worker.state == WorkerState::Stopped
    })
    .await;
    assert!(view.stopped_at.is_some() && view.running.is_empty());
    assert!(
        view.concurrency == 4 && view.queues.contains(&"plain".to_owned()),
        "what it served: {view:?}"
    );
    assert!(
        view.started_at == started_at && view.seen_at > started_at,
        "{view:?}"
    );
    let why: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
    let reason = &why.because[0];
    assert!(
        reason.code == WhyCode::Stopping
            && reason.detail.starts_with(
                "no process that takes it is known to be alive: those that took it were stopped"
            ),
        "{why:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_vanished_is_lost_and_its_tasks_are_taken_back_by_their_leases() {
    let site = talkative(Duration::ZERO).await;
    let task = hangs(&site).await;
    let engine = worker_of(&site);
    // Without a runtime of its own its turns would go on when it is gone.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let doomed = engine.clone();
    runtime.spawn(async move {
        let _ = serve(&doomed, CancelToken::new()).await;
    });
    seen(&site, &engine.id, "it runs the task", |worker| {
        worker.running == [task]
    })
    .await;
    runtime.shutdown_background();
    site.clock.advance("3s");
    seen(&site, &engine.id, "it is lost", |worker| {
        worker.state == WorkerState::Lost
    })
    .await;
    eventually("its lease has run out", || async {
        let why: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
        let lost = why.because[0].code == WhyCode::HostLost
            && why.because[0].owner_state == Some(WorkerState::Lost);
        if lost {
            Ok(())
        } else {
            Err(format!("{why:?}"))
        }
    })
    .await;
    site.recover().await;
    let view = site.until(task, TaskStatus::Dispatched).await;
    assert_eq!(view.recovery_attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_that_is_not_lost_yet_counts_neither_as_alive_nor_with_free_slots() {
    let site = Site::with(|_, engine| engine.lost_after = Duration::from_secs(45)).await;
    let engine = worker_of(&site);
    let serving = serve(&engine, CancelToken::new());
    seen(&site, &engine.id, "it serves", |worker| {
        worker.concurrency == 4
    })
    .await;
    serving.abort();
    drop(serving.await);
    let task = hangs(&site).await;
    let record = site
        .engine
        .ports
        .store
        .load(task)
        .await
        .expect("the store answers")
        .expect("the task");
    let mut workers = site
        .engine
        .ports
        .store
        .workers()
        .await
        .expect("the store answers");
    let detail = |workers: &Workers| {
        let why = why_among(
            &site.engine.registry,
            &record,
            &Surroundings {
                workers: Some(workers.clone()),
                ..Surroundings::default()
            },
        );
        why.because
            .into_iter()
            .map(|because| because.detail)
            .collect::<Vec<_>>()
            .concat()
    };
    let said = detail(&workers);
    assert!(
        said.ends_with("1 process that takes it is alive, with a free slot"),
        "{said}"
    );

    // More than a refresh later, and less than it takes to be lost.
    workers.now = DbTime(workers.now.0 + 20_000_000);
    let said = detail(&workers);
    assert!(
        said.contains("no process that takes it is known to be alive"),
        "{said}"
    );
    assert!(
        said.contains("1 that takes it has missed a refresh and may be gone: seen 2"),
        "{said}"
    );
    assert!(!said.contains("with a free slot"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_parts_of_one_process_one_word_says_all() {
    let site = talkative(Duration::ZERO).await;
    let engine = worker_of(&site);
    let stop = CancelToken::new();
    let worker = serve(&engine, stop.clone());
    let spawn: host::Spawn = Arc::new(|work| drop(tokio::spawn(work)));
    let settings = HostSettings::for_all(&engine.registry, Host::Api, 16);
    let api = tokio::spawn(host::serve(engine.clone(), settings, stop.clone(), spawn));
    let both = |worker: &WorkerView| {
        worker.concurrency == 20 && worker.queues.contains(&"plain.api".to_owned())
    };
    seen(&site, &engine.id, "it says both", both).await;
    stop.cancel(counterstep_steps::CancelReason::Shutdown);
    worker.await.expect("it stops");
    api.await.expect("it stops");
    seen(&site, &engine.id, "it stops", |worker| {
        worker.state == WorkerState::Stopped
    })
    .await;
}

/// The samples of a scrape, by name and labels; each metric has its words.
async fn scrape(site: &Site) -> BTreeMap<String, f64> {
    let reply = site.get("/metrics").await;
    assert_eq!(reply.status, 200);
    let format = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(format));
    let text = String::from_utf8(reply.body).expect("a text");
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, number) = line.rsplit_once(' ').expect("a name and a number");
            let metric = name.split('{').next().expect("a name");
            assert!(
                text.contains(&format!("# TYPE {metric} gauge"))
                    && text.contains(&format!("# HELP {metric} ")),
                "{line}"
            );
            (name.to_owned(), number.parse().expect("a number"))
        });
    samples.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_what_is_under_way() {
    let site = talkative(Duration::ZERO).await;
    let nothing = scrape(&site).await;
    assert_eq!(nothing["counterstep_database_up"], 1.0);
    assert_eq!(
        (
            nothing["counterstep_oldest_due_seconds"],
            nothing["counterstep_oldest_running_seconds"]
        ),
        (0.0, 0.0)
    );
    assert!(
        !nothing
            .keys()
            .any(|name| name.starts_with("counterstep_tasks"))
    );

    hangs(&site).await;
    let worker = site.run_host(Host::Worker);
    let runs = eventually("it runs", || async {
        let metrics = scrape(&site).await;
        let runs =
            metrics.get(r#"counterstep_tasks{status="running",queue="plain"}"#) == Some(&1.0);
        let busy = metrics.get(r#"counterstep_slots_busy{role="api"}"#) == Some(&1.0);
        if runs && busy {
            Ok(metrics)
        } else {
            Err(format!("{metrics:?}"))
        }
    })
    .await;
    assert_eq!(runs[r#"counterstep_workers{state="alive"}"#], 1.0);
    assert_eq!(
        (
            runs[r#"counterstep_workers{state="lost"}"#],
            runs[r#"counterstep_slots{role="api"}"#]
        ),
        (0.0, 4.0)
    );
    let parked = r#"counterstep_parked_tasks{status="dead_lettered",task_type="AsksAPerson"}"#;
    let oldest =
        r#"counterstep_oldest_parked_seconds{status="dead_lettered",task_type="AsksAPerson"}"#;
    assert_eq!((runs[parked], runs[oldest]), (0.0, 0.0));
    let letter = site.submit("/api/tasks/asks-a-person").await;
    site.until(letter, TaskStatus::DeadLettered).await;
    site.clock.advance("7s");
    eventually("a dead letter is counted", || async {
        let metrics = scrape(&site).await;
        if metrics[parked] == 1.0 && metrics[oldest] >= 7.0 {
            Ok(())
        } else {
            eprintln!("{metrics:?}");
            Err(format!("{metrics:?}"))
        }
    })
    .await;
    worker.stop().await;
    site.submit("/api/tasks/asks-a-person").await;
    site.clock.advance("1s");
    eventually("a task has waited for a second", || async {
        let metrics = scrape(&site).await;
        if metrics["counterstep_oldest_due_seconds"] >= 1.0 {
            Ok(())
        } else {
            eprintln!("{metrics:?}");
            Err(format!("{metrics:?}"))
        }
    })
    .await;

    // What a reconciler says of its last pass.
    let counts = BTreeMap::from([("taken_back".to_owned(), 3)]);
    let reconciler = Engine::new(
        site.engine.ports.clone(),
        site.engine.registry.clone(),
        (*site.engine.settings).clone(),
        "reconciler",
    );
    worker_registry::note_pass(&reconciler, reconciler.ports.clock.monotonic(), counts);
    worker_registry::keep_refreshed(
        &reconciler,
        counterstep_kernel::workers::registration::Part::default(),
        Box::pin(async {}),
    )
    .await;
    let metrics = scrape(&site).await;
    assert_eq!(metrics[r#"counterstep_last_pass{what="taken_back"}"#], 3.0);
    assert!(metrics.contains_key("counterstep_last_pass_age_seconds"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_do_not_load_the_database() {
    let site = talkative(Duration::from_secs(3600)).await;
    let first = scrape(&site).await;
    site.submit("/api/tasks/asks-a-person").await;
    assert_eq!(
        scrape(&site).await,
        first,
        "the database was not asked again"
    );
    let found: WorkersView = site.get("/api/workers").await.json(200);
    assert_eq!(found.status.tasks.len(), 1, "an operator is shown what is");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_database_does_not_say_who_is_there_work_goes_on_and_a_scrape_says_so() {
    let site = talkative(Duration::ZERO).await;
    let worker = site.run_host(Host::Worker);
    let hides: Accepted = site.post("/api/tasks/hides", "{}").await.json(202);
    site.until(hides.task_id, TaskStatus::Completed).await;
    eventually("it cannot say", || async {
        let mut metrics = scrape(&site).await;
        // The process knows its own breakers, and what its disk keeps.
        let own = ["counterstep_breaker_state{", "counterstep_spool_"];
        metrics.retain(|name, _| !own.iter().any(|own| name.starts_with(own)));
        if metrics["counterstep_database_up"] == 0.0 && metrics.len() == 1 {
            Ok(())
        } else {
            eprintln!("{metrics:?}");
            Err(format!("{metrics:?}"))
        }
    })
    .await;
    site.get("/api/workers").await.problem(503, "unavailable");
    // Its words do not arrive, and it works all the same; so do those who ask about a task.
    let task: Accepted = site.post("/api/tasks/plain", "{}").await.json(202);
    site.until(task.task_id, TaskStatus::Completed).await;
    let why: Why = site
        .get(&format!("/api/tasks/{}/why", task.task_id))
        .await
        .json(200);
    assert_eq!(why.because[0].code, WhyCode::Ended);
    worker.stop().await;
}
