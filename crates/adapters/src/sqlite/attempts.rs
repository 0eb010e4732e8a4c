//! Queries on the table `attempts`, which is the idempotency claim of an execution and the intent of its objects.

use super::fault::{Fault, parse, parse_some};
use super::schema::attempts;
use counterstep_contracts::{Attempt, ChangeId, Direction, Epoch, Outcome, StepNo, TaskId};
use counterstep_kernel::ports::Intent;
use counterstep_kernel::record::{AttemptRow, DbTime};
use diesel::SqliteConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use std::time::Duration;

/// Names an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) task: TaskId,
    pub(super) step: StepNo,
    pub(super) direction: Direction,
    pub(super) attempt: Attempt,
}

impl Key {
    fn columns(&self) -> (String, i32, &'static str, i32) {
        (self.task.to_string(), self.step.0, self.direction.as_str(), self.attempt.0)
    }
}

impl From<&Intent> for Key {
    fn from(intent: &Intent) -> Self {
        Self { task: intent.task, step: intent.step, direction: intent.direction, attempt: intent.attempt }
    }
}

#[derive(Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = attempts, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    task: String,
    step: i32,
    direction: String,
    attempt: i32,
    epoch: i64,
    prefix: String,
    outcome: Option<String>,
    error: Option<String>,
    started_at: i64,
    ended_at: Option<i64>,
    sweep_after: i64,
    intent: String,
    change_id: String,
}

impl Columns {
    fn decode(self) -> Result<AttemptRow, Fault> {
        Ok(AttemptRow {
            step: StepNo(self.step),
            direction: parse("attempts.direction", &self.direction)?,
            attempt: Attempt(self.attempt),
            epoch: Epoch(self.epoch),
            prefix: self.prefix,
            outcome: parse_some("attempts.outcome", self.outcome.as_deref())?,
            error: self.error,
            started_at: DbTime(self.started_at),
            ended_at: self.ended_at.map(DbTime),
            change_id: parse("attempts.change_id", &self.change_id)?,
        })
    }
}

/// An attempt that starts.
pub(super) struct Start<'a> {
    pub(super) key: Key,
    pub(super) epoch: Epoch,
    pub(super) prefix: &'a str,
    pub(super) started_at: i64,
    pub(super) sweep_after: i64,
    pub(super) change: ChangeId,
}

/// Adds an open attempt. A unique violation says that it has started before.
pub(super) fn insert(connection: &mut SqliteConnection, start: &Start<'_>) -> QueryResult<()> {
    let (task, step, direction, attempt) = start.key.columns();
    let row = Columns {
        task,
        step,
        direction: direction.to_owned(),
        attempt,
        epoch: start.epoch.0,
        prefix: start.prefix.to_owned(),
        outcome: None,
        error: None,
        started_at: start.started_at,
        ended_at: None,
        sweep_after: start.sweep_after,
        intent: "open".to_owned(),
        change_id: start.change.to_string(),
    };
    diesel::insert_into(attempts::table).values(&row).execute(connection).map(drop)
}

/// Outcome and state of the intent.
pub(super) fn state(connection: &mut SqliteConnection, key: Key) -> QueryResult<Option<(Option<String>, String)>> {
    attempts::table.find(key.columns()).select((attempts::outcome, attempts::intent)).first(connection).optional()
}

/// How an attempt ended.
pub(super) struct End<'a> {
    pub(super) key: Key,
    pub(super) outcome: Outcome,
    pub(super) error: Option<&'a str>,
    pub(super) ended_at: i64,
    pub(super) change: ChangeId,
}

/// Writes the end of an attempt.
pub(super) fn end(connection: &mut SqliteConnection, end: &End<'_>) -> QueryResult<()> {
    diesel::update(attempts::table.find(end.key.columns()))
        .set((
            attempts::outcome.eq(end.outcome.as_str()),
            attempts::error.eq(end.error),
            attempts::ended_at.eq(end.ended_at),
            attempts::ended_by.eq(end.change.to_string()),
        ))
        .execute(connection)
        .map(drop)
}

/// Closes an intent: its objects are an output (`kept`), or there are none (`swept`).
pub(super) fn close(connection: &mut SqliteConnection, key: Key, intent: &'static str) -> QueryResult<()> {
    diesel::update(attempts::table.find(key.columns())).set(attempts::intent.eq(intent)).execute(connection).map(drop)
}

