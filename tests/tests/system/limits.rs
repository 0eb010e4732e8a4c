//! Limits of requests as an operator sets them, each on a real API.

use counterstep_contracts::Problem;
use counterstep_tests::api::ROUTE;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::services::{self, Served};
use counterstep_tests::wait::{SOON, until};
use reqwest::Method;
use reqwest::multipart::{Form, Part};

const LIMITS: &[&str] = &[
    "--max-json-bytes",
    "2000",
    "--max-form-bytes",
    "100000",
    "--max-file-bytes",
    "30000",
];

fn file(bytes: usize) -> Part {
    Part::bytes(vec![b'x'; bytes]).file_name("a.txt")
}

fn files(count: usize, bytes: usize) -> Form {
    (0..count).fold(Form::new(), |form, _| form.part("files", file(bytes)))
}

/// The code of the answer to a form, and its detail.
async fn refused(served: &Served, form: Form) -> (u16, Problem) {
    let request = served.api.request(Method::POST, ROUTE).multipart(form);
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("a problem document"))
}

async fn assert_nothing_is_left(rows: &Rows) {
    until("no object", SOON, || async {
        rows.objects().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(rows.tasks().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_a_limit_that_is_set_is_413_and_leaves_nothing() {
    let place = Place::new();
    let served = services::api(&place, LIMITS);
    let rows = Rows::of(&place).await;
    let text = |count: usize, bytes: usize| {
        (0..count).fold(Form::new(), |form, n| {
            form.text(format!("field{n}"), "x".repeat(bytes))
        })
    };
    for (what, form, names) in [
        ("a file", files(1, 30_001), "30000"),
        (
            "a file behind a good one",
            files(1, 10).part("files", file(30_001)),
            "30000",
        ),
        (
            "a form",
            files(2, 10).part("other", file(110_000)),
            "100000",
        ),
        ("text fields", text(257, 1), "256"),
        (
            "text",
            Form::new().text("output_file_name", "x".repeat(2_001)),
            "2000",
        ),
    ] {
        let (status, problem) = refused(&served, form).await;
        assert_eq!(
            (status, problem.code.as_str()),
            (413, "too-large"),
            "{what}: {problem:?}"
        );
        let detail = &problem.detail;
        assert!(detail.contains(names), "{what}: {detail}");
        assert_nothing_is_left(&rows).await;
    }
    let body = format!(
        r#"{{"files":[],"output_file_name":"{}"}}"#,
        "x".repeat(2_000)
    );
    let request = served.api.request(Method::POST, ROUTE).body(body);
    let request = request.header("content-type", "application/json");
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 413);
    assert_nothing_is_left(&rows).await;

    let fits = files(3, 30_000).text("output_file_name", "a.zip");
    let request = served.api.request(Method::POST, ROUTE).multipart(fits);
    assert_eq!(request.send().await.expect("an answer").status(), 202);
}

#[test]
fn a_limit_that_no_request_could_keep_is_refused() {
    let place = Place::new();
    for (flag, value) in [
        ("--max-json-bytes", "1023"),
        ("--max-file-bytes", "0"),
        ("--max-form-bytes", "0"),
    ] {
        let key = flag.trim_start_matches("--").replace('-', "_");
        run(place.path(), &["api", flag, value])
            .assert_code(78)
            .assert_says(&key);
    }
}
