//! Every figure of the metrics, moved by real work on real servers: a name that stays as it was at the start, or one
//! that the documents do not have, fails. And what alarms and the dashboard ask for is there, with its labels.

use counterstep_testkit::servers::Postgres;
use counterstep_tests::api::Api;
use counterstep_tests::command::{to_its_end, without_settings};
use counterstep_tests::own_program::OwnProgram;
use counterstep_tests::place::Place;
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::wait::{LATER, until};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
    "--test-time",
    "lost_after=3s",
    "--events",
    "true",
    "--metrics-listen",
    "127.0.0.1:0",
];

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=\n";

/// A sample with its labels, as a page writes it.
type Samples = BTreeMap<String, f64>;

/// What is served at `/metrics` by each process, and what has moved so far.
#[derive(Default)]
struct Figures {
    pages: Vec<(Api, Samples)>,
    /// Samples that have had another value than at first.
    moved: BTreeSet<String>,
    /// All samples that were ever there.
    seen: BTreeSet<String>,
    /// The names of the figures, as a document writes them.
    names: BTreeSet<String>,
}

impl Figures {
    /// From here on this process is looked at: what it shows is its baseline.
    async fn add(&mut self, process: &mut Process) -> Api {
        let of = Api::at(&process.metrics_address());
        let page = page(&of).await.expect("a page");
        self.note(&page);
        self.pages.push((of.clone(), samples(&page)));
        of
    }

    fn note(&mut self, page: &str) {
        let types = page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        self.names.extend(types.map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        }));
        self.seen.extend(samples(page).into_keys());
    }

    /// Looks at all processes that answer.
    async fn look(&mut self) {
        let pages = join_all(self.pages.iter().map(|(of, _)| page(of))).await;
        for (at, page) in pages.into_iter().enumerate() {
            let Some(page) = page else { continue };
            self.note(&page);
            let before = &self.pages[at].1;
            let now = samples(&page);
            let changed = now.into_iter().filter(|(sample, value)| {
                before.get(sample).copied().unwrap_or_default() != *value
            });
            let changed: Vec<_> = changed.map(|(sample, _)| sample).collect();
            self.moved.extend(changed);
        }
    }

    /// Waits until a sample that begins so has moved.
    async fn moves(&mut self, start: &str) {
        let this = tokio::sync::Mutex::new(self);
        until(start, LATER, || async {
            let mut this = this.lock().await;
            this.look().await;
            this.moved
                .iter()
                .any(|it| it.starts_with(start))
                .then_some(())
        })
        .await;
    }
}

async fn page(of: &Api) -> Option<String> {
    let request = of.request(Method::GET, "/metrics");
    let request = request.header("accept", "application/openmetrics-text");
    // A process that stands still does not answer.
    let request = request.timeout(Duration::from_secs(2));
    request.send().await.ok()?.text().await.ok()
}

fn samples(page: &str) -> Samples {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (sample, value) = line.rsplit_once(' ')?;
        Some((sample.to_owned(), value.parse().ok()?))
    };
    lines.filter_map(sample).collect()
}

fn name_of(sample: &str) -> &str {
    sample.split('{').next().unwrap_or_default()
}

/// A receiver of webhooks that always answers so.
fn receiver(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            while !text.ends_with('}') {
                match socket.read(&mut bytes) {
                    Ok(count @ 1..) => text += &String::from_utf8_lossy(&bytes[..count]),
                    _ => break,
                }
            }
            let head =
                format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = socket.write_all(head.as_bytes());
        }
    });
    address
}

/// A submission, with these headers; the status of the answer.
async fn submit(api: &Api, task_type: &str, end: &str, headers: &[(&str, &str)]) -> u16 {
    let request = api.request(Method::POST, &format!("/api/tasks/{task_type}"));
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    let sent = request.json(&json!(end)).send().await;
    sent.expect("an answer").status().as_u16()
}

/// A submission that is accepted, once there is room for it: some of its type may wait still.
async fn accept(api: &Api, task_type: &str, end: &str, headers: &[(&str, &str)]) {
    until("a submission is accepted", LATER, || async {
        match submit(api, task_type, end, headers).await {
            202 => Some(()),
            429 => None,
            status => panic!("{task_type} {end}: {status}"),
        }
    })
    .await;
}

