//! Tests do not sleep: time comes from the clock that they advance, and what happens by itself is
//! waited for with `eventually`. Must not look at what is built.

use super::{Found, Violation};
use crate::tree;

/// Files and folders of tests that may sleep, each with its reason.
const MAY_SLEEP: &[(&str, &str)] = &[
    ("tests/", "real processes, which are killed and paused"),
    (
        "crates/testkit/src/servers/",
        "server processes, which are started, stopped and cut off",
    ),
    (
        "crates/testkit/tests/servers/leftovers.rs",
        "a test process that is killed, and what is left of its servers",
    ),
    (
        "crates/testkit/tests/engine/poison.rs",
        "worker processes that abort",
    ),
    (
        "crates/reconciler/tests/upkeep/thousands.rs",
        "a reconciler process that is killed",
    ),
    (
        "crates/testkit/src/services/server.rs",
        "an HTTP service that answers late, over a real connection",
    ),
    (
        "crates/testkit/src/many_tasks.rs",
        "the pause of `eventually` between two looks",
    ),
    (
        "crates/testkit/src/simulation/",
        "a time of its own, which costs none of ours",
    ),
    (
        "crates/testkit/tests/simulation/",
        "a time of its own, which costs none of ours",
    ),
];

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for file in files
        .iter()
        .filter(|file| is_of_tests(file) && may_sleep(file).is_none())
    {
        for (number, line) in tree::text(file)?.lines().enumerate() {
            if sleeps(line) {
                let what = "a sleep in a test: advance its clock (`TestClock`), or wait for the condition with `eventually`";
                found.push(Violation::new(file, number + 1, what));
            }
        }
    }
    for (place, _) in MAY_SLEEP {
        if !files.iter().any(|file| file.starts_with(place)) {
            let what =
                format!("`{place}` is not there any more: take it off the list of who may sleep");
            found.push(Violation::new("xtask/src/tidy/sleeps.rs", 1, what));
        }
    }
    Ok(found)
}

fn is_of_tests(file: &str) -> bool {
    let in_tests = file.split('/').any(|part| part == "tests");
    file.ends_with(".rs") && (in_tests || file.starts_with("crates/testkit/"))
}

/// The reason why it may.
fn may_sleep(file: &str) -> Option<&'static str> {
    MAY_SLEEP
        .iter()
        .find(|(place, _)| file.starts_with(place))
        .map(|(_, why)| *why)
}

/// Whether a line sleeps by the machine's timer, or imports what does. A method of that name is the
/// clock's.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_call = |(at, _)| {
        let before = &code[..at];
        let is_other = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        !is_other && !before.ends_with('.') && !before.ends_with("fn ")
    };
    let imports = code.trim_start().starts_with("use ") && code.contains("::sleep");
    imports
        || code.match_indices("sleep(").any(is_call)
        || code.match_indices("sleep_until(").any(is_call)
}

#[cfg(test)]
mod tests {
    use super::{is_of_tests, may_sleep, sleeps};

    #[test]
    fn a_sleep_by_the_machines_timer_is_found_and_one_by_the_clock_is_not() {
        for line in [
            "        tokio::time::sleep(Duration::from_millis(5)).await;",
            "    std::thread::sleep(PAUSE);",
            "    () = sleep(PAUSE) => {}",
            "    sleep_until(end).await",
            "use tokio::time::sleep;",
        ] {
            assert!(sleeps(line), "{line}");
        }
        for line in [
            "        clock.sleep(Duration::from_millis(5)).await;",
            "    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {",
            "    // It does not sleep(5).",
            "    fn a_task_that_sleeps() {",
            "    Sleep::for_(\"3s\")",
            "    run_and_sleep(task)",
        ] {
            assert!(!sleeps(line), "{line}");
        }
    }

    #[test]
    fn tests_are_looked_at_and_those_over_real_processes_may_sleep() {
        assert!(is_of_tests("crates/api/tests/api/edges.rs"));
        assert!(is_of_tests("crates/testkit/src/harness.rs"));
        assert!(!is_of_tests("crates/api/src/lib.rs"));
        assert!(!is_of_tests("crates/api/tests/page.html"));
        assert_eq!(may_sleep("crates/api/tests/api/edges.rs"), None);
        assert!(may_sleep("tests/src/chaos/faults.rs").is_some());
        assert!(may_sleep("crates/testkit/tests/engine/poison.rs").is_some());
    }
}
