//! At which revisions tasks are. Must not read what a task holds.

use super::fault::Fault;
use super::prepared::Prepare;
use crate::columns;
use crate::rows::{RevisionRow, each};
use counterstep_kernel::ports::{RevisionsOf, TaskRevision};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

/// The states in which a task has ended, or has not, as one value of a query.
pub(super) fn states(ended: bool) -> String {
    serde_json::json!(columns::states(ended).collect::<Vec<_>>()).to_string()
}

/// Those that are asked for.
pub(super) fn of(
    connection: &mut SqliteConnection,
    of: &RevisionsOf,
) -> Result<Vec<TaskRevision>, Fault> {
    let rows = match of {
        RevisionsOf::Tasks(tasks) => diesel::sql_query(
            "SELECT t.id, t.rev, t.updated_at AS at FROM json_each(?) j CROSS JOIN tasks t ON t.id = j.value",
        )
        .bind::<Text, _>(serde_json::json!(tasks).to_string())
        .prepared()
        .load(connection)?,
        RevisionsOf::TaskOf(tenant, task) => diesel::sql_query(
            "SELECT id, rev, updated_at AS at FROM tasks WHERE id = ? AND tenant = ?",
        )
        .bind::<Text, _>(task.to_string())
        .bind::<Text, _>(&tenant.0)
        .prepared()
        .load(connection)?,
        RevisionsOf::Open(tenant) => diesel::sql_query(
            "SELECT id, rev, updated_at AS at FROM tasks INDEXED BY tasks_by_status
             WHERE status IN (SELECT value FROM json_each(?)) AND tenant = ?",
        )
        .bind::<Text, _>(states(false))
        .bind::<Text, _>(&tenant.0)
        .prepared()
        .load(connection)?,
        RevisionsOf::Ended {
            tenant,
            task_types,
            after: (at, task),
            limit,
        } => {
            let mut rows = Vec::<RevisionRow>::new();
            // Each along the index; of all of them together the first.
            for task_type in task_types {
                for status in columns::states(true) {
                    rows.extend(
                        diesel::sql_query(
                            "SELECT id, rev, finished_at AS at FROM tasks INDEXED BY tasks_ended
                             WHERE finished_at IS NOT NULL AND task_type = ?1 AND status = ?2
                               AND finished_at >= ?3 AND (finished_at, id) > (?3, ?4) AND (?5 IS NULL OR tenant = ?5)
                             ORDER BY finished_at, id",
                        )
                        .bind::<Text, _>(task_type)
                        .bind::<Text, _>(status)
                        .bind::<BigInt, _>(at.0)
                        .bind::<Text, _>(task.to_string())
                        .bind::<Nullable<Text>, _>(tenant.as_ref().map(|it| &it.0))
                        .load_at_most::<RevisionRow>(*limit, connection)?,
                    );
                }
            }
            first_of(rows, *limit)
        }
        RevisionsOf::Parked { after, limit } => {
            let mut rows = Vec::<RevisionRow>::new();
            for (task_type, (at, task)) in after {
                for status in columns::parked_states() {
                    rows.extend(
                        diesel::sql_query(
                            "SELECT id, rev, updated_at AS at FROM tasks INDEXED BY tasks_by_type_and_status
                             WHERE task_type = ?1 AND status = ?2 AND (updated_at, id) > (?3, ?4) ORDER BY updated_at, id",
                        )
                        .bind::<Text, _>(task_type)
                        .bind::<Text, _>(status)
                        .bind::<BigInt, _>(at.0)
                        .bind::<Text, _>(task.to_string())
                        .load_at_most::<RevisionRow>(*limit, connection)?,
                    );
                }
            }
            first_of(rows, *limit)
        }
    };
    Ok(each(rows, RevisionRow::decode)?)
}

/// Of pages by their times, each of a part, the first page of all together.
fn first_of(mut rows: Vec<RevisionRow>, limit: u32) -> Vec<RevisionRow> {
    rows.sort_unstable_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    rows
}
