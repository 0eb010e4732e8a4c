//! Queries on the table `receives`: files of requests that have no task yet. A receive that became
//! a task has no row.

use super::idempotency;
use super::prepared::Prepare;
use super::schema::receives;
use super::tasks::id_list;
use crate::rows::{ReceiveRow, readable};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::{Receive, ReceiveOp};
use diesel::SqliteConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel::sqlite::Sqlite;

/// Those that can be read, in the order of their time. One that cannot must not keep the others
/// from being swept.
fn decoded(rows: Vec<ReceiveRow>) -> Vec<Receive> {
    let mut readable = readable(rows, "a receive", ReceiveRow::decode);
    readable.sort_by_key(|receive| (receive.sweep_at, receive.task));
    readable
}

/// Adds one, unless it is there: after a lost answer the next try has an id of its own, and an earlier program sent the commit
/// again, which changes nothing.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    task: TaskId,
    tenant: &Tenant,
    sweep_at: i64,
) -> QueryResult<()> {
    let row = (
        receives::task.eq(task.to_string()),
        receives::tenant.eq(&tenant.0),
        receives::is_condemned.eq(false),
        receives::sweep_at.eq(sweep_at),
    );
    diesel::insert_into(receives::table)
        .values(row)
        .on_conflict(receives::task)
        .do_nothing()
        .execute(connection)
        .map(drop)
}

/// Removes one whose task is written in the same transaction. Whether it was there, and not
/// condemned.
pub(super) fn take(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<bool> {
    let open = receives::table
        .find(task.to_string())
        .filter(receives::is_condemned.eq(false));
    diesel::delete(open)
        .execute(connection)
        .map(|taken| taken > 0)
}

/// Condemns one whose time need not have come. Its time stays: what still arrives at the object
/// store is found then.
pub(super) fn abandon(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<()> {
    diesel::update(receives::table.find(task.to_string()))
        .set(receives::is_condemned.eq(true))
        .execute(connection)
        .map(drop)
}

/// Does what a sweep asks, at `now`.
pub(super) fn work(
    connection: &mut SqliteConnection,
    op: &ReceiveOp,
    now: i64,
) -> QueryResult<Vec<Receive>> {
    let may_go = receives::sweep_at.le(now);
    let rows = match op {
        ReceiveOp::Overdue { limit } => {
            let overdue = receives::table
                .filter(may_go)
                .order(receives::sweep_at)
                .select(receives::all_columns);
            overdue.load_at_most(*limit, connection)?
        }
        ReceiveOp::Of(tasks) => {
            let of = receives::table.filter(among(tasks));
            of.select(receives::all_columns).load(connection)?
        }
        ReceiveOp::Condemn(tasks) => {
            let overdue = receives::table.filter(among(tasks)).filter(may_go);
            diesel::update(overdue)
                .set(receives::is_condemned.eq(true))
                .returning(receives::all_columns)
                .load(connection)?
        }
        ReceiveOp::Swept(tasks) => {
            let condemned = receives::table.filter(among(tasks));
            let swept: Vec<ReceiveRow> =
                diesel::delete(condemned.filter(receives::is_condemned.eq(true)))
                    .returning(receives::all_columns)
                    .load(connection)?;
            // A key without an answer goes with them: its request becomes no task any more.
            for row in &swept {
                idempotency::delete_of(connection, &row.task.to_string())?;
            }
            swept
        }
    };
    Ok(decoded(rows))
}

/// One parameter, however many tasks there are: SQLite bounds the number of parameters.
fn among(tasks: &[TaskId]) -> Box<dyn BoxableExpression<receives::table, Sqlite, SqlType = Bool>> {
    let list = sql::<Bool>("task IN (SELECT value FROM json_each(").bind::<Text, _>(id_list(tasks));
    Box::new(list.sql("))"))
}
