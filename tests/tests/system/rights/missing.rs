//! A queue and a table that the account and the role of a worker lack: the start, /readyz, the figures, `doctor` and the failure
//! of the task name them.

use super::{Site, files, submit, task_of};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_tests::api::Api;
use counterstep_tests::command::run;
use counterstep_tests::process::Process;
use counterstep_tests::services;
use counterstep_tests::wait::{LATER, SOON, until};
use reqwest::Method;
use serde_json::json;

const CREATION: &str =
    "$JS.API.CONSUMER.CREATE.counterstep-work.file-processing.work.file-processing.*.*";

async fn get(process: &Api, path: &str) -> (u16, String) {
    let answer = process.request(Method::GET, path).send().await;
    let answer = answer.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.text().await.expect("a body"))
}

/// The value of a series of a page of metrics.
async fn figure(process: &Api, series: &str) -> u64 {
    let (_, page) = get(process, "/metrics").await;
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("no {series}\n{page}"));
    line.trim().parse().expect("a number")
}

async fn why_names_the_consumer(api: &Api) {
    let why = until(
        "the reason of a task that waits for polling",
        SOON,
        || async {
            // A new one each time: the last one may have been found.
            let task = task_of(submit(api, files(), None).await);
            let (_, body) = get(api, &format!("/api/tasks/{task}/why")).await;
            let why: Why = serde_json::from_str(&body).expect(&body);
            (why.because[0].code == WhyCode::Consumer).then_some(why)
        },
    )
    .await;
    let detail = &why.because[0].detail;
    for part in [CREATION, "`file-processing`", "polling"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    let command = why.operator_can[0].command.as_deref();
    assert_eq!(command, Some("doctor --role worker"));
    let (_, processes) = get(api, "/api/workers").await;
    let denied = format!(r#""consumer":"file-processing","denied_subject":"{CREATION}""#);
    assert!(processes.contains(&denied), "{processes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_the_account_lacks_is_named_at_the_start_by_readyz_by_doctor_and_counted() {
    // As of a program whose author has added a queue, and not the lines.
    let site = Site::start_with(|accounts| {
        let lines = accounts.lines().filter(|line| {
            let is_of_the_api = line.contains("file-processing~api");
            is_of_the_api || !line.contains("counterstep-work.file-processing")
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    let flags = |kind: &str| site.flags(kind, &[]);
    let upkeep = flags("reconciler");
    let upkeep: Vec<_> = upkeep.iter().map(String::as_str).collect();
    let pass = [&["reconciler", "--once", "--data-dir", "data"], &upkeep[..]].concat();
    run(site.place.path(), &pass).assert_code(0);
    // Those that `doctor` takes, with their values.
    let of_doctor = [
        "--database",
        "--nats",
        "--nats-user",
        "--secrets-dir",
        "--nats-create-streams",
        "--objects",
        "--redis",
    ];
    let taken = |pair: &&[&str]| of_doctor.contains(&pair[0]);
    let upkeep = upkeep.chunks(2).filter(taken).collect::<Vec<_>>().concat();
    let look = [&["doctor", "--json", "--data-dir", "data"], &upkeep[..]].concat();
    for look in [
        look.clone(),
        [&look[..], &["--role", "reconciler"]].concat(),
    ] {
        let found = run(site.place.path(), &look);
        assert!(found.stdout.starts_with('['), "{found:?}");
        assert!(!found.stdout.contains("nats_unreachable"), "{found:?}");
    }
    let own = flags("api");
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    let api = services::api(&site.place, &own);

    let often = ["--test-time", "lost_after=1s"];
    let mut worker: Process =
        site.worker(&[&often[..], &["--metrics-listen", "127.0.0.1:0"]].concat());
    let probes = Api::at(&worker.metrics_address());
    worker.says("the lines that are missing", |said| {
        let is_named = [
            "file-processing.work",
            "MSG.NEXT.counterstep-work.file-processing",
        ]
        .iter()
        .all(|part| said.contains(part));
        (is_named && said.contains("deploy render")).then_some(())
    });
    until("a worker that is not ready and names why", SOON, || async {
        let (status, body) = get(&probes, "/readyz").await;
        // At its start the store may not have answered yet.
        (status == 503 && body.contains(CREATION)).then_some(())
    })
    .await;
    assert_eq!(
        get(&probes, "/healthz").await.0,
        200,
        "a restart would not help"
    );

    // Its tasks are found by polling, and counted; those of a queue that is served are not.
    let polled = "counterstep_found_by_polling_total{task_type=\"CreateZipFromFiles\"}";
    let orders = "counterstep_found_by_polling_total{task_type=\"PlaceOrder\"}";
    assert_eq!(figure(&probes, polled).await, 0);
    let task = task_of(submit(&api.api, files(), None).await);
    assert_eq!(api.api.at_rest(task).await.status, TaskStatus::Completed);
    until("a task that is counted", LATER, || async {
        (figure(&probes, polled).await >= 1).then_some(())
    })
    .await;
    let order = json!({"account": "anna", "item": "lamp", "quantity": 1, "amount_cents": 100});
    let path = "/api/tasks/place-order";
    let request = api.api.request(Method::POST, path).json(&order);
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let id = task_of((status, answer.json().await.expect("JSON")));
    api.api.at_rest(id).await;
    assert_eq!(figure(&probes, orders).await, 0);

    why_names_the_consumer(&api.api).await;

    let flags = site.flags("worker", &[]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let events = flags.iter().position(|it| *it == "--events");
    let servers = &flags[..events.expect("a flag")];
    let doctor = run(site.place.path(), &[&["doctor"], servers].concat());
    assert_eq!(doctor.code, Some(1));
    assert!(
        doctor.stdout.contains("nats_rights") && doctor.stdout.contains(CREATION),
        "{doctor:?}"
    );
    assert!(worker.stop().success());
}

#[test]
fn a_role_that_sees_no_api_keys_is_refused_with_the_one_that_does() {
    let site = Site::start();
    let keys = |kind: &str, arguments: &[&str]| {
        let database = site.database_of(kind);
        let flags = [&["keys", "--database", &database], arguments].concat();
        run(site.place.path(), &flags)
    };
    let create = ["create", "--subject", "kim", "--role", "read"];
    keys("api", &create).assert_code(0);
    let listed = keys("api", &["list"]);
    assert!(listed.assert_code(0).stdout.contains("kim"), "{listed:?}");
    for kind in ["worker", "reconciler", "operator"] {
        for arguments in [&create[..], &["list"]] {
            keys(kind, arguments)
                .assert_code(78)
                .assert_says("may not see API keys: use that of the API (`counterstep_api`)");
        }
    }
}
