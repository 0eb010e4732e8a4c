//! `counterstep tasks log`: what the steps of a task have logged.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use super::times::whole;
use counterstep_contracts::log::{LogLine, LogPage};
use counterstep_contracts::operation::task_lists::{GetLog, LogQuery};
use counterstep_contracts::{LogPart, TaskId};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use std::time::Duration;

/// Pause between two polls for new lines.
const PAUSE: Duration = Duration::from_secs(1);

/// All lines behind a cursor. With `follow` they are printed as they come, until the task is at rest.
pub(super) async fn all(
    remote: &Remote,
    out: &OutputArgs,
    task: TaskId,
    cursor: Option<String>,
    follow: bool,
) -> Result<String, Exit> {
    if follow {
        print_until_rest(remote, out, task, cursor).await?;
        return Ok(String::new());
    }
    let mut all = page(remote, task, cursor.as_deref()).await?;
    loop {
        let next = page(remote, task, all.cursor.as_deref()).await?;
        if next.lines.is_empty() {
            break;
        }
        all.lines.extend(next.lines);
        all.cursor = next.cursor;
    }
    match out.as_json(&all)? {
        Some(text) => Ok(text),
        None if all.lines.is_empty() => Ok(lines(&all, true) + "No lines\n"),
        None => Ok(lines(&all, true)),
    }
}

async fn page(remote: &Remote, task: TaskId, cursor: Option<&str>) -> Result<LogPage, Exit> {
    remote.call::<GetLog>(task, LogQuery::after(cursor)).await
}

async fn print_until_rest(
    remote: &Remote,
    out: &OutputArgs,
    task: TaskId,
    mut cursor: Option<String>,
) -> Result<(), Exit> {
    let mut is_first = true;
    loop {
        // Before the lines: those that its last attempt has logged are written before it rests.
        let rests = remote.task(task).await?.status.is_at_rest();
        let page = page(remote, task, cursor.as_deref()).await?;
        let is_over = page.lines.is_empty();
        match out.as_json(&page)? {
            Some(text) if is_first || !is_over => print(&text)?,
            Some(_) => {}
            None => print(&lines(&page, is_first))?,
        }
        if rests && is_over {
            return Ok(());
        }
        is_first = false;
        cursor = page.cursor;
        if is_over {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A page of them, with where they go on.
pub(super) fn one_page(page: &LogPage) -> String {
    let goes_on = page.cursor.iter().filter(|_| !page.lines.is_empty());
    let goes_on: String = goes_on.map(|it| format!("more: --cursor {it}\n")).collect();
    lines(page, true) + &goes_on
}

/// Lines as people read them; `counts`: with how many are missing.
fn lines(page: &LogPage, counts: bool) -> String {
    let mut text = String::new();
    if counts && page.dropped > 0 {
        text.push_str(&format!("({} earlier lines were dropped)\n", page.dropped));
    }
    if counts && page.unreadable > 0 {
        text.push_str(&format!("({} lines cannot be read)\n", page.unreadable));
    }
    text.extend(page.lines.iter().map(line));
    text
}

fn line(line: &LogLine) -> String {
    let LogLine {
        at,
        step,
        part,
        attempt,
        level,
        message,
    } = line;
    let part = match part {
        LogPart::Run => String::new(),
        other => format!(" {other}"),
    };
    format!(
        "{} {level:5} {}{part} #{attempt}: {}\n",
        whole(at),
        one_line(step),
        one_line(message)
    )
}

#[cfg(test)]
mod tests {
    use super::super::submit::tests::scripted;
    use super::*;
    use counterstep_contracts::operation::Target;
    use serde_json::json;

    #[test]
    fn a_line_names_its_step_and_attempt_and_obeys_no_escape() {
        let page: LogPage = serde_json::from_value(json!({
            "lines": [
                {"at": "2026-11-20T18:01:03.250000Z", "step": "render", "part": "run", "attempt": 2,
                 "level": "info", "message": "half\u{1b}[2J"},
                {"at": "2026-11-20T18:01:04.000000Z", "step": "render", "part": "undo", "attempt": 1,
                 "level": "error", "message": "gone"},
            ],
            "dropped": 7, "cursor": "1.1.2",
        }))
        .expect("a page");
        let text = "(7 earlier lines were dropped)\n\
                    2026-11-20T18:01:03Z info  render #2: half\\u{1b}[2J\n\
                    2026-11-20T18:01:04Z error render undo #1: gone\n";
        assert_eq!(lines(&page, true), text);
        assert!(!lines(&page, false).contains("dropped"));
        assert_eq!(one_page(&page), format!("{text}more: --cursor 1.1.2\n"));
        assert_eq!(one_page(&LogPage::default()), "");
    }

    #[tokio::test]
    async fn a_log_is_read_to_its_end_and_printed_once() {
        let page = |of: &[u32]| {
            let line = |no: &u32| {
                json!({"at": "2026-11-20T18:01:03Z", "step": "render", "part": "run", "attempt": no,
                       "level": "info", "message": "half"})
            };
            json!({"lines": of.iter().map(line).collect::<Vec<_>>(), "dropped": 7,
                   "cursor": format!("1.1.{}", of.last().unwrap_or(&3))})
            .to_string()
        };
        let task = TaskId::parse(&["01930d2c-6c4b-7d5e-8f00-0123456789ab"]).expect("an id");
        for (jsonl, expected) in [(false, 4), (true, 3)] {
            let (url, serving) = scripted(vec![
                ("/log?cursor=1.1.0&limit=200 ", page(&[1, 2])),
                ("/log?cursor=1.1.2&limit=200 ", page(&[3])),
                ("/log?cursor=1.1.3&limit=200 ", page(&[])),
            ]);
            let out = OutputArgs {
                jsonl,
                ..OutputArgs::default()
            };
            let cursor = Some("1.1.0".to_owned());
            let text = all(&Remote::at(&url), &out, task, cursor, false).await;
            let text = text.expect("a text");
            assert_eq!(text.lines().count(), expected, "{text}");
            serving.join().expect("all was asked");
        }
        let (url, serving) = scripted(vec![
            ("/log?limit=200 ", page(&[])),
            ("/log?cursor=1.1.3&", page(&[])),
        ]);
        let out = OutputArgs::default();
        let text = all(&Remote::at(&url), &out, task, None, false).await;
        let expected = "(7 earlier lines were dropped)\nNo lines\n";
        assert_eq!(text.expect("a text"), expected);
        serving.join().expect("all was asked");
    }
}
