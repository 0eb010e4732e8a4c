//! The documents' console blocks that are marked `(run)`, typed into a shell beside a `counterstep
//! dev`, each page beside one of its own.

use counterstep_tests::command::{shell, to_its_end};
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services;
use counterstep_tests::transcript::{Ids, commands};
use std::path::Path;

/// Where a `counterstep dev` without options listens.
const USUAL: &str = "http://127.0.0.1:8080";

/// How the pages call the program before it is installed.
const FROM_SOURCE: &str = "cargo run -- ";

/// Types the commands of a page, and returns how many there are.
async fn follow(page: &str) -> usize {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(top.join(page)).expect("the page");
    let place = Place::new();
    for file in ["README.md", "Cargo.lock"] {
        std::fs::copy(top.join(file), place.path().join(file)).expect("a file to send");
    }
    let dev = services::dev(&place, services::QUICK);
    // `ID` on a page is a task that the reader has.
    let task = dev.api.submit(&Sample::pair(1, 1_000)).await;
    dev.api.at_rest(task).await;

    let (commands, mut ids, mut variables) = (commands(&text), Ids::default(), String::new());
    for command in &commands {
        let typed = ids
            .in_place(&command.typed)
            .replace(FROM_SOURCE, "counterstep ")
            .replace(USUAL, dev.api.url())
            .replace(" ID", &format!(" {task}"));
        // Each command has a shell of its own, so that its output is its own.
        if is_assignment(&typed) {
            variables.push_str(&typed);
            variables.push('\n');
            continue;
        }
        let mut bash = shell(&format!("{variables}{typed}"));
        bash.env("COUNTERSTEP_URL", dev.api.url())
            .env("COUNTERSTEP_DATA_DIR", place.data());
        let ended = to_its_end(place.path(), bash);
        let at = format!("{page}:{}", command.line);
        assert_eq!(ended.code, Some(0), "{at}: `{typed}`\n{ended:#?}");
        if let Some(missing) = ids.missing(&command.shown, &ended.stdout) {
            panic!(
                "{at}: `{typed}` does not print `{missing}`\n{}",
                ended.stdout
            );
        }
    }
    commands.len()
}

fn is_assignment(typed: &str) -> bool {
    typed.split_once('=').is_some_and(|(name, value)| {
        name.bytes().all(|byte| byte.is_ascii_uppercase()) && !value.contains(' ')
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_do_what_it_shows() {
    assert!(follow("README.md").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_http_page_do_what_it_shows() {
    assert!(follow("docs/http.md").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_what_holds_a_task_back_do_what_it_shows() {
    assert!(follow("docs/holds.md").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_operations_page_do_what_it_shows() {
    assert!(follow("docs/operations.md").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_the_settings_file_do_what_it_shows() {
    assert!(follow("docs/settings-file.md").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_the_audit_do_what_it_shows() {
    assert!(follow("docs/audit.md").await > 0);
}
