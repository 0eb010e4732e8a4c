//! `counterstep tasks log`: what the steps of a task have logged.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use super::task_ids::{self, Named};
use super::times::whole;
use counterstep_contracts::log::{LogLine, LogPage};
use counterstep_contracts::operation::task_lists::{GetLog, LogQuery};
use counterstep_contracts::{LogPart, TaskId};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use std::time::Duration;

/// Pause between two polls for new lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Flags of `tasks log`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LogArgs {
    #[arg(help = task_ids::ABOUT)]
    id: Named,
    /// Print new lines as they are written, until the task is at rest
    #[arg(short, long)]
    follow: bool,
    /// Only the lines behind this cursor
    #[arg(long)]
    cursor: Option<String>,
}

impl LogArgs {
    /// Returns the task.
    pub(super) async fn run(&self, remote: &Remote, out: &OutputArgs) -> Result<TaskId, Exit> {
        let id = self.id.id(remote).await?;
        let mut cursor = self.cursor.clone();
        let mut is_first = true;
        loop {
            // Before the lines: those that its last attempt has logged are written before it rests.
            let rests = !self.follow || remote.task(id).await?.status.is_at_rest();
            let page = remote
                .call::<GetLog>(id, LogQuery::after(cursor.as_deref()))
                .await?;
            print(&shown(&page, out, is_first)?)?;
            let is_over = page.lines.is_empty();
            if rests && is_first && is_over && !out.is_json() {
                print("No lines\n")?;
            }
            is_first = false;
            cursor = page.cursor;
            if rests && (is_over || !self.follow) {
                return Ok(id);
            }
            if is_over {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// A page as it is printed; `counts`: with how many lines are missing.
fn shown(page: &LogPage, out: &OutputArgs, counts: bool) -> Result<String, Exit> {
    if out.is_json() {
        let is_told = counts || !page.lines.is_empty();
        let text = is_told.then(|| out.as_json(page)).transpose()?;
        return Ok(text.flatten().unwrap_or_default());
    }
    let mut text = String::new();
    if counts && page.dropped > 0 {
        text.push_str(&format!("({} earlier lines were dropped)\n", page.dropped));
    }
    if counts && page.unreadable > 0 {
        text.push_str(&format!("({} lines cannot be read)\n", page.unreadable));
    }
    text.extend(page.lines.iter().map(line));
    Ok(text)
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
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_names_its_step_and_attempt_and_obeys_no_escape() {
        let page = serde_json::from_value(json!({
            "lines": [
                {"at": "2026-11-20T18:01:03.250000Z", "step": "render", "part": "run", "attempt": 2,
                 "level": "info", "message": "half\u{1b}[2J"},
                {"at": "2026-11-20T18:01:04.000000Z", "step": "render", "part": "undo", "attempt": 1,
                 "level": "error", "message": "gone"},
            ],
            "dropped": 7, "cursor": "1.1.2",
        }))
        .expect("a page");
        assert_eq!(
            shown(&page, &OutputArgs::default(), true).expect("a text"),
            "(7 earlier lines were dropped)\n\
             2026-11-20T18:01:03Z info  render #2: half\\u{1b}[2J\n\
             2026-11-20T18:01:04Z error render undo #1: gone\n"
        );
        let lines = OutputArgs {
            jsonl: true,
            ..OutputArgs::default()
        };
        let text = shown(&page, &lines, true).expect("lines");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.starts_with(r#"{"at":"2026-11-20T18:01:03.250000Z""#),
            "{text}"
        );
        let json = OutputArgs {
            json: true,
            ..OutputArgs::default()
        };
        let none = LogPage::default();
        assert_eq!(shown(&none, &json, false).expect("a text"), "");
        assert_eq!(
            shown(&none, &OutputArgs::default(), true).expect("a text"),
            ""
        );
    }
}
