//! Queries on the table `idempotency`.

use super::fault::Fault;
use super::schema::idempotency;
use crate::rows::KeyRow;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::IdempotencyRow;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// A row, column by column.
#[derive(Debug, Insertable, AsChangeset)]
#[diesel(table_name = idempotency, treat_none_as_null = true)]
pub(super) struct Columns {
    pub(super) tenant: String,
    pub(super) key: String,
    pub(super) task: String,
    pub(super) fingerprint: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) expires_at: i64,
    pub(super) change_id: String,
    pub(super) owner: Option<String>,
}

/// Writes a row, over whatever was there.
pub(super) fn put(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    diesel::insert_into(idempotency::table)
        .values(row)
        .on_conflict((idempotency::tenant, idempotency::key))
        .do_update()
        .set(row)
        .execute(connection)
        .map(drop)
}

/// The task that has the key at that time, if one has it.
pub(super) fn task_of(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    key: &str,
    now: i64,
) -> QueryResult<Option<String>> {
    idempotency::table
        .find((&tenant.0, key))
        .filter(idempotency::expires_at.gt(now))
        .select(idempotency::task)
        .get_result(connection)
        .optional()
}

/// Removes a task's own row, unless it has its answer.
pub(super) fn delete(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    key: &str,
    task: TaskId,
) -> QueryResult<()> {
    let own = idempotency::table
        .find((&tenant.0, key))
        .filter(idempotency::task.eq(task.to_string()));
    diesel::delete(own.filter(idempotency::answer.is_null()))
        .execute(connection)
        .map(drop)
}

/// Removes the row of a request that becomes no task any more.
pub(super) fn delete_of(connection: &mut SqliteConnection, task: &str) -> QueryResult<()> {
    let of = idempotency::table.filter(idempotency::task.eq(task));
    diesel::delete(of.filter(idempotency::answer.is_null()))
        .execute(connection)
        .map(drop)
}

/// The row of a key at that time.
pub(super) fn find(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    key: &str,
    now: i64,
) -> Result<Option<IdempotencyRow>, Fault> {
    let found: Option<KeyRow> = idempotency::table
        .find((&tenant.0, key))
        .filter(idempotency::expires_at.gt(now))
        .select((
            idempotency::task,
            idempotency::fingerprint,
            idempotency::answer,
            idempotency::owner,
        ))
        .get_result(connection)
        .optional()?;
    Ok(found.map(KeyRow::decode).transpose()?)
}
