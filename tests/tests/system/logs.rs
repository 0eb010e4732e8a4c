//! What processes write to standard error: in the form that was asked for, whatever happens, and no
//! errors that clients can make at will.

use counterstep_contracts::TaskStatus;
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const JSON: &[&str] = &["--log-format", "json"];

/// Each line as JSON; the last one may not be complete yet.
fn lines(log: &str) -> Vec<Value> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let parsed = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line:?}"))
    };
    whole.lines().map(parsed).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_one_json_line_with_its_task_step_and_attempt() {
    let place = Place::new();
    let dev = services::dev(
        &place,
        &[
            QUICK,
            JSON,
            &["--plant-fault", "create_zip_archive=panic@1"],
        ]
        .concat(),
    );
    let task = dev.api.submit(&[Sample::new("a.txt", "a")]).await;
    assert_eq!(dev.api.at_rest(task).await.status, TaskStatus::Completed);
    let is_panic = |line: &Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("panicked: "))
    };
    let panics: Vec<_> = lines(&dev.process.log())
        .into_iter()
        .filter(is_panic)
        .collect();
    let [panic] = &panics[..] else {
        panic!("one line for one panic: {}", dev.process.log())
    };
    assert_eq!(
        (&panic["level"], &panic["task"]),
        (&"ERROR".into(), &task.to_string().into())
    );
    assert_eq!(
        (&panic["step"], &panic["attempt"]),
        (&"create_zip_archive".into(), &"1".into())
    );
    assert_eq!(panic["message"], "panicked: planted: panics");
    assert!(
        panic["location"]
            .as_str()
            .is_some_and(|location| location.contains(".rs:")),
        "{panic}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_parsed_are_no_errors_of_the_service() {
    let place = Place::new();
    let dev = services::dev(&place, JSON);
    let address = dev
        .api
        .url()
        .strip_prefix("http://")
        .expect("an address")
        .to_owned();
    for head in [
        &b"\x1b[2J\0garbage\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/tasks HTTP/1.1\r\na b: c\r\n\r\n",
    ] {
        let mut connection = TcpStream::connect(&address).expect("a connection");
        connection.write_all(head).expect("it is sent");
        let mut answer = String::new();
        // Its end, by answer or by reset, is the end of what the service does with it.
        let _ = connection.read_to_string(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    let log = dev.process.log();
    let errors: Vec<_> = lines(&log)
        .into_iter()
        .filter(|line| line["level"] == "ERROR")
        .collect();
    assert_eq!(errors, Vec::<Value>::new());
    assert!(dev.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_with_line_ends_makes_no_line_of_the_log_and_is_not_executed() {
    let place = Place::new();
    let planted = [
        "--plant-fault",
        "upload_zip=fail",
        "--plant-fault",
        "upload_source_files:undo=fail",
        "--log",
        "trace",
    ];
    let dev = services::dev(&place, &[QUICK, &planted[..]].concat());
    let task = dev.api.submit(&[Sample::new("a.txt", "a")]).await;
    assert_eq!(
        dev.api.at_rest(task).await.status,
        TaskStatus::CompensationFailed
    );
    let note = "by hand\n2026-01-01T00:00:00Z ERROR forged: $(touch executed) `touch executed`\n'; DROP TABLE tasks; --";
    for (path, body) in [
        (
            "task-types/create-zip-from-files/disable".to_owned(),
            json!({"note": note}),
        ),
        (
            format!("tasks/{task}/resolve"),
            json!({"as": "undone", "note": note}),
        ),
    ] {
        let request = dev.api.request(Method::POST, &format!("/api/{path}"));
        let answer = request.json(&body).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    let audit = dev.api.audit(task).await;
    let last = audit.entries.last().expect("an entry");
    let kept = serde_json::to_string(last).expect("JSON");
    assert!(kept.contains("forged: $(touch executed)"), "{kept}");
    let log = dev.process.log();
    let forged = log
        .lines()
        .find(|line| line.starts_with("2026-01-01") || line.starts_with("'; DROP"));
    assert_eq!(forged, None);
    assert!(!place.path().join("executed").exists() && !place.data().join("executed").exists());
    assert!(dev.process.stop().success());
}
