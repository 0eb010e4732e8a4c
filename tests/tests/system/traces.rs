//! Traces: what a collector gets of tasks that real processes run, and that a collector which is
//! away holds up nothing.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_testkit::services::{Services, Trouble};
use counterstep_tests::api::{Api, ROUTE};
use counterstep_tests::cluster::Cluster;
use counterstep_tests::collector::{Seen, TraceCollector};
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services;
use counterstep_tests::wait::{SOON, until};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TIMES: &[&str] = &[
    "--lease",
    "3s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// The trace and the span of a client.
const CLIENT: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");

fn traceparent(flags: &str) -> String {
    format!("00-{}-{}-{flags}", CLIENT.0, CLIENT.1)
}

/// The trace and the span of a `traceparent`.
fn parts(traceparent: &str) -> (String, String) {
    let parts: Vec<_> = traceparent.split('-').collect();
    (parts[1].to_owned(), parts[2].to_owned())
}

/// Waits until the last span of a task has arrived: that of the turn that has brought it to rest.
/// All others of its trace ended before.
async fn trace_of(collector: &TraceCollector, task: TaskId, status: &str) -> Vec<Seen> {
    let task = task.to_string();
    let rests = until("the span of the last turn", SOON, || async {
        let spans = collector.spans();
        spans
            .into_iter()
            .find(|span| span.of("task") == task && span.of("status") == status)
    })
    .await;
    // The API exports by itself.
    until("the span of the submission", SOON, || async {
        let spans = collector.trace(&rests.trace);
        let has_first = spans.iter().any(|span| span.kind == SpanKind::Server);
        has_first.then_some(spans)
    })
    .await
}

fn named<'a>(spans: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    let mut found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    found.sort_by_key(|span| span.started);
    found
}

