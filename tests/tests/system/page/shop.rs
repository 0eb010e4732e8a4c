//! A shop for lamps that runs as one process, and what its page is used on.

use counterstep_contracts::bulk::{BulkStatus, BulkView};
use counterstep_contracts::http::{Accepted, Page, TaskSummary};
use counterstep_contracts::workers::{WorkerDetails, WorkerView, WorkersView};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::browser::Tab;
use counterstep_tests::command::{Ended, to_its_end, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::wait::{LATER, until};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lamps");

pub(super) struct Shop {
    pub(super) api: Api,
    pub(super) place: Place,
    process: Process,
}

impl Shop {
    pub(super) async fn open() -> Self {
        Self::with(Place::new(), &[])
    }

    /// For holders of keys.
    pub(super) async fn locked() -> Self {
        let place = Place::new();
        Self::with(place, &["--auth", "keys"])
    }

    /// Of an installation with a name and a colour.
    pub(super) async fn named(name: &str, color: &str) -> Self {
        Self::with(Place::new(), &["--ui-name", name, "--ui-color", color])
    }

    /// How its process ends that does not start with these flags.
    pub(super) fn refused(flags: &[&str]) -> Ended {
        let place = Place::new();
        let data = place.data();
        let mut command = without_settings(PROGRAM);
        command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data).args(flags);
        to_its_end(place.path(), command)
    }

    fn with(place: Place, flags: &[&str]) -> Self {
        let data = place.data();
        let data = [
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--every",
            "1s",
            "--data-dir",
            data.to_str().expect("UTF-8"),
        ];
        let bank = place.path().join("bank").display().to_string();
        let launch = Launch {
            program: PathBuf::from(PROGRAM),
            arguments: data
                .iter()
                .chain(flags)
                .map(|it| (*it).to_owned())
                .collect(),
            variables: vec![("BANK".to_owned(), bank)],
            user: None,
        };
        let mut process = Process::launch(&place, &launch);
        let address = process.says("where its page is", |said| {
            let (_, rest) = said.split_once("the page is at http://")?;
            Some(rest.split_once("/ui")?.0.to_owned())
        });
        Self {
            api: Api::at(&address),
            place,
            process,
        }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.api.url())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn key(&self, role: &str) -> String {
        self.key_in("default", role)
    }

    /// A key of a tenant.
    pub(super) fn key_in(&self, tenant: &str, role: &str) -> String {
        let data = self.place.data();
        let mut command = without_settings(PROGRAM);
        command.args([
            "keys",
            "--data-dir",
            data.to_str().expect("UTF-8"),
            "create",
        ]);
        command.args(["--subject", "kim", "--role", role, "--tenant", tenant]);
        let made = to_its_end(self.place.path(), command);
        made.assert_code(0).stdout.trim().to_owned()
    }

    pub(super) async fn submit(&self, route: &str, request: &'static str) -> TaskId {
        let path = format!("/api/tasks/{route}");
        let request = self
            .api
            .request(reqwest::Method::POST, &path)
            .header("content-type", "application/json")
            .body(request);
        let answer = request.send().await.expect("an answer");
        answer.json::<Accepted>().await.expect("a task").task_id
    }

    /// A task whose undo waits for a person.
    pub(super) async fn parked_undo(&self) -> TaskId {
        let task = self
            .submit(
                "order-lamp",
                r#"{"name":"Aurora","fails_at":"ship","polish_ms":40}"#,
            )
            .await;
        let view = self.api.at_rest(task).await;
        assert_eq!(view.status, TaskStatus::CompensationFailed, "{view:?}");
        task
    }

    /// The id of an operation on many tasks that has paused after its sample.
    pub(super) async fn started(&self, operation: &'static str) -> String {
        let started = self
            .api
            .request(reqwest::Method::POST, "/api/bulk-operations")
            .header("content-type", "application/json")
            .body(operation);
        let started = started.send().await.expect("an answer");
        let started: BulkView = started.json().await.expect("an operation");
        let path = format!("/api/bulk-operations/{}", started.id);
        until("its pause", LATER, async || {
            let view = self.api.request(reqwest::Method::GET, &path).send().await;
            let view: BulkView = view.ok()?.json().await.ok()?;
            (view.status == BulkStatus::Paused).then_some(())
        })
        .await;
        started.id
    }

    /// A task that gave up.
    pub(super) async fn dead_letter(&self) -> TaskId {
        let task = self
            .submit("check-stock", r#"{"name":"all","fails_at":"count"}"#)
            .await;
        let view = self.api.at_rest(task).await;
        assert_eq!(view.status, TaskStatus::DeadLettered, "{view:?}");
        task
    }

    /// Its only process, once it has registered.
    pub(super) async fn worker(&self) -> WorkerView {
        until("its process is registered", LATER, || async {
            let found: WorkersView = self.get("/api/workers").await;
            found.workers.into_iter().next()
        })
        .await
    }

    /// The page of its process, once that shows what has ended there.
    pub(super) async fn worker_page(&self) -> String {
        let id = self.worker().await.id;
        until("its row has what it ran", LATER, || async {
            // It refreshes its row, too.
            let ready = self.api.request(reqwest::Method::GET, "/readyz");
            ready.send().await.expect("an answer");
            let found: WorkerDetails = self.get(&format!("/api/workers/{id}")).await;
            (!found.recent.is_empty()).then_some(())
        })
        .await;
        format!("/ui/workers/{id}")
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let request = self.api.request(reqwest::Method::GET, path);
        let answer = request.send().await.expect("an answer");
        answer.json().await.expect("an answer of its type")
    }

    /// Changes something as another person would meanwhile.
    pub(super) async fn changed(&self, path: &str, body: &Value) {
        let request = self.api.request(reqwest::Method::POST, path);
        let request = request.header("content-type", "application/json");
        let request = request.body(body.to_string());
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    pub(super) async fn statuses(&self) -> Vec<TaskStatus> {
        let page: Page<TaskSummary> = self.get("/api/tasks").await;
        page.items.into_iter().map(|it| it.status).collect()
    }

    /// Goes from link to link and from field to field, to the one of this name.
    pub(super) async fn tab_to(&self, tab: &Tab, name: &str) {
        let is_there = format!(
            "(() => {{ const it = document.activeElement; return (it.ariaLabel ?? it.innerText ?? '').trim() === {}; }})()",
            json!(name)
        );
        for _ in 0..60 {
            tab.press("Tab").await;
            if tab.eval(&is_there).await == json!(true) {
                let outline = tab
                    .eval("getComputedStyle(document.activeElement).outlineStyle")
                    .await;
                assert_ne!(outline, "none", "{name}: where one is can be seen");
                return;
            }
        }
        panic!("no way by keyboard to {name}");
    }

    /// No page had an error, and none asked another server for anything.
    pub(super) fn assert_own(&self, tab: &Tab) {
        assert_eq!(tab.errors(), [] as [String; 0]);
        self.assert_asks_own(tab);
    }

    /// None asked another server for anything.
    pub(super) fn assert_asks_own(&self, tab: &Tab) {
        let own = format!("{}/ui", self.api.url());
        let strange: Vec<_> = tab
            .requests()
            .into_iter()
            .filter(|it| !it.starts_with(&own))
            .collect();
        assert_eq!(strange, [] as [String; 0]);
    }
}
