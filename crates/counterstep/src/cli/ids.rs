//! How a command line names what has an id: by it, or by the start or the ending of it, as lists on a terminal show it. Where such
//! ids are listed the declaration says. The API takes whole ids only. Must not know an operation.

use super::output::{items_of, unreadable};
use super::question;
use super::remote::Remote;
use counterstep_contracts::TaskId;
use counterstep_contracts::operation::{About, Ids, Look, TASK_IDS};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::str::FromStr;

/// A shorter part fits too many.
const SHORTEST: usize = 8;

/// What a help says of an argument that is one.
pub(super) fn about(ids: &Ids) -> String {
    let of = ids.of;
    format!("Id of the {of}, or at least {SHORTEST} characters of its start or its ending")
}

/// A text that may be an id of these, or a part of one.
///
/// # Errors
/// Where it can be neither.
pub(super) fn checked(ids: &Ids, text: &str) -> Result<String, String> {
    let named = text.to_ascii_lowercase();
    let of_id = |sign: char| sign.is_ascii_hexdigit() || ids.signs.contains(sign);
    match named.len() >= SHORTEST && named.chars().all(of_id) {
        true => Ok(named),
        false => Err(format!(
            "expected the id of a {}, or at least {SHORTEST} characters of its start or its ending",
            ids.of
        )),
    }
}

/// Whether a text is no whole id, but can be a part of one.
pub(super) const fn is_part(ids: &Ids, text: &str) -> bool {
    text.len() < ids.length
}

/// A task, as a command that is written by hand takes it.
#[derive(Debug, Clone)]
pub(super) struct Named(String);

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = checked(&TASK_IDS, text)?;
        match is_part(&TASK_IDS, &named) || named.parse::<TaskId>().is_ok() {
            true => Ok(Self(named)),
            false => Err("expected the id of a task, which is a UUID".to_owned()),
        }
    }
}

impl Named {
    /// The id of the task.
    pub(super) async fn id(&self, remote: &Remote) -> Result<TaskId, Exit> {
        let mut id = self.0.clone();
        complete(remote, &TASK_IDS, &[], &mut id).await?;
        id.parse().map_err(unreadable)
    }
}

/// Puts the whole id in place of its part. Gives what was found for it. `before`: what stands before it in the address.
pub(super) async fn complete(
    remote: &Remote,
    ids: &Ids,
    before: &[String],
    text: &mut String,
) -> Result<Option<String>, Exit> {
    if !is_part(ids, text) {
        return Ok(None);
    }
    let (id, shown) = the_one(remote, ids, before, text).await?;
    let found = format!("{text} is {shown}");
    *text = id;
    Ok(Some(found))
}

/// Lets a person confirm what was found for parts, before a change to it, unless they have.
pub(super) fn confirm(remote: &Remote, about: &About, found: &[String]) -> Result<(), Exit> {
    if found.is_empty() {
        return Ok(());
    }
    let found = found.join(", ");
    if remote.is_confirmed() {
        let _ = writeln!(std::io::stderr(), "{found}");
        return Ok(());
    }
    match std::io::stdin().is_terminal() {
        true => question::ask(&format!("{}: {found}", about.summary)),
        false => Err(Exit::usage(format_args!(
            "{found}: give the whole id, or --yes"
        ))),
    }
}

/// The id that begins or ends so, and what has it.
async fn the_one(
    remote: &Remote,
    ids: &Ids,
    before: &[String],
    part: &str,
) -> Result<(String, String), Exit> {
    let mut fit = BTreeMap::new();
    for look in ids.looks {
        if fit.len() < 2 {
            look_through(remote, ids, look, before, part, &mut fit).await?;
        }
    }
    let mut found = fit.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => {
            let among: Vec<_> = ids.looks.iter().map(|look| look.among).collect();
            let among = match among.join(" and ") {
                all if all.is_empty() => all,
                some => format!(", among {some}"),
            };
            Err(Exit::failed(format_args!(
                "no {} has an id that begins or ends with {part}{among}: give the whole id",
                ids.of
            )))
        }
        (Some(one), Some(other)) => {
            let all = [one, other].into_iter().chain(found);
            let all: Vec<_> = all.map(|(_, shown)| shown).collect();
            Err(Exit::usage(format_args!(
                "{part} is a part of several ids: give more of one\n  {}",
                all.join("\n  ")
            )))
        }
    }
}

