//! What steps log: read over HTTP and on the command line while they run, after their end, and after the
//! end of the process that ran them.

use counterstep_contracts::log::LogPage;
use counterstep_contracts::{LogLevel, TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, to_its_end_within, without_settings};
use counterstep_tests::effects::{Fleet, submit};
use counterstep_tests::wait::{LATER, SOON, until};
use reqwest::Method;
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

const TIMES: &[&str] = &["--lease", "2s", "--drain", "500ms"];

async fn log(api: &Api, task: TaskId) -> LogPage {
    let path = format!("/api/tasks/{task}/log?limit=200");
    let answer = api.request(Method::GET, &path).send().await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.json().await.expect("a page")
}

/// Each line as its step, attempt and message.
fn said(page: &LogPage) -> Vec<String> {
    let lines = page.lines.iter();
    lines
        .map(|line| format!("{} {} {}", line.step, line.attempt, line.message))
        .collect()
}

fn command(fleet: &Fleet, api: &Api, arguments: &[&str]) -> Ended {
    let mut command = without_settings(PROGRAM);
    command
        .args(["tasks", "--url", api.url(), "log"])
        .args(arguments);
    to_its_end_within(LATER, fleet.cluster.place.path(), command)
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_read_live_and_outlive_the_process_that_has_logged_them() {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = fleet.worker(&[]);
    let task = submit(&api, "run-errand", &json!({"step_ms": 2_000})).await;
    let live = until("a line of a running step", SOON, || async {
        let page = log(&api, task).await;
        (!page.lines.is_empty()).then_some(page)
    })
    .await;
    assert_eq!(said(&live), ["begin 1 began"]);
    assert_eq!(live.lines[0].level, LogLevel::Info);
    worker.kill();

    let next = fleet.worker(&[]);
    let id = task.to_string();
    let followed = tokio::task::block_in_place(|| command(&fleet, &api, &[&id, "--follow"]));
    let view = api.at_rest_within(task, LATER).await;
    assert_eq!(view.status, TaskStatus::Completed);
    let all = log(&api, task).await;
    assert_eq!(
        said(&all),
        [
            "begin 1 began",
            "begin 2 began",
            "begin 2 finished",
            "pack 1 began",
            "pack 1 finished",
            "deliver 1 began",
            "deliver 1 finished",
            "report 1 began",
            "report 1 finished",
        ]
    );
    followed.assert_code(0);
    let lines: Vec<&str> = followed.stdout.lines().collect();
    assert_eq!(lines.len(), all.lines.len(), "{followed:#?}");
    assert!(lines[0].ends_with("info  begin #1: began"), "{followed:#?}");
    let whole = command(&fleet, &api, &[&id]);
    assert_eq!(whole.assert_code(0).stdout, followed.stdout);
    let one = command(&fleet, &api, &[&id, "--limit", "1"]);
    let (line, goes_on) = one.assert_code(0).stdout.split_once('\n').expect("a line");
    assert_eq!(line, lines[0]);
    assert!(goes_on.starts_with("more: --cursor "), "{one:#?}");
    let again = command(
        &fleet,
        &api,
        &[&id, "--cursor", all.cursor.as_deref().expect("a cursor")],
    );
    assert_eq!(again.assert_code(0).stdout, "No lines\n");
    assert!(next.stop().success());
    assert!(api_process.stop().success());
}
