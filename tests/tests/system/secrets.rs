//! What other users of the machine, and clients, get to see: no file of the data folder, and no
//! backtrace.

use counterstep_contracts::TaskStatus;
use counterstep_tests::api::Api;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::QUICK;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                [below(&path), vec![path]].concat()
            } else {
                vec![path]
            }
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_stores_is_its_users_alone_and_clients_see_no_backtrace() {
    let place = Place::new();
    let arguments = [
        &[
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--plant-fault",
            "upload_zip=fail",
        ],
        QUICK,
    ]
    .concat();
    let mut dev = Process::start_with(&place, &arguments, &[("RUST_BACKTRACE", Path::new("1"))]);
    let after = |text: &str| {
        Some(
            text.split_once("submit to http://")?
                .1
                .split_once('/')?
                .0
                .to_owned(),
        )
    };
    let api = Api::at(&dev.says("where to submit", after));
    let task = api.submit(&[Sample::new("a.txt", "a")]).await;
    let data = below(&place.data());
    assert!(
        data.iter().any(|path| path.ends_with("counterstep.db")),
        "{data:?}"
    );
    assert_eq!(api.at_rest(task).await.status, TaskStatus::Failed);

    let open = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
    };
    // What a turn removes meanwhile is as good as private.
    let open: Vec<_> = data
        .into_iter()
        .chain(below(&place.data()))
        .chain([place.data()])
        .filter(open)
        .collect();
    assert_eq!(open, Vec::<PathBuf>::new(), "open to other users");

    let shown = api.audit(task).await;
    let failed = shown
        .entries
        .iter()
        .find(|entry| entry.event == "step_failed")
        .expect("the entry");
    assert_eq!(failed.details["error"], "planted: fails after its work");
    assert_eq!(
        failed.details.get("backtrace"),
        None,
        "a client sees no backtrace"
    );
    assert!(dev.stop().success());
    let rows = Rows::of(&place).await.tasks().await;
    let kept = rows[0]
        .history
        .audit
        .iter()
        .find(|row| row.entry.event == "step_failed")
        .expect("the entry");
    assert!(
        kept.entry.details["backtrace"].is_string(),
        "an operator finds it in the row"
    );
}

#[test]
fn a_mistake_in_the_settings_file_shows_none_of_its_lines() {
    let place = Place::new();
    let file = place.path().join("settings.toml");
    let text = "log = \"info\"\ndatabase = \"postgres://me:open-sesame@db/x\nredis = 5\n";
    std::fs::write(&file, text).expect("the file");
    let ended = run(
        place.path(),
        &["doctor", "--config", file.to_str().expect("UTF-8")],
    );
    assert_eq!(ended.code, Some(78), "{ended:#?}");
    assert!(
        ended
            .stderr
            .contains("settings.toml` is not usable, line 2"),
        "{ended:#?}"
    );
    assert!(!format!("{ended:?}").contains("open-sesame"), "{ended:#?}");
}

#[test]
fn a_secret_that_others_can_read_is_a_finding() {
    let place = Place::new();
    let (file, token) = (
        place.path().join("settings.toml"),
        place.path().join("token"),
    );
    std::fs::write(&token, "open-sesame").expect("the token");
    let text = format!(
        "[services.bank]\nurl = \"http://127.0.0.1:1\"\ntoken_file = {:?}\n",
        token.display().to_string()
    );
    std::fs::write(&file, text).expect("the file");
    let data = place.data();
    let settings = [
        "--config",
        file.to_str().expect("UTF-8"),
        "--data-dir",
        data.to_str().expect("UTF-8"),
    ];
    for (mode, is_found) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).expect("its mode");
        let ended = run(
            place.path(),
            &[&["doctor", "--json"], &settings[..]].concat(),
        );
        assert_eq!(
            ended.stdout.contains("secret_file_open"),
            is_found,
            "{mode:o}: {ended:#?}"
        );
    }
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    let doctor = || run(place.path(), &[&["doctor"], &settings[..]].concat());
    let found = doctor();
    assert_eq!(found.code, Some(1), "{found:#?}");
    let open = std::fs::read_to_string(&file).expect("the file");
    let accepted = "[accepted_findings]\nsecret_file_open = \"a token for tests\"\nservice_unset = \"not called here\"\n";
    std::fs::write(&file, accepted.to_owned() + &open).expect("the file");
    let found = doctor();
    assert_eq!(found.code, Some(0), "{found:#?}");
    assert!(
        found.stdout.contains("accepted, secret_file_open: ")
            && found.stdout.contains("reason: a token for tests"),
        "{found:#?}"
    );
}

/// What `doctor` finds with these lines in the settings file.
fn doctor_with(lines: &str) -> counterstep_tests::command::Ended {
    let place = Place::new();
    let file = place.path().join("settings.toml");
    std::fs::write(&file, lines).expect("the file");
    let (file, data) = (file.display().to_string(), place.data());
    let data = data.to_str().expect("UTF-8");
    let settings = ["doctor", "--config", &file, "--data-dir", data];
    run(place.path(), &settings)
}

#[test]
fn a_service_that_no_process_could_call_is_a_finding() {
    let found = doctor_with(
        "[services.bank]\nurl = \"http://bank.example.org\"\n[services.inventory]\nurl = \"http://127.0.0.1:1\"\n\
         token_file = \"/there/is/none\"\n[services.shipping]\nurl = \"http://127.0.0.1:1\"\n",
    );
    assert_eq!(found.code, Some(1), "{found:#?}");
    assert_eq!(
        found.stdout.matches("service_unusable: ").count(),
        2,
        "{found:#?}"
    );
    for part in ["bank", "/there/is/none"] {
        assert!(found.stdout.contains(part), "{part}: {found:#?}");
    }
    assert!(!found.stdout.contains("shipping"), "{found:#?}");
}

#[test]
fn only_a_finding_that_there_is_can_be_accepted() {
    let accepts = |code: &str| {
        doctor_with(&format!(
            "[accepted_findings]\n{code} = \"a copy for tests\"\n"
        ))
    };
    accepts("postgres_fsnc")
        .assert_code(78)
        .assert_says("no finding `postgres_fsnc`: did you mean `postgres_fsync`?");
    accepts("x")
        .assert_code(78)
        .assert_says("known are nats_duplicate_window, ");
    accepts("postgres_fsync").assert_code(0);
}