/// Looks through a list until two fit.
async fn look_through(
    remote: &Remote,
    ids: &Ids,
    look: &Look,
    before: &[String],
    part: &str,
    fit: &mut BTreeMap<String, String>,
) -> Result<(), Exit> {
    let list = About::of_operation(ids.list).ok_or_else(|| Exit::failed(ids.list))?;
    let before: Vec<_> = before.iter().map(String::as_str).collect();
    let mut query = (look.query)();
    let mut left = look.most;
    loop {
        let asked = Some(&query).filter(|query| !query.is_null());
        let answer = remote.ask(list, &before, asked).await?;
        let answer: Value = serde_json::from_slice(&answer).map_err(unreadable)?;
        let items = items_of(&answer).map_or(&[][..], Vec::as_slice);
        left = left.saturating_sub(items.len());
        for item in items {
            let id = item[ids.field].as_str().unwrap_or_default();
            if id.starts_with(part) || id.ends_with(part) {
                fit.insert(id.to_owned(), shown(ids, id, item));
            }
        }
        let cursor = answer["next_cursor"].clone();
        if cursor.is_null() || left == 0 || fit.len() > 1 {
            return Ok(());
        }
        query["cursor"] = cursor;
    }
}

/// An id, and which one it is.
fn shown(ids: &Ids, id: &str, item: &Value) -> String {
    let fields = ids.shown.iter().filter_map(|field| item[field].as_str());
    format!(
        "{} ({})",
        one_line(id),
        fields.map(one_line).collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::super::submit::tests::scripted;
    use super::*;
    use counterstep_contracts::operation::dead_letters::GROUP_IDS;
    use serde_json::json;
    use std::collections::BTreeSet;

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
        for part in [
            ONE,
            "1BADCAFE",
            "0199c0de",
            "0199c0de-0000",
            "8000-00001badcafe",
        ] {
            let named: Named = part.parse().expect(part);
            assert_eq!(named.0, part.to_ascii_lowercase(), "{part}");
        }
        let too_long = format!("{ONE}0");
        for bad in [
            "",
            "1badcaf",
            "not-a-task",
            "1badcafe?x=1",
            "../healthz",
            &too_long,
        ] {
            let refused = bad.parse::<Named>().expect_err(bad);
            assert!(refused.contains("the id of a task"), "{refused}");
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

    /// Each declared parameter and field that is an id is listed by an operation, whose address names no more than what stands
    /// before it, and whose items have that field and those that are shown.
    #[test]
    fn each_list_of_ids_has_its_ids_and_what_is_shown_of_them() {
        let mut tried = Vec::new();
        for it in ALL {
            for (at, param) in it.params.iter().enumerate() {
                let Some(ids) = param.ids else { continue };
                assert_eq!(checked(ids, param.example).as_deref(), Ok(param.example));
                tried.push((ids, at));
            }
        }
        tried.push((&GROUP_IDS, 0));
        for (ids, at) in &tried {
            let list = ALL.iter().find(|it| it.about.id == ids.list);
            let list = list.expect(ids.list);
            assert!(list.params.len() <= *at, "{}", ids.list);
            let example = (list.output.expect("an output").example)();
            let items = items_of(&example).expect("a list");
            let id = items[0][ids.field].as_str().expect(ids.field);
            assert!(!is_part(ids, id) && is_part(ids, &id[1..]), "{id}");
            let has = |field: &&str| items[0][field].is_string();
            assert!(ids.shown.iter().all(has), "{}", ids.list);
        }
        let of: BTreeSet<_> = tried.iter().map(|(ids, _)| ids.of).collect();
        let expected = [
            "bulk operation",
            "group",
            "message",
            "process",
            "task",
            "webhook",
        ];
        assert_eq!(of, BTreeSet::from(expected));
    }
}
