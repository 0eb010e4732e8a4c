//! The way of values between the columns of a table and the kernel's types, the same for every
//! database with tables. Knows no database; must not repair what it cannot read.

use counterstep_contracts::{
    Host, Labels, ParentRef, Rev, Settled, TaskId, TaskStatus, WaitReason,
};
use counterstep_kernel::journal::{Fold, JournalError, JournalRow};
use counterstep_kernel::ports::{LoadFor, Loaded, StoreError, Unread};
use counterstep_kernel::record::{AttemptMark, Failure, StepRow, TaskRecord, TaskRow, UndoGoal};
use counterstep_steps::times::DbTime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// A column whose value is none that this program writes, or a value that has no form in a column.
/// As text, with the column's name; and what it holds, which is for no log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) String, pub(crate) String);

impl Unreadable {
    fn of(column: &str, error: impl Display, held: &str) -> Self {
        /// Maximum bytes that are kept of a value that cannot be read.
        const MOST: usize = 64 * 1024;
        let end = (0..=held.len().min(MOST))
            .rev()
            .find(|&end| held.is_char_boundary(end))
            .unwrap_or(0);
        Self(format!("{column}: {error}"), held[..end].to_owned())
    }
}

impl From<Unreadable> for StoreError {
    fn from(Unreadable(text, _): Unreadable) -> Self {
        Self::Corrupt(text)
    }
}

/// What to do about a column that cannot be read.
#[derive(Debug)]
pub(crate) enum Care {
    /// Refuse the row.
    Strict,
    /// The same, and data that are not what their digest says: for those who run the task.
    Digests,
    /// Continue with a substitute, and note which row it was.
    Salvage(Vec<Unread>),
}

impl Care {
    /// For a load.
    pub(crate) const fn of(purpose: LoadFor) -> Self {
        match purpose {
            LoadFor::Look | LoadFor::State => Self::Strict,
            LoadFor::Run | LoadFor::Confirm => Self::Digests,
            LoadFor::Salvage => Self::Salvage(Vec::new()),
        }
    }

    /// What was read, or what stands in its place.
    pub(crate) fn or<T>(
        &mut self,
        read: Result<T, Unreadable>,
        instead: T,
    ) -> Result<T, Unreadable> {
        match (read, self) {
            (Err(Unreadable(what, held)), Self::Salvage(noted)) => {
                noted.push(Unread { what, held });
                Ok(instead)
            }
            (read, _) => read,
        }
    }

    /// A record that was read with it, and what was noted.
    pub(crate) fn loaded(self, record: TaskRecord) -> Loaded {
        Loaded {
            record,
            unreadable: self.noted(),
        }
    }

    fn noted(self) -> Vec<Unread> {
        match self {
            Self::Strict | Self::Digests => Vec::new(),
            Self::Salvage(noted) => noted,
        }
    }
}

/// How a column names the states in which a task has ended, or has not.
pub(crate) fn states(ended: bool) -> impl Iterator<Item = &'static str> {
    let states = TaskStatus::ALL.iter();
    let asked = states.filter(move |status| status.is_terminal() == ended);
    asked.map(|status| status.as_str())
}

/// How a column names the states in which a task is parked.
pub(crate) fn parked_states() -> impl Iterator<Item = &'static str> {
    let states = TaskStatus::ALL.iter();
    let parked = states.filter(|status| status.is_parked());
    parked.map(|status| status.as_str())
}

/// The goal of an undo from its column.
pub(crate) fn goal(text: Option<&str>) -> Result<Option<UndoGoal>, Unreadable> {
    match text {
        None => Ok(None),
        Some("failed") => Ok(Some(UndoGoal::Failed)),
        Some("cancelled") => Ok(Some(UndoGoal::Cancelled)),
        Some(other) => Err(Unreadable::of("goal", "it is no UndoGoal", other)),
    }
}

