//! Queries on the table `workers`. Must not say who is lost.

use super::fault::{Fault, micros};
use super::schema::workers;
use crate::worker_columns::{WorkerColumns, WorkerTimes};
use counterstep_kernel::ports::{WORKERS_READ, WorkerChange, WorkerRow, WorkerSeen};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// A row, column by column.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = workers, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    id: String,
    machine: String,
    program: String,
    queues: String,
    types: String,
    running: String,
    concurrency: i64,
    running_count: i64,
    lost_after: i64,
    passed_at: Option<i64>,
    passed: Option<String>,
    started_at: i64,
    seen_at: i64,
    stopped_at: Option<i64>,
}

fn encode(row: &WorkerRow, now: i64) -> Result<Columns, Fault> {
    let columns = WorkerColumns::encode(row)?;
    Ok(Columns {
        id: columns.id,
        machine: columns.machine,
        program: columns.program,
        queues: columns.queues,
        types: columns.types,
        running: columns.running,
        concurrency: columns.concurrency,
        running_count: columns.running_count,
        lost_after: columns.lost_after,
        passed_at: row.passed.as_ref().map(|passed| now - micros(passed.ago)),
        passed: columns.passed,
        started_at: now,
        seen_at: now,
        stopped_at: None,
    })
}

fn decode(columns: Columns, now: i64) -> Result<WorkerSeen, Fault> {
    let times = WorkerTimes {
        now: DbTime(now),
        passed_at: columns.passed_at.map(DbTime),
        started_at: DbTime(columns.started_at),
        seen_at: DbTime(columns.seen_at),
        stopped_at: columns.stopped_at.map(DbTime),
    };
    let columns = WorkerColumns {
        id: columns.id,
        machine: columns.machine,
        program: columns.program,
        queues: columns.queues,
        types: columns.types,
        running: columns.running,
        concurrency: columns.concurrency,
        running_count: columns.running_count,
        lost_after: columns.lost_after,
        passed: columns.passed,
    };
    Ok(columns.decode(times)?)
}

/// Those that can be read, the last seen first.
pub(super) fn all(connection: &mut SqliteConnection, now: i64) -> Result<Vec<WorkerSeen>, Fault> {
    let rows = workers::table
        .select(Columns::as_select())
        .order((workers::seen_at.desc(), workers::id))
        .limit(WORKERS_READ.into())
        .load(connection)?;
    let readable = rows.into_iter().filter_map(|columns| {
        let id = columns.id.clone();
        decode(columns, now).inspect_err(|fault| tracing::warn!(worker = id, ?fault, "a process cannot be read")).ok()
    });
    Ok(readable.collect())
}

/// Writes what a process says of itself. Returns how many rows were changed.
pub(super) fn change(connection: &mut SqliteConnection, change: &WorkerChange, now: i64) -> Result<u64, Fault> {
    let changed = match change {
        WorkerChange::Seen(row) => {
            let row = encode(row, now)?;
            let says = (
                (workers::machine.eq(&row.machine), workers::program.eq(&row.program)),
                (workers::queues.eq(&row.queues), workers::types.eq(&row.types), workers::running.eq(&row.running)),
                (workers::concurrency.eq(row.concurrency), workers::running_count.eq(row.running_count)),
                (workers::passed_at.eq(row.passed_at), workers::passed.eq(&row.passed)),
                (workers::lost_after.eq(row.lost_after), workers::seen_at.eq(now)),
                workers::stopped_at.eq(None::<i64>),
            );
            diesel::insert_into(workers::table)
                .values(&row)
                .on_conflict(workers::id)
                .do_update()
                .set(says)
                .execute(connection)?
        }
        WorkerChange::Stopped { id } => {
            let rests = (workers::running.eq("[]"), workers::running_count.eq(0));
            diesel::update(workers::table.find(id))
                .set((rests, workers::seen_at.eq(now), workers::stopped_at.eq(now)))
                .execute(connection)?
        }
        WorkerChange::Forget { ids, unseen_for } => {
            let old =
                workers::table.filter(workers::id.eq_any(ids)).filter(workers::seen_at.le(now - micros(*unseen_for)));
            diesel::delete(old).execute(connection)?
        }
    };
    Ok(changed as u64)
}
