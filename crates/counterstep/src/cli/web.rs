//! `--web`: the page of what a command has shown, in a browser. Must not ask the server anything.

use counterstep_contracts::TaskId;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Below the address of the API.
const PAGES: &str = "/ui";

/// The page of a group of commands, or of a member of it that has one of its own.
pub(super) fn page(group: &str, name: Option<&str>) -> String {
    let of = match (group, name) {
        ("tasks" | "dead-letters", Some(id)) if id.parse::<TaskId>().is_ok() => {
            format!("/tasks/{id}")
        }
        ("bulk", Some(id)) => format!("/bulk/{id}"),
        ("workers", Some(id)) if is_process(id) => format!("/workers/{id}"),
        ("views", _) => "/tasks".to_owned(),
        ("dead-letters", _) => "/parked".to_owned(),
        ("tasks" | "effects" | "queues" | "limits" | "schedules" | "types" | "workers", _) => {
            format!("/{group}")
        }
        // What has no page of its own is on the overview.
        _ => "/".to_owned(),
    };
    format!("{PAGES}{of}")
}

/// The id of a process has its role before a colon; other commands of the group name a machine.
fn is_process(id: &str) -> bool {
    let is_word = |it: &str| it.bytes().all(|sign| sign.is_ascii_alphanumeric());
    id.split_once(':')
        .is_some_and(|(role, of)| is_word(role) && is_word(of))
}

/// Opens a page; prints its address where nothing opens it.
pub(super) fn open(address: &str) {
    let is_open = browser().is_some_and(|browser| {
        let mut command = Command::new(browser);
        command.arg(address);
        let null = [Stdio::null(), Stdio::null(), Stdio::null()];
        let [input, output, errors] = null;
        let started = command.stdin(input).stdout(output).stderr(errors).spawn();
        started.is_ok()
    });
    if !is_open {
        // Standard output is the answer's.
        let _ = writeln!(std::io::stderr(), "the page is at {address}");
    }
}

/// The program that opens addresses: the one that the user has named, or the desktop's where there is a screen.
fn browser() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let screen = || set("WAYLAND_DISPLAY").or_else(|| set("DISPLAY"));
    set("BROWSER").or_else(|| screen().map(|_| "xdg-open".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn a_task_a_bulk_operation_and_each_group_with_one_have_their_page_and_all_else_is_on_the_overview()
     {
        let task = "0199c0de-0000-7000-8000-000000000001";
        for (group, name, at) in [
            ("tasks", None, "/ui/tasks".to_owned()),
            ("tasks", Some(task), format!("/ui/tasks/{task}")),
            ("dead-letters", Some(task), format!("/ui/tasks/{task}")),
            ("dead-letters", Some("poison-1"), "/ui/parked".to_owned()),
            ("bulk", Some(task), format!("/ui/bulk/{task}")),
            ("bulk", None, "/ui/".to_owned()),
            ("queues", Some("mail"), "/ui/queues".to_owned()),
            ("workers", Some("w1"), "/ui/workers".to_owned()),
            (
                "workers",
                Some("worker:08a4"),
                "/ui/workers/worker:08a4".to_owned(),
            ),
            ("workers", Some("worker:../x"), "/ui/workers".to_owned()),
            ("tasks", Some("../sign-out"), "/ui/tasks".to_owned()),
            ("gates", None, "/ui/".to_owned()),
        ] {
            assert_eq!(page(group, name), at, "{group} {name:?}");
        }
    }
}