/// A value from its JSON column, which may be empty.
pub(crate) fn read_some_json<T: DeserializeOwned>(
    column: &str,
    text: Option<&str>,
) -> Result<Option<T>, Unreadable> {
    text.map(|text| read_json(column, text)).transpose()
}

/// An enum, or an id, from its column.
pub(crate) fn parse<T: FromStr<Err: Display>>(column: &str, text: &str) -> Result<T, Unreadable> {
    text.parse()
        .map_err(|error| Unreadable::of(column, error, text))
}

/// As [`parse`], of a column that may be empty.
pub(crate) fn parse_some<T: FromStr<Err: Display>>(
    column: &str,
    text: Option<&str>,
) -> Result<Option<T>, Unreadable> {
    text.map(|text| parse(column, text)).transpose()
}

/// A count, or another number that has less room than its column.
pub(crate) fn count<T: TryFrom<i64, Error: Display>>(
    column: &str,
    value: i64,
) -> Result<T, Unreadable> {
    T::try_from(value).map_err(|error| Unreadable::of(column, error, &value.to_string()))
}

/// A value from its JSON column.
pub(crate) fn read_json<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| Unreadable::of(column, error, text))
}

/// What stands in the column of a failure exactly where it is of this class: a quote inside any
/// other text of it has a backslash before it.
pub(crate) fn failure_class(class: &str) -> String {
    format!("\"class\":\"{class}\"")
}

/// Labels from their column.
pub(crate) fn read_labels(text: Option<&str>) -> Result<Labels, Unreadable> {
    Ok(read_some_json("labels", text)?.unwrap_or_default())
}

/// Labels for their column; nothing where there are none.
pub(crate) fn write_labels(labels: &Labels) -> Result<Option<String>, Unreadable> {
    (!labels.is_empty()).then(|| write_json(labels)).transpose()
}

/// A value for its JSON column.
pub(crate) fn write_json<T: Serialize>(value: &T) -> Result<String, Unreadable> {
    serde_json::to_string(value).map_err(|error| Unreadable(error.to_string(), String::new()))
}

/// What a task's journal says that its row does not.
pub(crate) struct Content {
    /// What the client handed in; `Null`: it was erased.
    pub(crate) request: Value,
    /// The client's `Idempotency-Key`.
    pub(crate) client_key: Option<String>,
    /// The answer, once there is one.
    pub(crate) response: Option<Value>,
    /// By number.
    pub(crate) steps: Vec<StepRow>,
    /// What is known of its attempts' objects, in the order of their start.
    pub(crate) marks: Vec<AttemptMark>,
    /// The payload key that the last row with one names.
    pub(crate) payload_key: Option<String>,
    /// The task that has submitted it.
    pub(crate) parent: Option<ParentRef>,
    /// Where its client is told when it comes to rest.
    pub(crate) webhook: Option<String>,
    /// The key by which it is counted with others.
    pub(crate) place_key: Option<String>,
    /// The number of the place that it holds.
    pub(crate) place_no: Option<u32>,
    /// How a person has settled it.
    pub(crate) settled: Option<Settled>,
    /// Requests that it had before the present one.
    pub(crate) earlier_requests: Vec<Value>,
    /// Fields of the row as the journal has them, in place of columns that cannot be read.
    pub(crate) instead: Instead,
}

/// What stands in place of columns that cannot be read.
pub(crate) struct Instead {
    /// Why it waits.
    pub(crate) waiting: Option<WaitReason>,
    /// What its undo is for.
    goal: Option<UndoGoal>,
    /// Why it will not complete.
    pub(crate) failure: Option<Failure>,
    /// What it is found by.
    pub(crate) labels: Labels,
    /// Where its next step runs.
    pub(crate) host: Host,
    /// How often it was taken back.
    pub(crate) recovery_attempts: u32,
    /// Whether the journal was read whole.
    is_whole: bool,
}

