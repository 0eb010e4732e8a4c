//! Reading the log of a task, page by page.

use crate::ports::{LogRow, MOST_LOG_BYTES, MOST_LOG_LINES, Store, StoreError};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::{Epoch, LogLine, TaskId};
use std::fmt;
use std::str::FromStr;

/// The place of a line: its row, and its place in that, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogCursor {
    epoch: Epoch,
    no: u32,
    place: u32,
}

impl fmt::Display for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch.0, self.no, self.place)
    }
}

/// A text is no cursor of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of a log")]
pub struct NoCursor;

impl FromStr for LogCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(NoCursor);
        let (epoch, no, place) = (part()?, part()?, part()?);
        let cursor = Self {
            epoch: Epoch(epoch.parse().map_err(|_| NoCursor)?),
            no: no.parse().map_err(|_| NoCursor)?,
            place: place.parse().map_err(|_| NoCursor)?,
        };
        // One text for each place: `+1` and `01` are none. Epochs begin at 1.
        (cursor.epoch.0 > 0 && cursor.to_string() == text)
            .then_some(cursor)
            .ok_or(NoCursor)
    }
}

/// Up to `limit` lines of a task behind `after`.
///
/// # Errors
/// [`StoreError`].
pub async fn read(
    store: &Store,
    task: TaskId,
    after: Option<LogCursor>,
    limit: usize,
) -> Result<LogPage, StoreError> {
    Ok(page(store.log(task).await?, after, limit))
}

fn page(rows: Vec<LogRow>, after: Option<LogCursor>, limit: usize) -> LogPage {
    let mut page = LogPage {
        dropped: rows.iter().map(|row| row.dropped).sum(),
        ..LogPage::default()
    };
    let mut lines = Vec::new();
    for row in rows {
        // Of an encrypted row that cannot be decrypted a text remains.
        let Ok(read) = serde_json::from_str::<Vec<LogLine>>(&row.body) else {
            page.unreadable += u64::from(row.lines);
            continue;
        };
        lines.extend((1..).zip(read).map(|(place, line)| {
            let (epoch, no) = (row.epoch, row.no);
            (LogCursor { epoch, no, place }, line)
        }));
    }
    // A row stays until no line of it is needed.
    let surplus = lines.len() - kept(lines.iter().map(|(_, line)| line));
    page.dropped += surplus as u64;
    let lines = lines.into_iter().skip(surplus);
    let behind = lines.filter(|(place, _)| after.is_none_or(|after| *place > after));
    let mut last = after;
    for (place, line) in behind.take(limit) {
        last = Some(place);
        page.lines.push(line);
    }
    page.cursor = last.map(|last| last.to_string());
    page
}

/// How many of the latest lines are within the bounds.
fn kept<'a>(lines: impl DoubleEndedIterator<Item = &'a LogLine>) -> usize {
    let mut bytes = 0;
    let within = |line: &&LogLine| {
        bytes += line.message.len() + line.step.len();
        bytes <= MOST_LOG_BYTES as usize
    };
    let most = usize::try_from(MOST_LOG_LINES).unwrap_or(usize::MAX);
    lines.rev().take(most).take_while(within).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::{Attempt, LogLevel, LogPart};

    fn row(epoch: i64, no: u32, messages: &[&str]) -> LogRow {
        let lines: Vec<LogLine> = messages
            .iter()
            .map(|message| LogLine {
                at: "2026-11-29T08:30:12.000000Z".to_owned(),
                step: "render".to_owned(),
                part: LogPart::Run,
                attempt: Attempt(1),
                level: LogLevel::Info,
                message: (*message).to_owned(),
            })
            .collect();
        let body = serde_json::to_string(&lines).unwrap();
        LogRow {
            epoch: Epoch(epoch),
            no,
            lines: u32::try_from(lines.len()).unwrap(),
            bytes: u32::try_from(body.len()).unwrap(),
            dropped: 0,
            body,
        }
    }

    fn messages(page: &LogPage) -> Vec<&str> {
        page.lines.iter().map(|line| &*line.message).collect()
    }

    #[test]
    fn pages_go_on_behind_the_last_line_and_end_where_the_log_ends() {
        let rows = || vec![row(1, 1, &["a", "b"]), row(1, 2, &["c"]), row(2, 1, &["d"])];
        let first = page(rows(), None, 3);
        assert_eq!(messages(&first), ["a", "b", "c"]);
        let cursor = |page: &LogPage| page.cursor.as_deref().map(|text| text.parse().unwrap());
        let second = page(rows(), cursor(&first), 3);
        assert_eq!(messages(&second), ["d"]);
        let third = page(rows(), cursor(&second), 3);
        assert_eq!((messages(&third), &third.cursor), (vec![], &second.cursor));
        let mut later = rows();
        later.push(row(2, 2, &["e"]));
        assert_eq!(messages(&page(later, cursor(&third), 3)), ["e"]);
        assert_eq!(page(Vec::new(), None, 3), LogPage::default());
    }

    #[test]
    fn a_page_has_the_latest_lines_and_counts_the_others() {
        let many: Vec<String> = (0..150).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut rows = vec![row(1, 1, &many), row(1, 2, &many)];
        rows[0].dropped = 7;
        let read = page(rows, None, 1000);
        assert_eq!((read.lines.len(), read.dropped), (200, 107));
        assert_eq!(read.lines[0].message, "100");
        let long = "x".repeat(2_000);
        let read = page(vec![row(1, 1, &[&*long; 100])], None, 1000);
        assert_eq!((read.lines.len(), read.dropped), (32, 68));
    }

    #[test]
    fn lines_that_cannot_be_read_are_counted_and_keep_no_others_away() {
        let mut rows = vec![row(1, 1, &["a", "b"]), row(1, 2, &["c"])];
        "the text was erased".clone_into(&mut rows[0].body);
        let read = page(rows, None, 9);
        assert_eq!(
            (messages(&read), read.unreadable, read.dropped),
            (vec!["c"], 2, 0)
        );
    }

    #[test]
    fn a_text_that_no_page_gave_is_no_cursor() {
        for text in [
            "", "1", "1.2", "1.2.3.4", "a.1.1", "1.-1.1", "-1.1.1", "0.1.1", "01.1.1", "1.1.+1",
            " 1.1.1",
        ] {
            assert_eq!(text.parse::<LogCursor>(), Err(NoCursor), "{text}");
        }
    }
}
