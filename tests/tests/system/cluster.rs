//! Two APIs, three workers and two reconcilers on real servers: in calm the work is spread, and
//! whatever fails meanwhile, what was accepted completes.

use counterstep_contracts::http::Accepted;
use counterstep_contracts::{ProblemCode, TaskId, TaskStatus};
use counterstep_tests::api::{Answer, Api};
use counterstep_tests::cluster::Cluster;
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::wait::{LATER, until, until_now};
use futures::{StreamExt, stream};
use reqwest::StatusCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of a file; a task has two.
const SIZE: u64 = 20_000;

const CLIENTS: u64 = 20;

const TIMES: &[&str] = &[
    "--lease",
    "3s",
    "--step-timeout",
    "20s",
    "--upload-timeout",
    "10s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "2s",
];

/// Submits until it is accepted: what was not answered, or could not be taken just now, is sent
/// again with its key.
async fn accepted(api: &Api, seed: u64) -> TaskId {
    let samples = Sample::pair(seed, SIZE);
    let key = format!("submission-{seed}");
    until("an answer to a submission", LATER, || async {
        match api.try_submit(&samples, Some(&key)).await {
            Ok(Answer::Accepted(Accepted { task_id, .. })) => Some(task_id),
            Ok(Answer::Refused(StatusCode::SERVICE_UNAVAILABLE, _)) => None,
            Ok(Answer::Refused(StatusCode::CONFLICT, problem))
                if problem.code == ProblemCode::InProgress =>
            {
                None
            }
            Ok(refused) => panic!("a submission is refused: {refused:?}"),
            Err(_) => None,
        }
    })
    .await
}

/// Twenty clients submit that many tasks; `count` says how far they are.
async fn submit_all(apis: Vec<Api>, tasks: u64, count: Arc<AtomicU64>) -> BTreeMap<TaskId, u64> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (api, count) = (apis[client as usize % apis.len()].clone(), count.clone());
            tokio::spawn(async move {
                let mut accepted_here = Vec::new();
                for seed in (client..tasks).step_by(CLIENTS as usize) {
                    accepted_here.push((accepted(&api, seed).await, seed));
                    count.fetch_add(1, Ordering::Relaxed);
                }
                accepted_here
            })
        })
        .collect();
    let mut all = BTreeMap::new();
    for client in clients {
        all.extend(client.await.expect("a client is served to its end"));
    }
    assert_eq!(all.len() as u64, tasks, "two submissions became one task");
    all
}

async fn assert_all_completed(apis: &[Api], tasks: &BTreeMap<TaskId, u64>) {
    let each = tasks.iter().map(|(task, seed)| async move {
        let api = &apis[*seed as usize % apis.len()];
        let view = api.at_rest_within(*task, LATER * 2).await;
        assert_eq!(view.status, TaskStatus::Completed, "{view:#?}");
        api.assert_archive(*task, &Sample::pair(*seed, SIZE)).await;
    });
    stream::iter(each)
        .buffer_unordered(16)
        .collect::<()>()
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_calm_no_worker_does_less_than_a_fifth_of_the_work() {
    let cluster = Cluster::start(TIMES);
    let served = [cluster.api(), cluster.api()];
    let workers = [cluster.worker(), cluster.worker(), cluster.worker()];
    let reconcilers = [cluster.reconciler(), cluster.reconciler()];
    let apis: Vec<_> = served.iter().map(|served| served.api.clone()).collect();
    let tasks = submit_all(apis.clone(), 600, Arc::default()).await;
    assert_all_completed(&apis, &tasks).await;

    let rows = Rows::of_cluster(&cluster).await;
    let known = rows.tasks().await;
    assert_eq!(known.len(), tasks.len());
    let mut done: BTreeMap<&str, u64> = workers.iter().map(|(_, id)| (id.as_str(), 0)).collect();
    for task in &known {
        task.assert_sound();
        task.assert_completed_once();
        let last = task.history.audit.last().expect("an entry");
        *done
            .get_mut(last.entry.actor.as_str())
            .expect("a worker completed it") += 1;
    }
    println!("tasks by worker: {done:?}");
    assert!(
        done.values().all(|count| *count >= 600 / 5),
        "the work is not spread: {done:?}"
    );
    for process in workers
        .into_iter()
        .map(|(process, _)| process)
        .chain(reconcilers)
    {
        assert!(process.stop().success());
    }
}

/// Waits until the clients are that far.
async fn at(count: &AtomicU64, tasks: u64) {
    until(&format!("{tasks} accepted tasks"), LATER * 2, || async {
        (count.load(Ordering::Relaxed) >= tasks).then_some(())
    })
    .await;
}

/// What the logs of some processes say because of a fault, which is to strike after this has been
/// made.
struct Evidence {
    what: &'static str,
    marks: &'static [&'static str],
    before: usize,
}

