//! State that steps take and a program does not provide: its processes do not start, and `doctor`
//! names it.

use counterstep_tests::command::{Ended, to_its_end, without_settings};
use counterstep_tests::place::Place;
use serde_json::Value;
use std::path::Path;

/// The program, with what it is to provide.
fn run(place: &Place, provides: &str, arguments: &[&str]) -> Ended {
    let mut command = without_settings(Path::new(env!("CARGO_BIN_EXE_needs_state")));
    command
        .env("PROVIDES", provides)
        .args(arguments)
        .arg("--data-dir")
        .arg(place.data());
    to_its_end(place.path(), command)
}

#[test]
fn no_process_starts_without_state_and_each_names_the_step_that_takes_it() {
    let place = Place::new();
    for process in [
        &["dev", "--listen", "127.0.0.1:0"][..],
        &["api", "--listen", "127.0.0.1:0"],
        &["worker"],
        &["reconciler", "--once"],
    ] {
        run(&place, "printer", process)
            .assert_code(78)
            .assert_says("`charge` of step `charge` takes `&State<needs_state::Bank>`");
    }
}

#[test]
fn doctor_names_each_function_whose_state_is_missing() {
    let place = Place::new();
    let missing = |provides: &str| -> Vec<String> {
        let ended = run(&place, provides, &["doctor", "--json"]);
        ended.assert_code(i32::from(provides.is_empty()));
        let found: Vec<Value> = serde_json::from_str(&ended.stdout).expect("JSON");
        let of_state = found.iter().filter(|it| it["code"] == "state_missing");
        of_state.map(|it| it["what"].to_string()).collect()
    };
    let found = missing("");
    assert_eq!(found.len(), 2, "{found:?}");
    for (found, function) in found.iter().zip(["charge", "pay_back"]) {
        assert!(
            found.contains(&format!("`{function}` of step `charge`")),
            "{found}"
        );
    }
    assert_eq!(missing("bank"), Vec::<String>::new());
}

#[test]
fn state_that_no_step_takes_is_a_warning_at_the_start() {
    let place = Place::new();
    let start = |provides: &str| {
        let ended = run(&place, provides, &["reconciler", "--once"]);
        ended.assert_code(0);
        ended.stderr
    };
    let warning = "a state that no step takes";
    let log = start("bank,printer");
    let line = log.lines().find(|line| line.contains(warning));
    assert!(
        line.is_some_and(|line| line.contains("needs_state::Printer") && line.contains("WARN")),
        "{log}"
    );
    let log = start("bank");
    assert!(!log.contains(warning), "{log}");
}
