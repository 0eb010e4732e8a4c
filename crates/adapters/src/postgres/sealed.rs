//! Audit entries as they lie in their rows, for checking them. Must not make anything of what it reads.

use super::fault::Fault;
use super::statement::{Statement, time, values};
use counterstep_kernel::ports::{AuditHead, SealedEntry, SealedPage};
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

type SomeText = sql::Nullable<sql::Text>;
type SomeInt = sql::Nullable<sql::Integer>;
type SomeBytes = sql::Nullable<sql::Binary>;

/// The columns of an entry, and of its task's row.
pub(super) type Types = (
    (sql::Uuid, sql::BigInt, sql::Timestamptz, sql::Uuid, sql::Text, SomeText, sql::Text),
    (SomeInt, SomeText, SomeText, SomeInt, sql::BigInt, sql::Text, sql::Text, SomeBytes, SomeBytes),
    (SomeText, sql::Nullable<sql::BigInt>, SomeBytes),
);

/// An entry, column by column, in three parts because a tuple has its limits.
pub(super) type Read = (Named, Said, (Option<String>, Option<i64>, Option<Vec<u8>>));

#[derive(Debug, Queryable)]
pub(super) struct Named {
    task: Uuid,
    seq: i64,
    at: PgTimestamp,
    change_id: Uuid,
    event: String,
    from_status: Option<String>,
    to_status: String,
}

#[derive(Debug, Queryable)]
pub(super) struct Said {
    step: Option<i32>,
    step_from: Option<String>,
    step_to: Option<String>,
    attempt: Option<i32>,
    epoch: i64,
    actor: String,
    details: String,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

fn id(text: &str) -> Result<Uuid, Fault> {
    Uuid::try_parse(text).map_err(|error| Fault::Corrupt(format!("`{text}` is no task's id: {error}")))
}

/// A page of entries, each with its task's row of the same moment.
pub(super) fn entries(page: &SealedPage) -> Result<Statement<'static, Types>, Fault> {
    let (after, seq) = match &page.after {
        Some((task, seq)) => (id(task)?, *seq),
        None => (Uuid::nil(), i64::MIN),
    };
    let limit = i64::from(page.limit);
    Ok(match &page.task {
        None => Statement::of(
            "SELECT a.task, a.seq, a.at, a.change_id, a.event, a.from_status, a.to_status,
                a.step, a.step_from, a.step_to, a.attempt, a.epoch, a.actor, a.details, a.link, a.seal,
                t.status, t.audit_seq, t.audit_seal
             FROM audit a LEFT JOIN tasks t ON t.id = a.task
             WHERE (a.task, a.seq) > (?, ?) ORDER BY a.task, a.seq LIMIT ?",
            values![after, seq, limit],
        ),
        Some(task) => Statement::of(
            "SELECT a.task, a.seq, a.at, a.change_id, a.event, a.from_status, a.to_status,
                a.step, a.step_from, a.step_to, a.attempt, a.epoch, a.actor, a.details, a.link, a.seal,
                t.status, t.audit_seq, t.audit_seal
             FROM audit a LEFT JOIN tasks t ON t.id = a.task
             WHERE a.task = ? AND a.seq > ? ORDER BY a.seq LIMIT ?",
            values![id(task)?, seq, limit],
        ),
    })
}

/// What [`entries`] has read.
pub(super) fn decode((named, said, (status, seq, seal)): Read) -> SealedEntry {
    let task = named.task.as_hyphenated().to_string();
    let head =
        status.zip(seq).map(|(status, seq)| AuditHead { task: task.clone(), status, seq, seal, has_entries: true });
    SealedEntry {
        seq: named.seq,
        at: time(named.at),
        change_id: named.change_id.as_hyphenated().to_string(),
        event: named.event,
        from: named.from_status,
        to: named.to_status,
        step: said.step.map(i64::from),
        step_from: said.step_from,
        step_to: said.step_to,
        attempt: said.attempt.map(i64::from),
        epoch: said.epoch,
        actor: said.actor,
        details: said.details,
        link: said.link,
        seal: said.seal,
        head,
        task,
    }
}

/// The columns of a head.
pub(super) type HeadTypes = (sql::Uuid, sql::Text, sql::BigInt, SomeBytes, sql::Bool);

/// A head, column by column.
pub(super) type HeadRead = (Uuid, String, i64, Option<Vec<u8>>, bool);

/// A page of what tasks' rows say of their audit.
// Of an `EXISTS` the server may make a table of all its rows first.
pub(super) fn heads(page: &SealedPage) -> Result<Statement<'static, HeadTypes>, Fault> {
    let after = page.after.as_ref().map_or(Ok(Uuid::nil()), |(task, _)| id(task))?;
    let limit = i64::from(page.limit);
    Ok(match &page.task {
        None => Statement::of(
            "SELECT id, status, audit_seq, audit_seal, (SELECT TRUE FROM audit WHERE audit.task = tasks.id LIMIT 1) IS NOT NULL
             FROM tasks WHERE id > ? ORDER BY id LIMIT ?",
            values![after, limit],
        ),
        Some(task) => Statement::of(
            "SELECT id, status, audit_seq, audit_seal, (SELECT TRUE FROM audit WHERE audit.task = tasks.id LIMIT 1) IS NOT NULL
             FROM tasks WHERE id = ? AND id > ? LIMIT ?",
            values![id(task)?, after, limit],
        ),
    })
}

/// What [`heads`] has read.
pub(super) fn decode_head((task, status, seq, seal, has_entries): HeadRead) -> AuditHead {
    AuditHead { task: task.as_hyphenated().to_string(), status, seq, seal, has_entries }
}
