//! Tasks that other tasks have submitted: their rows beside `tasks`, and what is asked about them.

use super::statement::{Statement, Str, values};
use crate::rows::{ChildCountTypes, ChildTypes};
use counterstep_contracts::children::DEEPEST;
use counterstep_contracts::{ParentRef, TaskId};
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::ports::ChildQuery;
use diesel::sql_types as sql;
use uuid::Uuid;

/// Says of new tasks which task has submitted them.
pub(super) fn insert(children: &[Transition]) -> Statement<'static, sql::Uuid> {
    let parents = children.iter().filter_map(|change| {
        let parent = change.task.as_ref()?.row.parent?;
        Some((change.task_id.0, parent))
    });
    let (mut tasks, mut of, mut steps, mut places) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (
        task,
        ParentRef {
            task: parent,
            step,
            no,
            ..
        },
    ) in parents
    {
        tasks.push(task);
        of.push(parent.0);
        steps.push(step.0);
        places.push(i64::from(no));
    }
    Statement::of(
        "INSERT INTO children (parent, step, no, task)
         SELECT u.parent, u.step, u.no::integer, u.task
         FROM unnest(?, ?, ?, ?) AS u (parent, step, no, task) RETURNING task",
        values![of, steps, places, tasks],
    )
}

/// Those of a task, by step and state.
pub(super) fn counts(parent: TaskId) -> Statement<'static, ChildCountTypes> {
    Statement::of(
        "SELECT c.step, t.status, count(*), bool_or(t.residue) FROM children c JOIN tasks t ON t.id = c.task
         WHERE c.parent = ? GROUP BY c.step, t.status ORDER BY c.step, t.status",
        values![parent.0],
    )
}

/// A page of those of a task.
pub(super) fn page(query: &ChildQuery) -> Statement<'_, ChildTypes> {
    let mut statement = Statement::of(
        "SELECT c.step, c.no, c.task, t.task_type, t.status, t.failure
         FROM children c JOIN tasks t ON t.id = c.task WHERE c.parent = ?",
        values![query.parent.0],
    );
    if let Some(step) = query.step {
        statement.push(" AND c.step = ?", values![step.0]);
    }
    if let Some((step, no)) = query.after {
        statement.push(
            " AND (c.step, c.no) > (?, ?)",
            values![step.0, i32::try_from(no).unwrap_or(i32::MAX)],
        );
    }
    if !query.statuses.is_empty() {
        let statuses: Vec<Str<'_>> = query
            .statuses
            .iter()
            .map(|status| status.as_str().into())
            .collect();
        statement.push(" AND t.status = ANY(?)", values![statuses]);
    }
    statement.push(
        " ORDER BY c.step, c.no LIMIT ?",
        values![i64::from(query.limit)],
    );
    statement
}

/// Those above tasks, the topmost first.
pub(super) fn above(tasks: &[TaskId]) -> Statement<'static, sql::Uuid> {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    Statement::of(
        "WITH RECURSIVE above (task, far) AS (
           SELECT c.parent, 1 FROM children c WHERE c.task = ANY(?)
           UNION SELECT c.parent, a.far + 1 FROM above a JOIN children c ON c.task = a.task WHERE a.far <= ?)
         SELECT a.task FROM above a GROUP BY a.task ORDER BY max(a.far) DESC, a.task",
        values![ids, i64::from(DEEPEST)],
    )
}
