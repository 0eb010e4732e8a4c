//! Queries on the table `steps`.

use super::fault::{Care, Fault, count, parse, read_some_json, write_json};
use super::schema::steps;
use counterstep_contracts::{Attempt, AuditSeq, ChangeId, StepNo, StepStatus, TaskId};
use counterstep_kernel::record::{DbTime, StepRow};
use diesel::SqliteConnection;
use diesel::prelude::*;

#[derive(Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = steps, treat_none_as_null = true, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    task: String,
    no: i32,
    name: String,
    status: String,
    output: Option<String>,
    attempts: i32,
    retries_used: i64,
    undo_attempts: i32,
    undo_retries_used: i64,
    attempt_open: bool,
    started_seq: Option<i64>,
    error: Option<String>,
    change_id: String,
    due_at: Option<i64>,
    signal: Option<String>,
    in_fallback: bool,
}

impl Columns {
    fn encode(task: TaskId, change: ChangeId, row: &StepRow) -> Result<Self, Fault> {
        Ok(Self {
            task: task.to_string(),
            no: row.no.0,
            name: row.name.clone(),
            status: row.status.as_str().to_owned(),
            output: row.output.as_ref().map(write_json).transpose()?,
            attempts: row.attempts.0,
            retries_used: row.retries_used.into(),
            undo_attempts: row.undo_attempts.0,
            undo_retries_used: row.undo_retries_used.into(),
            attempt_open: row.attempt_open,
            started_seq: row.started_seq.map(|seq| seq.0),
            error: row.error.clone(),
            change_id: change.to_string(),
            due_at: row.due_at.map(|due| due.0),
            signal: row.signal.as_ref().map(write_json).transpose()?,
            in_fallback: row.in_fallback,
        })
    }

    fn decode(self, care: &mut Care) -> Result<StepRow, Fault> {
        Ok(StepRow {
            no: StepNo(self.no),
            name: self.name,
            // Nobody knows what has become of it.
            status: care.or(parse("steps.status", &self.status), StepStatus::InDoubt)?,
            output: care.or(read_some_json("steps.output", self.output.as_deref()), None)?,
            attempts: Attempt(self.attempts),
            retries_used: count("steps.retries_used", self.retries_used)?,
            undo_attempts: Attempt(self.undo_attempts),
            undo_retries_used: count("steps.undo_retries_used", self.undo_retries_used)?,
            attempt_open: self.attempt_open,
            started_seq: self.started_seq.map(AuditSeq),
            error: self.error,
            due_at: self.due_at.map(DbTime),
            signal: care.or(read_some_json("steps.signal", self.signal.as_deref()), None)?,
            in_fallback: self.in_fallback,
        })
    }
}

/// Writes a step whole, whether it has a row or not.
pub(super) fn put(
    connection: &mut SqliteConnection,
    task: TaskId,
    change: ChangeId,
    row: &StepRow,
) -> Result<(), Fault> {
    let row = Columns::encode(task, change, row)?;
    diesel::insert_into(steps::table)
        .values(&row)
        .on_conflict((steps::task, steps::no))
        .do_update()
        .set(&row)
        .execute(connection)?;
    Ok(())
}

/// The steps of a task, by number.
pub(super) fn of(connection: &mut SqliteConnection, task: TaskId, care: &mut Care) -> Result<Vec<StepRow>, Fault> {
    let rows = steps::table.filter(steps::task.eq(task.to_string())).order(steps::no).select(Columns::as_select());
    rows.load(connection)?.into_iter().map(|columns: Columns| columns.decode(care)).collect()
}