impl Evidence {
    fn of(what: &'static str, marks: &'static [&'static str], processes: &[&Process]) -> Self {
        let mut evidence = Self {
            what,
            marks,
            before: 0,
        };
        evidence.before = evidence.count(processes);
        evidence
    }

    fn count(&self, processes: &[&Process]) -> usize {
        let logs = processes.iter().map(|process| process.log());
        logs.map(|log| {
            self.marks
                .iter()
                .map(|mark| log.matches(mark).count())
                .sum::<usize>()
        })
        .sum()
    }

    /// Whether they say it more often than before the fault.
    fn is_there(&self, processes: &[&Process]) -> bool {
        self.count(processes) > self.before
    }

    fn is_waited_for(&self, processes: &[&Process]) {
        until_now(&format!("a log that says {}", self.what), LATER, || {
            self.is_there(processes).then_some(())
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_complete_whatever_fails_meanwhile() {
    let cluster = Cluster::start(TIMES);
    let served = [cluster.api(), cluster.api()];
    let (doomed, paused, steady) = (cluster.worker(), cluster.worker(), cluster.worker());
    let reconcilers = [cluster.reconciler(), cluster.reconciler()];
    let rows = Rows::of_cluster(&cluster).await;
    let count = Arc::new(AtomicU64::new(0));
    let apis: Vec<_> = served.iter().map(|served| served.api.clone()).collect();
    let submitting = tokio::spawn(submit_all(apis.clone(), 1_000, count.clone()));
    let servers = &cluster.servers;

    at(&count, 50).await;
    until(
        "a task on the worker that is to be killed",
        LATER,
        || async { (!rows.leased_to(&doomed.1).await.is_empty()).then_some(()) },
    )
    .await;
    let (doomed, doomed_id) = doomed;
    doomed.kill();
    let replacement = cluster.worker();

    at(&count, 150).await;
    let (paused, paused_id) = paused;
    let fenced = ["fenced: ", "lease is lost"].as_slice();
    let fenced = Evidence::of(
        "that the worker which stood still was fenced",
        fenced,
        &[&paused],
    );
    let held = until(
        "a task on the worker that is to stand still",
        LATER,
        || async {
            paused.signal(Signal::Stop);
            let held = rows.leased_to(&paused_id).await;
            if held.is_empty() {
                paused.signal(Signal::Continue);
                return None;
            }
            Some(held)
        },
    )
    .await;
    until("its tasks with another worker", LATER, || async {
        rows.leased_to(&paused_id).await.is_empty().then_some(())
    })
    .await;
    paused.signal(Signal::Continue);

    // Each fault has words of its own in the logs, and they are asked for in the end: whatever
    // strikes meanwhile, a fault that left no trace proves nothing.
    let all = [
        &served[0].process,
        &served[1].process,
        &paused,
        &steady.0,
        &replacement.0,
    ];
    let expect = |what, marks| Evidence::of(what, marks, &all);
    at(&count, 300).await;
    let database = expect(
        "that the database was away",
        &[
            "the database does not answer",
            "answer to a commit was lost",
        ],
    );
    servers.postgres.restart();
    at(&count, 400).await;
    let restarted = expect(
        "that the connection to NATS was lost",
        &["the connection to NATS was lost"],
    );
    servers.nats.restart();
    at(&count, 500).await;
    let flushed = expect("that Redis lost a lock", &["the lock was gone"]);
    // A lock is held for moments, and one flush may fall between them.
    until("a flush that takes a lock away", LATER, || async {
        servers.redis.flush();
        flushed.is_there(&all).then_some(())
    })
    .await;
    at(&count, 550).await;
    let stopped = expect("that Redis was away", &["going on without"]);
    servers.redis.stop();
    at(&count, 650).await;
    // The first that looks makes the stream again, and that may be a reconciler.
    let everyone = [&all[..], &[&reconcilers[0], &reconcilers[1]]].concat();
    let gone = ["the stream was gone, with its messages; made it again"].as_slice();
    let wiped = Evidence::of("that a stream was lost", gone, &everyone);
    servers.nats.stop();
    servers.nats.wipe_store();
    servers.nats.begin();
    at(&count, 750).await;
    let refused = servers.s3.refused();
    servers.s3.answer_503_for(Duration::from_secs(5));

    let tasks = submitting.await.expect("all are accepted");
    let began = Instant::now();
    assert_all_completed(&apis, &tasks).await;
    println!(
        "all are complete and verified {:?} after the last was accepted",
        began.elapsed()
    );

    fenced.is_waited_for(&[&paused]);
    for evidence in [database, restarted, flushed, stopped] {
        evidence.is_waited_for(&all);
    }
    wiped.is_waited_for(&everyone);
    assert!(
        servers.s3.refused() > refused,
        "the object store refused nothing"
    );

    rows.assert_no_orphans().await;
    let known = rows.tasks().await;
    assert_eq!(
        known.len(),
        tasks.len(),
        "tasks are those that were accepted"
    );
    for task in &known {
        task.assert_sound();
        task.assert_completed_once();
    }
    let by = |id: &str, event: &str| {
        let did = |known: &&counterstep_tests::rows::Known| {
            known
                .history
                .audit
                .iter()
                .any(|row| row.entry.event == event && row.entry.actor == id)
        };
        known.iter().filter(did).count()
    };
    assert!(
        by(&doomed_id, "claimed") > 0,
        "the worker that was killed had no task"
    );
    for task in held {
        let known = rows.task(task).await;
        assert!(
            known.trail().contains("in doubt"),
            "no worker took it over: {}",
            known.trail()
        );
    }
    let in_doubt = known
        .iter()
        .filter(|known| known.trail().contains("in doubt"))
        .count();
    println!(
        "{in_doubt} tasks lost a host, {} requests were refused by the object store",
        servers.s3.refused()
    );
    for process in [paused, steady.0, replacement.0]
        .into_iter()
        .chain(reconcilers)
    {
        assert!(process.stop().success());
    }
}
