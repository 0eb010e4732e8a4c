//! PlaceOrder through separate processes on one file, against a bank, a shop and a carrier that
//! they know from their settings.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_testkit::services::{Services, Trouble};
use counterstep_tests::api::Api;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::services;
use counterstep_tests::wait::{SOON, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const FLAGS: &[&str] = &[
    "--config",
    "settings.toml",
    "--lease",
    "2s",
    "--drain",
    "500ms",
    "--test-time",
    "cancel_grace=500ms",
];

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Settings that name the services, their token by its file.
fn settled(place: &Place, services: &Services) {
    let service = |name: &str| {
        format!(
            "[services.{name}]\nurl = {:?}\ntoken_file = {:?}\n",
            services.url(name),
            services.token_file()
        )
    };
    let file: String = ["inventory", "bank", "shipping"].map(service).concat();
    std::fs::write(place.path().join("settings.toml"), file).expect("the settings");
}

async fn order(api: &Api, amount_cents: u64) -> TaskId {
    let body =
        json!({"account": "anna", "item": "lamp", "quantity": 1, "amount_cents": amount_cents});
    let request = api
        .request(Method::POST, "/api/tasks/place-order")
        .header("traceparent", TRACE)
        .json(&body);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    let accepted: Value = answer.json().await.expect("JSON");
    serde_json::from_value(accepted["task_id"].clone()).expect("a task id")
}

async fn waits(api: &Api, task: TaskId) {
    until("an order that waits for its approval", SOON, || async {
        (api.task(task).await.status == TaskStatus::Waiting).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_approved_declined_and_survive_a_lost_worker() {
    let (place, services) = (Place::new(), Services::start().await);
    settled(&place, &services);
    let served = services::api(&place, FLAGS);
    let (worker, _) = services::worker(&place, FLAGS);
    let reconciler = services::reconciler(&place, FLAGS);
    let api = &served.api;
    let signal = |task: TaskId, body: &str| {
        let arguments = [
            "tasks",
            "--url",
            api.url(),
            "signal",
            &task.to_string(),
            "approval",
            "--body",
            body,
        ];
        run(place.path(), &arguments)
    };

    let (approved, declined) = (order(api, 150_000).await, order(api, 160_000).await);
    waits(api, approved).await;
    waits(api, declined).await;
    signal(approved, r#"{"approved":true}"#)
        .assert_code(1)
        .assert_says("by");
    signal(approved, r#"{"approved":true,"by":"carla"}"#).assert_code(0);
    signal(declined, r#"{"approved":false,"by":"carla"}"#).assert_code(0);
    let (approved, declined) = (api.at_rest(approved).await, api.at_rest(declined).await);
    assert_eq!(
        (approved.status, declined.status),
        (TaskStatus::Completed, TaskStatus::Failed)
    );
    let response = serde_json::to_value(&approved).expect("JSON")["response"].clone();
    assert_eq!(response["approved_by"], "carla", "{response}");
    services.assert_settled(approved.task_id, true);
    services.assert_settled(declined.task_id, false);

    // The bank has booked the charge and says nothing; then the worker is gone.
    services.plant("POST /bank/charges", Trouble::Silent);
    let charges = services.requests("POST /bank/charges");
    let orphan = order(api, 5_000).await;
    until("a charge", SOON, || async {
        (services.requests("POST /bank/charges") > charges).then_some(())
    })
    .await;
    worker.kill();
    let (worker, _) = services::worker(&place, FLAGS);
    assert_eq!(api.at_rest(orphan).await.status, TaskStatus::Completed);
    services.assert_settled(orphan, true);
    assert_eq!(services.requests("POST /bank/charges"), charges + 2);
    assert_eq!(services.balance("shop"), 155_000);
    assert_eq!(
        services.traces(),
        [TRACE],
        "every call, also those of undos, belongs to the trace of its client"
    );

    let logs = [worker.log(), served.process.log(), reconciler.log()].concat();
    assert!(
        worker.stop().success() && served.process.stop().success() && reconciler.stop().success()
    );
    let rows = std::fs::read(place.database()).expect("the database");
    let token = services.token().as_bytes();
    assert!(!logs.contains(services.token()), "a secret is in a log");
    assert!(
        !rows.windows(token.len()).any(|at| at == token),
        "a secret is in a row"
    );
}

#[test]
fn services_that_cannot_be_used_stop_a_process_and_one_that_is_missing_is_named() {
    let place = Place::new();
    let set =
        |file: &str| std::fs::write(place.path().join("settings.toml"), file).expect("a file");
    for (file, said) in [
        (
            "[services.bank]\nurl = \"http://bank.example\"\n",
            "services.bank.url",
        ),
        (
            "[services.bank]\nurl = \"http://localhost\"\ntoken_file = \"none\"\n",
            "services.bank.token_file",
        ),
        (
            "[services.bank]\nurl = \"http://localhost\"\ntoken = \"x\"\n",
            "unknown field `token`",
        ),
    ] {
        set(file);
        for command in ["worker", "dev"] {
            run(place.path(), &[command, "--config", "settings.toml"])
                .assert_code(78)
                .assert_says(said);
        }
    }
    set("[services.bank]\nurl = \"http://localhost:1\"\n");
    let doctor = run(
        place.path(),
        &["doctor", "--config", "settings.toml", "--json"],
    );
    let found: Vec<Value> = serde_json::from_str(&doctor.assert_code(1).stdout).expect("JSON");
    let missing = found
        .iter()
        .filter(|finding| finding["code"] == "service_unset");
    let what: Vec<_> = missing.map(|finding| finding["what"].to_string()).collect();
    assert!(
        what.len() == 2 && what[0].contains("inventory") && what[1].contains("shipping"),
        "{what:?}"
    );
    let none = run(place.path(), &["doctor", "--json"]);
    assert!(!none.stdout.contains("service_unset"), "{none:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_names_the_services_that_a_type_lacks_and_its_tasks_fail_with_nothing_to_undo() {
    let place = Place::new();
    let mut dev = services::dev(&place, &[]);
    dev.process.says("what is missing", |said| {
        let lacks =
            "/api/tasks/place-order\n  its tasks fail until the settings have [services.bank], ";
        said.contains(lacks).then_some(())
    });
    let task = order(&dev.api, 2_500).await;
    let view = dev.api.at_rest(task).await;
    assert_eq!(view.status, TaskStatus::Failed, "{view:?}");
    assert!(
        view.steps.iter().all(|step| step.undo_attempts.0 == 0),
        "{view:?}"
    );
    let why = ["tasks", "--url", dev.api.url(), "why", &task.to_string()];
    let why = run(place.path(), &why);
    let failure = view.failure.as_ref().expect("a failure");
    let expected = format!(
        "  because it has ended as failed: {} ({}): {}\n",
        failure.step.as_deref().expect("a step"),
        failure.class,
        failure.message
    );
    assert!(why.stdout.contains(&expected), "{expected}{why:#?}");
    assert!(dev.process.stop().success());
}
