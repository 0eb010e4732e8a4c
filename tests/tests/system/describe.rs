//! `counterstep describe`: the declaration as it stands in the code, in three forms.

use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use serde_json::{Value, from_str, json};

const STEPS: [(&str, &str); 3] = [
    ("upload_source_files", "api"),
    ("create_zip_archive", "worker"),
    ("upload_zip", "worker"),
];
const REASON: &str = "writes scratch only";

fn described(arguments: &[&str]) -> String {
    let place = Place::new();
    run(place.path(), &[&["describe"], arguments].concat())
        .assert_code(0)
        .stdout
        .clone()
}

#[test]
fn the_text_has_steps_hosts_policies_and_the_waivers_reason() {
    let text = described(&["CreateZipFromFiles"]);
    for (number, (name, host)) in (1..).zip(STEPS) {
        let heading = format!("{number}. {name} on {host} (");
        assert!(text.contains(&heading), "`{heading}` is not in\n{text}");
    }
    for part in [
        "CreateZipFromFiles version 1",
        "POST /api/tasks/create-zip-from-files",
        "ZIP_RETRY: 3 retries, exponential from 500ms",
        &format!("waived: {REASON}"),
        "deletes what it stored",
        "flowchart TD",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn the_json_has_steps_hosts_policies_and_the_waivers_reason() {
    let decls: Value =
        from_str(&described(&["CreateZipFromFiles", "--format", "json"])).expect("JSON");
    let [decl] = &decls.as_array().expect("a list")[..] else {
        panic!("one task type: {decls:#}")
    };
    assert_eq!(decl["name"], "CreateZipFromFiles");
    for (step, (name, host)) in decl["steps"].as_array().expect("steps").iter().zip(STEPS) {
        assert_eq!(
            (&step["name"], &step["host"]),
            (&json!(name), &json!(host)),
            "{step:#}"
        );
    }
    let zip = &decl["steps"][1];
    assert_eq!(zip["retry"]["name"], "ZIP_RETRY", "{zip:#}");
    assert_eq!(zip["retry"]["policy"]["max_retries"], 3, "{zip:#}");
    assert!(zip["undo"].to_string().contains(REASON), "{zip:#}");
}

#[test]
fn the_diagram_has_the_steps_their_hosts_and_the_way_back() {
    let diagram = described(&["CreateZipFromFiles", "--format", "mermaid"]);
    assert!(
        diagram.starts_with("```mermaid\nflowchart TD\n") && diagram.ends_with("```\n"),
        "{diagram}"
    );
    for (number, (name, host)) in (1..).zip(STEPS) {
        let node = format!("{name}[\"{number}. {name}<br/>{host}\"]");
        assert!(diagram.contains(&node), "`{node}` is not in\n{diagram}");
    }
    assert!(
        diagram.contains("upload_source_files --> create_zip_archive"),
        "{diagram}"
    );
    assert!(
        diagram.contains("upload_zip -. undo .-> upload_source_files"),
        "{diagram}"
    );
}

#[test]
fn every_shipped_type_is_described_with_what_decides_whether_a_step_runs() {
    let (all, video) = (described(&[]), described(&["transcode-video"]));
    for part in [
        "TranscodeVideo version 1",
        "POST /api/tasks/transcode-video",
        "has_2160p",
        "RENDER_2160P_RETRY: 1 retry",
    ] {
        assert!(video.contains(part), "`{part}` is not in\n{video}");
    }
    assert!(
        all.contains(&video) && all.contains(&described(&["create-zip-from-files"])),
        "{all}"
    );
}

#[test]
fn a_task_type_is_found_by_its_name_and_by_its_route() {
    assert_eq!(
        described(&["CreateZipFromFiles"]),
        described(&["create-zip-from-files"])
    );
    let place = Place::new();
    let ended = run(place.path(), &["describe", "NoSuchTask"]);
    ended
        .assert_code(1)
        .assert_says("known are CreateZipFromFiles");
}

const CHANGED: &str = "[policies.ZIP_RETRY]\nmax_retries = 5\nattempt_timeout = \"2m\"\n";

#[test]
fn a_policy_that_the_settings_change_is_shown_as_declared_and_as_it_is_in_effect() {
    let place = Place::new();
    std::fs::write(place.path().join("settings.toml"), CHANGED).expect("a file");
    let with = |arguments: &[&str]| {
        run(
            place.path(),
            &[&["describe", "--config", "settings.toml"], arguments].concat(),
        )
        .assert_code(0)
        .stdout
        .clone()
    };
    let (text, declared) = (
        with(&["CreateZipFromFiles"]),
        described(&["CreateZipFromFiles"]),
    );
    for part in [
        "ZIP_RETRY: 3 retries, exponential from 500ms",
        "in effect: 5 retries, exponential",
        "timeout   2m an attempt",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let digest = |text: &str| {
        text.lines()
            .find(|line| line.contains("definition"))
            .map(str::to_owned)
    };
    assert!(
        digest(&text).is_some() && digest(&text) == digest(&declared),
        "a change of policies is no new definition"
    );
    let decls: Value = from_str(&with(&["CreateZipFromFiles", "--format", "json"])).expect("JSON");
    let retry = &decls[0]["steps"][1]["retry"];
    assert_eq!(
        (
            &retry["policy"]["max_retries"],
            &retry["effective"]["max_retries"]
        ),
        (&json!(3), &json!(5)),
        "{retry:#}"
    );
}

#[test]
fn a_policy_that_nobody_names_or_that_cannot_be_stops_every_service_at_its_start() {
    for (file, said) in [
        (
            "[policies.ZIP_RETRIES]\nmax_retries = 5\n",
            "ZIP_RETRY, built-in, undo",
        ),
        (
            "[policies.ZIP_RETRY]\nmax_retries = 1001\n",
            "`max_retries` is at most 1000",
        ),
        (
            "[policies.ZIP_RETRY]\nretries = 5\n",
            "unknown field `retries`",
        ),
        ("[breakers.payments]\nopen_for = \"1m\"\n", "known are bank"),
    ] {
        let place = Place::new();
        std::fs::write(place.path().join("settings.toml"), file).expect("a file");
        for command in [
            &["describe"][..],
            &["worker"],
            &["reconciler"],
            &["dev", "--listen", "127.0.0.1:0"],
        ] {
            let arguments = [command, &["--config", "settings.toml"]].concat();
            run(place.path(), &arguments)
                .assert_code(78)
                .assert_says(said);
        }
    }
}
