//! The count of failures. Must not decide what it leads to.

use super::fault::{Fault, name};
use super::statement::{Bind, Statement, Str, look_back, values, written};
use crate::columns::failure_class;
use counterstep_kernel::ports::FailureQuery;
use diesel::sql_types as sql;
use std::time::Duration;

/// Failures since the last success, within the window. Each part goes by an index that ends at the
/// window's begin; of the type's parked tasks the newest are looked at, so that a backlog of old ones does
/// not slow every count. A parked task has not ended: it has been as it is since its last change.
/// What people retry, undo or settle is no news.
pub(super) fn count(query: &FailureQuery) -> Result<Statement<'_, sql::BigInt>, Fault> {
    let (task_type, most) = (
        name("tasks.task_type", &query.task_type)?,
        i64::from(query.at_most),
    );
    let tenant = name("tasks.tenant", &query.tenant.0)?;
    let classes: Vec<Str<'_>> = query
        .classes
        .iter()
        .map(|class| failure_class(class).into())
        .collect();
    let (within, from) = (look_back(query.within), query.counts_from.map(written));
    // The types and times stand in it again and again: an index is only used for what is compared
    // with a value.
    Ok(Statement::of(
        "WITH start AS MATERIALIZED (SELECT greatest(now() - ?, ?, (SELECT t.finished_at FROM tasks t
           WHERE t.tenant = ? AND t.task_type = ? AND t.status = 'completed' AND t.finished_at > now() - ?
           ORDER BY t.finished_at DESC LIMIT 1)) AS at),
         failed AS (SELECT t.id FROM tasks t WHERE t.tenant = ? AND t.task_type = ? AND t.status = 'failed'
           AND t.finished_at > now() - ? AND t.finished_at > (SELECT at FROM start)
           AND EXISTS (SELECT 1 FROM unnest(?) class WHERE strpos(t.failure, class) BETWEEN 1 AND strpos(t.failure, '\"message\":'))
           AND (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%' LIMIT 1) IS NULL LIMIT ?),
         newest AS ((SELECT id FROM tasks WHERE tenant = ? AND task_type = ? AND status = 'compensation_failed'
             ORDER BY id DESC NULLS LAST LIMIT 1000)
           UNION ALL (SELECT id FROM tasks WHERE tenant = ? AND task_type = ? AND status = 'dead_lettered'
             ORDER BY id DESC NULLS LAST LIMIT 1000)),
         parked AS (SELECT t.id FROM newest n JOIN tasks t ON t.id = n.id WHERE t.updated_at > (SELECT at FROM start)
           AND EXISTS (SELECT 1 FROM unnest(?) class WHERE strpos(t.failure, class) BETWEEN 1 AND strpos(t.failure, '\"message\":'))
           AND (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%' LIMIT 1) IS NULL LIMIT ?)
         SELECT (SELECT count(*) FROM failed) + (SELECT count(*) FROM parked)",
        values![
            within,
            Bind::Time(from),
            tenant.clone(),
            task_type.clone(),
            within,
            tenant.clone(),
            task_type.clone(),
            within,
            classes.clone(),
            most,
            tenant.clone(),
            task_type.clone(),
            tenant,
            task_type,
            classes,
            most
        ],
    ))
}

/// The tenants with failures of a type within the window. The index by tenant is walked from one to the next, however many
/// tasks each has.
pub(super) fn tenants(
    task_type: &str,
    within: Duration,
) -> Result<Statement<'_, sql::Text>, Fault> {
    let (task_type, within) = (name("tasks.task_type", task_type)?, look_back(within));
    Ok(Statement::of(
        "WITH RECURSIVE known (tenant) AS ((SELECT min(tenant) FROM tasks)
           UNION ALL SELECT (SELECT min(t.tenant) FROM tasks t WHERE t.tenant > known.tenant) FROM known WHERE known.tenant IS NOT NULL)
         SELECT known.tenant FROM known WHERE known.tenant IS NOT NULL AND (
           EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = known.tenant AND t.task_type = ? AND t.status = 'failed'
             AND t.finished_at > now() - ?)
           OR EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = known.tenant AND t.task_type = ?
             AND t.status IN ('compensation_failed', 'dead_lettered') AND t.updated_at > now() - ?))",
        values![task_type.clone(), within, task_type, within],
    ))
}