impl Instead {
    /// The goal of the undo; where the journal is damaged too and says none, the likely one.
    pub(crate) fn goal(&self, cancel_requested: bool) -> Option<UndoGoal> {
        let likely = if cancel_requested {
            UndoGoal::Cancelled
        } else {
            UndoGoal::Failed
        };
        if self.is_whole {
            self.goal
        } else {
            self.goal.or(Some(likely))
        }
    }
}

/// Why a journal was not read.
#[derive(Debug)]
pub(crate) enum NotRead {
    /// A newer program wrote it, as text.
    Newer(String),
    /// It is damaged.
    Damaged(Unreadable),
}

/// Reads the journal of a task that is at this revision. `journal`: in order.
pub(crate) fn content(
    task: TaskId,
    rev: Rev,
    journal: &[JournalRow],
    care: &mut Care,
) -> Result<Content, NotRead> {
    let mut fold = match care {
        Care::Strict => Fold::new(task),
        Care::Digests | Care::Salvage(_) => Fold::holding_digests(task),
    };
    let mut is_whole = true;
    for row in journal {
        let pushed = match care {
            Care::Strict | Care::Digests => fold.push(row),
            Care::Salvage(_) => fold.push_damaged(row),
        };
        let read = match pushed {
            Err(error @ JournalError::Newer { .. }) => {
                return Err(NotRead::Newer(error.to_string()));
            }
            pushed => pushed.map_err(|error| {
                let of_data = matches!(error, JournalError::Broken { text: "data", .. });
                let held = if of_data {
                    row.data.as_deref()
                } else {
                    Some(&*row.entries)
                };
                Unreadable::of("journal", error, held.unwrap_or_default())
            }),
        };
        is_whole &= read.is_ok();
        care.or(read, ()).map_err(NotRead::Damaged)?;
    }
    let ends = fold.record().task.rev;
    let whole = (ends == rev).then_some(());
    let whole = whole.ok_or_else(|| {
        Unreadable(
            format!("journal: it ends at row {ends}; expected {rev}"),
            String::new(),
        )
    });
    is_whole &= whole.is_ok();
    care.or(whole, ()).map_err(NotRead::Damaged)?;
    let TaskRecord {
        task: row,
        steps,
        marks,
        payload_key,
        ..
    } = fold.into_record(DbTime(0));
    let TaskRow {
        request,
        client_key,
        response,
        parent,
        webhook,
        earlier_requests,
        place_key,
        place_no,
        settled,
        waiting,
        goal,
        failure,
        labels,
        host,
        recovery_attempts,
        ..
    } = *row;
    Ok(Content {
        request,
        client_key,
        response,
        steps,
        marks,
        payload_key,
        parent,
        webhook,
        earlier_requests,
        place_key,
        place_no,
        settled,
        instead: Instead {
            waiting,
            goal,
            failure,
            labels,
            host,
            recovery_attempts,
            is_whole,
        },
    })
}

/// Microseconds. A duration beyond what fits means "never", and so does its greatest value.
pub(crate) fn micros(duration: Duration) -> i64 {
    // A quarter of the range: added to any `now` it still does not overflow, and is a time that
    // every database knows.
    i64::try_from(duration.as_micros())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_with_its_column() {
        assert_eq!(parse::<u32>("epoch", "7"), Ok(7));
        assert!(
            parse::<u32>("epoch", "x")
                .unwrap_err()
                .0
                .starts_with("epoch: ")
        );
        assert!(parse_some::<u32>("epoch", Some("-1")).is_err());
        assert_eq!(parse_some::<u32>("epoch", None), Ok(None));
        assert!(count::<u32>("rev", -1).unwrap_err().0.starts_with("rev: "));
        assert!(
            read_json::<Vec<u8>>("output", "{")
                .unwrap_err()
                .0
                .starts_with("output: ")
        );
    }

    #[test]
    fn never_can_be_added_to_any_time() {
        assert_eq!(micros(Duration::from_millis(3)), 3000);
        assert!(micros(Duration::MAX).checked_add(i64::MAX / 2).is_some());
    }
}
