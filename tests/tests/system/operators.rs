//! What an operator's commands say about tasks of other processes: `tasks why`, `plan`, `retry`,
//! `resolve`, `dead-letters`, and `check-deploy` beside running services.

use counterstep_contracts::TaskStatus;
use counterstep_contracts::operator::{DeployCheck, Why, WhyCode};
use counterstep_contracts::workers::{WorkerState, WorkersView};
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::from_str;

fn tasks(place: &Place, api: &Api, arguments: &[&str]) -> Ended {
    run(
        place.path(),
        &[&["tasks", "--url", api.url()], arguments].concat(),
    )
}

fn check_deploy(place: &Place) -> Ended {
    let data = place.data();
    run(
        place.path(),
        &[
            "check-deploy",
            "--json",
            "--data-dir",
            data.to_str().expect("UTF-8"),
            "--log",
            "warn",
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_would_strand_a_task_is_refused_with_the_task() {
    let place = Place::new();
    check_deploy(&place)
        .assert_code(78)
        .assert_says("there is no database file");
    let served = services::api(&place, QUICK);
    let task = served.api.submit(&Sample::pair(3, 1_000)).await;
    let check: DeployCheck = from_str(&check_deploy(&place).assert_code(0).stdout).expect("JSON");
    assert_eq!((check.in_flight, check.stranded.len()), (1, 0));
    let why: Why = from_str(
        &tasks(&place, &served.api, &["why", "--json", &task.to_string()])
            .assert_code(0)
            .stdout,
    )
    .expect("JSON");
    assert_eq!(why.because[0].code, WhyCode::NoHost, "no worker runs here");
    let plan = tasks(&place, &served.api, &["plan", &task.to_string()]);
    assert!(
        plan.assert_code(0).stdout.contains("upload_source_files"),
        "{plan:#?}"
    );

    // As if an older program had submitted it under another definition.
    let file = place.data().join("counterstep.db");
    let mut rows =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database opens");
    rows.batch_execute("PRAGMA busy_timeout = 5000; UPDATE tasks SET definition_hash = 'older'")
        .expect("it is changed");
    let check: DeployCheck = from_str(&check_deploy(&place).assert_code(1).stdout).expect("JSON");
    let stranded = &check.stranded[0];
    assert_eq!(
        (
            stranded.count,
            stranded.example,
            stranded.definition.as_str()
        ),
        (1, task, "older")
    );
    let (worker, _) = services::worker(&place, QUICK);
    let why = tasks(&place, &served.api, &["why", &task.to_string()]);
    assert!(
        why.assert_code(0).stdout.contains("was submitted under"),
        "{why:#?}"
    );
    let rows = Rows::of(&place).await;
    assert!(
        rows.task(task).await.record.steps[1].attempts.0 == 0,
        "no worker has run it"
    );
    assert!(worker.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_undo_gave_up_is_listed_explained_retried_and_settled() {
    let place = Place::new();
    let planted = [
        "--plant-fault",
        "upload_zip=fail",
        "--plant-fault",
        "upload_source_files:undo=fail",
    ];
    let served = services::dev(&place, &[QUICK, &planted[..]].concat());
    let task = served.api.submit(&Sample::pair(4, 1_000)).await;
    let id = task.to_string();
    assert_eq!(
        served.api.at_rest(task).await.status,
        TaskStatus::CompensationFailed
    );
    let list = tasks(&place, &served.api, &["dead-letters"]);
    assert!(list.assert_code(0).stdout.contains(&id), "{list:#?}");
    let why = tasks(&place, &served.api, &["why", &id]);
    assert!(
        why.assert_code(0)
            .stdout
            .contains("an undo gave up: upload_source_files"),
        "{why:#?}"
    );
    // What it proposes can be pasted into a shell.
    let url = served.api.url();
    let step = "--step upload_source_files --as undone --note why";
    for command in [
        format!("retry {id} --note why"),
        format!("resolve {id} {step}"),
        format!("resolve {id} --as undone"),
    ] {
        let command = format!("counterstep tasks --url {url} {command}");
        assert!(why.stdout.contains(&command), "{command}: {why:#?}");
    }
    assert!(!why.stdout.contains("/api/"), "{why:#?}");
    let retried = tasks(
        &place,
        &served.api,
        &["retry", &id, "--note", "again", "--actor", "kim"],
    );
    assert!(
        retried
            .assert_code(0)
            .stdout
            .contains("will be undone: upload_source_files"),
        "{retried:#?}"
    );
    assert_eq!(
        served.api.at_rest(task).await.status,
        TaskStatus::CompensationFailed
    );
    let settle = [
        "resolve",
        &id,
        "--step",
        "upload_source_files",
        "--as",
        "undone",
        "--note",
        "deleted",
        "--actor",
        "kim",
    ];
    let settled = tasks(&place, &served.api, &settle);
    assert!(
        settled.assert_code(0).stdout.starts_with("failed"),
        "{settled:#?}"
    );
    tasks(&place, &served.api, &settle)
        .assert_code(1)
        .assert_says("not-parked");
    let known = Rows::of(&place).await.task(task).await;
    known.assert_sound();
    assert!(known.history.audit.iter().any(
        |row| row.entry.actor == "operator" && row.entry.details["note"] == "deleted (by kim)"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_lists_the_processes_and_what_waits_and_lost_hosts_are_counted_anew() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    for (list, nothing) in [
        (&["list"][..], "No tasks\n"),
        (
            &[
                "list",
                "--type",
                "CreateZipFromFiles",
                "--status",
                "running",
            ],
            "No tasks match\n",
        ),
        (
            &["dead-letters", "--since", "7d"],
            "No dead letters match\n",
        ),
    ] {
        assert_eq!(
            tasks(&place, &served.api, list).assert_code(0).stdout,
            nothing
        );
    }
    let task = served.api.submit(&Sample::pair(3, 1_000)).await;
    for (since, is_listed) in [("1h", true), ("2999-01-01T00:00:00Z", false)] {
        let list = tasks(&place, &served.api, &["list", "--since", since]);
        assert_eq!(
            list.assert_code(0).stdout.contains(&task.to_string()),
            is_listed,
            "{list:#?}"
        );
    }
    let workers = |arguments: &[&str]| {
        run(
            place.path(),
            &[&["workers", "--url", served.api.url()], arguments].concat(),
        )
    };
    let found: WorkersView = until("the word of the API", SOON, || async {
        let found: WorkersView =
            from_str(&workers(&["--json"]).assert_code(0).stdout).expect("JSON");
        (!found.workers.is_empty()).then_some(found)
    })
    .await;
    let api = &found.workers[0];
    assert_eq!(
        (api.role.as_str(), api.state, found.workers.len()),
        ("api", WorkerState::Alive, 1)
    );
    assert!(
        !api.machine.is_empty() && api.machine != "unnamed",
        "{api:?}"
    );
    let said = workers(&[]);
    said.assert_code(0);
    for part in [
        "processes: 1 alive, 0 lost",
        "1 dispatched on file-processing",
        api.id.as_str(),
    ] {
        assert!(said.stdout.contains(part), "{part}: {said:#?}");
    }
    for words in [&["--state", "lost"][..], &["list", "--state", "lost"]] {
        let lost = workers(words);
        let text = &lost.assert_code(0).stdout;
        assert!(text.ends_with("No processes match\n"), "{lost:#?}");
    }
    // One of them, by its id and by the ending of it.
    for id in [&*api.id, &api.id[api.id.len() - 8..]] {
        let one = workers(&["show", id]);
        let text = &one.assert_code(0).stdout;
        for part in [
            &*format!("process: {}\nstate: alive\n", api.id),
            "\nmemory: ",
            "\nfree slots: ",
            "\nNo turns\n",
        ] {
            assert!(text.contains(part), "{part}: {one:#?}");
        }
    }
    let unknown = workers(&["show", "worker:000000000000"]);
    assert!(unknown.stderr.contains("no-such-workers"), "{unknown:#?}");

    let task = task.to_string();
    let counted = tasks(
        &place,
        &served.api,
        &[
            "recoveries",
            &task,
            "--set",
            "2",
            "--note",
            "the rack had no power",
        ],
    );
    assert_eq!(
        counted.assert_code(0).stdout,
        "dispatched; 2 of 10 consecutive host losses counted\n"
    );
    let refused = tasks(
        &place,
        &served.api,
        &["recoveries", &task, "--set", "11", "--note", "x"],
    );
    refused.assert_code(1).assert_says("expected 0 to 10");
}
