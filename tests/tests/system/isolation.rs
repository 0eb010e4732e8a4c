//! Steps that compute without a pause, block their threads, panic, or do not listen to their token: the
//! worker keeps its leases, and finishes the tasks beside them.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::effects::{Fleet, submit};
use counterstep_tests::rows::Rows;
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

/// A lease shorter than the steps misbehave.
const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// Twice the limit of their step.
const LONG_MS: u64 = 6_000;

async fn errands(api: &Api, number: usize) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for _ in 0..number {
        tasks.push(submit(api, "run-errand", &json!({"step_ms": 200})).await);
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_misbehave_cost_no_lease_and_no_task_beside_them() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let mut worker = fleet.worker(&["--concurrency", "6", "--metrics-listen", "127.0.0.1:0"]);
    let metrics = worker.metrics_address();
    let before = errands(&api, 6).await;
    let mut guilty = Vec::new();
    for how in ["spin", "sleep", "panic", "ignore_token"] {
        let request = json!({"how": how, "ms": LONG_MS});
        guilty.push((how, submit(&api, "misbehave", &request).await));
    }
    let after = errands(&api, 12).await;

    let rows = Rows::of_cluster(&fleet.cluster).await;
    for task in before.into_iter().chain(after) {
        api.at_rest_within(task, LATER).await;
        let known = rows.task(task).await;
        assert_eq!(
            known.record.task.status,
            TaskStatus::Completed,
            "{}",
            known.trail()
        );
        assert_eq!(known.record.task.recovery_attempts, 0, "{}", known.trail());
    }
    for (how, task) in guilty {
        api.at_rest_within(task, LATER).await;
        let known = rows.task(task).await;
        let step = &known.record.steps[0];
        let class = step.error.as_ref().map(|error| error.class.as_str());
        let expected = if how == "panic" {
            "panicked"
        } else {
            "timed_out"
        };
        assert_eq!(class, Some(expected), "{how}: {}", known.trail());
        assert_eq!(known.record.task.status, TaskStatus::Failed, "{how}");
        let (attempts, lost) = (step.attempts.0, known.record.task.recovery_attempts);
        assert_eq!((attempts, lost), (1, 0), "{how}: {}", known.trail());
    }
    assert_eq!(fleet.repeated(), Vec::<String>::new());

    // Those two could not be dropped, and are counted.
    let page = Api::at(&metrics);
    until("two abandoned attempts", LATER, || async {
        let page = page.request(Method::GET, "/metrics").send().await.ok()?;
        let text = page.text().await.ok()?;
        let counts = |line: &str| text.lines().any(|it| it == line);
        let counted = counts("counterstep_attempts_abandoned_total 2")
            && counts("counterstep_leases_lost_total 0");
        counted.then_some(())
    })
    .await;
    assert!(worker.stop().success());
    assert!(api_process.stop().success());
}
