//! Steps in processes of their own: whatever ends such a process is the failure of that step alone, and nothing
//! of it is left.

use counterstep_contracts::{Direction, Outcome, TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::effects::{Fleet, logged, runs, submit, until_gone};
use counterstep_tests::rows::Rows;
use counterstep_tests::wait::{LATER, SOON, until};
use reqwest::Method;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
    "--step-env",
    "EFFECTS",
];

/// What the step in the worker noted under this word.
fn noted(fleet: &Fleet, task: TaskId, word: &str) -> Vec<String> {
    let all = std::fs::read_to_string(fleet.cluster.place.path().join("effects"));
    let all = all.unwrap_or_default();
    let of_task = all
        .lines()
        .filter(|line| line.starts_with(&task.to_string()));
    let said = of_task.filter_map(|line| line.split_once(&format!(" {word} ")));
    said.map(|(_, said)| said.to_owned()).collect()
}

async fn fly(api: &Api, how: &str) -> TaskId {
    submit(api, "fly", &json!({ "how": how, "leaves": true })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_the_process_of_a_step_is_its_own_failure_and_leaves_nothing() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&["--concurrency", "8"]);
    let mut beside = Vec::new();
    for _ in 0..6 {
        beside.push(submit(&api, "run-errand", &json!({"step_ms": 500})).await);
    }
    let mut guilty = Vec::new();
    for (how, class, says) in [
        (
            "abort",
            "transient",
            "its process ended by signal 6 (SIGABRT)",
        ),
        (
            "segfault",
            "transient",
            "its process ended by signal 11 (SIGSEGV)",
        ),
        (
            "exit",
            "transient",
            "its process ended with exit code 0 before its code did",
        ),
        ("panic", "panicked", "the code panicked: mayday"),
        ("leak", "transient", "more than its bound of 192MiB"),
        ("spin", "timed_out", "ran longer than its limit of 3s"),
    ] {
        guilty.push((fly(&api, how).await, how, class, says));
    }
    let rows = Rows::of_cluster(&fleet.cluster).await;
    for (task, how, class, says) in guilty {
        api.at_rest_within(task, LATER).await;
        let known = rows.task(task).await;
        let record = &known.record;
        assert_eq!(
            record.task.status,
            TaskStatus::Failed,
            "{how}: {}",
            known.trail()
        );
        let attempts: Vec<_> = known.history.attempts.iter().collect();
        let [run, undo] = &attempts[..] else {
            panic!("{how}: {attempts:?}")
        };
        let error = run.error.as_ref().expect("an error");
        assert_eq!(error.class, class, "{how}: {error}");
        assert!(error.message.contains(says), "{how}: {error}");
        // Its undo has a process of its own, which finds the values of the program too.
        assert_eq!(
            (undo.direction, undo.outcome),
            (Direction::Undo, Some(Outcome::Succeeded)),
            "{how}"
        );
        assert_eq!(record.task.recovery_attempts, 0, "{how}: {}", known.trail());
        // What it has logged before its end is there.
        let log = api.log(task).await;
        assert_eq!(log[0], "took off", "{how}");
        let pids = [logged(&log, "pid"), logged(&log, "left")];
        assert_eq!(pids.each_ref().map(Vec::len), [2, 1], "{how}: {log:?}");
        until_gone(&pids.concat()).await;
    }
    for task in beside {
        let view = api.at_rest_within(task, LATER).await;
        assert_eq!(view.status, TaskStatus::Completed, "{:?}", view.failure);
        assert_eq!(view.recovery_attempts, 0);
    }
    assert_eq!(fleet.repeated(), Vec::<String>::new());
    assert!(worker.stop().success());
    assert!(api_process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_a_step_has_its_context_and_nothing_of_the_settings() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&[]);
    let task = fly(&api, "none").await;
    let view = api.at_rest_within(task, LATER).await;
    assert_eq!(view.status, TaskStatus::Completed, "{:?}", view.failure);
    assert_eq!(view.response, Some(json!(600 << 10)));
    let log = api.log(task).await;
    let (own, of_worker) = (logged(&log, "pid"), noted(&fleet, task, "worker"));
    assert_eq!((own.len(), of_worker.len()), (1, 1));
    assert_ne!(own, of_worker);
    until_gone(&[own, logged(&log, "left")].concat()).await;
    let file = fleet.cluster.place.path().join("effects");
    let has_state =
        |line: &String| line.starts_with("pid ") && line.ends_with(file.to_str().expect("UTF-8"));
    assert!(log.iter().any(has_state), "{log:?}");
    let has = noted(&fleet, task, "env").concat();
    let (arguments, names) = has.split_once(' ').expect("both");
    let names: Vec<&str> = names.split(',').collect();
    assert!(arguments == "1" && names.contains(&"EFFECTS"), "{has}");
    for name in names {
        let is_setting = name.starts_with("COUNTERSTEP_") && !name.ends_with("STEP_PROCESS");
        assert!(!is_setting, "{name}");
    }
    let ends = [log.first(), log.last()].map(|line| line.map(String::as_str));
    assert_eq!(ends, [Some("took off"), Some("landed with 614400")]);
    assert!(worker.stop().success());
    assert!(api_process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_the_end_of_the_worker_end_the_process_of_a_step() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&[]);
    let task = fly(&api, "spin").await;
    let started = |task| {
        let api = &api;
        until("the process of a step", SOON, move || async move {
            let log = api.log(task).await;
            let left = logged(&log, "left");
            (!left.is_empty()).then(|| [logged(&log, "pid"), left].concat())
        })
    };
    let pids = started(task).await;
    assert!(pids.iter().all(|pid| runs(pid)));
    let path = format!("/api/tasks/{task}");
    let cancelled = api.request(Method::DELETE, &path).send().await;
    assert_eq!(cancelled.expect("an answer").status(), 202);
    let view = api.at_rest_within(task, LATER).await;
    assert_eq!(view.status, TaskStatus::Cancelled);
    until_gone(&pids).await;

    let other = fly(&api, "spin").await;
    let pids = started(other).await;
    worker.kill();
    until_gone(&pids).await;
    assert!(api_process.stop().success());
}

/// It has other bytes by then, so that its step would run again wherever it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_process_has_sealed_is_hashed_neither_in_the_next_one_nor_in_the_worker() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&[]);
    let task = submit(&api, "haul", &json!({ "text": "ebb" })).await;
    let view = api.at_rest_within(task, LATER).await;
    assert_eq!(view.status, TaskStatus::Completed, "{:?}", view.failure);
    assert_eq!(view.response, Some(json!(["bbe", "bbe"])));
    let known = Rows::of_cluster(&fleet.cluster).await.task(task).await;
    let attempts = known.record.steps.iter().map(|step| step.attempts.0);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1], "{}", known.trail());
    assert!(worker.stop().success());
    assert!(api_process.stop().success());
}
