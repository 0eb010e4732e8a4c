//! Queries on the table `schedules`. Must not work out when anything is due.

use super::fault::{Fault, parse, parse_some, read_json, write_json};
use super::schema::schedules;
use counterstep_contracts::{Rev, Tenant};
use counterstep_kernel::ports::{DueSchedule, ScheduleQuery, ScheduleRow, ScheduleWrite, Schedules};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// A row, column by column.
#[derive(Debug, Clone, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = schedules, treat_none_as_null = true, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    tenant: String,
    name: String,
    origin: String,
    task_type: String,
    spec: String,
    paused: bool,
    next_due_at: Option<i64>,
    last_due_at: Option<i64>,
    last_fired_at: Option<i64>,
    last_task: Option<String>,
    rev: i64,
    created_at: i64,
    updated_at: i64,
}

fn decode(columns: Columns) -> Result<ScheduleRow, Fault> {
    Ok(ScheduleRow {
        tenant: Tenant(columns.tenant),
        name: columns.name,
        origin: parse("schedules.origin", &columns.origin)?,
        spec: serde_json::from_value(read_json("schedules.spec", &columns.spec)?)
            .map_err(|error| Fault::Corrupt(format!("schedules.spec: {error}")))?,
        paused: columns.paused,
        next_due_at: columns.next_due_at.map(DbTime),
        last_due_at: columns.last_due_at.map(DbTime),
        last_fired_at: columns.last_fired_at.map(DbTime),
        last_task: parse_some("schedules.last_task", columns.last_task.as_deref())?,
        rev: Rev(columns.rev),
        created_at: DbTime(columns.created_at),
        updated_at: DbTime(columns.updated_at),
    })
}

/// Those that can be read. One that a newer program wrote must not stand in the way of the others.
pub(super) fn find(connection: &mut SqliteConnection, query: &ScheduleQuery, now: i64) -> Result<Schedules, Fault> {
    let rows = schedules::table.select(Columns::as_select()).into_boxed();
    let rows = match query {
        ScheduleQuery::Due { types, declared, after, limit } => {
            let due = rows
                .filter(schedules::paused.eq(false))
                .filter(schedules::next_due_at.le(now))
                .filter(schedules::task_type.eq_any(types))
                .filter(schedules::origin.eq("api").or(schedules::name.eq_any(declared)))
                .order((schedules::next_due_at, schedules::tenant, schedules::name))
                .limit((*limit).into());
            match after {
                None => due,
                Some(after) => {
                    let name = schedules::tenant.eq(&after.tenant.0).and(schedules::name.gt(&after.name));
                    let behind = schedules::tenant.gt(&after.tenant.0).or(name);
                    let same = schedules::next_due_at.eq(after.due.0).and(behind);
                    due.filter(schedules::next_due_at.gt(after.due.0).or(same))
                }
            }
        }
        ScheduleQuery::Named { tenant, names } => {
            rows.filter(schedules::tenant.eq(&tenant.0)).filter(schedules::name.eq_any(names)).order(schedules::name)
        }
        ScheduleQuery::Page { tenant, after, limit } => rows
            .filter(schedules::tenant.eq(&tenant.0))
            .filter(schedules::name.gt(after.as_deref().unwrap_or_default()))
            .order(schedules::name)
            .limit((*limit).into()),
    };
    let rows = rows.load::<Columns>(connection)?;
    let last = match query {
        ScheduleQuery::Due { limit, .. } if u32::try_from(rows.len()).is_ok_and(|read| read >= *limit) => {
            rows.last().and_then(place)
        }
        _ => None,
    };
    let readable = rows.into_iter().filter_map(|columns| {
        let name = columns.name.clone();
        decode(columns).inspect_err(|fault| tracing::warn!(schedule = name, ?fault, "a schedule cannot be read")).ok()
    });
    Ok(Schedules { now: DbTime(now), rows: readable.collect(), last })
}

/// A row that is unreadable stands in the order too.
fn place(columns: &Columns) -> Option<DueSchedule> {
    let due = columns.next_due_at.map(DbTime)?;
    Some(DueSchedule { due, tenant: Tenant(columns.tenant.clone()), name: columns.name.clone() })
}

/// Writes a row where it is at the revision before. Whether it was.
pub(super) fn put(connection: &mut SqliteConnection, write: &ScheduleWrite, now: i64) -> Result<bool, Fault> {
    let row = &write.row;
    let found = schedules::table.find((&row.tenant.0, &row.name));
    type Head = (i64, i64, Option<i64>);
    let head: Option<Head> =
        found.select((schedules::rev, schedules::created_at, schedules::last_fired_at)).first(connection).optional()?;
    let (rev, created_at, last_fired_at) = head.unwrap_or((0, now, None));
    if Rev(rev).next() != row.rev {
        return Ok(false);
    }
    let columns = Columns {
        tenant: row.tenant.0.clone(),
        name: row.name.clone(),
        origin: row.origin.as_str().to_owned(),
        task_type: row.spec.task_type.clone(),
        spec: write_json(&row.spec)?,
        paused: row.paused,
        next_due_at: row.next_due_at.map(|time| time.0),
        last_due_at: row.last_due_at.map(|time| time.0),
        last_fired_at: if write.fires { Some(now) } else { last_fired_at },
        last_task: row.last_task.map(|task| task.to_string()),
        rev: row.rev.0,
        created_at,
        updated_at: now,
    };
    match head {
        Some(_) => diesel::update(found).set(&columns).execute(connection)?,
        None => diesel::insert_into(schedules::table).values(&columns).execute(connection)?,
    };
    Ok(true)
}

/// Whether it was at this revision, and is gone.
pub(super) fn delete(connection: &mut SqliteConnection, tenant: &Tenant, name: &str, rev: Rev) -> Result<bool, Fault> {
    let row = schedules::table.find((&tenant.0, name)).filter(schedules::rev.eq(rev.0));
    Ok(diesel::delete(row).execute(connection)? > 0)
}
