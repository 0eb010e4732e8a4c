//! The table `schedules`. Must not work out when anything is due.

use super::fault::{Fault, name, parse, read_json, write_json};
use super::statement::{Bind, Statement, Str, some_time, time, values, written};
use counterstep_contracts::{Rev, TaskId, Tenant};
use counterstep_kernel::ports::{DueSchedule, ScheduleQuery, ScheduleRow, ScheduleWrite};
use counterstep_kernel::record::DbTime;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use uuid::Uuid;

type SomeText = sql::Nullable<sql::Text>;
type SomeTime = sql::Nullable<sql::Timestamptz>;
type SomeBool = sql::Nullable<sql::Bool>;

type Types = (
    sql::Timestamptz,
    SomeText,
    SomeText,
    SomeText,
    SomeText,
    SomeBool,
    SomeTime,
    SomeTime,
    SomeTime,
    sql::Nullable<sql::Uuid>,
    sql::Nullable<sql::BigInt>,
    SomeTime,
    SomeTime,
);

type At = Option<PgTimestamp>;

/// The clock, and a schedule; where there is none, the clock alone.
pub(super) type Read = (
    PgTimestamp,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<bool>,
    At,
    At,
    At,
    Option<Uuid>,
    Option<i64>,
    At,
    At,
);

// The clock comes with the rows, so that what is compared with it is what was due by it.
const FIND: &str = "SELECT now(), s.tenant, s.name, s.origin, s.spec, s.paused, s.next_due_at, s.last_due_at, \
    s.last_fired_at, s.last_task, s.rev, s.created_at, s.updated_at FROM (SELECT 1) clock LEFT JOIN LATERAL \
    (SELECT * FROM schedules WHERE ";

/// The rows of a query, in its order.
pub(super) fn find(query: &ScheduleQuery) -> Result<Statement<'_, Types>, Fault> {
    let names = |column: &str, texts| -> Result<Vec<Str<'_>>, Fault> {
        <[String]>::iter(texts).map(|text| name(column, text)).collect()
    };
    let mut statement = Statement::of(FIND, values![]);
    match query {
        ScheduleQuery::Due { types, declared, after, limit } => {
            let types = names("schedules.task_type", types)?;
            let declared = names("schedules.name", declared)?;
            statement.push(
                "NOT paused AND next_due_at IS NOT NULL AND next_due_at <= now() AND task_type = ANY(?)
                 AND (origin = 'api' OR name = ANY(?))",
                values![types, declared],
            );
            if let Some(after) = after {
                let due = Bind::Time(Some(written(after.due)));
                let (tenant, schedule) =
                    (name("schedules.tenant", &after.tenant.0)?, name("schedules.name", &after.name)?);
                statement.push(" AND (next_due_at, tenant, name) > (?, ?, ?)", values![due, tenant, schedule]);
            }
            statement.push(
                " ORDER BY next_due_at, tenant, name LIMIT ?) s ON TRUE ORDER BY s.next_due_at, s.tenant, s.name",
                values![i64::from(*limit)],
            );
        }
        ScheduleQuery::Named { tenant, names: wanted } => {
            let wanted = names("schedules.name", wanted)?;
            statement.push(
                "tenant = ? AND name = ANY(?)) s ON TRUE ORDER BY s.name",
                values![name("schedules.tenant", &tenant.0)?, wanted],
            );
        }
        ScheduleQuery::Page { tenant, after, limit } => {
            let after = name("schedules.name", after.as_deref().unwrap_or_default())?;
            statement.push(
                "tenant = ? AND name > ? ORDER BY name LIMIT ?) s ON TRUE ORDER BY s.name",
                values![name("schedules.tenant", &tenant.0)?, after, i64::from(*limit)],
            );
        }
    }
    Ok(statement)
}

/// The last row of a page that reached its limit; a row that is unreadable stands in the order too.
pub(super) fn last(query: &ScheduleQuery, rows: &[Read]) -> Option<DueSchedule> {
    let ScheduleQuery::Due { limit, .. } = query else { return None };
    let last = rows.last().filter(|_| u32::try_from(rows.len()).is_ok_and(|read| read >= *limit))?;
    Some(DueSchedule { due: some_time(last.6)?, tenant: Tenant(last.1.clone()?), name: last.2.clone()? })
}

/// What [`find`] has read, where it is a schedule.
pub(super) fn decode(read: Read) -> Result<ScheduleRow, Fault> {
    let (
        now,
        tenant,
        schedule,
        origin,
        spec,
        paused,
        next_due_at,
        last_due_at,
        last_fired_at,
        last_task,
        rev,
        created_at,
        updated_at,
    ) = read;
    Ok(ScheduleRow {
        tenant: Tenant(tenant.unwrap_or_default()),
        name: schedule.unwrap_or_default(),
        origin: parse("schedules.origin", &origin.unwrap_or_default())?,
        spec: serde_json::from_value(read_json("schedules.spec", &spec.unwrap_or_default())?)
            .map_err(|error| Fault::Corrupt(format!("schedules.spec: {error}")))?,
        paused: paused.unwrap_or_default(),
        next_due_at: some_time(next_due_at),
        last_due_at: some_time(last_due_at),
        last_fired_at: some_time(last_fired_at),
        last_task: last_task.map(TaskId),
        rev: Rev(rev.unwrap_or_default()),
        created_at: time(created_at.unwrap_or(now)),
        updated_at: time(updated_at.unwrap_or(now)),
    })
}

const INSERT: &str = "INSERT INTO schedules (origin, task_type, spec, paused, next_due_at, last_due_at, last_fired_at, \
    last_task, tenant, name, rev, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, CASE WHEN ? THEN now() END, ?, ?, ?, \
    ?, now(), now()) ON CONFLICT (tenant, name) DO NOTHING RETURNING rev";

const UPDATE: &str = "UPDATE schedules SET origin = ?, task_type = ?, spec = ?, paused = ?, next_due_at = ?, \
    last_due_at = ?, last_fired_at = CASE WHEN ? THEN now() ELSE last_fired_at END, last_task = ?, rev = rev + 1, \
    updated_at = now() WHERE tenant = ? AND name = ? AND rev + 1 = ? RETURNING rev";

/// Writes a row where it is at the revision before; gives no row where it was not.
pub(super) fn put(write: &ScheduleWrite) -> Result<Statement<'_, sql::BigInt>, Fault> {
    let row = &write.row;
    let at = |time: Option<DbTime>| Bind::Time(time.map(written));
    let binds = [
        row.origin.as_str().into(),
        name("schedules.task_type", &row.spec.task_type)?.into(),
        write_json(&row.spec)?.into(),
        row.paused.into(),
        at(row.next_due_at),
        at(row.last_due_at),
        write.fires.into(),
        Bind::Id(row.last_task.map(|task| task.0)),
        name("schedules.tenant", &row.tenant.0)?.into(),
        name("schedules.name", &row.name)?.into(),
        row.rev.0.into(),
    ];
    Ok(Statement::of(if row.rev == Rev(1) { INSERT } else { UPDATE }, binds))
}

/// Deletes a row that is at this revision; gives no row where it was not.
pub(super) fn delete<'a>(tenant: &'a Tenant, schedule: &'a str, rev: Rev) -> Statement<'a, sql::BigInt> {
    Statement::of(
        "DELETE FROM schedules WHERE tenant = ? AND name = ? AND rev = ? RETURNING rev",
        values![tenant.0.as_str(), schedule, rev.0],
    )
}
