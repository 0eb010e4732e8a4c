//! What came and went, counted. Must not look at tasks that were there before.

use super::fault::{Fault, parse};
use super::statement::{Bind, Statement, Str, values, written};
use super::states::states;
use counterstep_kernel::ports::{Flow, FlowQuery};
use diesel::sql_types as sql;

/// A state and its tasks; without one, those that were submitted.
pub(super) type FlowRead = (Option<String>, i64);

// An id begins with about the time of its making. Each type and state goes along the index of ended tasks.
const COUNT: &str = "SELECT NULL::text, count(*) FROM tasks
      WHERE id >= ? AND id < ? AND created_at > ? AND created_at <= ?
    UNION ALL
    SELECT s.status, sum(t.tasks)::bigint FROM unnest(?) AS n (name) CROSS JOIN unnest(?) AS s (status)
      CROSS JOIN LATERAL (SELECT count(*) AS tasks FROM tasks t
        WHERE t.task_type = n.name AND t.status = s.status AND t.finished_at > ? AND t.finished_at <= ?) t
    GROUP BY s.status";

pub(super) fn count(query: &FlowQuery) -> Statement<'_, (sql::Nullable<sql::Text>, sql::BigInt)> {
    let [first, below] = query.ids();
    let since = || Bind::Time(Some(written(query.since)));
    let until = || Bind::Time(Some(written(query.until)));
    let types: Vec<Str<'_>> = query
        .task_types
        .iter()
        .map(|name| name.as_str().into())
        .collect();
    Statement::of(
        COUNT,
        values![
            first.0,
            below.0,
            since(),
            until(),
            types,
            states(true),
            since(),
            until()
        ],
    )
}

pub(super) fn decode(rows: Vec<FlowRead>) -> Result<Flow, Fault> {
    let mut flow = Flow::default();
    for (status, tasks) in rows {
        let tasks = u64::try_from(tasks).unwrap_or_default();
        match status {
            None => flow.submitted = tasks,
            Some(_) if tasks == 0 => {}
            Some(status) => drop(flow.ended.insert(parse("tasks.status", &status)?, tasks)),
        }
    }
    Ok(flow)
}
