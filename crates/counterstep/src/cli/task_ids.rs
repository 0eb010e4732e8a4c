//! How a command line names a task: by its id, or by the start or the ending of one, as lists on a terminal show it. The API takes
//! whole ids only. Must not know what is done with the task.

use super::question;
use super::remote::Remote;
use counterstep_contracts::http::TaskSummary;
use counterstep_contracts::operation::task_lists::{ListTasks, TasksQuery};
use counterstep_contracts::operation::{Cursor, Limit};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_node::Exit;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::str::FromStr;

/// What a help says of an argument that is one.
pub(super) const ABOUT: &str =
    "Id of the task, or at least 8 characters of its start or its ending";

/// A shorter part fits too many.
const SHORTEST: usize = 8;

/// Tasks among which a part is looked for: the newest, and the newest of those that have not ended.
const NEWEST: usize = 1_000;
const OPEN: usize = 5_000;

/// A task as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Whole(TaskId),
    /// The start or the ending of an id.
    Part(String),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        let of_id = |sign: u8| sign.is_ascii_hexdigit() || sign == b'-';
        match (SHORTEST..36).contains(&text.len()) && text.bytes().all(of_id) {
            true => Ok(Self::Part(text.to_ascii_lowercase())),
            false => Err(format!(
                "expected the id of a task, which is a UUID, or at least {SHORTEST} characters of its start or its ending"
            )),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(id) => id.fmt(f),
            Self::Part(part) => part.fmt(f),
        }
    }
}

impl Named {
    /// The id of the task.
    pub(super) async fn id(&self, remote: &Remote) -> Result<TaskId, Exit> {
        match self {
            Self::Whole(id) => Ok(*id),
            Self::Part(part) => Ok(the_one(remote, part).await?.task_id),
        }
    }

    /// The id of a task that is going to be changed: what was found for a part of it is shown, and a person confirms it, unless
    /// they have.
    pub(super) async fn id_to_change(&self, remote: &Remote, change: &str) -> Result<TaskId, Exit> {
        let part = match self {
            Self::Whole(id) => return Ok(*id),
            Self::Part(part) => part,
        };
        let task = the_one(remote, part).await?;
        let found = format!("{} ({}, {})", task.task_id, task.task_type, task.status);
        let stdin = std::io::stdin();
        if remote.is_confirmed() {
            let _ = writeln!(std::io::stderr(), "{part} is {found}");
        } else if !stdin.is_terminal() {
            return Err(Exit::usage(format_args!(
                "{part} is {found}: give the whole id, or --yes"
            )));
        } else {
            question::ask(&format!("{change}: {found}"))?;
        }
        Ok(task.task_id)
    }
}

/// The task whose id begins or ends so.
async fn the_one(remote: &Remote, part: &str) -> Result<TaskSummary, Exit> {
    let mut fit = BTreeMap::new();
    look(remote, part, Vec::new(), NEWEST, &mut fit).await?;
    if fit.len() < 2 {
        let open = TaskStatus::ALL.iter().copied();
        let open = open.filter(|it| !it.is_terminal()).collect();
        look(remote, part, open, OPEN, &mut fit).await?;
    }
    let mut found = fit.into_values();
    match (found.next(), found.next()) {
        (Some(task), None) => Ok(task),
        (None, _) => Err(Exit::failed(format_args!(
            "no task has an id that begins or ends with {part}, among the newest {NEWEST} and the newest {OPEN} that have not \
             ended: give the whole id"
        ))),
        (Some(one), Some(other)) => {
            let all = [one, other].into_iter().chain(found);
            let all = all.map(|it| format!("{} ({}, {})", it.task_id, it.task_type, it.status));
            Err(Exit::usage(format_args!(
                "{part} is a part of several ids: give more of one\n  {}",
                all.collect::<Vec<_>>().join("\n  ")
            )))
        }
    }
}

