//! A client's commands: `tasks submit`, `watch` and `download`, over the API of other processes.

use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, counterstep, run, to_its_end};
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use serde_json::from_str;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;

const TYPE: &str = "CreateZipFromFiles";

fn tasks(place: &Place, api: &Api, arguments: &[&str]) -> Ended {
    run(
        place.path(),
        &[&["tasks", "--url", api.url()], arguments].concat(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_watched_and_its_file_downloaded() {
    let place = Place::new();
    let served = services::dev(&place, &[QUICK, &["--log", "trace"]].concat());
    let samples = Sample::pair(5, 1_000);
    let files: Vec<String> = ["a", "b"]
        .iter()
        .zip(&samples)
        .map(|(folder, sample)| format!("files={}", place.write(folder, sample).display()))
        .collect();
    std::fs::write(
        place.path().join("request.json"),
        r#"{"output_file_name":"both.zip"}"#,
    )
    .unwrap();
    let submit = [
        "submit",
        TYPE,
        "--request",
        "request.json",
        "--file",
        &files[0],
        "--file",
        &files[1],
        "--key",
        "k-1",
    ];
    let waited = tasks(&place, &served.api, &[&submit[..], &["--wait"]].concat());
    let said = &waited.assert_code(0).stdout;
    let id = said.lines().next().expect("the id comes first").to_owned();
    assert!(said.contains("upload_zip: completed"), "{said}");
    assert!(said.contains("both.zip"), "the response: {said}");

    // The same key is the same task; the name of a route will do.
    let again = ["create-zip-from-files"];
    let again = tasks(
        &place,
        &served.api,
        &[&["submit"], &again[..], &submit[2..], &["--json"]].concat(),
    );
    let again: Accepted = from_str(&again.assert_code(0).stdout).expect("JSON");
    assert_eq!(again.task_id.to_string(), id);
    let watched = tasks(&place, &served.api, &["watch", &id, "--json"]);
    let view: TaskView = from_str(&watched.assert_code(0).stdout).expect("JSON");
    assert_eq!(view.status, TaskStatus::Completed);

    let written = tasks(&place, &served.api, &["download", &id, "zip"]);
    written.assert_code(0);
    let file = place.path().join("both.zip");
    let bytes = std::fs::read(&file).expect("the file");
    assert!(
        written.stdout.contains(&format!("({} bytes)", bytes.len())),
        "{written:#?}"
    );
    assert_ne!(
        file.metadata().unwrap().permissions().mode() & 0o044,
        0,
        "as any new file"
    );
    served.api.assert_archive(again.task_id, &samples).await;
    let link = tasks(
        &place,
        &served.api,
        &["link", &id, "zip", "--valid-for", "30m"],
    );
    let link = link.assert_code(0).stdout.trim().to_owned();
    let linked = reqwest::get(&link).await.expect("an answer");
    assert_eq!(linked.bytes().await.expect("a body"), bytes);
    let (_, signature) = link.rsplit_once('=').expect("a signature");
    let refused = reqwest::get(format!("{link}x")).await.expect("an answer");
    assert_eq!(refused.status(), 404);
    let log = served.process.log();
    assert!(!log.contains(signature), "the log holds the signature");
    tasks(
        &place,
        &served.api,
        &["link", &id, "zip", "--valid-for", "8d"],
    )
    .assert_code(1)
    .assert_says("valid_for");
    let again = tasks(&place, &served.api, &["download", &id, "zip"]);
    again.assert_code(1).assert_says("`both.zip` is there");
    again.assert_says("--output");
    tasks(&place, &served.api, &["download", &id, "zip", "-o", "zip"]).assert_code(0);
    // What is there and is no file is written to, and stays what it is.
    let link = place.path().join("link");
    std::os::unix::fs::symlink("linked", &link).expect("a link");
    std::fs::write(place.path().join("linked"), "old").expect("a file");
    tasks(&place, &served.api, &["download", &id, "zip", "-o", "link"]).assert_code(0);
    assert!(link.is_symlink());
    let size = |name: &str| {
        std::fs::metadata(place.path().join(name))
            .expect("a file")
            .len()
    };
    assert_eq!(size("linked"), size("both.zip"));
    tasks(
        &place,
        &served.api,
        &["download", &id, "zip", "-o", "missing/zip"],
    )
    .assert_code(1)
    .assert_says("`missing/zip` cannot be written: No such file or directory (os error 2)\n");
    let none = tasks(
        &place,
        &served.api,
        &["download", &id, "no-such", "-o", "other"],
    );
    none.assert_code(1).assert_says("no-such-result");
    assert!(
        !place.path().join("other").exists(),
        "nothing is left of it"
    );
    let mut out = counterstep();
    out.args([
        "tasks",
        "--url",
        served.api.url(),
        "download",
        &id,
        "zip",
        "-o",
        "-",
    ]);
    out.stdout(File::create(place.path().join("piped")).unwrap());
    assert!(out.status().unwrap().success());
    assert_eq!(std::fs::read(place.path().join("piped")).unwrap(), bytes);
    let left = std::fs::read_dir(place.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    let partial = |name: &&std::ffi::OsString| name.to_string_lossy().starts_with(".counterstep");
    assert_eq!(left.iter().find(partial), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_refuses_and_what_fails_ends_with_one() {
    let place = Place::new();
    // Without a worker at first: the task stays where it is.
    let served = services::api(&place, QUICK);
    let file = place.write("a", &Sample::new("a.txt", "a"));
    let file = format!("files={}", file.display());
    let submitted = tasks(&place, &served.api, &["submit", TYPE, "--file", &file]);
    let said = submitted.assert_code(0).stdout.trim().to_owned();
    let (id, status) = said.split_once(' ').expect("the id and the state");
    assert_eq!(status, "dispatched");
    tasks(&place, &served.api, &["cancel", id]).assert_code(0);
    let (worker, _) = services::worker(&place, QUICK);
    let watched = tasks(&place, &served.api, &["watch", id]);
    watched.assert_code(1).assert_says(" is cancelled");
    assert!(
        watched.stdout.contains("upload_source_files"),
        "{watched:#?}"
    );
    assert!(worker.stop().success());
    let log = tasks(&place, &served.api, &["log", id]);
    assert_eq!(log.assert_code(0).stdout, "No lines\n");
    let wrong = file.replace("files=", "wrong=");
    tasks(&place, &served.api, &["submit", TYPE, "--file", &wrong])
        .assert_code(1)
        .assert_says("it has files, output_file_name;")
        .assert_says("(at `wrong`)");
    let inline = ["submit", TYPE, "--request", r#"{"files":[],"x":1}"#];
    tasks(&place, &served.api, &inline)
        .assert_code(1)
        .assert_says("invalid-request");
    tasks(&place, &served.api, &["list", "--status", "FAILED"])
        .assert_code(2)
        .assert_says("compensation_failed");
    let again = |arguments: &[&str]| {
        let mut bulk = counterstep();
        bulk.args(["bulk", "--url", served.api.url(), "run-again"]);
        bulk.args(["--all", "--note", "x"]).args(arguments);
        to_its_end(place.path(), bulk)
    };
    again(&[]).assert_code(2).assert_says("--status");
    again(&["--status", "running"])
        .assert_code(1)
        .assert_says("completed, failed, cancelled, resolved");
    let all = again(&["--status", "failed", "--preview"]);
    let none = "0 tasks; nothing was changed
";
    assert!(all.assert_code(0).stdout.starts_with(none), "{all:#?}");

    let request = place.path().join("request");
    for (text, says) in [
        ("{", "malformed-body"),
        (r#"{"files":[],"x":1}"#, "invalid-request"),
        (r#"{"files":[]}"#, "invalid-request"),
    ] {
        std::fs::write(&request, text).unwrap();
        let mut piped = counterstep();
        piped.args([
            "tasks",
            "--url",
            served.api.url(),
            "submit",
            TYPE,
            "--request",
            "-",
        ]);
        piped.stdin(File::open(&request).unwrap());
        to_its_end(place.path(), piped)
            .assert_code(1)
            .assert_says(says);
    }
    for (arguments, says) in [
        (
            &["submit", "NoSuchType", "--file", &file][..],
            "no-such-task-type",
        ),
        (
            &[
                "submit",
                TYPE,
                "--file",
                &file,
                "--request",
                "request",
                "--key",
                "a b",
            ],
            "invalid key",
        ),
        (
            &["watch", "00000000-0000-0000-0000-000000000000"],
            "no-such-task",
        ),
    ] {
        tasks(&place, &served.api, arguments)
            .assert_code(1)
            .assert_says(says);
    }
    for arguments in [
        &["submit", TYPE][..],
        &["submit", TYPE, "--file", "files"],
        &["watch", "x"],
    ] {
        tasks(&place, &served.api, arguments).assert_code(2);
    }
    for (arguments, says) in [
        (
            &["submit", TYPE, "--file", "files=missing"],
            "`missing` cannot be read",
        ),
        (
            &["submit", TYPE, "--file", "files=."],
            "`.` cannot be read: is a directory",
        ),
        (
            &["submit", TYPE, "--request", "missing"],
            "--request: `missing` cannot be read",
        ),
        (
            &["submit", TYPE, "--request", "{'a':1}"],
            "it is no JSON either: key must be a string",
        ),
        (
            &["submit", TYPE, "--request", "."],
            "--request: `.` cannot be read",
        ),
    ] {
        tasks(&place, &served.api, arguments)
            .assert_code(2)
            .assert_says(says);
    }
    for (url, shown) in [
        ("localhost:8080", "`localhost:8080`"),
        ("me:hunter2@api:8080", "`api:8080`"),
        ("ftp://api", "`ftp://api`"),
    ] {
        let mut command = counterstep();
        command.args(["tasks", "--url", url, "list"]);
        to_its_end(place.path(), command)
            .assert_code(2)
            .assert_says(&format!(
                "--url, COUNTERSTEP_URL or a profile: invalid address {shown}"
            ));
    }
    let nowhere = [
        "tasks",
        "--url",
        "http://127.0.0.1:9",
        "submit",
        TYPE,
        "--file",
        &file,
    ];
    run(place.path(), &nowhere)
        .assert_code(69)
        .assert_says("http://127.0.0.1:9");
}
