//! The table `task_types`, and the count of failures. Must not decide what either leads to.

use super::fault::{Fault, name, words};
use super::statement::{Bind, Statement, Str, interval, some_time, time, values, written};
use crate::columns::failure_class;
use counterstep_contracts::{Rev, TaskId};
use counterstep_kernel::ports::{Disabled, FailureQuery, TypeRow};
use counterstep_kernel::record::DbTime;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use uuid::Uuid;

type SomeTime = sql::Nullable<sql::Timestamptz>;
type SomeText = sql::Nullable<sql::Text>;

type Types = (
    sql::Timestamptz,
    SomeText,
    SomeTime,
    SomeTime,
    sql::Nullable<sql::Uuid>,
    SomeTime,
    SomeText,
    SomeText,
    SomeTime,
    sql::Nullable<sql::BigInt>,
);

type At = Option<PgTimestamp>;

/// The clock, and a type; where there is none, the clock alone.
pub(super) type Read =
    (PgTimestamp, Option<String>, At, At, Option<Uuid>, At, Option<String>, Option<String>, At, Option<i64>);

/// All of them, by name, and the clock.
pub(super) fn all() -> Statement<'static, Types> {
    Statement::of(
        "SELECT now(), t.name, t.disabled_since, t.probe_from, t.probe, t.probe_since, t.reason, t.by, t.counts_from, \
         t.rev FROM (SELECT 1) clock LEFT JOIN task_types t ON TRUE ORDER BY t.name",
        values![],
    )
}

/// What [`all`] has read, where it is a type.
pub(super) fn decode(read: Read) -> Option<TypeRow> {
    let (_, task_type, since, probe_from, probe, probe_since, reason, by, counts_from, rev) = read;
    let probe = probe.map(TaskId).zip(some_time(probe_since));
    let probe_from = some_time(probe_from);
    Some(TypeRow {
        name: task_type?,
        disabled: since.map(|since| Disabled { since: time(since), probe_from, probe }),
        reason: reason.unwrap_or_default(),
        by: by.unwrap_or_default(),
        counts_from: some_time(counts_from),
        rev: Rev(rev.unwrap_or_default()),
    })
}

const INSERT: &str = "INSERT INTO task_types (disabled_since, probe_from, probe, probe_since, reason, by, counts_from, \
    name, rev) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING rev";

const UPDATE: &str = "UPDATE task_types SET disabled_since = ?, probe_from = ?, probe = ?, probe_since = ?, \
    reason = ?, by = ?, counts_from = ?, rev = rev + 1 WHERE name = ? AND rev + 1 = ? RETURNING rev";

/// Writes a row that is at the revision before; gives no row where it was not.
pub(super) fn put(row: &TypeRow) -> Result<Statement<'_, sql::BigInt>, Fault> {
    let at = |time: Option<DbTime>| Bind::Time(time.map(written));
    let probe = row.disabled.and_then(|disabled| disabled.probe);
    let binds = [
        at(row.disabled.map(|disabled| disabled.since)),
        at(row.disabled.and_then(|disabled| disabled.probe_from)),
        Bind::Id(probe.map(|(task, _)| task.0)),
        at(probe.map(|(_, since)| since)),
        words(&row.reason).into(),
        words(&row.by).into(),
        at(row.counts_from),
        name("task_types.name", &row.name)?.into(),
        row.rev.0.into(),
    ];
    Ok(Statement::of(if row.rev == Rev(1) { INSERT } else { UPDATE }, binds))
}

/// Failures since the last success, within the window. Each part goes by an index that ends at the window's begin; of the
/// parked tasks the newest are looked at, so that a backlog of old ones does not slow every count. A parked task has not
/// ended: it has been as it is since its last change. What people retry, undo or settle is no news.
pub(super) fn failures(query: &FailureQuery) -> Result<Statement<'_, sql::BigInt>, Fault> {
    let (task_type, most) = (name("tasks.task_type", &query.task_type)?, i64::from(query.at_most));
    let tenant = name("tasks.tenant", &query.tenant.0)?;
    let classes: Vec<Str<'_>> = query.classes.iter().map(|class| failure_class(class).into()).collect();
    let (within, from) = (interval(query.within), query.counts_from.map(written));
    // The types and times stand in it again and again: an index is only used for what is compared with a value.
    Ok(Statement::of(
        "WITH start AS MATERIALIZED (SELECT greatest(now() - ?, ?, (SELECT t.finished_at FROM tasks t
           WHERE t.tenant = ? AND t.task_type = ? AND t.status = 'completed' AND t.finished_at > now() - ?
           ORDER BY t.finished_at DESC LIMIT 1)) AS at),
         failed AS (SELECT t.id FROM tasks t WHERE t.tenant = ? AND t.task_type = ? AND t.status = 'failed'
           AND t.finished_at > now() - ? AND t.finished_at > (SELECT at FROM start)
           AND EXISTS (SELECT 1 FROM unnest(?) class WHERE strpos(t.failure, class) > 0)
           AND (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%' LIMIT 1) IS NULL LIMIT ?),
         newest AS ((SELECT id FROM tasks WHERE status = 'compensation_failed' ORDER BY id DESC LIMIT 1000)
           UNION ALL (SELECT id FROM tasks WHERE status = 'dead_lettered' ORDER BY id DESC LIMIT 1000)),
         parked AS (SELECT t.id FROM newest n JOIN tasks t ON t.id = n.id WHERE t.tenant = ? AND t.task_type = ?
           AND t.updated_at > (SELECT at FROM start)
           AND EXISTS (SELECT 1 FROM unnest(?) class WHERE strpos(t.failure, class) > 0)
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
            tenant,
            task_type,
            classes,
            most
        ],
    ))
}
