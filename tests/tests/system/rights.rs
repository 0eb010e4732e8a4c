//! API, worker and reconciler as processes of a deployment, each under its own role of the database and its
//! own user of NATS, as the files of `deploy/` make them: all the work is done, and no right is missing.

mod missing;

use counterstep_contracts::http::Accepted;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::DocumentKind;
use counterstep_testkit::servers::{Nats, Postgres};
use counterstep_tests::api::{Api, ROUTE};
use counterstep_tests::command::run;
use counterstep_tests::manifests::Manifests;
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK, QUICK_UPLOADS};
use counterstep_tests::wait::{LATER, SOON, until};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

const KINDS: [&str; 4] = ["api", "worker", "reconciler", "operator"];

/// How a server, or its client, says that a right is missing.
const MISSING: [&str; 4] = [
    "permission denied",
    "row-level security",
    "permissions violation",
    "authorization violation",
];

/// The folder with the secrets of a kind of process.
fn secrets_of(kind: &str) -> String {
    format!("secrets-of-{kind}")
}

/// Servers with the rights that the files of `deploy/` give.
struct Site {
    place: Place,
    nats: Nats,
    database: String,
    postgres: Postgres,
}

impl Site {
    fn start() -> Self {
        Self::start_with(str::to_owned)
    }

    /// With other users of NATS.
    fn start_with(change: impl Fn(&str) -> String) -> Self {
        let (place, shipped) = (Place::new(), Manifests::shipped());
        let postgres = Postgres::start();
        let database = postgres.database();
        run(place.path(), &["migrate", "--database", &database]).assert_code(0);
        let roles = shipped.text("postgres/roles.sql");
        postgres
            .run_sql(&database, &roles)
            .expect("the roles are made");
        let mut accounts = change(&shipped.text("nats/accounts.conf"));
        for kind in KINDS {
            let password = format!("password-of-{kind}");
            let variable = format!("$COUNTERSTEP_NATS_{}_PASSWORD", kind.to_uppercase());
            accounts = accounts.replace(&variable, &password);
            let secrets = place.path().join(secrets_of(kind));
            std::fs::create_dir(&secrets).expect("a folder");
            std::fs::write(secrets.join("nats"), password).expect("a file");
        }
        std::fs::write(place.path().join("settings.toml"), SETTINGS).expect("a file");
        Self {
            nats: Nats::with_lines(&accounts),
            place,
            database,
            postgres,
        }
    }

    /// The settings of a kind of process. `more`: those of this one.
    fn flags(&self, kind: &str, more: &[&str]) -> Vec<String> {
        let objects = self.place.path().join("store");
        let creates = (kind == "reconciler").to_string();
        let database = self.database_of(kind);
        let (nats, user) = (self.nats.url(), format!("counterstep-{kind}"));
        let secrets = secrets_of(kind);
        let objects = format!("file://{}", objects.display());
        let own = [
            ("--database", database.as_str()),
            ("--nats", &nats),
            ("--nats-user", &user),
            ("--secrets-dir", &secrets),
            ("--nats-create-streams", &creates),
            ("--objects", &objects),
            ("--events", "true"),
            ("--log", "info,counterstep=debug"),
        ];
        let own = own.into_iter().flat_map(|(flag, value)| [flag, value]);
        own.chain(QUICK.iter().copied())
            .chain(QUICK_UPLOADS.iter().copied())
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    fn database_of(&self, kind: &str) -> String {
        self.database
            .replacen("postgres@", &format!("counterstep_{kind}@"), 1)
    }

    fn worker(&self, more: &[&str]) -> Process {
        let flags = self.flags("worker", more);
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        services::worker(&self.place, &flags).0
    }

    /// The logs of all processes so far.
    fn logs(&self) -> String {
        let files = std::fs::read_dir(self.place.path()).expect("the folder");
        let logs = files.map(|file| file.expect("a file").path());
        let logs = logs.filter(|path| path.extension().is_some_and(|it| it == "log"));
        logs.map(|path| std::fs::read_to_string(path).expect("a log"))
            .collect()
    }
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=\n";

const SETTINGS: &str = r#"
[retention.CreateZipFromFiles]
completed = { after = "1s", then = "delete" }
"#;

/// A receiver of webhooks that passes on their bodies.
fn receiver() -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (to, from) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            // The body is the last of it, and one line of JSON.
            while !text.ends_with('}') {
                match socket.read(&mut bytes) {
                    Ok(count @ 1..) => text += &String::from_utf8_lossy(&bytes[..count]),
                    _ => break,
                }
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(answer.as_bytes());
            let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
            if to
                .send(serde_json::from_str(body).unwrap_or_default())
                .is_err()
            {
                return;
            }
        }
    });
    (address, from)
}