async fn decide(api: &Api, path: &str) {
    let request = api.request(Method::POST, path);
    let sent = request.json(&json!({"note": "a test"})).send().await;
    let status = sent.expect("an answer").status();
    assert!(status.is_success(), "{path}: {status}");
}

fn worker(program: &OwnProgram) -> Process {
    let arguments = ["worker", "--queues", "walks", "--concurrency", "8"];
    let mut worker = program.process(&arguments);
    worker.says("that it has started", |said| {
        said.contains("worker started").then_some(())
    });
    worker
}

/// The figures that the tables of the page about metrics have.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/metrics.md");
    let (_, below) = page.split_once("\n## Metrics\n").expect("a heading");
    let section = below.split("\n### ").next().unwrap_or_default();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| `counterstep_"));
    let cells = rows.map(|row| row.split(" | ").next().unwrap_or_default());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(|name| name_of(name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_documented_figure_moves_and_alarms_and_dashboard_ask_for_what_is_there() {
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_figures"), TIMES);
    let (place, servers) = (&program.cluster.place, &program.cluster.servers);
    let secrets = place.path().join("secrets");
    std::fs::create_dir(&secrets).expect("a folder");
    std::fs::write(secrets.join("webhooks"), SECRET).expect("a file");
    let mut reconciler = program.reconciler();
    let (mut served, api) = program.api_with(&[
        "--max-waiting",
        "2",
        "--webhook-allow",
        "127.0.0.0/8",
        "--secrets-dir",
        secrets.to_str().expect("UTF-8"),
    ]);
    let mut first = worker(&program);
    let mut figures = Figures::default();
    for process in [&mut served, &mut reconciler, &mut first] {
        figures.add(process).await;
    }

    answers(&api, &mut figures).await;
    ends(&api, &mut figures).await;

    // A worker that stands still for longer than its lease: another one takes over.
    for _ in 0..2 {
        accept(&api, "queue", "hangs", &[]).await;
    }
    accept(&api, "walk", "hangs", &[]).await;
    figures
        .moves("counterstep_limit_permits_held{limit=\"road\"}")
        .await;
    figures
        .moves("counterstep_limit_attempts_waiting{limit=\"road\"}")
        .await;
    figures
        .moves("counterstep_slots_busy{role=\"worker\"}")
        .await;
    figures.moves("counterstep_oldest_running_seconds").await;
    let mut second = worker(&program);
    figures.add(&mut second).await;
    first.signal(Signal::Stop);
    figures
        .moves("counterstep_recoveries_total{task_type=\"Walk\"}")
        .await;
    figures.moves("counterstep_workers{state=\"lost\"}").await;
    first.signal(Signal::Continue);
    figures.moves("counterstep_leases_lost_total").await;

    accept(&api, "park", "works", &[]).await;
    for name in ["parked_tasks", "oldest_parked_seconds"] {
        let of_type = "{status=\"dead_lettered\",task_type=\"Park\"}";
        figures.moves(&format!("counterstep_{name}{of_type}")).await;
    }
    for name in ["open_effects", "open_effects_amount"] {
        let of_type = "{kind=\"waived\",task_type=\"Park\"";
        figures.moves(&format!("counterstep_{name}{of_type}")).await;
    }

    // With a pass a second no look may meet one that did something, or the last one when it is seconds old.
    reconciler.signal(Signal::Stop);
    let soon = Timestamp::now() + SignedDuration::from_secs(1);
    let fires = json!({"type": "walk", "run_at": soon.to_string(), "request": "works"});
    let put = api.request(Method::PUT, "/api/schedules/soon").json(&fires);
    assert_eq!(put.send().await.expect("an answer").status(), 201);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut once = program.process(&["reconciler", "--once"]);
    assert!(once.ended().success());
    figures.moves("counterstep_last_pass{").await;
    figures.moves("counterstep_last_pass_age_seconds").await;
    reconciler.signal(Signal::Continue);

    // Servers that are away.
    servers.nats.stop();
    accept(&api, "walk", "works", &[]).await;
    figures
        .moves("counterstep_oldest_unpublished_seconds")
        .await;
    servers.nats.begin();
    let file = place.path().join("the-database-is-away");
    away(&servers.postgres, &api, &mut figures, &file).await;

    figures.look().await;
    let known: BTreeSet<_> = figures.names.clone();
    assert_eq!(
        documented(),
        known,
        "the tables of docs/metrics.md, and what is served"
    );
    let has_moved = |name: &&String| {
        let of_histogram = format!("{name}_count");
        figures
            .moved
            .iter()
            .any(|sample| name_of(sample) == name.as_str() || name_of(sample) == of_histogram)
    };
    let still: Vec<_> = known.iter().filter(|name| !has_moved(name)).collect();
    // It moves where another server takes the writes: `failover` looks at it.
    assert_eq!(still, ["counterstep_database_server"], "these never moved");
    for path in ["grafana/counterstep.json", "prometheus/alerts.yaml"] {
        asks_for_what_is_there(path, &figures.seen);
    }
    first.kill();
    second.kill();
    assert!(reconciler.stop().success());
    assert!(served.stop().success());
}

/// Each way in which a submission is answered.
async fn answers(api: &Api, figures: &mut Figures) {
    let key = [("idempotency-key", "1")];
    assert_eq!(submit(api, "walk", "works", &key).await, 202);
    assert_eq!(submit(api, "walk", "works", &key).await, 202);
    assert_eq!(submit(api, "walk", "fails", &key).await, 422);
    assert_eq!(submit(api, "walk", "flies", &[]).await, 422);
    decide(api, "/api/task-types/rest/disable").await;
    assert_eq!(submit(api, "rest", "works", &[]).await, 409);
    decide(api, "/api/task-types/rest/enable").await;
    for _ in 0..2 {
        assert_eq!(submit(api, "rest", "works", &[]).await, 202);
    }
    assert_eq!(submit(api, "rest", "works", &[]).await, 429);
    for (task_type, outcome) in [
        ("Walk", "accepted"),
        ("Walk", "repeated"),
        ("Walk", "conflict"),
        ("Walk", "refused"),
        ("Rest", "disabled"),
        ("Rest", "too_many_waiting"),
    ] {
        let sample = format!(
            "counterstep_submissions_total{{task_type=\"{task_type}\",outcome=\"{outcome}\"}}"
        );
        figures.moves(&sample).await;
    }
    figures
        .moves("counterstep_tasks{status=\"dispatched\",queue=\"rests\"}")
        .await;
    figures.moves("counterstep_oldest_due_seconds").await;
    decide(api, "/api/queues/rests/pause").await;
    figures
        .moves("counterstep_queue_paused{queue=\"rests\"}")
        .await;
}

/// Each way in which attempts, tasks and webhooks end.
async fn ends(api: &Api, figures: &mut Figures) {
    for (answer, status) in [
        ("200 OK", "delivered"),
        ("503 Busy", "pending"),
        ("410 Gone", "failed"),
    ] {
        let url = format!("http://{}/hook", receiver(answer));
        let webhook = [("counterstep-webhook", url.as_str())];
        accept(api, "walk", "works", &webhook).await;
        let sample = format!("counterstep_webhooks_total{{status=\"{status}\"}}");
        figures.moves(&sample).await;
    }
    accept(api, "walk", "fails", &[]).await;
    accept(api, "cross", "works", &[]).await;
    accept(api, "block", "works", &[]).await;
    for sample in [
        "counterstep_tasks_ended_total{task_type=\"Walk\",status=\"completed\"}",
        "counterstep_tasks_ended_total{task_type=\"Walk\",status=\"failed\"}",
        "counterstep_task_duration_seconds_count{task_type=\"Walk\",status=\"failed\"}",
        "counterstep_claim_wait_seconds_count{task_type=\"Walk\"}",
        "counterstep_undos_total{task_type=\"Walk\"}",
        "counterstep_attempts_total{task_type=\"Walk\",step=\"set_out\",direction=\"undo\",outcome=\"succeeded\"}",
        "counterstep_attempts_total{task_type=\"Walk\",step=\"walk\",direction=\"forward\",outcome=\"failed\"}",
        "counterstep_attempt_duration_seconds_count{task_type=\"Walk\",step=\"set_out\",direction=\"undo\"}",
        "counterstep_breaker_state{breaker=\"bridge\",state=\"open\"}",
        "counterstep_attempts_abandoned_total",
    ] {
        figures.moves(sample).await;
    }
}

/// The database is away for a while, and a step ends meanwhile: it waits for this file.
async fn away(postgres: &Postgres, api: &Api, figures: &mut Figures, file: &Path) {
    accept(api, "linger", file.to_str().expect("UTF-8"), &[]).await;
    figures
        .moves("counterstep_claim_wait_seconds_count{task_type=\"Linger\"}")
        .await;
    postgres.stop();
    std::fs::write(file, "").expect("a file");
    for sample in [
        "counterstep_spooled_results_total{outcome=\"kept\"}",
        "counterstep_spool_results",
        "counterstep_spool_bytes",
        "counterstep_spool_oldest_seconds",
    ] {
        figures.moves(sample).await;
    }
    assert_eq!(submit(api, "walk", "works", &[]).await, 503);
    figures.moves("counterstep_database_up").await;
    figures
        .moves("counterstep_submissions_total{task_type=\"Walk\",outcome=\"failed\"}")
        .await;
    postgres.begin();
    let this = tokio::sync::Mutex::new(figures);
    until("the database is back", LATER, || async {
        let figures = this.lock().await;
        let page = page(&figures.pages[0].0).await?;
        (samples(&page).get("counterstep_database_up") == Some(&1.0)).then_some(())
    })
    .await;
    let figures = this.into_inner();
    figures
        .moves("counterstep_spooled_results_total{outcome=\"committed\"}")
        .await;
}

/// What a text asks Prometheus for: a figure, and labels that it has to have, some with a value.
fn asked(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let mut found = Vec::new();
    let mut grouped: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("counterstep_") {
        // `by (a, b)` stands before what it groups.
        if let Some((_, labels)) = rest[..at].rsplit_once("by (") {
            let labels = labels.split(')').next().unwrap_or_default();
            grouped = labels
                .split(',')
                .map(|label| (label.trim().to_owned(), String::new()))
                .collect();
        }
        rest = &rest[at..];
        let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut labels = std::mem::take(&mut grouped);
        if let Some(selector) = rest.strip_prefix('{') {
            let selector = selector.split('}').next().unwrap_or_default();
            for matcher in selector.split(',') {
                let (label, value) = matcher.split_once('"').expect("a value in quotes");
                let (label, equals) = label.split_at(label.find(['=', '!']).expect("an operator"));
                let value = value.trim_end_matches('"');
                // What is to be left out need not be there; of several one each.
                for value in value.split('|') {
                    let value = if equals.starts_with('!') { "" } else { value };
                    labels.push((label.trim().to_owned(), value.to_owned()));
                }
            }
        }
        found.push((name, labels));
    }
    found
}

/// Each figure that a file of `deploy/` asks for was there, with the labels and the values that it names.
fn asks_for_what_is_there(path: &str, seen: &BTreeSet<String>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(path);
    let text = std::fs::read_to_string(&file)
        .expect(path)
        .replace("\\\"", "\"");
    let asked = asked(&text);
    assert!(asked.len() >= 10, "{path}: {asked:?}");
    for (name, labels) in asked {
        let of_name: Vec<_> = seen
            .iter()
            .filter(|sample| name_of(sample) == name)
            .collect();
        assert!(!of_name.is_empty(), "{path}: there is no {name}");
        for (label, value) in labels {
            // A parked task is another test's, and Prometheus names the process that it has asked.
            let is_not_ours = ["compensation_failed", "dead_lettered"].contains(&&*value);
            if is_not_ours || label == "instance" {
                continue;
            }
            let part = match value.as_str() {
                "" => format!("{label}=\""),
                value => format!("{label}=\"{value}\""),
            };
            let is_there = of_name.iter().any(|sample| sample.contains(&part));
            assert!(is_there, "{path}: no {name} has {part}");
        }
    }
}

#[test]
fn the_questions_of_the_dashboard_are_ones_that_prometheus_understands() {
    let place = Place::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana/counterstep.json");
    let dashboard = std::fs::read_to_string(file).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let rules: Vec<_> = targets
        .enumerate()
        .map(|(no, target)| {
            let question = target["expr"].as_str().expect("a question");
            let question = question.replace("$__rate_interval", "5m");
            assert!(!question.contains('$'), "{question}");
            json!({"record": format!("panel:{no}"), "expr": question})
        })
        .collect();
    assert!(rules.len() >= 20, "{}", rules.len());
    // JSON is YAML too.
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let file = place.path().join("rules.yaml");
    std::fs::write(&file, rules.to_string()).expect("a file");
    let mut promtool = without_settings("promtool");
    promtool.args(["check", "rules"]).arg(&file);
    to_its_end(place.path(), promtool).assert_code(0);
}