fn one<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    let [span] = named(spans, name)[..] else {
        panic!("one span `{name}` in {spans:#?}")
    };
    span
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_shows_api_nats_worker_and_undo_of_a_task_whose_last_step_fails() {
    let collector = TraceCollector::start();
    let endpoint = collector.url();
    let traced = [TIMES, &["--otlp-endpoint", &endpoint]].concat();
    let mut cluster = Cluster::start(TIMES);
    cluster.set_flags(&traced);
    let served = cluster.api();
    let faults = [
        "--plant-fault",
        "create_zip_archive=fail-for-now@1",
        "--plant-fault",
        "upload_zip=fail",
    ];
    cluster.set_flags(&[traced, faults.to_vec()].concat());
    let (worker, worker_id) = cluster.worker();

    let secret = "hunter2-hunter2";
    let body = Part::bytes(secret.as_bytes()).file_name(format!("{secret}.txt"));
    let request = served
        .api
        .request(Method::POST, &format!("{ROUTE}?{secret}"))
        .header("x-secret", secret)
        .multipart(Form::new().part("files", body));
    let refused = request.send().await.expect("an answer");
    assert!(refused.status().is_client_error(), "{refused:?}");
    let body = Part::bytes(secret.as_bytes()).file_name(format!("{secret}.txt"));
    let request = served
        .api
        .request(Method::POST, ROUTE)
        .header("x-secret", secret)
        .header("idempotency-key", secret)
        .multipart(Form::new().part("files", body));
    let accepted = request.send().await.expect("an answer");
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let accepted: Value = accepted.json().await.expect("JSON");
    let task: TaskId = serde_json::from_value(accepted["task_id"].clone()).expect("a task id");
    assert_eq!(served.api.at_rest(task).await.status, TaskStatus::Failed);
    let spans = trace_of(&collector, task, "failed").await;

    // API.
    let request = one(&spans, "POST /api/tasks/{id}");
    assert_eq!(
        (
            request.service.as_str(),
            request.kind,
            request.parent.as_str()
        ),
        ("counterstep-api", SpanKind::Server, "")
    );
    assert_eq!(request.of("http.response.status_code"), "202");
    assert_eq!(request.of("task"), task.to_string());
    assert_eq!(request.of("task_type"), "CreateZipFromFiles");
    // NATS.
    let publish = one(&spans, "publish file-processing");
    assert_eq!(
        (publish.service.as_str(), publish.kind, &publish.parent),
        ("counterstep-api", SpanKind::Producer, &request.id)
    );
    assert_eq!(publish.of("messaging.system"), "nats");
    assert!(
        publish
            .of("messaging.destination.name")
            .ends_with("work.file-processing.CreateZipFromFiles.v1"),
        "{publish:#?}"
    );
    // Worker: the first turn follows the message, one that the task was due for the submission.
    let turns = named(&spans, "turn CreateZipFromFiles");
    assert_eq!(turns[0].parent, publish.id, "{spans:#?}");
    assert_eq!(
        turns[0].of("messaging.message.id"),
        publish.of("messaging.message.id")
    );
    for turn in &turns {
        assert_eq!(
            (turn.service.as_str(), turn.kind),
            ("counterstep-worker", SpanKind::Consumer)
        );
        assert!(
            [&request.id, &publish.id].contains(&&turn.parent),
            "{turn:#?}"
        );
        assert_eq!(turn.of("engine"), worker_id);
    }
    assert!(turns.last().expect("a turn").failed);
    let attempts = [
        ("run create_zip_archive", "failed", "transient"),
        ("run create_zip_archive", "succeeded", ""),
        ("run upload_zip", "failed", "permanent"),
        ("undo upload_zip", "succeeded", ""),
        ("undo upload_source_files", "succeeded", ""),
    ];
    let mut found: Vec<_> = spans
        .iter()
        .filter(|span| !span.of("outcome").is_empty())
        .collect();
    found.sort_by_key(|span| span.started);
    let shown: Vec<_> = found
        .iter()
        .map(|it| (it.name.as_str(), it.of("outcome"), it.of("error.type")))
        .collect();
    assert_eq!(shown, attempts);
    for attempt in found {
        let turn = turns.iter().find(|turn| turn.id == attempt.parent);
        let turn = turn.unwrap_or_else(|| panic!("no turn of {attempt:#?}"));
        assert!(turn.started <= attempt.started && attempt.ended <= turn.ended);
        assert_eq!(attempt.service, "counterstep-worker");
        assert_eq!(attempt.failed, attempt.of("outcome") == "failed");
    }
    // Retries are events of the turn, and so is the beginning of the undo.
    let events: Vec<_> = turns.iter().flat_map(|turn| &turn.events).collect();
    let (_, retry) = events
        .iter()
        .find(|(name, _)| name == "step_retries")
        .expect("a retry");
    assert_eq!(retry["step"], "create_zip_archive");
    assert_eq!(
        (&*retry["attempt"], &*retry["error.type"]),
        ("1", "transient")
    );
    assert!(retry["delay_ms"].parse::<u64>().is_ok(), "{retry:?}");
    let undo = events.iter().find(|(name, _)| name == "undo_started");
    assert_eq!(undo.expect("an undo").1["to"], "compensating");

    // The log of the worker names the same trace, and no span holds what was handed in.
    let line = format!("trace_id=\"{}\"", request.trace);
    assert!(worker.log().contains(&line), "{line}");
    assert!(worker.stop().success() && served.process.stop().success());
    for body in collector.bodies() {
        let holds = |what: &[u8]| body.windows(what.len()).any(|at| at == what);
        assert!(
            !holds(secret.as_bytes()),
            "{}",
            String::from_utf8_lossy(&body)
        );
        assert!(
            !holds(b"planted"),
            "a text of an error: {}",
            String::from_utf8_lossy(&body)
        );
    }
}

/// An order for which the bank is asked.
async fn order(api: &Api, traceparent: Option<String>) -> TaskId {
    let body = json!({"account": "anna", "item": "lamp", "quantity": 1, "amount_cents": 5_000});
    let mut request = api
        .request(Method::POST, "/api/tasks/place-order")
        .json(&body);
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    let accepted: Value = answer.json().await.expect("JSON");
    serde_json::from_value(accepted["task_id"].clone()).expect("a task id")
}

/// Settings that name the services and a collector with a token.
fn settled(place: &Place, services: &Services, collector: &TraceCollector, more: &str) {
    let service = |name: &str| {
        let (url, token) = (services.url(name), services.token_file());
        format!("[services.{name}]\nurl = {url:?}\ntoken_file = {token:?}\n")
    };
    let token = place.path().join("token");
    std::fs::write(&token, "a-token-for-spans\n").expect("a token");
    let url = collector.url();
    let traces = format!("otlp_endpoint = {url:?}\nsecret_files.collector = {token:?}\n{more}\n");
    let services = ["inventory", "bank", "shipping"].map(service).concat();
    std::fs::write(place.path().join("settings.toml"), traces + &services).expect("the settings");
}

