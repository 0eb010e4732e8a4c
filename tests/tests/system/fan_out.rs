//! A task that submits a thousand others, twenty at a time, on real servers, while its workers are
//! killed.

use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::{ChildLine, ChildQuery, Store};
use counterstep_tests::cluster::Cluster;
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const PARTS: u32 = 1_000;
const AT_A_TIME: usize = 20;

/// A worker is killed so often.
const KILLS: usize = 4;

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--cancel-grace",
    "500ms",
    "--drain",
    "500ms",
];

/// The program on the servers of a cluster.
struct FanOut {
    cluster: Cluster,
    parts: PathBuf,
    store: PostgresStore,
}

impl FanOut {
    async fn start() -> Self {
        let cluster = Cluster::start(TIMES);
        let parts = cluster.place.path().join("parts");
        std::fs::create_dir(&parts).expect("a folder");
        let store = PostgresStore::open(&cluster.database, PostgresOptions::default())
            .await
            .expect("the database opens");
        Self {
            cluster,
            parts,
            store,
        }
    }

    fn launch<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Launch {
        Launch {
            program: PathBuf::from(env!("CARGO_BIN_EXE_fan_out")),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            variables: vec![
                ("PATH".to_owned(), std::env::var("PATH").expect("a path")),
                ("PARTS".to_owned(), self.parts.display().to_string()),
            ],
            user: None,
        }
    }

    fn process(&self, arguments: &[&str]) -> Process {
        let data = self.cluster.place.data();
        let data = ["--data-dir", data.to_str().expect("UTF-8")];
        let flags = self.cluster.flags();
        let flags = flags.iter().map(String::as_str);
        let all = arguments.iter().chain(&data).copied().chain(flags);
        Process::launch(&self.cluster.place, &self.launch(all))
    }

    fn worker(&self) -> Process {
        let mut worker = self.process(&["worker", "--concurrency", "16"]);
        worker.says("that it has started", |said| {
            said.contains("worker started").then_some(())
        });
        worker
    }

    fn reconciler(&self) -> Process {
        let mut reconciler = self.process(&["reconciler", "--every", "1s"]);
        reconciler.says("that it has started", |said| {
            said.contains("reconciler started").then_some(())
        });
        reconciler
    }

    fn api(&self) -> (Process, counterstep_tests::api::Api) {
        let mut api = self.process(&["api", "--listen", "127.0.0.1:0"]);
        let address = api.says("its address", |said| {
            let (_, after) = said.split_once("address=")?;
            Some(after.split_once('\n')?.0.trim().to_owned())
        });
        (api, counterstep_tests::api::Api::at(&address))
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

    /// Each journal folds to its row, and no event is illegal.
    fn assert_sound(&self) {
        let launch = self.launch(["fsck", "--database", &self.cluster.database]);
        let status = Process::launch(&self.cluster.place, &launch).ended();
        assert!(status.success(), "fsck: {status}");
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
    let (_api, api) = site.api();
    let _reconciler = site.reconciler();
    let mut workers = vec![site.worker(), site.worker()];
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
            workers.push(site.worker());
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
    site.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_list_complete_twenty_at_a_time_while_workers_are_killed() {
    let site = FanOut::start().await;
    let (_api, api) = site.api();
    let _reconciler = site.reconciler();
    let mut workers = vec![site.worker(), site.worker()];
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
        workers.push(site.worker());
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
    site.assert_sound();
}
