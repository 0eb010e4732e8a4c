//! Probes of workers and reconcilers: what they answer while the process works, ends and hangs.

use counterstep_contracts::StepStatus;
use counterstep_contracts::http::Health;
use counterstep_tests::effects::{Fleet, submit};
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::wait::{SOON, until};
use reqwest::Client;
use serde_json::json;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "30s",
    "--test-time",
    "lost_after=3s",
    "--test-time",
    "hung_after=2s",
];

/// As a supervisor's.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The probes of a process.
struct Probed {
    process: Process,
    address: String,
    client: Client,
}

impl Probed {
    fn start(fleet: &Fleet, arguments: &[&str]) -> Self {
        let metrics = ["--metrics-listen", "127.0.0.1:0"];
        let mut process = fleet.process(&[arguments, &metrics].concat());
        let address = process.metrics_address();
        // A new connection each time, as supervisors make one.
        let client = Client::builder()
            .timeout(PROBE_TIMEOUT)
            .pool_max_idle_per_host(0)
            .build()
            .expect("an HTTP client");
        Self {
            process,
            address,
            client,
        }
    }

    /// `None`: no answer within the probe's timeout.
    async fn ask(&self, path: &str) -> Option<(u16, Health)> {
        let url = format!("http://{}{path}", self.address);
        let answer = self.client.get(url).send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.text().await.ok()?;
        let health = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        Some((status, health))
    }

    async fn is(&self, path: &str, expected: u16) -> Health {
        until(&format!("{path} answers {expected}"), SOON, || async {
            let (status, health) = self.ask(path).await?;
            (status == expected).then_some(health)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_reconcilers_are_live_and_ready_until_they_stop() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let reconciler = Probed::start(&fleet, &["reconciler"]);
    let worker = Probed::start(&fleet, &["worker"]);
    for probed in [&reconciler, &worker] {
        let ready = probed.is("/readyz", 200).await;
        assert_eq!((ready.status.as_str(), ready.parts.len()), ("ok", 0));
        assert_eq!(probed.ask("/healthz").await.expect("an answer").0, 200);
    }
    // A worker that ends takes nothing new, and is none that hangs.
    let task = submit(&api, "run-errand", &json!({"step_ms": 60_000})).await;
    until("the step runs", SOON, || async {
        let view = api.task(task).await;
        (view.steps[0].status == StepStatus::Running).then_some(())
    })
    .await;
    worker.process.signal(Signal::Terminate);
    let stopping = worker.is("/readyz", 503).await;
    assert_eq!(stopping.parts["process"], "is stopping", "{stopping:?}");
    assert_eq!(worker.ask("/healthz").await.expect("an answer").0, 200);
    worker.process.signal(Signal::Terminate);
    let mut process = worker.process;
    assert_eq!(process.ended().code(), Some(0), "{}", process.tail());
    for process in [reconciler.process, api_process] {
        assert!(process.stop().success());
    }
}

/// More than any machine has threads for an engine.
fn blocks() -> usize {
    4 * std::thread::available_parallelism().map_or(1, usize::from)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_threads_are_all_blocked_fails_its_liveness_probe_and_still_ends() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let mut worker = Probed::start(&fleet, &["worker"]);
    worker.is("/readyz", 200).await;
    assert_eq!(worker.ask("/healthz").await.expect("an answer").0, 200);
    for number in 0..blocks() {
        submit(&api, "block", &json!(number)).await;
    }
    let hung = until("a liveness probe that fails", SOON, || async {
        match worker.ask("/healthz").await {
            Some((200, _)) => None,
            answer => Some(answer),
        }
    })
    .await;
    let (status, health) = hung.expect("the probes have a thread of their own");
    assert_eq!((status, health.status.as_str()), (503, "unavailable"));
    assert!(
        health
            .parts
            .values()
            .any(|part| part.starts_with("late by")),
        "{health:?}"
    );

    // As a supervisor goes on. Nothing can be given back; the signals have a thread of their own.
    for said in ["shutting down: waiting", "shutting down at once"] {
        worker.process.signal(Signal::Terminate);
        worker
            .process
            .says(said, |log| log.contains(said).then_some(()));
    }
    worker.process.signal(Signal::Terminate);
    assert_eq!(
        worker.process.ended().code(),
        Some(130),
        "{}",
        worker.process.tail()
    );
    assert!(api_process.stop().success());
}
