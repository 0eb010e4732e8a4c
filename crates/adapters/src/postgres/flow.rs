//! What came and went, counted. Must not look at tasks that were there before.

use super::statement::{Bind, Statement, Str, values, written};
use super::states::states;
use crate::rows::FlowTypes;
use counterstep_kernel::ports::FlowQuery;

// An id begins with about the time of its making. Each type and state goes along the index of ended tasks.
const COUNT: &str = "SELECT NULL::text, count(*) FROM tasks
      WHERE id >= ? AND id < ? AND created_at > ? AND created_at <= ?
    UNION ALL
    SELECT s.status, sum(t.tasks)::bigint FROM unnest(?) AS n (name) CROSS JOIN unnest(?) AS s (status)
      CROSS JOIN LATERAL (SELECT count(*) AS tasks FROM tasks t
        WHERE t.task_type = n.name AND t.status = s.status AND t.finished_at > ? AND t.finished_at <= ?) t
    GROUP BY s.status";

pub(super) fn count(query: &FlowQuery) -> Statement<'_, FlowTypes> {
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
