//! Names and values of labels, read from the index by which tasks are listed. Must not read a task.

use super::fault::Fault;
use super::prepared::Prepare;
use crate::columns::write_json;
use counterstep_kernel::ports::LabelQuery;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(Debug, QueryableByName)]
struct Read {
    #[diesel(sql_type = Text)]
    text: String,
}

// The index is walked from one name or value to the next, however many tasks have each, and no further than the limit.
const NAMES: &str = "WITH RECURSIVE known (text) AS (SELECT min(name) FROM task_labels WHERE tenant = ?1 AND name >= ?2
      UNION ALL SELECT (SELECT min(l.name) FROM task_labels l WHERE l.tenant = ?1 AND l.name > known.text)
      FROM known WHERE substr(known.text, 1, length(?2)) = ?2 LIMIT ?3)
    SELECT text FROM known WHERE substr(text, 1, length(?2)) = ?2";

const VALUES: &str = "WITH RECURSIVE known (text) AS (
      SELECT min(value) FROM task_labels WHERE tenant = ?1 AND name = ?4 AND value >= ?2
      UNION ALL SELECT (SELECT min(l.value) FROM task_labels l WHERE l.tenant = ?1 AND l.name = ?4 AND l.value > known.text)
      FROM known WHERE substr(known.text, 1, length(?2)) = ?2 LIMIT ?3)
    SELECT text FROM known WHERE substr(text, 1, length(?2)) = ?2";

const WITH: &str = "SELECT known.value AS text FROM json_each(?1) known WHERE EXISTS (
      SELECT 1 FROM task_labels l WHERE l.tenant = ?2 AND l.name = known.value AND l.value = ?3)";

pub(super) fn read(
    connection: &mut SqliteConnection,
    query: &LabelQuery,
) -> Result<Vec<String>, Fault> {
    let rows: Vec<Read> = match query {
        LabelQuery::Names {
            tenant,
            prefix,
            limit,
        } => diesel::sql_query(NAMES)
            .bind::<Text, _>(&tenant.0)
            .bind::<Text, _>(prefix)
            .bind::<BigInt, _>(i64::from(*limit))
            .prepared()
            .load(connection)?,
        LabelQuery::Values {
            tenant,
            name,
            prefix,
            limit,
        } => diesel::sql_query(VALUES)
            .bind::<Text, _>(&tenant.0)
            .bind::<Text, _>(prefix)
            .bind::<BigInt, _>(i64::from(*limit))
            .bind::<Text, _>(name)
            .prepared()
            .load(connection)?,
        LabelQuery::With {
            tenant,
            names,
            value,
        } => diesel::sql_query(WITH)
            .bind::<Text, _>(write_json(names)?)
            .bind::<Text, _>(&tenant.0)
            .bind::<Text, _>(value)
            .prepared()
            .load(connection)?,
    };
    Ok(rows.into_iter().map(|row| row.text).collect())
}
