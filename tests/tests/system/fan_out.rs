//! A task that submits a thousand others, twenty at a time, on real servers, while its workers are
//! killed.

use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::{ChildLine, ChildQuery, Store};
use counterstep_tests::own_program::OwnProgram;
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const PARTS: u32 = 1_000;
const AT_A_TIME: usize = 20;

/// How many times a worker is killed.
const KILLS: usize = 4;

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// The program on the servers of a cluster.
struct FanOut {
    program: OwnProgram,
    parts: PathBuf,
    store: Store,
}

impl FanOut {
    async fn start() -> Self {
        let program = OwnProgram::start(env!("CARGO_BIN_EXE_fan_out"), TIMES);
        let parts = program.cluster.place.path().join("parts");
        std::fs::create_dir(&parts).expect("a folder");
        let store = PostgresStore::open(&program.cluster.database, PostgresOptions::default())
            .await
            .expect("the database opens");
        let folder = parts.display().to_string();
        Self {
            program: program.variable("PARTS", &folder),
            parts,
            store: store.into(),
        }
    }

    async fn children(&self, parent: TaskId) -> Vec<ChildLine> {
        let query = ChildQuery {
            parent,
            step: None,
            statuses: Vec::new(),
            after: None,
            limit: 2 * PARTS,
        };
        self.store
            .children(&query)
            .await
            .expect("the store answers")
    }

    /// What was done and is not undone.
    fn files(&self) -> BTreeSet<String> {
        let names = std::fs::read_dir(&self.parts).expect("a folder");
        names
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }
}

async fn submit(api: &counterstep_tests::api::Api, request: Value) -> TaskId {
    let answer = api
        .request(Method::POST, "/api/tasks/make-whole")
        .json(&request)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 202);
    let answer: Value = answer.json().await.expect("JSON");
    answer["task_id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("an id")
}

fn open(line: &ChildLine) -> bool {
    !line.status.is_at_rest()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_a_thousand_fails_and_all_that_ran_are_undone_while_workers_are_killed() {
    let site = FanOut::start().await;
    let (_api, api) = site.program.api();
    let _reconciler = site.program.reconciler();
    let mut workers = vec![site.program.worker(), site.program.worker()];
    let broken = 400;
    let request = json!({"parts": PARTS, "at_a_time": AT_A_TIME, "broken": broken});
    let whole = submit(&api, request).await;

    let mut killed = 0;
    let mut ended_before = 0;
    loop {
        let lines = site.children(whole).await;
        let running = lines.iter().filter(|line| open(line)).count();
        let status = api.task(whole).await.status;
        // While it goes forward; on the way back all are undone side by side.
        if matches!(status, TaskStatus::Running | TaskStatus::Waiting) {
            assert!(running <= AT_A_TIME, "{running} run at a time");
        }
        if status.is_at_rest() {
            break;
        }
        let ended = lines.len() - running;
        // Some progress between two kills, on the way forward and on the way back.
        if killed < KILLS && (ended > ended_before + 60 || status == TaskStatus::Compensating) {
            (killed, ended_before) = (killed + 1, ended);
            workers.remove(0).kill();
            workers.push(site.program.worker());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(killed, KILLS, "the test showed less than it was to show");

    let view = api.task(whole).await;
    assert_eq!(view.status, TaskStatus::Failed);
    let failure = view.failure.expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("made"));
    assert!(
        failure.message.contains("this part is broken"),
        "{}",
        failure.message
    );
    let lines = site.children(whole).await;
    assert!(
        lines.len() < PARTS as usize,
        "{} were submitted",
        lines.len()
    );
    for line in &lines {
        let expected = if line.no == broken {
            TaskStatus::Failed
        } else {
            TaskStatus::Cancelled
        };
        assert_eq!(line.status, expected, "part {}", line.no);
    }
    assert_eq!(site.files(), BTreeSet::new(), "all is undone");
    println!(
        "{} of {PARTS} parts were submitted, {KILLS} workers killed",
        lines.len()
    );
    site.program.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_list_complete_twenty_at_a_time_while_workers_are_killed() {
    let site = FanOut::start().await;
    let (_api, api) = site.program.api();
    let _reconciler = site.program.reconciler();
    let mut workers = vec![site.program.worker(), site.program.worker()];
    let parts = 300;
    let request = json!({"parts": parts, "at_a_time": AT_A_TIME, "broken": null});
    let whole = submit(&api, request).await;
    for ended in [80, 180] {
        until("progress", LATER, || async {
            let lines = site.children(whole).await;
            let running = lines.iter().filter(|line| open(line)).count();
            assert!(running <= AT_A_TIME, "{running} run at a time");
            (lines.len() - running >= ended).then_some(())
        })
        .await;
        workers.remove(0).kill();
        workers.push(site.program.worker());
    }
    let view = api.at_rest_within(whole, LATER).await;
    assert_eq!(view.status, TaskStatus::Completed);
    let sum: u32 = (0..parts).sum();
    assert_eq!(view.response, Some(json!(sum)));
    let lines = site.children(whole).await;
    assert_eq!(lines.len(), parts as usize);
    assert!(
        lines
            .iter()
            .all(|line| line.status == TaskStatus::Completed)
    );
    assert_eq!(site.files().len(), parts as usize + 1);
    site.program.assert_sound();
}
