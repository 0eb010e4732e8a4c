//! Metrics of processes: each on an address of its own, readable for `promtool`, and moved by what
//! happens; and what dashboard and alarms watch is there.

use counterstep_contracts::TaskStatus;
use counterstep_tests::api::{Api, ROUTE};
use counterstep_tests::command::{to_its_end, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::services;
use counterstep_tests::wait::{SOON, until};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const OPEN_METRICS: &str = "application/openmetrics-text";
const TEXT: &str = "text/plain;version=0.0.4";

/// Where a process serves its metrics.
fn metrics_of(process: &mut Process) -> Api {
    Api::at(&process.metrics_address())
}

async fn page(of: &Api, accept: &str) -> String {
    let answer = of
        .request(Method::GET, "/metrics")
        .header("accept", accept)
        .send()
        .await
        .expect("an answer");
    let kind = answer.headers()["content-type"].to_str().expect("a text");
    assert_eq!(kind.split(';').next(), accept.split(';').next());
    answer.text().await.expect("a page")
}

/// Waits until a page has a line.
async fn shows(of: &Api, line: &str) {
    until(line, SOON, || async {
        let page = page(of, OPEN_METRICS).await;
        page.lines().any(|it| it == line).then_some(())
    })
    .await;
}

/// The sum of the samples with this beginning.
async fn sum(of: &Api, start: &str) -> f64 {
    let page = page(of, OPEN_METRICS).await;
    let samples = page.lines().filter(|line| line.starts_with(start));
    let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok();
    samples.filter_map(value).sum()
}

/// `promtool` reads the text format alone, from its standard input: what a scraper gets that names no format, as `curl`.
async fn promtool_accepts(of: &Api, place: &Place) {
    let unnamed = of.request(Method::GET, "/metrics").send().await;
    let unnamed = unnamed.expect("an answer").text().await.expect("a page");
    check_with_promtool(&unnamed, place);
    check_with_promtool(&page(of, TEXT).await, place);
}

fn check_with_promtool(page: &str, place: &Place) {
    let file = place.path().join("page");
    std::fs::write(&file, page).expect("a file");
    let mut promtool = without_settings("promtool");
    promtool.args(["check", "metrics"]);
    promtool.stdin(std::fs::File::open(&file).expect("the file"));
    let ended = to_its_end(place.path(), promtool);
    // A warning of its linter is written there too.
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

/// The names of the samples that a page can have, by its types.
fn names(page: &str) -> BTreeSet<String> {
    let types = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut names = BTreeSet::new();
    for (name, kind) in types {
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
    }
    names
}

/// The figures that a text names.
fn named(text: &str) -> BTreeSet<String> {
    const MARK: &str = "counterstep_";
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let whole = |rest: &str| {
        let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
        format!("{MARK}{}", &rest[..end])
    };
    text.split(MARK).skip(1).map(whole).collect()
}

fn deploy(path: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    folder.join(path)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_process_serves_its_figures_and_those_that_alarms_and_dashboard_name_are_there() {
    const FLAGS: &[&str] = &[
        "--metrics-listen",
        "127.0.0.1:0",
        "--metrics-labels",
        "customer",
    ];
    let place = Place::new();
    let mut api = services::api(&place, FLAGS);
    let queues = ["--queues", "file-processing"];
    let (mut worker, _) = services::worker(&place, &[FLAGS, &queues].concat());
    let mut reconciler = services::reconciler(&place, FLAGS);
    let of_api = metrics_of(&mut api.process);
    let [of_worker, of_reconciler] = [&mut worker, &mut reconciler].map(metrics_of);
    let moved = api.api.request(Method::GET, "/metrics").send().await;
    assert_eq!(moved.expect("an answer").status(), 404);

    let submit = async |key: &str, name: &str| {
        let part = Part::bytes(b"a".to_vec()).file_name(name.to_owned());
        let request = api.api.request(Method::POST, ROUTE);
        let request = request
            .header("counterstep-label", "customer=7, order=1")
            .header("idempotency-key", key)
            .multipart(Form::new().part("files", part));
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        (status, body)
    };
    let (_, accepted) = submit("1", "a.txt").await;
    let task = serde_json::from_value(accepted["task_id"].clone()).expect("an id");
    assert_eq!(api.api.at_rest(task).await.status, TaskStatus::Completed);
    assert_eq!(submit("1", "a.txt").await.0, 202);
    assert_eq!(submit("1", "b.txt").await.0, 422);
    let malformed = api.api.request(Method::POST, ROUTE).send().await;
    assert!(malformed.expect("an answer").status().is_client_error());
    let disabled = "/api/task-types/create-zip-from-files/disable";
    let disabled = api.api.request(Method::POST, disabled);
    let who = serde_json::json!({"note": "a test", "actor": "a test"});
    let disabled = disabled.json(&who).send().await;
    assert!(disabled.expect("an answer").status().is_success());
    assert_eq!(submit("2", "a.txt").await.0, 409);
    for (outcome, count) in [
        ("accepted", 1),
        ("repeated", 1),
        ("conflict", 1),
        ("refused", 1),
        ("disabled", 1),
        ("failed", 0),
    ] {
        let line = format!(
            "counterstep_submissions_total{{task_type=\"CreateZipFromFiles\",outcome=\"{outcome}\"}} {count}"
        );
        shows(&of_api, &line).await;
    }
    for line in [
        r#"counterstep_tasks_ended_total{task_type="CreateZipFromFiles",status="completed",label_customer="7"} 1"#,
        r#"counterstep_task_duration_seconds_count{task_type="CreateZipFromFiles",status="completed"} 1"#,
        r#"counterstep_attempts_total{task_type="CreateZipFromFiles",step="upload_zip",direction="forward",outcome="succeeded"} 1"#,
        r#"counterstep_attempt_duration_seconds_count{task_type="CreateZipFromFiles",step="create_zip_archive",direction="forward"} 1"#,
        r#"counterstep_claim_wait_seconds_count{task_type="CreateZipFromFiles"} 1"#,
    ] {
        shows(&of_worker, line).await;
    }
    let took = sum(&of_worker, "counterstep_task_duration_seconds_sum").await;
    let ran = sum(&of_worker, "counterstep_attempt_duration_seconds_sum").await;
    let waited = sum(&of_worker, "counterstep_claim_wait_seconds_sum").await;
    assert!(
        took > 0.0 && ran < took && waited < took,
        "{took} {ran} {waited}"
    );
    // Of one task that ended, one process has counted it.
    for other in [&of_api, &of_reconciler] {
        assert_eq!(sum(other, "counterstep_tasks_ended_total").await, 0.0);
    }

    // A task that no worker takes.
    let order =
        serde_json::json!({"account": "a", "item": "lamp", "quantity": 1, "amount_cents": 1});
    let ordered = api.api.request(Method::POST, "/api/tasks/place-order");
    let ordered = ordered.json(&order).send().await;
    assert_eq!(ordered.expect("an answer").status(), 202);
    let waits = r#"counterstep_tasks{status="dispatched",queue="orders",label_customer=""} 1.0"#;
    shows(&of_api, waits).await;
    until("a pass of the reconciler", SOON, || async {
        let page = page(&of_api, OPEN_METRICS).await;
        page.contains("\ncounterstep_last_pass_age_seconds ")
            .then_some(())
    })
    .await;
    let mut known = BTreeSet::new();
    for of in [&of_api, &of_worker, &of_reconciler] {
        promtool_accepts(of, &place).await;
        known.extend(names(&page(of, OPEN_METRICS).await));
    }
    for path in ["grafana/counterstep.json", "prometheus/alerts.yaml"] {
        let text = std::fs::read_to_string(deploy(path)).expect(path);
        let mut named = named(&text);
        assert!(named.len() >= 10, "{path}: {named:?}");
        // No shipped type has a limit: `figures` has a program with one, and looks at labels and values too.
        named.retain(|name| !name.starts_with("counterstep_limit_"));
        let unknown: Vec<_> = named.difference(&known).collect();
        assert_eq!(unknown, Vec::<&String>::new(), "{path}");
    }
    assert!(worker.stop().success());
    assert!(reconciler.stop().success());
    assert!(api.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_under_way_are_counted_by_the_labels_of_the_settings() {
    let place = Place::new();
    let api = services::api(&place, &["--metrics-labels", "customer,shop.region"]);
    let label = "customer=7, shop.region=\"a \\\"b\\\"\", order=1";
    for labels in [Some(label), None] {
        let part = Part::bytes(b"a".to_vec()).file_name("a.txt");
        let mut request = api.api.request(Method::POST, ROUTE);
        if let Some(labels) = labels {
            request = request.header("counterstep-label", labels);
        }
        let sent = request.multipart(Form::new().part("files", part)).send();
        assert_eq!(sent.await.expect("an answer").status(), 202);
    }
    // No worker takes them.
    for line in [
        r#"counterstep_tasks{status="dispatched",queue="file-processing",label_customer="7",label_shop_region="a \"b\""} 1.0"#,
        r#"counterstep_tasks{status="dispatched",queue="file-processing",label_customer="",label_shop_region=""} 1.0"#,
    ] {
        shows(&api.api, line).await;
    }
    promtool_accepts(&api.api, &place).await;
}

#[test]
fn alarms_fire_where_the_figure_that_they_watch_is_absent() {
    let place = Place::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("prometheus/alerts.test.yaml");
    let tests = place.path().join("alerts.test.yaml");
    std::fs::copy(own, &tests).expect("the tests of the alarms");
    let rules = place.path().join("alerts.yaml");
    std::fs::copy(deploy("prometheus/alerts.yaml"), rules).expect("the alarms");
    let mut promtool = without_settings("promtool");
    promtool.args(["test", "rules"]).arg(&tests);
    to_its_end(place.path(), promtool).assert_code(0);
}

#[test]
fn the_alarms_are_rules_of_prometheus_and_the_dashboard_is_json() {
    let place = Place::new();
    let mut promtool = without_settings("promtool");
    promtool
        .args(["check", "rules"])
        .arg(deploy("prometheus/alerts.yaml"));
    to_its_end(place.path(), promtool).assert_code(0);
    let dashboard = std::fs::read_to_string(deploy("grafana/counterstep.json")).expect("it");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
}
