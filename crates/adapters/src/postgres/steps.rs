//! The table `steps`: a piece of a commit, and what is read with the task.

use super::fault::{Fault, count, name, parse, read_json, words, write_json};
use super::statement::{Statement, some_time, values, written};
use counterstep_contracts::{Attempt, AuditSeq, StepNo};
use counterstep_kernel::record::StepRow;
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz};

const PUT: &str = ", steps_put AS (INSERT INTO steps
    (task, no, name, status, output, attempts, retries_used, undo_attempts, undo_retries_used, attempt_open,
     started_seq, error, due_at, signal, in_fallback, change_id)
  SELECT t.id, u.no, u.name, u.status, u.output, u.attempts, u.retries_used, u.undo_attempts, u.undo_retries_used,
     u.attempt_open, u.started_seq, u.error, u.due_at, u.signal, u.in_fallback, t.change_id
  FROM t, ";

const AS: &str = " AS u (no, name, status, output, attempts, retries_used,
     undo_attempts, undo_retries_used, attempt_open, started_seq, error, due_at, signal, in_fallback)
  ON CONFLICT (task, no) DO UPDATE SET
     name = excluded.name, status = excluded.status, output = excluded.output, attempts = excluded.attempts,
     retries_used = excluded.retries_used, undo_attempts = excluded.undo_attempts,
     undo_retries_used = excluded.undo_retries_used, attempt_open = excluded.attempt_open,
     started_seq = excluded.started_seq, error = excluded.error, due_at = excluded.due_at,
     signal = excluded.signal, in_fallback = excluded.in_fallback, change_id = excluded.change_id)";

/// Adds steps, each written whole, whether it has a row or not.
pub(super) fn put<'a, Row>(statement: &mut Statement<'a, Row>, steps: &'a [StepRow]) -> Result<(), Fault> {
    if steps.is_empty() {
        return Ok(());
    }
    let names = steps.iter().map(|row| name("steps.name", &row.name)).collect::<Result<Vec<_>, _>>()?;
    let outputs = steps.iter().map(|row| row.output.as_ref().map(write_json).transpose());
    let signals = steps.iter().map(|row| row.signal.as_ref().map(write_json).transpose());
    let binds = values![
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

type Some_<T> = Nullable<Array<T>>;

/// The columns of [`Read`]: a list each, all NULL where there are no steps.
pub(super) type Types = (
    Some_<Integer>,
    Some_<Text>,
    Some_<Text>,
    Some_<Nullable<Text>>,
    Some_<Integer>,
    Some_<BigInt>,
    Some_<Integer>,
    Some_<BigInt>,
    Some_<Bool>,
    Some_<Nullable<BigInt>>,
    Some_<Nullable<Text>>,
    Some_<Nullable<Timestamptz>>,
    Some_<Nullable<Text>>,
    Some_<Bool>,
);

/// The steps of a task, column by column.
#[derive(Debug, Queryable)]
pub(super) struct Read {
    nos: Option<Vec<i32>>,
    names: Option<Vec<String>>,
    statuses: Option<Vec<String>>,
    outputs: Option<Vec<Option<String>>>,
    attempts: Option<Vec<i32>>,
    retries_used: Option<Vec<i64>>,
    undo_attempts: Option<Vec<i32>>,
    undo_retries_used: Option<Vec<i64>>,
    attempts_open: Option<Vec<bool>>,
    started_seqs: Option<Vec<Option<i64>>>,
    errors: Option<Vec<Option<String>>>,
    dues: Option<Vec<Option<PgTimestamp>>>,
    signals: Option<Vec<Option<String>>>,
    in_fallbacks: Option<Vec<bool>>,
}

/// The steps of a task, by number.
pub(super) fn decode(read: Read) -> Result<Vec<StepRow>, Fault> {
    // One aggregate made them all, over the same rows: they are equally long.
    let mut names = read.names.unwrap_or_default().into_iter();
    let mut statuses = read.statuses.unwrap_or_default().into_iter();
    let mut outputs = read.outputs.unwrap_or_default().into_iter();
    let mut attempts = read.attempts.unwrap_or_default().into_iter();
    let mut retries_used = read.retries_used.unwrap_or_default().into_iter();
    let mut undo_attempts = read.undo_attempts.unwrap_or_default().into_iter();
    let mut undo_retries_used = read.undo_retries_used.unwrap_or_default().into_iter();
    let mut attempts_open = read.attempts_open.unwrap_or_default().into_iter();
    let mut started_seqs = read.started_seqs.unwrap_or_default().into_iter();
    let mut errors = read.errors.unwrap_or_default().into_iter();
    let mut dues = read.dues.unwrap_or_default().into_iter();
    let mut signals = read.signals.unwrap_or_default().into_iter();
    let mut in_fallbacks = read.in_fallbacks.unwrap_or_default().into_iter();
    let short = || Fault::Corrupt("steps: the lists of a task's steps are not equally long".to_owned());
    let one = |no: i32| {
        Ok(StepRow {
            no: StepNo(no),
            name: names.next().ok_or_else(short)?,
            status: parse("steps.status", &statuses.next().ok_or_else(short)?)?,
            output: outputs.next().flatten().map(|text| read_json("steps.output", &text)).transpose()?,
            attempts: Attempt(attempts.next().ok_or_else(short)?),
            retries_used: count("steps.retries_used", retries_used.next().ok_or_else(short)?)?,
            undo_attempts: Attempt(undo_attempts.next().ok_or_else(short)?),
            undo_retries_used: count("steps.undo_retries_used", undo_retries_used.next().ok_or_else(short)?)?,
            attempt_open: attempts_open.next().ok_or_else(short)?,
            started_seq: started_seqs.next().flatten().map(AuditSeq),
            error: errors.next().flatten(),
            due_at: some_time(dues.next().flatten()),
            signal: signals.next().flatten().map(|text| read_json("steps.signal", &text)).transpose()?,
            in_fallback: in_fallbacks.next().ok_or_else(short)?,
        })
    };
    read.nos.unwrap_or_default().into_iter().map(one).collect()
}
