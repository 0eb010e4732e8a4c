//! What sweeps ask: the rows of attempts that a listing has shown, and the table `listings`.

use super::SqliteStore;
use super::attempts::sweepable;
use super::fault::{Fault, micros, parse};
use super::pool::Durability;
use super::retention;
use crate::columns::Unreadable;
use async_trait::async_trait;
use counterstep_contracts::{Attempt, StepNo};
use counterstep_kernel::ports::{
    AttemptRef, Intent, IntentState, Leaving, ListingOp, ListingTurn, RetireOp, Standing, Standings, StoreError, Upkeep,
};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use std::time::Duration;

#[derive(Debug, QueryableByName)]
struct StandingLine {
    #[diesel(sql_type = Bool)]
    buried: bool,
    #[diesel(sql_type = Nullable<Text>)]
    task_type: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    intent: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    step: Option<i32>,
    #[diesel(sql_type = Nullable<Text>)]
    direction: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    attempt: Option<i32>,
    #[diesel(sql_type = Nullable<BigInt>)]
    sweep_after: Option<i64>,
    #[diesel(sql_type = Nullable<Bool>)]
    may: Option<bool>,
}

fn standing(connection: &mut SqliteConnection, asked: &AttemptRef, now: i64) -> Result<Standing, Fault> {
    let line: QueryResult<StandingLine> = diesel::sql_query(concat!(
        "SELECT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.task = ?2) AS buried, kept.task_type, attempts.intent, attempts.step, attempts.direction, attempts.attempt,
             attempts.sweep_after, (",
        sweepable!(),
        ") AS may
         FROM (SELECT 1) LEFT JOIN tasks kept ON kept.id = ?2
         LEFT JOIN attempts ON attempts.task = ?2 AND attempts.prefix = ?3"
    ))
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(asked.task.to_string())
    .bind::<Text, _>(&asked.prefix)
    .get_result(connection);
    let line = match line {
        // One row that cannot be read must not keep a listing from what it has shown besides.
        Err(diesel::result::Error::DeserializationError(error)) => {
            let intent = IntentState::Unreadable(error.to_string());
            return Ok(Standing { task_type: None, intent });
        }
        line => line?,
    };
    let intent = match (line.intent.as_deref(), line.step, line.direction, line.attempt) {
        (None, ..) if line.buried => IntentState::Live,
        (None, ..) => IntentState::Missing,
        (Some("kept"), ..) => IntentState::Kept,
        (Some("swept"), ..) => IntentState::Swept,
        (Some("open" | "condemned"), Some(step), Some(direction), Some(attempt)) if line.may == Some(true) => {
            match parse("attempts.direction", &direction) {
                Ok(direction) => IntentState::Overdue(Intent {
                    task: asked.task,
                    step: StepNo(step),
                    direction,
                    attempt: Attempt(attempt),
                    prefix: asked.prefix.clone(),
                    overdue: Duration::from_micros(u64::try_from(now - line.sweep_after.unwrap_or(now)).unwrap_or(0)),
                }),
                Err(Unreadable(why, _)) => IntentState::Unreadable(why),
            }
        }
        // Also what this program does not understand: nothing of it is touched.
        (Some(_), ..) => IntentState::Live,
    };
    Ok(Standing { task_type: line.task_type, intent })
}

#[derive(Debug, QueryableByName)]
struct CursorLine {
    #[diesel(sql_type = Nullable<Text>)]
    cursor: Option<String>,
}

const CLAIM: &str =
    "INSERT INTO listings (every_us, started_at, cursor, held_by, held_until) VALUES (?1, ?2, '', ?3, ?4)
    ON CONFLICT (every_us) DO UPDATE SET
      started_at = CASE WHEN listings.cursor IS NULL THEN ?2 ELSE listings.started_at END,
      cursor = coalesce(listings.cursor, ''), held_by = excluded.held_by, held_until = excluded.held_until
    WHERE listings.held_until <= ?2 AND (listings.cursor IS NOT NULL OR listings.started_at <= ?2 - ?1)
    RETURNING cursor";

const KEEP: &str =
    "UPDATE listings SET cursor = ?1, held_until = ?2 WHERE every_us = ?3 AND held_by = ?4 RETURNING cursor";

fn work_listing(connection: &mut SqliteConnection, op: &ListingOp, now: i64) -> Result<Option<ListingTurn>, Fault> {
    let line: Option<CursorLine> = match op {
        ListingOp::Claim { every, by, hold } => diesel::sql_query(CLAIM)
            .bind::<BigInt, _>(micros(*every))
            .bind::<BigInt, _>(now)
            .bind::<Text, _>(by)
            .bind::<BigInt, _>(now + micros(*hold))
            .get_result(connection)
            .optional()?,
        ListingOp::Keep { every, by, cursor, hold } => diesel::sql_query(KEEP)
            .bind::<Nullable<Text>, _>(cursor)
            .bind::<BigInt, _>(now + micros(*hold))
            .bind::<BigInt, _>(micros(*every))
            .bind::<Text, _>(by)
            .get_result(connection)
            .optional()?,
    };
    Ok(line.map(|line| ListingTurn { cursor: line.cursor.filter(|cursor| !cursor.is_empty()) }))
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn standing(&self, attempts: &[AttemptRef]) -> Result<Standings, StoreError> {
        let asked = attempts.to_vec();
        let look = move |connection: &mut SqliteConnection, now| {
            let of = asked.iter().map(|one| standing(connection, one, now)).collect::<Result<_, _>>()?;
            Ok(Standings { now: DbTime(now), of })
        };
        Ok(self.database.read_at(look).await?)
    }

    async fn listing(&self, op: &ListingOp) -> Result<Option<ListingTurn>, StoreError> {
        let op = op.clone();
        let work = move |connection: &mut SqliteConnection, now| work_listing(connection, &op, now);
        // A note that is lost in a power cut means that some pages are read again.
        Ok(self.database.write(Durability::Relaxed, work).await?)
    }

    async fn retire(&self, op: &RetireOp) -> Result<Vec<Leaving>, StoreError> {
        let op = op.clone();
        Ok(match op {
            RetireOp::Ended { task_type, status, before, after, limit } => {
                let find = move |connection: &mut SqliteConnection, now| {
                    retention::ended(connection, (&task_type, status), (now, now - micros(before)), after, limit)
                };
                self.database.read_at(find).await?
            }
            RetireOp::Buried { limit } => {
                self.database.read(move |connection| retention::buried(connection, limit)).await?
            }
            RetireOp::Bury(tasks) => {
                let bury = move |connection: &mut SqliteConnection, now| {
                    let mut buried = Vec::with_capacity(tasks.len());
                    for task in tasks {
                        if retention::bury(connection, &task, now)? {
                            buried.push(task);
                        }
                    }
                    Ok(buried)
                };
                // On the disk before any object is deleted.
                self.database.write(Durability::Full, bury).await?
            }
            RetireOp::Forget(tasks) => {
                let forget = move |connection: &mut SqliteConnection, _| {
                    for task in tasks {
                        retention::forget(connection, task)?;
                    }
                    Ok(Vec::new())
                };
                self.database.write(Durability::Relaxed, forget).await?
            }
        })
    }
}
