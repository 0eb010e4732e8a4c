//! Pages of the list of tasks, by state, type and time, or by a search for labels and failures. Each
//! walks an index and reads a bounded number of rows, however many tasks there are.

use super::fault::{Fault, name};
use super::statement::{Bind, Statement, Str, values};
use super::states::open;
use crate::columns::{failure_class, write_labels};
use crate::rows::LineTypes;
use counterstep_contracts::labels::PREDECESSOR;
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{ListOrder, MOST_SUCCESSORS, TaskQuery};
use diesel::sql_types as sql;
use uuid::Uuid;

// State by state, each along its index and no further than the limit, then the newest of all. Only
// the indexes that begin with the tenant have `DESC NULLS LAST`: in the order of the key's index,
// which is the same for an id, the server could walk all tasks by age until it has found enough
// that fit, which for a rare state is all of them. For the same reason the index of all types has a
// condition, which holds for each row and which a list of one type does not have: `version > 0`.
macro_rules! state_by_state {
    ($columns:literal, $type:literal, $order:literal, $nulls:literal) => {
        concat!(
            " FROM unnest(?) AS s (status) CROSS JOIN LATERAL (
      SELECT ",
            $columns,
            " FROM tasks
      WHERE tenant = ?",
            $type,
            " AND status = s.status AND id < ? AND id >= ? ORDER BY id ",
            $order,
            $nulls,
            " LIMIT ?) d
    ORDER BY d.id ",
            $order,
            " LIMIT ?"
        )
    };
}

/// The same statement for each order of a list: the indexes are walked from either end.
macro_rules! ordered {
    ($query:expr, $text:ident!($($part:literal),*)) => {
        match $query.order {
            ListOrder::Newest => $text!($($part,)* "DESC", " NULLS LAST"),
            ListOrder::Oldest => $text!($($part,)* "ASC", " NULLS FIRST"),
        }
    };
}

macro_rules! lines {
    ($type:literal, $order:literal, $nulls:literal) => {
        concat!(
            "SELECT d.id, d.tenant, d.task_type, d.version, d.status, d.rev, d.failure, d.residue, d.labels::text, d.created_at, d.updated_at, d.finished_at",
            state_by_state!(
                "id, tenant, task_type, version, status, rev, failure, residue, labels, created_at, updated_at, finished_at",
                $type,
                $order,
                $nulls
            )
        )
    };
}

macro_rules! by_id {
    ($order:literal, $nulls:literal) => {
        concat!(" ORDER BY id ", $order, " LIMIT ?")
    };
}

macro_rules! ids {
    ($type:literal, $order:literal, $nulls:literal) => {
        concat!("SELECT d.id", state_by_state!("id", $type, $order, $nulls))
    };
}

macro_rules! labelled {
    ($order:literal, $nulls:literal) => {
        concat!(
            "SELECT task FROM task_labels WHERE tenant = ? AND name = ? AND value = ? AND task < ? AND task >= ?
             ORDER BY task ",
            $order,
            " LIMIT ?"
        )
    };
}

/// The states that are asked for.
fn states(query: &TaskQuery) -> Vec<Str<'static>> {
    let asked = TaskStatus::ALL
        .iter()
        .filter(|status| query.statuses.is_empty() || query.statuses.contains(status));
    asked.map(|status| status.as_str().into()).collect()
}

fn type_of(query: &TaskQuery) -> Result<Option<Str<'_>>, Fault> {
    let of = query.task_type.as_deref();
    of.map(|of| name("tasks.task_type", of)).transpose()
}

/// Before which id, and from which on.
fn range(query: &TaskQuery) -> (Uuid, Uuid) {
    (
        query.before.map_or(Uuid::max(), |before| before.0),
        query.from.map_or(Uuid::nil(), |from| from.0),
    )
}

/// A page of a query that [searches](TaskQuery::searches) nothing. Rows with a
/// state that only a newer program knows are skipped. Without a tenant filters are looked at row by row: the one route without is
/// that of metrics, which reads parked tasks.
pub(super) fn list(query: &TaskQuery) -> Result<Statement<'_, LineTypes>, Fault> {
    let (states, of_type) = (states(query), type_of(query)?);
    let (before, from) = range(query);
    let limit = i64::from(query.limit);
    if let Some(tenant) = &query.tenant {
        let tenant = name("tasks.tenant", &tenant.0)?;
        return Ok(match of_type {
            None => Statement::of(
                ordered!(query, lines!(" AND version > 0")),
                values![states, tenant, before, from, limit, limit],
            ),
            Some(of) => Statement::of(
                ordered!(query, lines!(" AND task_type = ?")),
                values![states, tenant, of, before, from, limit, limit],
            ),
        });
    }
    let mut statement = Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, failure, residue, labels::text, created_at, updated_at, finished_at FROM tasks t
         WHERE status = ANY(?) AND id < ? AND id >= ?",
        values![states, before, from],
    );
    // With its condition the index on these is used whatever the states are.
    if !query.statuses.is_empty() && query.statuses.iter().all(|it| !it.is_terminal()) {
        statement.push(concat!(" AND ", open!()), values![]);
    }
    if let Some(of) = of_type {
        statement.push(" AND task_type = ?", values![of]);
    }
    statement.push(ordered!(query, by_id!()), values![limit]);
    Ok(statement)
}

