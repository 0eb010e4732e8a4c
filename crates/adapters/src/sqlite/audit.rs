//! Rows of journals as they lie there, for checking them. Must not make anything of what it reads:
//! a column may hold a value of another type than it should, and that must not end the check.

use super::prepared::Prepare;
use crate::rows::{ChainRead, TipRow};
use counterstep_kernel::ports::{ChainRow, ChainTip, JournalPage};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

/// Bytes, where they should be a text. What is none has all its bytes behind the signs that stand
/// for them: else a text that had such a sign from the start could be changed into bytes that read
/// the same.
pub(super) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.as_bytes();
        format!(
            "{} (these bytes are no text: {bytes:02x?})",
            String::from_utf8_lossy(bytes)
        )
    })
}

const ROW: &str = "SELECT CAST(j.task AS BLOB) AS task, CAST(j.rev AS INTEGER) AS rev, CAST(j.at AS INTEGER) AS at,
    CAST(j.change_id AS BLOB) AS change_id, CAST(j.epoch AS INTEGER) AS epoch, CAST(j.actor AS BLOB) AS actor,
    CAST(j.form AS INTEGER) AS form, CAST(j.entries AS BLOB) AS entries, CAST(j.data AS BLOB) AS data,
    CAST(j.link AS BLOB) AS link, CAST(j.seal AS BLOB) AS seal,
    CAST(t.status AS BLOB) AS head_status, CAST(t.rev AS INTEGER) AS head_rev, CAST(t.audit_seal AS BLOB) AS head_seal
  FROM journal j LEFT JOIN tasks t ON t.id = j.task";

/// A page of rows, each with its task's row of the same moment.
pub(super) fn rows(
    connection: &mut SqliteConnection,
    page: &JournalPage,
) -> QueryResult<Vec<ChainRow>> {
    let (after, rev) = page.after.clone().unwrap_or((String::new(), i64::MIN));
    let rows: Vec<ChainRead> = match &page.task {
        None => diesel::sql_query(format!(
            "{ROW} WHERE (j.task, j.rev) > (?, ?) ORDER BY j.task, j.rev"
        ))
        .bind::<Text, _>(after)
        .bind::<BigInt, _>(rev)
        .load_at_most(page.limit, connection)?,
        Some(task) => diesel::sql_query(format!(
            "{ROW} WHERE j.task = ? AND j.rev > ? ORDER BY j.rev"
        ))
        .bind::<Text, _>(task)
        .bind::<BigInt, _>(rev)
        .load_at_most(page.limit, connection)?,
    };
    Ok(rows.into_iter().map(ChainRead::decode).collect())
}

const CHAIN_TIP: &str = "SELECT CAST(t.id AS BLOB) AS id, CAST(t.status AS BLOB) AS status,
    CAST(t.rev AS INTEGER) AS rev, CAST(t.audit_seal AS BLOB) AS seal,
    EXISTS (SELECT 1 FROM journal WHERE journal.task = t.id) AS has_rows FROM tasks t";

/// A page of what tasks' rows say of their journal.
pub(super) fn chain_tips(
    connection: &mut SqliteConnection,
    page: &JournalPage,
) -> QueryResult<Vec<ChainTip>> {
    let after = page.after.as_ref().map_or("", |(task, _)| task.as_str());
    // By the table's own column: `ORDER BY id` would be that of the cast, which no index is in the
    // order of.
    let rows: Vec<TipRow> = match &page.task {
        None => diesel::sql_query(format!("{CHAIN_TIP} WHERE t.id > ? ORDER BY t.id"))
            .bind::<Text, _>(after)
            .load_at_most(page.limit, connection)?,
        Some(task) => diesel::sql_query(format!("{CHAIN_TIP} WHERE t.id = ? AND t.id > ?"))
            .bind::<Text, _>(task)
            .bind::<Text, _>(after)
            .load_at_most(page.limit, connection)?,
    };
    Ok(rows.into_iter().map(TipRow::decode).collect())
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn bytes_that_are_no_text_read_like_no_other_ones() {
        let original = "what it said: \u{fffd}!".as_bytes().to_vec();
        let mut changed = original.clone();
        let at = changed
            .iter()
            .position(|&byte| byte == 0xef)
            .expect("the sign's first byte");
        for byte in [0xf0, 0xf1, 0xf2, 0xf3, 0xff] {
            changed[at] = byte;
            assert_ne!(text(changed.clone()), text(original.clone()));
        }
        assert_eq!(text(original.clone()).as_bytes(), original);
    }
}
