//! Pages of the list of tasks. Must not decide who may see a task.

use crate::columns::Unreadable;
use crate::rows::{LineRow, readable};
use crate::sqlite::fault::{Fault, parse};
use crate::sqlite::prepared::Prepare;
use crate::sqlite::schema::tasks;
use counterstep_contracts::labels::PREDECESSOR;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::{ListOrder, MOST_SUCCESSORS, TaskLine, TaskPage, TaskQuery};
use diesel::SqliteConnection;
use diesel::connection::DefaultLoadingMode;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};

/// Those with a label; the order of the list follows. `CROSS` because the order of the joined tables is the order of
/// the list: from `tasks` SQLite would walk them all.
macro_rules! labelled {
    ($order:literal) => {
        concat!(include_str!("labelled.sql"), $order)
    };
}

/// A page in the order of its query. Rows that a newer program wrote are skipped, and do not count for
/// the limit. To be called in a transaction: states are read one after the other.
pub(in super::super) fn list(
    connection: &mut SqliteConnection,
    query: &TaskQuery,
) -> Result<TaskPage, Fault> {
    let before = query.before.map_or(TaskId(uuid::Uuid::max()), |it| it);
    let from = query.from.map_or(TaskId(uuid::Uuid::nil()), |it| it);
    match (&query.tenant, query.labels.iter().next()) {
        (Some(Tenant(tenant)), Some((name, value))) => {
            let text = match query.order {
                ListOrder::Newest => labelled!("DESC"),
                ListOrder::Oldest => labelled!("ASC"),
            };
            let rows = diesel::sql_query(text)
                .bind::<Text, _>(tenant)
                .bind::<Text, _>(name)
                .bind::<Text, _>(value)
                .bind::<Text, _>(before.to_string())
                .bind::<Text, _>(from.to_string());
            page(
                query,
                rows.load_iter::<LineRow, DefaultLoadingMode>(connection)?,
            )
        }
        // Each along its index: together they would be sorted from end to end.
        _ if query.statuses.len() > 1 => state_by_state(connection, query),
        (tenant, _) => {
            let mut rows = tasks::table
                .select((
                    tasks::id,
                    tasks::tenant,
                    tasks::task_type,
                    tasks::version,
                    tasks::status,
                    tasks::rev,
                    tasks::failure,
                    tasks::residue,
                    tasks::labels,
                    tasks::created_at,
                    tasks::updated_at,
                    tasks::finished_at,
                ))
                .into_boxed();
            rows = match query.order {
                ListOrder::Newest => rows.order(tasks::id.desc()),
                ListOrder::Oldest => rows.order(tasks::id.asc()),
            };
            // Of an open state there are few tasks, and of a tenant many: the plus keeps SQLite, which has no
            // statistics, from walking the tenant's.
            let is_rare = matches!(&query.statuses[..], [status] if !status.is_terminal());
            match tenant {
                Some(tenant) if is_rare => {
                    let same = sql::<Bool>("+tasks.tenant = ").bind::<Text, _>(&tenant.0);
                    rows = rows.filter(same);
                }
                Some(tenant) => rows = rows.filter(tasks::tenant.eq(&tenant.0)),
                None => {}
            }
            if let Some(task_type) = &query.task_type {
                rows = rows.filter(tasks::task_type.eq(task_type));
            }
            if let Some(status) = query.statuses.first() {
                rows = rows.filter(tasks::status.eq(status.as_str()));
            }
            if query.before.is_some() {
                rows = rows.filter(tasks::id.lt(before.to_string()));
            }
            if query.from.is_some() {
                rows = rows.filter(tasks::id.ge(from.to_string()));
            }
            page(
                query,
                rows.load_iter::<LineRow, DefaultLoadingMode>(connection)?,
            )
        }
    }
}

fn state_by_state(connection: &mut SqliteConnection, query: &TaskQuery) -> Result<TaskPage, Fault> {
    let mut statuses = query.statuses.clone();
    statuses.sort_unstable();
    statuses.dedup();
    let pages = statuses.into_iter().map(|status| {
        let of_state = TaskQuery {
            statuses: vec![status],
            ..query.clone()
        };
        list(connection, &of_state)
    });
    let pages = pages.collect::<Result<_, _>>()?;
    Ok(TaskPage::merged(pages, query))
}

#[derive(Debug, QueryableByName)]
struct SuccessorRow {
    #[diesel(sql_type = Text)]
    task: String,
}

/// The tasks that run a task again, the newest first. No more of them than their labels is read.
pub(in super::super) fn successors(
    connection: &mut SqliteConnection,
    (Tenant(tenant), task): &(Tenant, TaskId),
) -> Result<Vec<TaskId>, Fault> {
    let rows: Vec<SuccessorRow> = diesel::sql_query(
        "SELECT task FROM task_labels WHERE tenant = ? AND name = ? AND value = ? ORDER BY task DESC",
    )
    .bind::<Text, _>(tenant)
    .bind::<Text, _>(PREDECESSOR)
    .bind::<Text, _>(task.to_string())
    .load_at_most(MOST_SUCCESSORS, connection)?;
    let ids = rows.iter().map(|row| parse("task", &row.task));
    Ok(ids.collect::<Result<_, _>>()?)
}

/// These, in any order. Rows that cannot be read are skipped.
pub(in super::super) fn lines(
    connection: &mut SqliteConnection,
    tasks: &[TaskId],
) -> Result<Vec<TaskLine>, Fault> {
    let rows: Vec<LineRow> = diesel::sql_query(
        "SELECT t.id, t.tenant, t.task_type, t.version, t.status, t.rev, t.failure, t.residue, t.labels, t.created_at, t.updated_at, t.finished_at
         FROM json_each(?) j CROSS JOIN tasks t ON t.id = j.value",
    )
    .bind::<Text, _>(serde_json::json!(tasks).to_string())
    .prepared()
    .load(connection)?;
    Ok(readable(rows, "a task of a list", LineRow::decode))
}

/// Row by row, so that SQLite stops where the page is full.
fn page(
    query: &TaskQuery,
    rows: impl Iterator<Item = QueryResult<LineRow>>,
) -> Result<TaskPage, Fault> {
    let most = |rows: u32| usize::try_from(rows).unwrap_or(usize::MAX);
    let candidates = if query.searches() {
        most(query.candidates())
    } else {
        usize::MAX
    };
    let mut page = TaskPage::default();
    for (at, row) in rows.enumerate() {
        if page.lines.len() >= most(query.limit) {
            break;
        }
        let row = row?;
        let id = row.id.clone();
        match row.decode() {
            Ok(line) if query.fits(&line) => page.lines.push(line),
            Ok(_) => {}
            Err(Unreadable(fault, _)) => {
                tracing::warn!(task = %id, fault, "a task cannot be listed")
            }
        }
        if at + 1 >= candidates && page.lines.len() < most(query.limit) {
            page.looked_to = Some(id.task("id")?);
            break;
        }
    }
    Ok(page)
}
