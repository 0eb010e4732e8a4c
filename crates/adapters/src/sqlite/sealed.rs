//! Audit entries as they lie in their rows, for checking them. Must not make anything of what it reads: a column may hold
//! a value of another type than it should, and that must not end the check.

use counterstep_kernel::ports::{AuditHead, SealedEntry, SealedPage};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Nullable, Text};

/// Bytes, where they should be a text: what is none gets signs in it that stand for that, and so another hash.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[derive(Debug, QueryableByName)]
struct Entry {
    #[diesel(sql_type = Binary)]
    task: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = BigInt)]
    at: i64,
    #[diesel(sql_type = Binary)]
    change_id: Vec<u8>,
    #[diesel(sql_type = Binary)]
    event: Vec<u8>,
    #[diesel(sql_type = Nullable<Binary>)]
    from_status: Option<Vec<u8>>,
    #[diesel(sql_type = Binary)]
    to_status: Vec<u8>,
    #[diesel(sql_type = Nullable<BigInt>)]
    step: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    step_from: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    step_to: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<BigInt>)]
    attempt: Option<i64>,
    #[diesel(sql_type = BigInt)]
    epoch: i64,
    #[diesel(sql_type = Binary)]
    actor: Vec<u8>,
    #[diesel(sql_type = Binary)]
    details: Vec<u8>,
    #[diesel(sql_type = Nullable<Binary>)]
    link: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    seal: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Binary>)]
    head_status: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<BigInt>)]
    head_seq: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    head_seal: Option<Vec<u8>>,
}

const ENTRY: &str = "SELECT CAST(a.task AS BLOB) AS task, CAST(a.seq AS INTEGER) AS seq, CAST(a.at AS INTEGER) AS at,
    CAST(a.change_id AS BLOB) AS change_id, CAST(a.event AS BLOB) AS event,
    CAST(a.from_status AS BLOB) AS from_status, CAST(a.to_status AS BLOB) AS to_status,
    CAST(a.step AS INTEGER) AS step, CAST(a.step_from AS BLOB) AS step_from, CAST(a.step_to AS BLOB) AS step_to,
    CAST(a.attempt AS INTEGER) AS attempt, CAST(a.epoch AS INTEGER) AS epoch, CAST(a.actor AS BLOB) AS actor,
    CAST(a.details AS BLOB) AS details, CAST(a.link AS BLOB) AS link, CAST(a.seal AS BLOB) AS seal,
    CAST(t.status AS BLOB) AS head_status, CAST(t.audit_seq AS INTEGER) AS head_seq,
    CAST(t.audit_seal AS BLOB) AS head_seal
  FROM audit a LEFT JOIN tasks t ON t.id = a.task";

/// A page of entries, each with its task's row of the same moment.
pub(super) fn entries(connection: &mut SqliteConnection, page: &SealedPage) -> QueryResult<Vec<SealedEntry>> {
    let (after, seq) = page.after.clone().unwrap_or((String::new(), i64::MIN));
    let limit = i64::from(page.limit);
    let rows: Vec<Entry> = match &page.task {
        None => diesel::sql_query(format!("{ENTRY} WHERE (a.task, a.seq) > (?, ?) ORDER BY a.task, a.seq LIMIT ?"))
            .bind::<Text, _>(after)
            .bind::<BigInt, _>(seq)
            .bind::<BigInt, _>(limit)
            .load(connection)?,
        Some(task) => diesel::sql_query(format!("{ENTRY} WHERE a.task = ? AND a.seq > ? ORDER BY a.seq LIMIT ?"))
            .bind::<Text, _>(task)
            .bind::<BigInt, _>(seq)
            .bind::<BigInt, _>(limit)
            .load(connection)?,
    };
    Ok(rows.into_iter().map(decode).collect())
}

fn decode(row: Entry) -> SealedEntry {
    let task = text(row.task);
    let (status, seal) = (row.head_status.map(text), row.head_seal);
    let head = status.zip(row.head_seq);
    let head = head.map(|(status, seq)| AuditHead { task: task.clone(), status, seq, seal, has_entries: true });
    SealedEntry {
        seq: row.seq,
        at: DbTime(row.at),
        change_id: text(row.change_id),
        event: text(row.event),
        from: row.from_status.map(text),
        to: text(row.to_status),
        step: row.step,
        step_from: row.step_from.map(text),
        step_to: row.step_to.map(text),
        attempt: row.attempt,
        epoch: row.epoch,
        actor: text(row.actor),
        details: text(row.details),
        link: row.link,
        seal: row.seal,
        head,
        task,
    }
}

#[derive(Debug, QueryableByName)]
struct Head {
    #[diesel(sql_type = Binary)]
    id: Vec<u8>,
    #[diesel(sql_type = Binary)]
    status: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = Nullable<Binary>)]
    seal: Option<Vec<u8>>,
    #[diesel(sql_type = Bool)]
    has_entries: bool,
}

/// A page of what tasks' rows say of their audit.
pub(super) fn heads(connection: &mut SqliteConnection, page: &SealedPage) -> QueryResult<Vec<AuditHead>> {
    let rows: Vec<Head> = diesel::sql_query(
        "SELECT CAST(id AS BLOB) AS id, CAST(status AS BLOB) AS status, CAST(audit_seq AS INTEGER) AS seq,
            CAST(audit_seal AS BLOB) AS seal, EXISTS (SELECT 1 FROM audit WHERE audit.task = tasks.id) AS has_entries
         FROM tasks WHERE id > ?1 AND (?2 IS NULL OR id = ?2) ORDER BY id LIMIT ?3",
    )
    .bind::<Text, _>(page.after.as_ref().map_or("", |(task, _)| task.as_str()))
    .bind::<Nullable<Text>, _>(&page.task)
    .bind::<BigInt, _>(i64::from(page.limit))
    .load(connection)?;
    let head = |row: Head| AuditHead {
        task: text(row.id),
        status: text(row.status),
        seq: row.seq,
        seal: row.seal,
        has_entries: row.has_entries,
    };
    Ok(rows.into_iter().map(head).collect())
}