/// The first tasks among which a search goes on: those with its first label, or else those of its
/// states.
pub(super) fn candidates(query: &TaskQuery) -> Result<Statement<'_, sql::Uuid>, Fault> {
    let (before, from) = range(query);
    let limit = i64::from(query.candidates());
    let Some(tenant) = &query.tenant else {
        let mut statement = Statement::of(
            "SELECT id FROM tasks WHERE id < ? AND id >= ?",
            values![before, from],
        );
        statement.push(ordered!(query, by_id!()), values![limit]);
        return Ok(statement);
    };
    let tenant = name("tasks.tenant", &tenant.0)?;
    if let Some((label, value)) = query.labels.iter().next() {
        return Ok(Statement::of(
            ordered!(query, labelled!()),
            values![
                tenant,
                name("task_labels.name", label)?,
                name("task_labels.value", value)?,
                before,
                from,
                limit
            ],
        ));
    }
    let states = states(query);
    Ok(match type_of(query)? {
        None => Statement::of(
            ordered!(query, ids!(" AND version > 0")),
            values![states, tenant, before, from, limit, limit],
        ),
        Some(of) => Statement::of(
            ordered!(query, ids!(" AND task_type = ?")),
            values![states, tenant, of, before, from, limit, limit],
        ),
    })
}

/// Those among `found` that the query asks for, in its order. One whose failure only looks as if it
/// had the text is among them.
pub(super) fn those_that_fit(
    query: &TaskQuery,
    found: Vec<Uuid>,
) -> Result<Statement<'_, LineTypes>, Fault> {
    let text = |text: Option<String>| Bind::Text(text.map(Str::from));
    let labels = write_labels(&query.labels)?;
    let class = query.failure.class.as_deref().map(failure_class);
    let said = query.failure.text.as_deref().map(escaped);
    // What only looks like it must not take the place of one that is.
    let limit = if said.is_some() {
        query.candidates()
    } else {
        query.limit
    };
    let of_type = type_of(query)?;
    let binds: [Bind<'_>; 10] = [
        Bind::from(found),
        Bind::from(states(query)),
        Bind::Text(of_type.clone()),
        Bind::Text(of_type),
        text(labels.clone()),
        text(labels),
        text(class.clone()),
        text(class),
        text(said.clone()),
        text(said),
    ];
    let mut statement = Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, failure, residue, labels::text, created_at, updated_at, finished_at FROM tasks
         WHERE id = ANY(?) AND status = ANY(?) AND (?::text IS NULL OR task_type = ?)
           AND (?::text IS NULL OR labels::jsonb @> ?::jsonb)
           AND (?::text IS NULL OR strpos(failure, ?) > 0)
           AND (?::text IS NULL OR strpos(substr(failure, strpos(failure, '\"message\":')), ?) > 0)",
        binds,
    );
    statement.push(ordered!(query, by_id!()), values![i64::from(limit)]);
    Ok(statement)
}

/// A text as it stands within a JSON text.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Rows of these tasks, in any order.
pub(super) fn of_tasks(tasks: &[TaskId]) -> Statement<'static, LineTypes> {
    let tasks: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, failure, residue, labels::text, created_at, updated_at, finished_at FROM tasks
         WHERE id = ANY(?)",
        values![tasks],
    )
}

/// The tasks that run each of these again, those of each the newest first, with the place of theirs
/// in the list, from 1 on. No more of them than their labels is read.
pub(super) fn successors<'a>(
    of: impl IntoIterator<Item = &'a (Tenant, TaskId)>,
) -> Result<Statement<'a, (sql::BigInt, sql::Uuid)>, Fault> {
    let named = |(tenant, task): &'a (Tenant, TaskId)| {
        name("task_labels.tenant", &tenant.0).map(|tenant| (tenant, task.0))
    };
    let (tenants, tasks): (Vec<Str<'a>>, Vec<Uuid>) =
        of.into_iter().map(named).collect::<Result<_, _>>()?;
    Ok(Statement::of(
        "SELECT a.place, s.task FROM unnest(?, ?) WITH ORDINALITY AS a (tenant, task, place) CROSS JOIN LATERAL (
           SELECT task FROM task_labels WHERE tenant = a.tenant AND name = ? AND value = a.task::text
           ORDER BY task DESC LIMIT ?) s
         ORDER BY s.task DESC",
        values![tenants, tasks, PREDECESSOR, i64::from(MOST_SUCCESSORS)],
    ))
}
