//! The sweep's side of the table `attempts`.

use super::fault::{Fault, parse};
use super::statement::{Statement, Str, time, values};
use counterstep_contracts::{Attempt, StepNo, TaskId};
use counterstep_kernel::ports::Intent;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use uuid::Uuid;

/// What a sweep may take, its intent apart: nothing of an attempt that is open under a live lease of its own epoch.
macro_rules! sweepable {
    () => {
        "a.sweep_after <= now() AND NOT (a.outcome IS NULL AND (
            SELECT TRUE FROM tasks t WHERE t.id = a.task AND t.epoch = a.epoch AND t.lease_expires_at > now() LIMIT 1)
            IS NOT NULL)"
    };
}

pub(super) use sweepable;

type Types = (sql::Uuid, sql::Integer, sql::Text, sql::Integer, sql::Text, sql::Timestamptz, sql::Timestamptz);

/// A row: its key, prefix, when a sweep might have come, and now.
pub(super) type Read = (Uuid, i32, String, i32, String, PgTimestamp, PgTimestamp);

/// The oldest that a sweep may take.
pub(super) fn overdue(limit: u32) -> Statement<'static, Types> {
    Statement::of(
        concat!(
            "SELECT task, step, direction, attempt, prefix, sweep_after, now() FROM attempts a
             WHERE a.intent IN ('open', 'condemned') AND ",
            sweepable!(),
            " ORDER BY sweep_after LIMIT ?"
        ),
        values![i64::from(limit)],
    )
}

/// What [`overdue`] has read.
pub(super) fn decode((task, step, direction, attempt, prefix, sweep_after, now): Read) -> Result<Intent, Fault> {
    Ok(Intent {
        task: TaskId(task),
        step: StepNo(step),
        direction: parse("attempts.direction", &direction)?,
        attempt: Attempt(attempt),
        prefix,
        overdue: time(now).after(time(sweep_after)),
    })
}

/// The key of an attempt that was changed.
pub(super) type Key = (Uuid, i32, String, i32);
type KeyTypes = (sql::Uuid, sql::Integer, sql::Text, sql::Integer);

fn of<'a>(text: &'static str, intents: &'a [Intent]) -> Statement<'a, KeyTypes> {
    // In one order, so that two sweeps over the same rows wait for each other and do not lock each other out.
    let mut sorted: Vec<&Intent> = intents.iter().collect();
    sorted.sort_by_key(|intent| (intent.task, intent.step, intent.direction.as_str(), intent.attempt));
    let directions: Vec<Str<'a>> = sorted.iter().map(|intent| intent.direction.as_str().into()).collect();
    let binds = values![
        sorted.iter().map(|intent| intent.task.0).collect::<Vec<_>>(),
        sorted.iter().map(|intent| intent.step.0).collect::<Vec<_>>(),
        directions,
        sorted.iter().map(|intent| intent.attempt.0).collect::<Vec<_>>(),
    ];
    Statement::of(text, binds)
}

/// Condemns those that a sweep may take, and gives their keys.
// Not `IN ('open', 'condemned')`, which says the same: that is the condition of the sweep's index, which might be read
// instead of the keys'. A commit that ends one of them meanwhile holds its row: the condition is looked at again on what it has left.
pub(super) fn condemn(intents: &[Intent]) -> Statement<'_, KeyTypes> {
    let text = concat!(
        "UPDATE attempts a SET intent = 'condemned'
         FROM unnest(?, ?, ?, ?) AS u (task, step, direction, attempt)
         WHERE a.task = u.task AND a.step = u.step AND a.direction = u.direction AND a.attempt = u.attempt
           AND a.intent <> 'kept' AND a.intent <> 'swept' AND ",
        sweepable!(),
        " RETURNING a.task, a.step, a.direction, a.attempt"
    );
    of(text, intents)
}

/// Closes those that were condemned.
pub(super) fn swept(intents: &[Intent]) -> Statement<'_, KeyTypes> {
    let text = "UPDATE attempts a SET intent = 'swept'
         FROM unnest(?, ?, ?, ?) AS u (task, step, direction, attempt)
         WHERE a.task = u.task AND a.step = u.step AND a.direction = u.direction AND a.attempt = u.attempt
           AND a.intent = 'condemned'
         RETURNING a.task, a.step, a.direction, a.attempt";
    of(text, intents)
}

/// Of these intents, those whose keys are among the changed ones.
pub(super) fn changed(intents: Vec<Intent>, keys: &[Key]) -> Vec<Intent> {
    let is = |intent: &Intent| {
        keys.iter().any(|(task, step, direction, attempt)| {
            (*task, *step, direction.as_str(), *attempt)
                == (intent.task.0, intent.step.0, intent.direction.as_str(), intent.attempt.0)
        })
    };
    intents.into_iter().filter(is).collect()
}
