//! The API is driven from its own OpenAPI document by Schemathesis: examples, edge cases, random requests and
//! sequences of them, valid and invalid, with all of its checks. `tests/openapi` has its settings.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::command::{Ended, run, to_its_end_within, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::program::target_folder;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, Served};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// On a busy machine; alone it takes half a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// Operations whose success needs a task in a state that chance seldom leads to, the name of a machine, or a limit, which no
/// shipped type has. Other tests have them.
const SELDOM: &[&str] = &[
    "cancelTask",
    "followLinkOfList",
    "getDeadLetter",
    "getResultFileOfList",
    "makeLinkOfList",
    "pauseWorkers",
    "removePoisonMessage",
    "resetLimit",
    "resolveTask",
    "resumeWorkers",
    "retryTask",
    "sendSignal",
    "sendTestAlert",
    "sendWebhook",
    "setLimit",
    "setRecoveries",
];

/// Python with what `cargo xtask test` has installed, in a copy of the settings' folder.
fn python(
    place: &Place,
    script: &Path,
    arguments: &[&str],
    (key, task): (Option<&str>, Option<TaskId>),
) -> Ended {
    let tools = target_folder().join("tools/site-packages/schemathesis");
    assert!(
        tools.is_dir(),
        "{} is missing; `cargo xtask test` installs it",
        tools.display()
    );
    let mut command = without_settings("python3");
    command
        .arg(script)
        .args(arguments)
        .env("PYTHONPATH", &tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("COUNTERSTEP_KEY", key.unwrap_or_default());
    if let Some(task) = task {
        command.env("COUNTERSTEP_TASK", task.to_string());
    }
    to_its_end_within(LIMIT, place.path(), command)
}

fn copy_settings(place: &Place, key: Option<&str>) {
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi");
    for name in ["hooks.py", "check.py", "schemathesis.toml"] {
        let mut text = std::fs::read_to_string(settings.join(name)).expect("a setting");
        if let (Some(key), "schemathesis.toml") = (key, name) {
            text += &format!("\n[auth.openapi.key]\nbearer = \"{key}\"\n");
        }
        std::fs::write(place.path().join(name), text).expect("a copy");
    }
}

/// Takes the document of a server, checks it, and drives the server from it.
async fn drive(place: &Place, served: Served, key: Option<&str>, arguments: &[&str]) {
    copy_settings(place, key);
    let api = match key {
        Some(key) => served.api.with_key(key),
        None => served.api,
    };
    let document = api.request(reqwest::Method::GET, "/api/openapi.json");
    let document = document.send().await.expect("an answer");
    let document = document.text().await.expect("a document");
    std::fs::write(place.path().join("openapi.json"), &document).expect("a file");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let paths = document["paths"].as_object().expect("paths").values();
    let operations: usize = paths.map(|it| it.as_object().map_or(0, Map::len)).sum();
    let task = api.submit(&Sample::pair(4711, 2_000)).await;
    assert_eq!(api.at_rest(task).await.status, TaskStatus::Completed);
    // One that each run finds, whatever others were deleted: `hooks.py` knows its name.
    let kept = json!({ "type": "place-order", "run_at": "2999-01-01T00:00:00Z", "overlap": "allow",
        "request": { "account": "a", "item": "i", "quantity": 1, "amount_cents": 1 } });
    let kept = api
        .request(reqwest::Method::PUT, "/api/schedules/kept")
        .header("content-type", "application/json")
        .body(kept.to_string());
    assert_eq!(kept.send().await.expect("an answer").status(), 201);
    let checked = python(
        place,
        Path::new("check.py"),
        &["openapi.json"],
        (None, None),
    );
    checked.assert_code(0);
    let program = target_folder().join("tools/site-packages/schemathesis/bin/schemathesis");
    let fixed = ["run", "openapi.json", "--url", api.url(), "--seed", "4711"];
    let driven = python(
        place,
        &program,
        &[&fixed, arguments].concat(),
        (key, Some(task)),
    );
    driven.assert_code(0);
    // A run without requests ends with 0 too. All but a stream without an end are tested.
    let tested = format!("Tested: {}\n", operations - 1);
    assert!(driven.stdout.contains(&tested), "{driven:#?}");
    let statuses = std::fs::read_to_string(place.path().join("statuses.json")).expect("statuses");
    let statuses: BTreeMap<String, BTreeMap<String, u32>> =
        serde_json::from_str(&statuses).expect("JSON");
    for (operation, counts) in &statuses {
        let succeeded = counts.keys().any(|status| status.starts_with('2'));
        assert!(
            succeeded || SELDOM.contains(&operation.as_str()),
            "{operation} never succeeded: {counts:?}"
        );
    }
    let log = served.process.log();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
    assert!(served.process.stop().success());
}

/// Nothing may be sent to another host: `hooks.py` names this one.
const LOOPBACK: [&str; 2] = ["--webhook-allow", "127.0.0.1"];

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_the_document_find_no_fault() {
    let place = Place::new();
    let served = services::dev(&place, &LOOPBACK);
    drive(&place, served, None, &["--max-examples", "6"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_the_document_find_no_fault_where_keys_are_needed() {
    let place = Place::new();
    let data = place.data();
    let data = data.to_str().expect("UTF-8");
    let create = ["keys", "--data-dir", data, "create", "--subject", "tests"];
    let made = run(place.path(), &[&create[..], &["--role", "admin"]].concat());
    let key = made.assert_code(0).stdout.trim().to_owned();
    let served = services::dev(&place, &[&LOOPBACK[..], &["--auth", "keys"]].concat());
    let phases = ["--phases", "examples,fuzzing,stateful"];
    drive(
        &place,
        served,
        Some(&key),
        &[&phases[..], &["--max-examples", "4"]].concat(),
    )
    .await;
}

#[test]
fn the_committed_document_is_valid_and_so_are_its_examples() {
    let place = Place::new();
    copy_settings(&place, None);
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let document = document.to_str().expect("UTF-8");
    let checked = python(&place, Path::new("check.py"), &[document], (None, None));
    checked.assert_code(0);
    let text = std::fs::read_to_string(document).expect("the document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
}
