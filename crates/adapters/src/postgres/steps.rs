//! The table `steps`: a piece of a commit, and what is read with the task.

use super::fault::{Care, Fault, count, name, parse, read_some_json, words, write_json};
use super::statement::{Statement, rows_of, some_time, values, written};
use counterstep_contracts::{Attempt, AuditSeq, StepNo, StepStatus};
use counterstep_kernel::record::StepRow;
use counterstep_kernel::transition::Transition;
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text, Timestamptz};

const PUT: &str = ", steps_put AS (INSERT INTO steps
    (task, no, name, status, output, attempts, retries_used, undo_attempts, undo_retries_used, attempt_open,
     started_seq, error, due_at, signal, in_fallback, change_id)
  SELECT u.task, u.no, u.name, u.status, u.output, u.attempts, u.retries_used, u.undo_attempts, u.undo_retries_used,
     u.attempt_open, u.started_seq, u.error, u.due_at, u.signal, u.in_fallback, u.change_id
  FROM ok, ";

const AS: &str = " AS u (task, change_id, no, name, status, output, attempts, retries_used,
     undo_attempts, undo_retries_used, attempt_open, started_seq, error, due_at, signal, in_fallback)
  WHERE ok.every
  ON CONFLICT (task, no) DO UPDATE SET
     name = excluded.name, status = excluded.status, output = excluded.output, attempts = excluded.attempts,
     retries_used = excluded.retries_used, undo_attempts = excluded.undo_attempts,
     undo_retries_used = excluded.undo_retries_used, attempt_open = excluded.attempt_open,
     started_seq = excluded.started_seq, error = excluded.error, due_at = excluded.due_at,
     signal = excluded.signal, in_fallback = excluded.in_fallback, change_id = excluded.change_id)";

/// Adds steps, each written whole, whether it has a row or not.
pub(super) fn put<'a, Row>(statement: &mut Statement<'a, Row>, changes: &[&'a Transition]) -> Result<(), Fault> {
    let (keys, steps) = rows_of(changes, |change| change.steps.iter());
    if steps.is_empty() {
        return Ok(());
    }
    let (tasks, changes) = keys;
    let names = steps.iter().map(|row| name("steps.name", &row.name)).collect::<Result<Vec<_>, _>>()?;
    let outputs = steps.iter().map(|row| row.output.as_ref().map(write_json).transpose());
    let signals = steps.iter().map(|row| row.signal.as_ref().map(write_json).transpose());
    let binds = values![
        tasks,
        changes,
        steps.iter().map(|row| row.no.0).collect::<Vec<_>>(),
        names,
        steps.iter().map(|row| row.status.as_str().into()).collect::<Vec<super::statement::Str<'_>>>(),
        outputs.collect::<Result<Vec<_>, _>>()?,
        steps.iter().map(|row| row.attempts.0).collect::<Vec<_>>(),
        steps.iter().map(|row| i64::from(row.retries_used)).collect::<Vec<_>>(),
        steps.iter().map(|row| row.undo_attempts.0).collect::<Vec<_>>(),
        steps.iter().map(|row| i64::from(row.undo_retries_used)).collect::<Vec<_>>(),
        steps.iter().map(|row| row.attempt_open).collect::<Vec<_>>(),
        steps.iter().map(|row| row.started_seq.map(|seq| seq.0)).collect::<Vec<_>>(),
        steps.iter().map(|row| row.error.as_deref().map(words)).collect::<Vec<_>>(),
        steps.iter().map(|row| row.due_at.map(written)).collect::<Vec<_>>(),
        signals.collect::<Result<Vec<_>, _>>()?,
        steps.iter().map(|row| row.in_fallback).collect::<Vec<_>>(),
    ];
    statement.push_table(PUT, steps.len(), binds, AS);
    Ok(())
}

type SomeText = Nullable<Text>;
type SomeInt = Nullable<Integer>;
type SomeBig = Nullable<BigInt>;

/// The columns of [`Read`].
pub(super) type Types = (
    SomeInt,
    SomeText,
    SomeText,
    SomeText,
    SomeInt,
    SomeBig,
    SomeInt,
    SomeBig,
    Nullable<Bool>,
    SomeBig,
    SomeText,
    Nullable<Timestamptz>,
    SomeText,
    Nullable<Bool>,
);

/// A step, column by column; nothing in all of them where the row is a task's.
#[derive(Debug, Queryable)]
pub(super) struct Read {
    no: Option<i32>,
    name: Option<String>,
    status: Option<String>,
    output: Option<String>,
    attempts: Option<i32>,
    retries_used: Option<i64>,
    undo_attempts: Option<i32>,
    undo_retries_used: Option<i64>,
    attempt_open: Option<bool>,
    started_seq: Option<i64>,
    error: Option<String>,
    due_at: Option<PgTimestamp>,
    signal: Option<String>,
    in_fallback: Option<bool>,
}

impl Read {
    /// Whether the row is none of a step.
    pub(super) const fn is_none(&self) -> bool {
        self.no.is_none()
    }
}

fn there<T>(column: &str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::Corrupt(format!("steps.{column}: nothing is there")))
}

/// The steps of a task, by number.
pub(super) fn decode(mut read: Vec<Read>, care: &mut Care) -> Result<Vec<StepRow>, Fault> {
    read.sort_unstable_by_key(|step| step.no);
    let one = |step: Read| {
        Ok(StepRow {
            no: StepNo(there("no", step.no)?),
            name: there("name", step.name)?,
            // Nobody knows what has become of it.
            status: care.or(parse("steps.status", &there("status", step.status)?), StepStatus::InDoubt)?,
            output: care.or(read_some_json("steps.output", step.output.as_deref()), None)?,
            attempts: Attempt(there("attempts", step.attempts)?),
            retries_used: count("steps.retries_used", there("retries_used", step.retries_used)?)?,
            undo_attempts: Attempt(there("undo_attempts", step.undo_attempts)?),
            undo_retries_used: count("steps.undo_retries_used", there("undo_retries_used", step.undo_retries_used)?)?,
            attempt_open: there("attempt_open", step.attempt_open)?,
            started_seq: step.started_seq.map(AuditSeq),
            error: step.error,
            due_at: some_time(step.due_at),
            signal: care.or(read_some_json("steps.signal", step.signal.as_deref()), None)?,
            in_fallback: there("in_fallback", step.in_fallback)?,
        })
    };
    read.into_iter().map(one).collect()
}