const SETTLED: &[&str] = &["--config", "settings.toml", "--drain", "500ms"];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_calls_is_below_its_attempt_and_all_is_below_the_span_of_the_client() {
    let (place, services, collector) = (
        Place::new(),
        Services::start().await,
        TraceCollector::start(),
    );
    settled(&place, &services, &collector, "");
    let served = services::api(&place, SETTLED);
    let task = order(&served.api, Some(traceparent("01"))).await;
    // The worker starts after the API has ended, and the trace goes on.
    assert!(served.process.stop().success());
    let (worker, _) = services::worker(&place, SETTLED);
    let spans = trace_of(&collector, task, "completed").await;

    let request = one(&spans, "POST /api/tasks/{id}");
    assert_eq!((&*request.trace, &*request.parent), CLIENT);
    let turn = one(&spans, "turn PlaceOrder");
    assert_eq!(turn.parent, request.id);
    let attempts: Vec<_> = spans
        .iter()
        .filter(|span| !span.of("outcome").is_empty())
        .collect();
    assert!(
        attempts.iter().all(|span| span.parent == turn.id),
        "{spans:#?}"
    );
    let called = services.traces();
    assert!(called.len() >= 2, "{called:?}");
    for (trace, caller) in called.iter().map(|called| parts(called)) {
        assert_eq!(trace, CLIENT.0);
        assert!(
            attempts
                .iter()
                .any(|span| span.id == caller && span.name.starts_with("run ")),
            "no attempt {caller} in {spans:#?}"
        );
    }
    let token = Some("Bearer a-token-for-spans".to_owned());
    assert!(collector.authorized().iter().all(|it| *it == token));
    assert!(worker.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_recorded_by_its_beginning_alone() {
    let (place, services, collector) = (
        Place::new(),
        Services::start().await,
        TraceCollector::start(),
    );
    settled(&place, &services, &collector, "trace_sample = 0");
    let served = services::dev(&place, SETTLED);
    let api = &served.api;
    let unrecorded = [
        order(api, None).await,
        order(api, Some(traceparent("00"))).await,
    ];
    for task in unrecorded {
        assert_eq!(api.at_rest(task).await.status, TaskStatus::Completed);
    }
    // The client has begun this one, and records it.
    let recorded = order(api, Some(traceparent("01"))).await;
    let spans = trace_of(&collector, recorded, "completed").await;
    assert_eq!(spans[0].trace, CLIENT.0);
    let log = served.process.log();
    assert!(served.process.stop().success());
    let of_others = |span: &Seen| {
        unrecorded
            .iter()
            .any(|task| span.of("task") == task.to_string())
    };
    assert!(
        !collector.spans().iter().any(of_others),
        "{:#?}",
        collector.spans()
    );

    // Each has a trace all the same, which the log names.
    let rows = Rows::of(&place).await;
    for (task, flags) in [
        (unrecorded[0], "00"),
        (unrecorded[1], "00"),
        (recorded, "01"),
    ] {
        let stored = rows
            .task(task)
            .await
            .record
            .task
            .traceparent
            .expect("a trace");
        assert!(stored.ends_with(&format!("-{flags}")), "{stored}");
        assert!(log.contains(&parts(&stored).0), "{stored}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_opens_and_closes_is_an_event_of_the_turns_that_have_changed_it() {
    let (place, services, collector) = (
        Place::new(),
        Services::start().await,
        TraceCollector::start(),
    );
    let breaker = "[breakers.bank]\nafter_failures = 1\nopen_for = \"500ms\"";
    settled(&place, &services, &collector, breaker);
    let served = services::dev(&place, SETTLED);
    services.plant("POST /bank/charges", Trouble::Refuses(503, None));
    let task = order(&served.api, None).await;
    let spans = trace_of(&collector, task, "completed").await;
    let events = spans.iter().filter(|span| span.name == "turn PlaceOrder");
    let mut events: Vec<_> = events.flat_map(|turn| turn.events.clone()).collect();
    events.retain(|(_, attributes)| attributes.contains_key("breaker"));
    let names: BTreeSet<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        BTreeSet::from(["breaker closed", "breaker half-open", "breaker open"])
    );
    assert!(served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_task_that_a_person_retries_goes_on_in_its_trace() {
    let (place, collector) = (Place::new(), TraceCollector::start());
    let endpoint = collector.url();
    let flags = [TIMES, &["--otlp-endpoint", &endpoint]].concat();
    let served = services::api(&place, &flags);
    let faults = [
        "--plant-fault",
        "upload_zip=fail",
        "--plant-fault",
        "upload_source_files:undo=fail",
    ];
    let (worker, _) = services::worker(&place, &[flags.clone(), faults.to_vec()].concat());
    let task = served.api.submit(&Sample::pair(9, 1_000)).await;
    let parked = served.api.at_rest(task).await;
    assert_eq!(parked.status, TaskStatus::CompensationFailed);
    assert!(worker.stop().success());
    let before = trace_of(&collector, task, "compensation_failed").await;

    let (worker, _) = services::worker(&place, &flags);
    let (url, id) = (served.api.url(), task.to_string());
    let retry = ["tasks", "--url", url, "retry", &id, "--note", "again"];
    run(place.path(), &retry).assert_code(0);
    until("the task to be undone", SOON, || async {
        (served.api.task(task).await.status == TaskStatus::Failed).then_some(())
    })
    .await;
    let after = trace_of(&collector, task, "failed").await;
    assert_eq!(after[0].trace, before[0].trace);
    let undos = named(&after, "undo upload_source_files");
    assert_eq!(undos.last().expect("an undo").of("outcome"), "succeeded");
    assert!(undos[0].failed, "{undos:#?}");
    assert!(worker.stop().success() && served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_up_nothing_and_gets_the_spans_when_it_is_back() {
    let (place, collector) = (Place::new(), TraceCollector::start());
    let endpoint = collector.url();
    let flags = [TIMES, &["--otlp-endpoint", &endpoint]].concat();
    let served = services::dev(&place, &flags);
    collector.answer(Some(503));
    let task = served.api.submit(&Sample::pair(7, 1_000)).await;
    assert_eq!(served.api.at_rest(task).await.status, TaskStatus::Completed);
    until("an export that is refused", SOON, || async {
        (collector.refused() > 0).then_some(())
    })
    .await;
    collector.answer(None);
    trace_of(&collector, task, "completed").await;

    // For good, now: the process ends in time, and says what is lost.
    collector.answer(Some(400));
    let task = served.api.submit(&Sample::pair(8, 1_000)).await;
    assert_eq!(served.api.at_rest(task).await.status, TaskStatus::Completed);
    let refused = collector.refused();
    until("another export that is refused", SOON, || async {
        (collector.refused() > refused).then_some(())
    })
    .await;
    let mut process = served.process;
    process.says("that spans are lost", |said| {
        said.contains("spans were lost").then_some(())
    });
    assert!(process.stop().success());
}

#[test]
fn a_collector_that_cannot_be_used_stops_a_process_and_its_setting_is_named() {
    let place = Place::new();
    let here = "otlp_endpoint = \"http://127.0.0.1:1\"\n";
    for (text, said) in [
        (
            "otlp_endpoint = \"http://me:hunter2@127.0.0.1\"",
            "setting `otlp_endpoint`",
        ),
        (
            "otlp_endpoint = \"http://collector.example\"",
            "setting `otlp_endpoint`",
        ),
        (
            &format!("{here}secret_files.collector = \"none\""),
            "`secret_files.collector`",
        ),
        (
            &format!("{here}otlp_header_files = {{ host = \"none\" }}"),
            "setting `otlp_header_files`",
        ),
        ("trace_sample = 1.5", "expected a number from 0 to 1"),
    ] {
        std::fs::write(place.path().join("settings.toml"), text).expect("the settings");
        let refused = run(place.path(), &["worker", "--config", "settings.toml"]);
        refused.assert_code(78).assert_says(said);
        assert!(!refused.stderr.contains("hunter2"), "{refused:#?}");
    }
}
