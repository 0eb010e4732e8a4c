//! Tasks that other tasks have submitted: their rows beside `tasks`, and what is asked about them.

use super::fault::{Fault, parse};
use super::prepared::{Prepare, Statement};
use super::tasks::known;
use crate::rows::{ChildCountRow, ChildRow, HeadRow, each};
use counterstep_contracts::children::DEEPEST;
use counterstep_contracts::{ParentRef, TaskId};
use counterstep_kernel::ports::{ChildCount, ChildLine, ChildQuery, KnownType};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

pub(super) fn insert(
    connection: &mut SqliteConnection,
    task: TaskId,
    parent: &ParentRef,
) -> QueryResult<()> {
    let text = "INSERT INTO children (parent, step, no, task) VALUES (?, ?, ?, ?)";
    let (of, task) = (parent.task.to_string(), task.to_string());
    let values = [
        (&of).into(),
        i64::from(parent.step.0).into(),
        i64::from(parent.no).into(),
        (&task).into(),
    ];
    Statement { text, values }.execute(connection).map(drop)
}

/// Those of a task, by step and state.
pub(super) fn counts(
    connection: &mut SqliteConnection,
    parent: TaskId,
) -> Result<Vec<ChildCount>, Fault> {
    let rows = diesel::sql_query(
        "SELECT c.step, t.status, count(*) AS tasks, max(t.residue) AS residue FROM children c JOIN tasks t ON t.id = c.task
         WHERE c.parent = ? GROUP BY c.step, t.status ORDER BY c.step, t.status",
    )
    .bind::<Text, _>(parent.to_string())
    .prepared()
    .load(connection)?;
    Ok(each(rows, ChildCountRow::decode)?)
}

/// A page of those of a task.
pub(super) fn page(
    connection: &mut SqliteConnection,
    query: &ChildQuery,
) -> Result<Vec<ChildLine>, Fault> {
    let statuses: Vec<&str> = query.statuses.iter().map(|it| it.as_str()).collect();
    let (after_step, after_no) = query
        .after
        .map(|(step, no)| (i64::from(step.0), i64::from(no)))
        .unzip();
    let rows = diesel::sql_query(
        "SELECT c.step, c.no, c.task, t.task_type, t.status, t.failure
         FROM children c CROSS JOIN tasks t ON t.id = c.task
         WHERE c.parent = ?1 AND (?2 IS NULL OR c.step = ?2)
           AND (?3 IS NULL OR (c.step, c.no) > (?3, ?4))
           AND (?5 = '[]' OR t.status IN (SELECT value FROM json_each(?5)))
         ORDER BY c.step, c.no",
    )
    .bind::<Text, _>(query.parent.to_string())
    .bind::<Nullable<BigInt>, _>(query.step.map(|step| i64::from(step.0)))
    .bind::<Nullable<BigInt>, _>(after_step)
    .bind::<Nullable<BigInt>, _>(after_no)
    .bind::<Text, _>(serde_json::json!(statuses).to_string())
    .load_at_most(query.limit, connection)?;
    Ok(each(rows, ChildRow::decode)?)
}

#[derive(Debug, QueryableByName)]
struct AboveRow {
    #[diesel(sql_type = Text)]
    task: String,
}

/// Those above tasks, the topmost first.
pub(super) fn above(connection: &mut SqliteConnection, tasks: &str) -> Result<Vec<TaskId>, Fault> {
    let rows: Vec<AboveRow> = diesel::sql_query(
        "WITH RECURSIVE above (task, far) AS (
           SELECT c.parent, 1 FROM json_each(?1) j CROSS JOIN children c ON c.task = j.value
           UNION SELECT c.parent, a.far + 1 FROM above a CROSS JOIN children c ON c.task = a.task WHERE a.far <= ?2)
         SELECT task FROM above GROUP BY task ORDER BY max(far) DESC, task",
    )
    .bind::<Text, _>(tasks)
    .bind::<BigInt, _>(i64::from(DEEPEST))
    .prepared()
    .load(connection)?;
    let ids = rows.iter().map(|row| parse("task", &row.task));
    Ok(ids.collect::<Result<_, _>>()?)
}

macro_rules! parents {
    () => {
        " AND p.lease_owner IS NULL AND p.due_at > ?1
           AND p.task_type || '/' || p.version || '/' || p.definition_hash IN (SELECT value FROM json_each(?2))
           AND EXISTS (SELECT 1 FROM children c JOIN tasks t ON t.id = c.task
             WHERE c.parent = p.id AND t.finished_at > p.updated_at - 600000000)"
    };
}

/// Tasks asleep of which one of these has ended.
pub(super) fn parents(
    connection: &mut SqliteConnection,
    types: &[KnownType],
    now: i64,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(concat!(
        "SELECT p.updated_at AS since, p.id, p.tenant, p.task_type, p.version, p.status, p.rev
         FROM tasks p INDEXED BY tasks_with_children WHERE p.waiting = 'children'",
        parents!(),
        " UNION ALL SELECT p.updated_at AS since, p.id, p.tenant, p.task_type, p.version, p.status, p.rev
         FROM tasks p INDEXED BY tasks_by_status WHERE p.status = 'compensating'",
        parents!(),
        " ORDER BY since"
    ))
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(known(types))
    .load_at_most(limit, connection)
}
