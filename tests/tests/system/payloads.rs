//! Encryption at rest, on real servers: what was handed in stands in no file of any of them, in no archive and
//! in no line of a log; and without its tenant's key, what is left still verifies.

use counterstep_contracts::TaskId;
use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::command::{Ended, to_its_end};
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// In all that is handed in.
const PLANTED: &str = "planted0f1e2d3c";

/// A label: it is not encrypted, and proves that what is looked for would be found.
const LABEL: &str = "labelled4b5a6978";

const TENANTS: [&str; 2] = ["acme", "other"];

const SETTINGS: &str = "[retention.HandOn]\nfailed = { after = \"1s\", then = \"archive\" }\n";

const FLAGS: &[&str] = &[
    "--lease", "2s", "--drain", "500ms", "--events", "true", "--log", "debug",
];

/// The program on the servers of a cluster.
struct Words {
    cluster: Cluster,
    keys: PathBuf,
    config: PathBuf,
}

impl Words {
    fn start() -> Self {
        let cluster = Cluster::start(FLAGS);
        let keys = cluster.place.path().join("payload-keys");
        std::fs::create_dir(&keys).expect("a folder");
        let config = cluster.place.path().join("words.toml");
        std::fs::write(&config, SETTINGS).expect("a file");
        Self {
            cluster,
            keys,
            config,
        }
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        let data = self.cluster.place.data();
        let [data, keys, config] =
            [&data, &self.keys, &self.config].map(|path| path.to_str().expect("UTF-8"));
        let places = [
            "--data-dir",
            data,
            "--payload-keys",
            keys,
            "--config",
            config,
        ];
        Launch {
            program: PathBuf::from(env!("CARGO_BIN_EXE_words")),
            arguments: arguments
                .iter()
                .chain(&places)
                .map(|&one| one.to_owned())
                .collect(),
            variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
            user: None,
        }
    }

    fn service(&self, arguments: &[&str]) -> Process {
        let flags = self.cluster.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let launch = self.launch(&[arguments, &flags].concat());
        Process::launch(&self.cluster.place, &launch)
    }

    /// A command that takes the database alone.
    fn run(&self, arguments: &[&str]) -> Ended {
        let database = ["--database", &self.cluster.database];
        let launch = self.launch(&[arguments, &database].concat());
        to_its_end(self.cluster.place.path(), launch.command())
    }

    fn api(&self) -> (Process, String) {
        let mut api = self.service(&["api", "--listen", "127.0.0.1:0", "--auth", "keys"]);
        let address = api.says("its address", |said| {
            let (_, rest) = said.split_once("address=")?;
            Some(rest.split_once('\n')?.0.trim().to_owned())
        });
        (api, address)
    }

    /// A key for the API of a tenant.
    fn key(&self, tenant: &str) -> String {
        let create = [
            "keys",
            "create",
            "--subject",
            "kim",
            "--role",
            "operate",
            "--tenant",
            tenant,
        ];
        self.run(&create).assert_code(0).stdout.trim().to_owned()
    }
}

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Value {
    let mut request = api
        .request(method, path)
        .header("counterstep-label", format!("find={LABEL}"));
    // One that no retention waits for: a task stays as long as its key.
    if body["end"] == "panics" {
        request = request.header("idempotency-key", LABEL);
    }
    let answer = request.json(body).send().await.expect("an answer");
    let (status, text) = (answer.status(), answer.text().await.expect("a body"));
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// A task that gets its signal, and ends so.
async fn ended(api: &Api, end: &str) -> TaskId {
    let request = json!({"words": format!("{PLANTED}-{end}-request"), "end": end});
    let accepted = send(api, Method::POST, "/api/tasks/hand-on", &request).await;
    let task = accepted["task_id"].as_str().expect("an id").to_owned();
    let approval = json!({"words": format!("{PLANTED}-signal")});
    let signal = format!("/api/tasks/{task}/signals/approval");
    send(api, Method::POST, &signal, &approval).await;
    let task = task.parse().expect("an id");
    api.at_rest(task).await;
    task
}

async fn read(api: &Api, path: &str) -> Value {
    let answer = api.request(Method::GET, path).send().await;
    let answer = answer.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.json().await.expect("JSON")
}

/// A parked task that a bulk operation settles, found by its group and by the text of its failure.
async fn settled_in_bulk(api: &Api) -> TaskId {
    let task = ended(api, "stays").await;
    // What blocks it is the undo that gave up.
    let text = format!("{PLANTED}-stays-request-undo");
    let groups = read(api, "/api/dead-letters/groups").await;
    let group = groups["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .find(|group| {
            let text = group["text"].as_str();
            text.is_some_and(|text| text.ends_with("-stays-request-undo"))
        })
        .unwrap_or_else(|| panic!("{groups}"));
    let found = read(api, &format!("/api/tasks?type=hand-on&failure_text={text}")).await;
    assert!(found.to_string().contains(&task.to_string()), "{found}");
    let operation = json!({
        "action": "resolve", "as": "undone", "group": group["id"], "filter": {"failure_text": text},
        "note": format!("{PLANTED}-bulk-note"),
    });
    let started = send(api, Method::POST, "/api/bulk-operations", &operation).await;
    let path = format!(
        "/api/bulk-operations/{}",
        started["id"].as_str().expect("an id")
    );
    until("the operation is done", LATER, || async {
        let view = read(api, &path).await;
        let shown = view.to_string();
        assert!(
            shown.contains("-bulk-note") && shown.contains(&text),
            "{shown}"
        );
        (view["status"] == "done" && view["done"] == 1).then_some(())
    })
    .await;
    task
}

