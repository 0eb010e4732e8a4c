//! The table `journal`. Rows are only ever added.

use super::fault::{Fault, name};
use super::statement::{Statement, Str, rows_of, time, values};
use counterstep_contracts::{ChangeId, Epoch, Rev};
use counterstep_kernel::audit::{ContentHash, EntryHash};
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::change::transition::Written;
use counterstep_kernel::journal::JournalRow;
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

// The time is the server's own, so the seal is made where it is known.
const INSERT: &str = ", journal_added AS (INSERT INTO journal
    (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal)
  SELECT u.task, u.rev, u.epoch, now(), u.change_id, u.actor, u.form, u.entries, u.data, u.link,
     sha256(u.link || timestamptz_send(now()))
  FROM ok, ";

const AS: &str =
    " AS u (task, change_id, rev, epoch, actor, form, entries, data, link) WHERE ok.every)";

/// What rows say of their own; each change of a task has one.
pub(super) struct Texts<'a> {
    pub(super) actors: Vec<Str<'a>>,
    pub(super) forms: Vec<i32>,
    pub(super) entries: Vec<Str<'a>>,
    pub(super) data: Vec<Option<Str<'a>>>,
}

impl<'a> Texts<'a> {
    pub(super) fn of(rows: impl Iterator<Item = &'a Written> + Clone) -> Result<Self, Fault> {
        Ok(Self {
            actors: rows
                .clone()
                .map(|row| name("journal.actor", &row.actor))
                .collect::<Result<_, _>>()?,
            forms: rows.clone().map(|row| i32::from(row.form)).collect(),
            entries: rows
                .clone()
                .map(|row| Str::Borrowed(&*row.entries))
                .collect(),
            data: rows
                .map(|row| row.data.as_deref().map(Str::Borrowed))
                .collect(),
        })
    }
}

/// Adds the row of each change of a new task.
pub(super) fn insert<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
) -> Result<(), Fault> {
    let ((tasks, changes), rows) = rows_of(changes, |change| {
        change
            .task
            .iter()
            .zip(&change.journal)
            .map(|(write, journal)| (&write.row, journal))
    });
    if rows.is_empty() {
        return Ok(());
    }
    let Texts {
        actors,
        forms,
        entries,
        data,
    } = Texts::of(rows.iter().map(|(_, journal)| *journal))?;
    let binds = values![
        tasks,
        changes,
        rows.iter().map(|(row, _)| row.rev.0).collect::<Vec<_>>(),
        rows.iter().map(|(row, _)| row.epoch.0).collect::<Vec<_>>(),
        actors,
        forms,
        entries,
        data,
        rows.iter()
            .map(|(_, journal)| Some(journal.link.0.clone()))
            .collect::<Vec<_>>(),
    ];
    statement.push_table(INSERT, rows.len(), binds, AS);
    Ok(())
}

/// The columns of [`JournalRowRead`].
pub(super) type JournalRowTypes = (
    sql::Nullable<sql::BigInt>,
    sql::Nullable<sql::BigInt>,
    sql::Nullable<sql::Timestamptz>,
    sql::Nullable<sql::Uuid>,
    sql::Nullable<sql::Text>,
    sql::Nullable<sql::Integer>,
    sql::Nullable<sql::Text>,
    sql::Nullable<sql::Text>,
    sql::Nullable<sql::Binary>,
    sql::Nullable<sql::Binary>,
);

/// A row, column by column. Where it is a task's, in the query that reads both, all of them are
/// NULL.
#[derive(Debug, Queryable)]
pub(super) struct JournalRowRead {
    rev: Option<i64>,
    epoch: Option<i64>,
    at: Option<PgTimestamp>,
    change_id: Option<Uuid>,
    actor: Option<String>,
    form: Option<i32>,
    entries: Option<String>,
    data: Option<String>,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

/// The row of the journal; `None`: it is a task's.
pub(super) fn decode(read: JournalRowRead) -> Option<JournalRow> {
    Some(JournalRow {
        rev: Rev(read.rev?),
        epoch: Epoch(read.epoch?),
        at: time(read.at?),
        change_id: ChangeId(read.change_id?),
        actor: read.actor?,
        form: i16::try_from(read.form?).unwrap_or(i16::MAX),
        entries: read.entries?,
        data: read.data,
        link: ContentHash(read.link?),
        seal: EntryHash(read.seal?),
    })
}