/// Opens to the sweep, from `now`, what the attempts of a step kept.
pub(super) fn release(connection: &mut SqliteConnection, task: TaskId, step: StepNo, now: i64) -> QueryResult<()> {
    let kept = attempts::table
        .filter(attempts::task.eq(task.to_string()))
        .filter(attempts::step.eq(step.0))
        .filter(attempts::intent.eq("kept"));
    diesel::update(kept).set((attempts::intent.eq("open"), attempts::sweep_after.eq(now))).execute(connection).map(drop)
}

/// The attempts of a task, in the order of their start.
pub(super) fn of(connection: &mut SqliteConnection, task: TaskId) -> Result<Vec<AttemptRow>, Fault> {
    let rows = attempts::table
        .filter(attempts::task.eq(task.to_string()))
        .order(sql::<BigInt>("attempts.rowid"))
        .select(Columns::as_select());
    rows.load(connection)?.into_iter().map(Columns::decode).collect()
}

#[derive(Debug, QueryableByName)]
struct OverdueLine {
    #[diesel(sql_type = Text)]
    task: String,
    #[diesel(sql_type = Integer)]
    step: i32,
    #[diesel(sql_type = Text)]
    direction: String,
    #[diesel(sql_type = Integer)]
    attempt: i32,
    #[diesel(sql_type = Text)]
    prefix: String,
    #[diesel(sql_type = BigInt)]
    sweep_after: i64,
}

impl OverdueLine {
    fn decode(self, now: i64) -> Result<Intent, Fault> {
        Ok(Intent {
            task: parse("attempts.task", &self.task)?,
            step: StepNo(self.step),
            direction: parse("attempts.direction", &self.direction)?,
            attempt: Attempt(self.attempt),
            prefix: self.prefix,
            overdue: Duration::from_micros(u64::try_from(now - self.sweep_after).unwrap_or(0)),
        })
    }
}

/// What a sweep may take at `?1`: nothing of an attempt that is open under a live lease of its own epoch.
macro_rules! sweepable {
    () => {
        "intent IN ('open', 'condemned') AND sweep_after <= ?1 AND NOT (outcome IS NULL AND EXISTS (
             SELECT 1 FROM tasks WHERE tasks.id = attempts.task AND tasks.epoch = attempts.epoch
                AND tasks.lease_owner IS NOT NULL AND tasks.lease_expires_at > ?1))"
    };
}

pub(super) use sweepable;

/// The oldest that a sweep may take.
pub(super) fn overdue(connection: &mut SqliteConnection, now: i64, limit: u32) -> QueryResult<Vec<Intent>> {
    let lines: Vec<OverdueLine> = diesel::sql_query(concat!(
        "SELECT task, step, direction, attempt, prefix, sweep_after FROM attempts INDEXED BY attempts_to_sweep WHERE ",
        sweepable!(),
        " ORDER BY sweep_after LIMIT ?2"
    ))
    .bind::<BigInt, _>(now)
    .bind::<BigInt, _>(i64::from(limit))
    .load(connection)?;
    let decoded = lines.into_iter().filter_map(|line| match line.decode(now) {
        Ok(intent) => Some(intent),
        // One row that cannot be read must not keep the others from being swept.
        Err(fault) => {
            tracing::warn!(?fault, "an intent cannot be read");
            None
        }
    });
    Ok(decoded.collect())
}

/// Condemns one, if a sweep may take it. Whether it is condemned now.
pub(super) fn condemn(connection: &mut SqliteConnection, key: Key, now: i64) -> QueryResult<bool> {
    let (task, step, direction, attempt) = key.columns();
    let condemned = diesel::sql_query(concat!(
        "UPDATE attempts SET intent = 'condemned'
         WHERE task = ?2 AND step = ?3 AND direction = ?4 AND attempt = ?5 AND ",
        sweepable!()
    ))
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(task)
    .bind::<Integer, _>(step)
    .bind::<Text, _>(direction)
    .bind::<Integer, _>(attempt)
    .execute(connection)?;
    Ok(condemned > 0)
}

/// Closes one that was condemned.
pub(super) fn swept(connection: &mut SqliteConnection, key: Key) -> QueryResult<()> {
    let condemned = attempts::table.find(key.columns()).filter(attempts::intent.eq("condemned"));
    diesel::update(condemned).set(attempts::intent.eq("swept")).execute(connection).map(drop)
}
