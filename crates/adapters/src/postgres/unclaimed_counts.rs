//! The count of the tasks of a tenant that wait to be claimed. Must not decide what it leads to.

use super::fault::{Fault, name};
use super::statement::{Statement, values};
use counterstep_kernel::ports::WaitingQuery;
use diesel::sql_types as sql;

/// By the index of the tenant's tasks, or of those of a type: no more entries than may be counted.
pub(super) fn count(query: &WaitingQuery) -> Result<Statement<'_, sql::BigInt>, Fault> {
    let (tenant, most) = (
        name("tasks.tenant", &query.tenant.0)?,
        i64::from(query.at_most),
    );
    Ok(match &query.task_type {
        None => Statement::of(
            "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE tenant = ? AND version > 0 AND status IN ('submitted', 'dispatched') LIMIT ?) t",
            values![tenant, most],
        ),
        Some(task_type) => Statement::of(
            "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE tenant = ? AND task_type = ? \
             AND status IN ('submitted', 'dispatched') LIMIT ?) t",
            values![tenant, name("tasks.task_type", task_type)?, most],
        ),
    })
}
