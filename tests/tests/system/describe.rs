//! `counterstep describe`: the declaration as it stands in the code, in three forms.

use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use serde_json::{Value, from_str, json};

const STEPS: [(&str, &str); 3] =
    [("upload_source_files", "api"), ("create_zip_archive", "worker"), ("upload_zip", "worker")];
const REASON: &str = "writes scratch only";

fn described(arguments: &[&str]) -> String {
    let place = Place::new();
    run(place.path(), &[&["describe"], arguments].concat()).assert_code(0).stdout.clone()
}

#[test]
fn the_text_has_steps_hosts_policies_and_the_waivers_reason() {
    let text = described(&[]);
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
    let decls: Value = from_str(&described(&["--format", "json"])).expect("JSON");
    let [decl] = &decls.as_array().expect("a list")[..] else { panic!("one task type: {decls:#}") };
    assert_eq!(decl["name"], "CreateZipFromFiles");
    for (step, (name, host)) in decl["steps"].as_array().expect("steps").iter().zip(STEPS) {
        assert_eq!((&step["name"], &step["host"]), (&json!(name), &json!(host)), "{step:#}");
    }
    let zip = &decl["steps"][1];
    assert_eq!(zip["retry"]["name"], "ZIP_RETRY", "{zip:#}");
    assert_eq!(zip["retry"]["policy"]["max_retries"], 3, "{zip:#}");
    assert!(zip["undo"].to_string().contains(REASON), "{zip:#}");
}

#[test]
fn the_diagram_has_the_steps_their_hosts_and_the_way_back() {
    let diagram = described(&["--format", "mermaid"]);
    assert!(diagram.starts_with("```mermaid\nflowchart TD\n") && diagram.ends_with("```\n"), "{diagram}");
    for (number, (name, host)) in (1..).zip(STEPS) {
        let node = format!("{name}[\"{number}. {name}<br/>{host}\"]");
        assert!(diagram.contains(&node), "`{node}` is not in\n{diagram}");
    }
    assert!(diagram.contains("upload_source_files --> create_zip_archive"), "{diagram}");
    assert!(diagram.contains("upload_zip -. undo .-> upload_source_files"), "{diagram}");
}

#[test]
fn a_task_type_is_found_by_its_name_and_by_its_route() {
    assert_eq!(described(&["CreateZipFromFiles"]), described(&["create-zip-from-files"]));
    let place = Place::new();
    let ended = run(place.path(), &["describe", "NoSuchTask"]);
    ended.assert_code(1).assert_says("known are CreateZipFromFiles");
}