/// The files below a folder with this text in them.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_with(&path, text)),
            // A server may delete a file meanwhile.
            Ok(kind) if kind.is_file() => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                if bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
                {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handed_in_stands_nowhere_in_clear_and_goes_with_its_key() {
    let words = Words::start();
    let redis = words.cluster.place.path().join("redis");
    std::fs::create_dir(&redis).expect("a folder");
    let servers = &words.cluster.servers;
    servers.redis.record(&redis.join("commands"));
    let (served, address) = words.api();
    let mut worker = words.service(&["worker"]);
    worker.says("that it has started", |said| {
        said.contains("worker started").then_some(())
    });
    let [acme, other] = TENANTS.map(|tenant| Api::at(&address).with_key(&words.key(tenant)));

    // Without a key nothing is taken.
    let request = acme.request(Method::POST, "/api/tasks/hand-on");
    let refused = request
        .json(&json!({"words": PLANTED, "end": "fails"}))
        .send()
        .await
        .expect("an answer");
    assert_eq!(
        refused.status().as_u16(),
        503,
        "{}",
        refused.text().await.expect("a body")
    );
    for tenant in TENANTS {
        words.run(&["payload-keys", "add", tenant]).assert_code(0);
    }
    let waits = until("the key is noticed", LATER, || async {
        let request = acme.request(Method::POST, "/api/tasks/hand-on");
        let sent = request
            .json(&json!({"words": PLANTED, "end": "completes"}))
            .send()
            .await;
        let answer = sent.expect("an answer");
        let is_taken = answer.status().is_success();
        let text = answer.text().await.expect("a body");
        is_taken.then(|| serde_json::from_str::<Value>(&text).expect("JSON"))
    })
    .await;
    let waits = waits["task_id"].as_str().expect("an id");

    let completed = ended(&acme, "completes").await;
    let failed = ended(&acme, "fails").await;
    ended(&acme, "panics").await;
    let stays = ended(&acme, "stays").await;
    let others = ended(&other, "completes").await;
    let note = json!({"note": format!("{PLANTED}-note"), "as": "undone"});
    send(
        &acme,
        Method::POST,
        &format!("/api/tasks/{stays}/resolve"),
        &note,
    )
    .await;
    let settled = settled_in_bulk(&acme).await;
    let schedule = json!({
        "type": "HandOn", "cron": "0 0 1 1 *",
        "request": {"words": format!("{PLANTED}-schedule"), "end": "fails"},
    });
    send(&acme, Method::PUT, "/api/schedules/nightly", &schedule).await;

    // It is all there for those who may read it.
    let view = acme.task(completed).await;
    let response = view.response.expect("a response").to_string();
    assert!(
        response.contains(&format!(
            "{PLANTED}-completes-request-{PLANTED}-signal-response"
        )),
        "{response}"
    );
    let failure = acme.task(stays).await.failure.expect("a failure");
    assert!(
        failure
            .message
            .contains(&format!("{PLANTED}-stays-request-failure")),
        "{failure:?}"
    );
    let audit = format!("{:?}", acme.audit(stays).await);
    assert!(
        audit.contains("-undo") && audit.contains("-note"),
        "{audit}"
    );
    let schedules = acme
        .request(Method::GET, "/api/schedules")
        .send()
        .await
        .expect("an answer");
    assert!(
        schedules
            .text()
            .await
            .expect("a body")
            .contains(&format!("{PLANTED}-schedule"))
    );

    let mut reconciler = words.service(&["reconciler", "--every", "200ms"]);
    reconciler.says("that it has started", |said| {
        said.contains("reconciler started").then_some(())
    });
    until("a failed task is archived", LATER, || async {
        let answer = acme
            .request(Method::GET, &format!("/api/tasks/{failed}"))
            .send()
            .await;
        (answer.expect("an answer").status() == 404).then_some(())
    })
    .await;

    // What is in memory goes to the disk.
    servers
        .postgres
        .run_sql(&servers.postgres.url(), "CHECKPOINT")
        .expect("a checkpoint");
    let logs = words.cluster.place.path();
    for folder in [
        servers.postgres.folder(),
        servers.nats.folder(),
        servers.s3.folder(),
        logs,
    ] {
        assert_eq!(files_with(folder, PLANTED), Vec::<PathBuf>::new());
        let found = files_with(folder, LABEL);
        assert!(
            !found.is_empty(),
            "labels are not found in {}",
            folder.display()
        );
    }
    // To Redis nothing of them goes, but that there was a submission with a key.
    let commands = std::fs::read_to_string(redis.join("commands")).expect("text");
    assert!(commands.contains(":seen:"), "{commands}");
    assert!(!commands.contains(LABEL), "{commands}");

    // The archive opens with its key.
    let archives = files_with(servers.s3.folder(), LABEL);
    let command = words.launch(&[
        "payload-keys",
        "decrypt",
        "--database",
        &words.cluster.database,
    ]);
    let mut command = command.command();
    command.stdin(std::fs::File::open(&archives[0]).expect("an archive"));
    let opened = to_its_end(words.cluster.place.path(), command);
    opened.assert_code(0);
    assert!(
        opened.stdout.contains(&format!("{PLANTED}-")),
        "{}",
        opened.stdout
    );

    assert!(reconciler.stop().success());
    words
        .run(&["payload-keys", "delete", "acme", "--confirm", "acme"])
        .assert_code(1)
        .assert_says(waits);
    let cancel = acme.request(Method::DELETE, &format!("/api/tasks/{waits}"));
    assert!(
        cancel
            .send()
            .await
            .expect("an answer")
            .status()
            .is_success()
    );
    acme.at_rest(waits.parse().expect("an id")).await;
    assert!(served.stop().success());
    let file = words.keys.join("acme.keys");
    let before = std::fs::read(&file).expect("the keys");
    words
        .run(&["payload-keys", "delete", "acme", "--confirm", "other"])
        .assert_code(78);
    assert_eq!(std::fs::read(&file).expect("the keys"), before);
    words
        .run(&["payload-keys", "delete", "acme", "--confirm", "acme"])
        .assert_code(0);
    let verified = words.run(&["audit", "verify"]);
    verified.assert_code(0);
    words.run(&["fsck"]).assert_code(0);

    let (served, address) = words.api();
    let [acme, other] = TENANTS.map(|tenant| Api::at(&address).with_key(&words.key(tenant)));
    let view = acme.task(completed).await;
    assert_eq!((view.status.as_str(), view.response), ("completed", None));
    assert_eq!(
        acme.task(settled).await.status.as_str(),
        "resolved",
        "what an operation did stays done"
    );
    for path in ["/api/schedules", "/api/bulk-operations"] {
        let page = read(&acme, path).await;
        assert_eq!(page["items"], json!([]), "{path}");
    }
    // With their keys they can be read by no program: they are gone, and not left out of the lists.
    let left = "DO $$ BEGIN
        IF EXISTS (SELECT FROM documents WHERE tenant = 'acme' AND kind IN ('schedule', 'bulk', 'bulk_tasks'))
        THEN RAISE EXCEPTION 'documents are left'; END IF; END $$";
    let postgres = &words.cluster.servers.postgres;
    postgres
        .run_sql(&words.cluster.database, left)
        .expect("no document is left");
    let failure = acme.task(stays).await.failure.expect("a failure");
    assert!(failure.message.contains("erased"), "{failure:?}");
    let response = other.task(others).await.response.expect("a response");
    assert!(response.to_string().contains(PLANTED), "{response}");
    ended(&other, "completes").await;
    assert!(served.stop().success());
    assert!(worker.stop().success());
}
