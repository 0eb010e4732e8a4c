//! Queries on the table `journal`. Rows are only ever added.

use super::fault::{Care, Fault, parse};
use super::schema::journal;
use counterstep_contracts::{ChangeId, Epoch, Rev, TaskId};
use counterstep_kernel::audit::{self, ContentHash, EntryHash};
use counterstep_kernel::change::transition::Written;
use counterstep_kernel::journal::JournalRow;
use counterstep_kernel::record::TaskRow;
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use uuid::Uuid;

#[derive(Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = journal, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    task: String,
    rev: i64,
    epoch: i64,
    at: i64,
    change_id: String,
    actor: String,
    form: i32,
    entries: String,
    data: Option<String>,
    link: Vec<u8>,
    seal: Vec<u8>,
}

impl Columns {
    fn decode(self, care: &mut Care) -> Result<JournalRow, Fault> {
        let change_id = parse("journal.change_id", &self.change_id);
        Ok(JournalRow {
            rev: Rev(self.rev),
            epoch: Epoch(self.epoch),
            at: DbTime(self.at),
            change_id: care.or(change_id, ChangeId(Uuid::nil()))?,
            actor: self.actor,
            form: i16::try_from(self.form).unwrap_or(i16::MAX),
            entries: self.entries,
            data: self.data,
            link: ContentHash(self.link),
            seal: EntryHash(self.seal),
        })
    }
}

/// The seal of a row that is written at this time.
pub(super) fn seal(row: &Written, at: i64) -> Vec<u8> {
    audit::seal(&row.link.0, DbTime(at)).0
}

/// Adds the row of a change that made `task`.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    change: ChangeId,
    task: &TaskRow,
    at: i64,
    row: &Written,
) -> QueryResult<()> {
    let columns = Columns {
        task: task.id.to_string(),
        rev: task.rev.0,
        epoch: task.epoch.0,
        at,
        change_id: change.to_string(),
        actor: row.actor.clone(),
        form: row.form.into(),
        entries: row.entries.clone(),
        data: row.data.clone(),
        link: row.link.0.clone(),
        seal: seal(row, at),
    };
    diesel::insert_into(journal::table)
        .values(&columns)
        .execute(connection)
        .map(drop)
}

/// The rows of a task, in order, with this care.
pub(super) fn read(
    connection: &mut SqliteConnection,
    task: TaskId,
    with_data: bool,
    care: &mut Care,
) -> Result<Vec<JournalRow>, Fault> {
    let rows = journal::table
        .filter(journal::task.eq(task.to_string()))
        .order(journal::rev);
    rows.select(Columns::as_select())
        .load(connection)?
        .into_iter()
        .map(|row| {
            let data = row.data.filter(|_| with_data);
            Columns { data, ..row }.decode(care)
        })
        .collect()
}