/// Looks through the newest tasks of these states until two fit.
async fn look(
    remote: &Remote,
    part: &str,
    status: Vec<TaskStatus>,
    most: usize,
    fit: &mut BTreeMap<TaskId, TaskSummary>,
) -> Result<(), Exit> {
    let mut cursor = None;
    let mut left = most;
    loop {
        let query = TasksQuery {
            status: status.clone(),
            limit: Limit::MOST,
            cursor: cursor.map(Cursor),
            ..TasksQuery::default()
        };
        let page = remote.call::<ListTasks>((), query).await?;
        left = left.saturating_sub(page.items.len());
        let fits = |task: &TaskSummary| {
            let id = task.task_id.to_string();
            id.starts_with(part) || id.ends_with(part)
        };
        let fitting = page.items.into_iter().filter(fits);
        fit.extend(fitting.map(|task| (task.task_id, task)));
        cursor = page.next_cursor;
        if cursor.is_none() || left == 0 || fit.len() > 1 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::submit::tests::scripted;
    use super::*;
    use serde_json::json;

    const ONE: &str = "0199c0de-0000-7000-8000-00001badcafe";
    const OTHER: &str = "0199c0de-0000-7000-8000-00002badcafe";

    fn page(ids: &[&str], next: Option<&str>) -> String {
        let task = |id: &&str| {
            json!({
                "task_id": id, "task_type": "BookSeat", "status": "waiting",
                "created_at": "2026-11-20T18:00:00Z", "updated_at": "2026-11-20T18:00:02Z",
            })
        };
        let items: Vec<_> = ids.iter().map(task).collect();
        json!({"items": items, "next_cursor": next}).to_string()
    }

    const OPEN: &str = "status=submitted&status=dispatched&status=running&status=waiting&status=compensating\
                        &status=compensation_failed&status=dead_lettered";

    async fn found(named: &str, script: Vec<(&'static str, String)>) -> Result<TaskId, String> {
        let (url, serving) = scripted(script);
        let named: Named = named.parse()?;
        let found = named.id(&Remote::at(&url)).await;
        serving.join().expect("all was asked");
        found.map_err(|exit| exit.message)
    }

    #[test]
    fn a_part_of_an_id_has_eight_characters_of_one() {
        assert_eq!(ONE.parse(), Ok(Named::Whole(ONE.parse().expect("an id"))));
        for part in ["1BADCAFE", "0199c0de", "0199c0de-0000", "8000-00001badcafe"] {
            assert_eq!(
                part.parse(),
                Ok(Named::Part(part.to_ascii_lowercase())),
                "{part}"
            );
        }
        for bad in ["", "1badcaf", "not-a-task", "1badcafe?x=1", "../healthz"] {
            let refused = bad.parse::<Named>().expect_err(bad);
            assert!(refused.contains("UUID"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_start_or_an_ending_of_one_task_is_that_task() {
        // An old task that waits is found behind the newest, and one that is in both is one.
        for (part, newest, open) in [
            ("1badcafe", &[][..], &[ONE, OTHER][..]),
            ("0199c0de", &[ONE], &[ONE]),
            ("00001badcafe", &[ONE, OTHER], &[]),
        ] {
            let script = vec![
                ("GET /api/tasks?limit=200 ", page(newest, None)),
                (OPEN, page(open, None)),
            ];
            let id = found(part, script).await.expect("one task");
            assert_eq!(id.to_string(), ONE, "{part}");
        }
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_and_a_part_of_two_ids_is_refused_with_both() {
        let script = vec![
            ("GET /api/tasks?limit=200 ", page(&[ONE], Some("c1"))),
            ("cursor=c1&limit=200 ", page(&[OTHER], Some("c2"))),
        ];
        let refused = found("0199c0de", script).await.expect_err("two fit");
        assert!(
            refused.contains(ONE) && refused.contains(OTHER),
            "{refused}"
        );
        let script = vec![
            ("GET /api/tasks?limit=200 ", page(&[ONE], None)),
            (OPEN, page(&[ONE], None)),
        ];
        let refused = found("deadbeef", script).await.expect_err("none fits");
        assert!(refused.starts_with("no task has an id"), "{refused}");
    }

    /// Tests have no terminal, and so no answer.
    #[tokio::test]
    async fn what_changes_a_task_takes_a_part_of_its_id_with_a_confirmation_only() {
        for (yes, is_taken) in [(true, true), (false, false)] {
            let (url, serving) = scripted(vec![
                ("GET /api/tasks?limit=200 ", page(&[ONE], None)),
                (OPEN, page(&[], None)),
            ]);
            let named = Named::Part("1badcafe".to_owned());
            let remote = Remote::at(&url);
            let remote = if yes { remote.confirmed() } else { remote };
            let id = named.id_to_change(&remote, "Cancel a task").await;
            match id {
                Ok(id) => assert!(is_taken && id.to_string() == ONE),
                Err(exit) => {
                    assert!(!is_taken && exit.message.contains(ONE), "{}", exit.message);
                    assert!(exit.message.ends_with("give the whole id, or --yes"));
                }
            }
            serving.join().expect("all was asked");
        }
    }
}
