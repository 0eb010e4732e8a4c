//! What sweeps ask: the rows of attempts that a listing has shown, and the table `listings`.

use super::PostgresStore;
use super::fault::{Fault, micros, name, parse};
use super::intents::sweepable;
use super::retention;
use super::statement::{Statement, Str, interval, time, values};
use crate::columns::Unreadable;
use async_trait::async_trait;
use counterstep_contracts::{Attempt, StepNo};
use counterstep_kernel::ports::{
    AttemptRef, Intent, IntentState, Leaving, ListingOp, ListingTurn, RetireOp, Standing, Standings, StoreError, Upkeep,
};
use counterstep_kernel::record::DbTime;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;

type SomeText = sql::Nullable<sql::Text>;
type SomeInteger = sql::Nullable<sql::Integer>;
type Types = (
    sql::Timestamptz,
    sql::Integer,
    sql::Bool,
    SomeText,
    SomeText,
    SomeInteger,
    SomeText,
    SomeInteger,
    sql::Nullable<sql::Timestamptz>,
    sql::Nullable<sql::Bool>,
);
/// The clock, which of the asked-for ones, whether its task has a tombstone, the type of its task, and the row's intent, key and time, and whether a sweep
/// may take it.
type Read = (
    PgTimestamp,
    i32,
    bool,
    Option<String>,
    Option<String>,
    Option<i32>,
    Option<String>,
    Option<i32>,
    Option<PgTimestamp>,
    Option<bool>,
);

fn standing(asked: &[AttemptRef]) -> Result<Statement<'_, Types>, Fault> {
    let numbers: Vec<i32> = (0..).take(asked.len()).collect();
    let tasks: Vec<_> = asked.iter().map(|one| one.task.0).collect();
    let prefixes: Vec<Str<'_>> =
        asked.iter().map(|one| name("attempts.prefix", &one.prefix)).collect::<Result<_, _>>()?;
    // By the key's first column: a task has few attempts, and an index on prefixes would be written with each start.
    let text = concat!(
        "SELECT now(), u.n, (SELECT TRUE FROM tombstones b WHERE b.task = u.task LIMIT 1) IS NOT NULL, k.task_type, a.intent, a.step, a.direction, a.attempt, a.sweep_after, (",
        sweepable!(),
        ") FROM unnest(?, ?, ?) AS u (n, task, prefix)
         LEFT JOIN tasks k ON k.id = u.task
         LEFT JOIN attempts a ON a.task = u.task AND a.prefix = u.prefix"
    );
    Ok(Statement::of(text, values![numbers, tasks, prefixes]))
}

fn decode(asked: &[AttemptRef], read: Read) -> Result<(usize, Standing), Fault> {
    let (now, n, buried, task_type, intent, step, direction, attempt, sweep_after, may) = read;
    let at = usize::try_from(n).unwrap_or(usize::MAX);
    let one = asked.get(at).ok_or_else(|| Fault::Corrupt(format!("an attempt that nobody asked for: {n}")))?;
    let intent = match (intent.as_deref(), step, direction, attempt) {
        (None, ..) if buried => IntentState::Live,
        (None, ..) => IntentState::Missing,
        (Some("kept"), ..) => IntentState::Kept,
        (Some("swept"), ..) => IntentState::Swept,
        (Some("open" | "condemned"), Some(step), Some(direction), Some(attempt)) if may == Some(true) => {
            match parse("attempts.direction", &direction) {
                Ok(direction) => IntentState::Overdue(Intent {
                    task: one.task,
                    step: StepNo(step),
                    direction,
                    attempt: Attempt(attempt),
                    prefix: one.prefix.clone(),
                    overdue: time(now).after(sweep_after.map_or(DbTime(i64::MAX), time)),
                }),
                // One row that cannot be read must not keep a listing from what it has shown besides.
                Err(Unreadable(why, _)) => IntentState::Unreadable(why),
            }
        }
        // Also what this program does not understand: nothing of it is touched.
        (Some(_), ..) => IntentState::Live,
    };
    Ok((at, Standing { task_type, intent }))
}

const CLAIM: &str = "INSERT INTO listings AS l (every_us, started_at, cursor, held_by, held_until)
    VALUES (?, now(), '', ?, now() + ?)
    ON CONFLICT (every_us) DO UPDATE SET
      started_at = CASE WHEN l.cursor IS NULL THEN now() ELSE l.started_at END,
      cursor = coalesce(l.cursor, ''), held_by = excluded.held_by, held_until = excluded.held_until
    WHERE l.held_until <= now() AND (l.cursor IS NOT NULL OR l.started_at <= now() - ?)
    RETURNING cursor";

const KEEP: &str = "UPDATE listings SET cursor = ?, held_until = now() + ? WHERE every_us = ? AND held_by = ?
    RETURNING cursor";

fn listing(op: &ListingOp) -> Result<Statement<'_, SomeText>, Fault> {
    Ok(match op {
        ListingOp::Claim { every, by, hold } => Statement::of(
            CLAIM,
            values![micros(*every), name("listings.held_by", by)?, interval(*hold), interval(*every)],
        ),
        ListingOp::Keep { every, by, cursor, hold } => {
            let cursor = cursor.as_deref().map(|cursor| name("listings.cursor", cursor)).transpose()?;
            Statement::of(KEEP, values![cursor, interval(*hold), micros(*every), name("listings.held_by", by)?])
        }
    })
}

#[async_trait]
impl Upkeep for PostgresStore {
    async fn standing(&self, attempts: &[AttemptRef]) -> Result<Standings, StoreError> {
        let rows: Vec<Read> = self.database.read(standing(attempts)?).await?;
        let now = rows.first().map_or(DbTime(0), |row| time(row.0));
        let missing = Standing { task_type: None, intent: IntentState::Missing };
        let mut of = vec![missing; attempts.len()];
        for row in rows {
            let (at, standing) = decode(attempts, row)?;
            of[at] = standing;
        }
        Ok(Standings { now, of })
    }

    async fn listing(&self, op: &ListingOp) -> Result<Option<ListingTurn>, StoreError> {
        let rows: Vec<Option<String>> = self.database.rows(listing(op)?).await?;
        Ok(rows.into_iter().next().map(|cursor| ListingTurn { cursor: cursor.filter(|cursor| !cursor.is_empty()) }))
    }

    async fn retire(&self, op: &RetireOp) -> Result<Vec<Leaving>, StoreError> {
        let rows: Vec<retention::Read> = match op {
            RetireOp::Ended { task_type, status, before, after, limit } => {
                self.database.read(retention::ended((task_type, *status), *before, *after, *limit)?).await?
            }
            RetireOp::Buried { limit } => self.database.read(retention::buried(*limit)).await?,
            RetireOp::Bury(tasks) => self.database.rows(retention::bury(tasks)).await?,
            RetireOp::Forget(tasks) => self.database.rows(retention::forget(tasks)).await?,
        };
        Ok(rows.into_iter().map(retention::decode).collect())
    }
}