async fn submit(api: &Api, form: Form, webhook: Option<SocketAddr>) -> (StatusCode, Value) {
    let mut request = api.request(Method::POST, ROUTE).multipart(form);
    if let Some(receiver) = webhook {
        request = request.header("counterstep-webhook", format!("http://{receiver}/hook"));
    }
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.json().await.expect("JSON"))
}

fn files() -> Form {
    let samples = Sample::pair(3, 10_000);
    samples.iter().fold(Form::new(), |form, sample| {
        let part = Part::bytes(sample.bytes.to_vec()).file_name(sample.name.clone());
        form.part("files", part)
    })
}

fn task_of((status, body): (StatusCode, Value)) -> TaskId {
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    serde_json::from_value::<Accepted>(body)
        .expect("an accepted task")
        .task_id
}

async fn ask(api: &Api, method: Method, path: &str, body: Value) -> Value {
    let request = api.request(method, path).json(&body);
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let text = answer.text().await.expect("a body");
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_process_does_its_work_under_its_own_role_and_user() {
    let site = Site::start();
    let place = &site.place;
    let process = |kind: &str, more: &[&str]| site.flags(kind, more);
    // It creates the streams: the others may not.
    let upkeep = process("reconciler", &["--config", "settings.toml"]);
    let upkeep: Vec<_> = upkeep.iter().map(String::as_str).collect();
    run(
        place.path(),
        &[&["reconciler", "--once", "--data-dir", "data"], &upkeep[..]].concat(),
    )
    .assert_code(0);
    let (receiver, webhooks) = receiver();
    let allow = ["--auth", "keys", "--webhook-allow", "127.0.0.0/8"];
    let secret = place.path().join(secrets_of("api")).join("webhooks");
    std::fs::write(secret, SECRET).expect("a file");
    let flags = process("api", &allow);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let served = services::api(place, &flags);
    let database = site.database_of("api");
    let make = ["keys", "create", "--subject", "kim", "--role", "admin"];
    let made = run(
        place.path(),
        &[&make[..], &["--database", &database]].concat(),
    );
    let api = served.api.with_key(made.assert_code(0).stdout.trim());

    // A failed task, which is undone, and tells of it.
    let worker = site.worker(&["--plant-fault", "upload_zip=fail"]);
    let fails = task_of(submit(&api, files(), Some(receiver)).await);
    assert_eq!(api.at_rest(fails).await.status, TaskStatus::Failed);
    let trail = serde_json::to_string(&api.audit(fails).await).expect("JSON");
    assert!(trail.contains("undo_succeeded"), "{trail}");
    let told = webhooks.recv_timeout(SOON).expect("a webhook");
    assert!(told.to_string().contains(&fails.to_string()), "{told}");
    assert!(worker.stop().success());

    // One that completes, in messages of NATS.
    let worker = site.worker(&[]);
    let completes = task_of(submit(&api, files(), None).await);
    assert_eq!(api.at_rest(completes).await.status, TaskStatus::Completed);
    api.archive(completes).await;
    // An upload that comes to nothing.
    let (status, body) = submit(&api, files().text("unknown_field", "x"), None).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");

    // A schedule that fires in the reconciler, and a pass that deletes what is over.
    let reconciler = services::reconciler(place, &upkeep);
    let order = json!({"account": "anna", "item": "lamp", "quantity": 1, "amount_cents": 100});
    let spec = json!({"type": "PlaceOrder", "cron": "* * * * * *", "request": order});
    ask(&api, Method::PUT, "/api/schedules/each-second", spec).await;
    until("an order that a worker has taken", LATER, || async {
        let orders = ask(&api, Method::GET, "/api/tasks?type=PlaceOrder", json!(null)).await;
        let orders = orders["items"].as_array().cloned().unwrap_or_default();
        let has_begun = |it: &&Value| it["status"] != "submitted" && it["status"] != "dispatched";
        orders.iter().find(has_begun).cloned()
    })
    .await;
    ask(
        &api,
        Method::DELETE,
        "/api/schedules/each-second",
        json!(null),
    )
    .await;
    until("a task whose time is over is gone", LATER, || async {
        let path = format!("/api/tasks/{completes}");
        let answer = api
            .request(Method::GET, &path)
            .send()
            .await
            .expect("an answer");
        (answer.status() == StatusCode::NOT_FOUND).then_some(())
    })
    .await;

    // What people do.
    let note = json!({"note": "a test"});
    ask(
        &api,
        Method::POST,
        "/api/task-types/create-zip-from-files/disable",
        note.clone(),
    )
    .await;
    ask(
        &api,
        Method::POST,
        "/api/task-types/create-zip-from-files/enable",
        note,
    )
    .await;
    let note = json!({"note": "a test"});
    for what in ["pause", "resume"] {
        let path = format!("/api/queues/orders/{what}");
        ask(&api, Method::POST, &path, note.clone()).await;
    }
    let limits = ask(&api, Method::GET, "/api/limits", json!(null)).await;
    assert_eq!(limits["items"], json!([]), "no shipped type has one");
    let operation = json!({"action": "redrive", "filter": {}, "note": "a test"});
    let started = ask(&api, Method::POST, "/api/bulk-operations", operation).await;
    let path = format!(
        "/api/bulk-operations/{}",
        started["id"].as_str().expect("an id")
    );
    until("an API process has executed it", SOON, || async {
        let view = ask(&api, Method::GET, &path, json!(null)).await;
        (view["status"] == "done").then_some(())
    })
    .await;
    let workers = ask(&api, Method::GET, "/api/workers", json!(null)).await;
    for role in ["api", "worker", "reconciler"] {
        assert!(
            workers.to_string().contains(&format!(r#""role":"{role}""#)),
            "{workers}"
        );
    }
    let look = ["--database", &site.database_of("operator")];
    for command in [&["audit", "verify"][..], &["fsck"], &["check-deploy"]] {
        run(place.path(), &[command, &look].concat()).assert_code(0);
    }

    let flags = site.flags("operator", &[]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let flags = &flags[..flags
        .iter()
        .position(|it| *it == "--events")
        .expect("a flag")];
    let doctor = run(place.path(), &[&["doctor"], flags].concat());
    let said = format!("{}{}", doctor.stdout, doctor.stderr).to_lowercase();
    assert!(
        said.contains("postgresql") && said.contains("nats"),
        "{said}"
    );
    for missing in MISSING {
        assert!(!said.contains(missing), "{said}");
    }

    assert!(reconciler.stop().success());
    assert!(worker.stop().success());
    assert!(served.process.stop().success());
    let logs = site.logs().to_lowercase();
    for missing in MISSING {
        let line = logs.lines().find(|line| line.contains(missing));
        assert_eq!(line, None, "a right is missing");
    }
    // The worker was woken by messages, and has not only looked.
    let url = format!(
        "{}/jsz?acc=counterstep&consumers=true",
        site.nats.monitor_url()
    );
    let found: Value = reqwest::get(url)
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    let consumers = found["account_details"][0]["stream_detail"]
        .as_array()
        .expect("streams")
        .iter();
    let consumers = consumers.flat_map(|it| {
        it["consumer_detail"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    let of_files = consumers
        .into_iter()
        .find(|it| it["name"] == "file-processing")
        .expect("a consumer");
    assert!(
        of_files["delivered"]["consumer_seq"].as_u64() >= Some(2),
        "{of_files}"
    );
}

/// The kinds of documents that a role may write, where it may not write all of them.
const WRITABLE: [(&str, &[DocumentKind]); 3] = [
    (
        "worker",
        &[
            DocumentKind::Worker,
            DocumentKind::Webhook,
            DocumentKind::TaskType,
            DocumentKind::Limit,
            DocumentKind::Poison,
            DocumentKind::Audit,
        ],
    ),
    (
        "reconciler",
        &[
            DocumentKind::Worker,
            DocumentKind::Webhook,
            DocumentKind::TaskType,
            DocumentKind::Limit,
            DocumentKind::Audit,
            DocumentKind::Schedule,
            DocumentKind::Listing,
        ],
    ),
    ("operator", &[]),
];

#[test]
fn a_process_writes_no_document_that_is_another_ones_and_reads_no_key() {
    let site = Site::start();
    let sql = |role: &str, sql: &str| site.postgres.run_sql(&site.database_of(role), sql);
    let insert = |kind: DocumentKind, name: &str| {
        format!(
            "INSERT INTO documents (kind, tenant, name, rev, body, seen_at) \
             VALUES ('{}', 'default', '{name}', 1, '{{}}', now())",
            kind.as_str()
        )
    };
    for kind in DocumentKind::ALL {
        sql("api", &insert(kind, "of-the-api")).expect("the API may write it");
    }
    for (role, writable) in WRITABLE {
        for kind in DocumentKind::ALL {
            let written = sql(role, &insert(kind, role));
            let is_refused = written.as_ref().is_err_and(|error| {
                error.contains("row-level security") || error.contains("permission denied")
            });
            let may = writable.contains(&kind);
            assert_eq!(
                (written.is_ok(), is_refused),
                (may, !may),
                "{role} {kind:?}: {written:?}"
            );
            // What another one has written neither goes nor changes, where its kind is not the role's.
            for change in ["DELETE FROM documents", "UPDATE documents SET body = '[]'"] {
                let kind_name = kind.as_str();
                let changed = sql(
                    role,
                    &format!("{change} WHERE kind = '{kind_name}' AND name = 'of-the-api'"),
                );
                let left = format!(
                    "DO $$ BEGIN IF NOT EXISTS (SELECT FROM documents WHERE kind = '{kind_name}' AND name = 'of-the-api' \
                     AND body = '{{}}') THEN RAISE EXCEPTION 'it is gone'; END IF; END $$"
                );
                let is_there = sql("api", &left).is_ok();
                let is_only_added = matches!(kind, DocumentKind::Audit | DocumentKind::Poison);
                let may = may && !is_only_added;
                assert_eq!(is_there, !may, "{role} {change} {kind:?}: {changed:?}");
                // As it was, for the next change.
                if !is_there {
                    let again = format!(
                        "DELETE FROM documents WHERE kind = '{kind_name}' AND name = 'of-the-api'; {}",
                        insert(kind, "of-the-api")
                    );
                    sql("api", &again).expect("it is back");
                }
            }
        }
        let keys = "DO $$ BEGIN IF EXISTS (SELECT FROM documents WHERE kind = 'api_key') \
                    THEN RAISE EXCEPTION 'a key is seen'; END IF; END $$";
        sql(role, keys).unwrap_or_else(|error| panic!("{role}: {error}"));
    }
}
