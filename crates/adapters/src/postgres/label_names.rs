//! Names and values of labels, read from the index by which tasks are listed. Must not read a task.

use super::fault::{Fault, name};
use super::statement::{Statement, Str, values};
use counterstep_kernel::ports::LabelQuery;
use diesel::sql_types as sql;

/// The index is walked from one name or value to the next, however many tasks have each, and no further than the limit.
pub(super) fn read(query: &LabelQuery) -> Result<Statement<'_, sql::Text>, Fault> {
    match query {
        LabelQuery::Names {
            tenant,
            prefix,
            limit,
        } => {
            let (tenant, prefix) = (name("task_labels.tenant", &tenant.0)?, part(prefix)?);
            Ok(Statement::of(
                "WITH RECURSIVE known (name) AS ((SELECT min(l.name) FROM task_labels l WHERE l.tenant = ? AND l.name >= ?)
                   UNION ALL SELECT (SELECT min(l.name) FROM task_labels l WHERE l.tenant = ? AND l.name > known.name)
                   FROM known WHERE starts_with(known.name, ?))
                 SELECT name FROM known WHERE starts_with(name, ?) LIMIT ?",
                values![
                    tenant.clone(),
                    prefix.clone(),
                    tenant,
                    prefix.clone(),
                    prefix,
                    i64::from(*limit)
                ],
            ))
        }
        LabelQuery::With {
            tenant,
            names,
            value,
        } => {
            let names = names.iter().map(|it| part(it));
            let names: Vec<Str<'_>> = names.collect::<Result<_, _>>()?;
            Ok(Statement::of(
                "SELECT known.name FROM unnest(?) AS known (name) CROSS JOIN LATERAL (SELECT FROM task_labels
                   WHERE tenant = ? AND name = known.name AND value = ? LIMIT 1) l",
                values![
                    names,
                    name("task_labels.tenant", &tenant.0)?,
                    name("task_labels.value", value)?
                ],
            ))
        }
        LabelQuery::Values {
            tenant,
            name: of,
            prefix,
            limit,
        } => {
            let (tenant, of) = (
                name("task_labels.tenant", &tenant.0)?,
                name("task_labels.name", of)?,
            );
            let prefix = part(prefix)?;
            Ok(Statement::of(
                "WITH RECURSIVE known (value) AS ((SELECT min(l.value) FROM task_labels l
                     WHERE l.tenant = ? AND l.name = ? AND l.value >= ?)
                   UNION ALL SELECT (SELECT min(l.value) FROM task_labels l
                     WHERE l.tenant = ? AND l.name = ? AND l.value > known.value)
                   FROM known WHERE starts_with(known.value, ?))
                 SELECT value FROM known WHERE starts_with(value, ?) LIMIT ?",
                values![
                    tenant.clone(),
                    of.clone(),
                    prefix.clone(),
                    tenant,
                    of,
                    prefix.clone(),
                    prefix,
                    i64::from(*limit)
                ],
            ))
        }
    }
}

fn part(text: &str) -> Result<Str<'_>, Fault> {
    name("task_labels", text)
}
