//! The table `audit`. Entries are only ever added.

use super::fault::{Fault, name, parse, parse_some, read_json, write_json};
use super::statement::{Statement, Str, rows_of, time, values};
use counterstep_contracts::{Attempt, AuditSeq, ChangeId, Epoch, StepNo, TaskId};
use counterstep_kernel::audit::{Link, Seal};
use counterstep_kernel::record::AuditRow;
use counterstep_kernel::transition::{AuditEntry, Transition};
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

// The time is the server's own, so the seal is made where it is known.
const INSERT: &str = ", audit_added AS (INSERT INTO audit
    (task, seq, at, event, from_status, to_status, step, step_from, step_to, attempt, epoch, actor, details, change_id,
     link, seal)
  SELECT u.task, u.seq, now(), u.event, u.from_status, u.to_status, u.step, u.step_from, u.step_to, u.attempt,
     u.epoch, u.actor, u.details, u.change_id, u.link, sha256(u.link || timestamptz_send(now()))
  FROM ok, ";

const AS: &str = " AS u (task, change_id, seq, event, from_status, to_status, step, step_from, step_to,
     attempt, epoch, actor, details, link) WHERE ok.every)";

/// Adds entries.
pub(super) fn insert<'a, Row>(statement: &mut Statement<'a, Row>, changes: &[&'a Transition]) -> Result<(), Fault> {
    let ((tasks, changes), entries) = rows_of(changes, |change| change.audit.iter());
    if entries.is_empty() {
        return Ok(());
    }
    let events = entries.iter().map(|entry| name("audit.event", &entry.event)).collect::<Result<Vec<_>, _>>()?;
    let actors = entries.iter().map(|entry| name("audit.actor", &entry.actor)).collect::<Result<Vec<_>, _>>()?;
    let details = entries.iter().map(|entry| write_json(&entry.details)).collect::<Result<Vec<Str<'a>>, _>>()?;
    let binds = values![
        tasks,
        changes,
        entries.iter().map(|entry| entry.seq.0).collect::<Vec<_>>(),
        events,
        entries.iter().map(|entry| entry.from.map(|status| status.as_str().into())).collect::<Vec<Option<Str<'a>>>>(),
        entries.iter().map(|entry| entry.to.as_str().into()).collect::<Vec<Str<'a>>>(),
        entries.iter().map(|entry| entry.step.map(|no| no.0)).collect::<Vec<_>>(),
        entries.iter().map(|entry| entry.step_from.map(|s| s.as_str().into())).collect::<Vec<Option<Str<'a>>>>(),
        entries.iter().map(|entry| entry.step_to.map(|s| s.as_str().into())).collect::<Vec<Option<Str<'a>>>>(),
        entries.iter().map(|entry| entry.attempt.map(|number| number.0)).collect::<Vec<_>>(),
        entries.iter().map(|entry| entry.epoch.0).collect::<Vec<_>>(),
        actors,
        details,
        entries.iter().map(|entry| entry.link.as_ref().map(|link| link.0.clone())).collect::<Vec<_>>(),
    ];
    statement.push_table(INSERT, entries.len(), binds, AS);
    Ok(())
}

type SomeText = sql::Nullable<sql::Text>;
type SomeInt = sql::Nullable<sql::Integer>;
type SomeBytes = sql::Nullable<sql::Binary>;

/// The columns of [`Read`].
pub(super) type Types = (
    sql::BigInt,
    sql::Timestamptz,
    sql::Text,
    SomeText,
    sql::Text,
    SomeInt,
    SomeText,
    SomeText,
    SomeInt,
    sql::BigInt,
    sql::Text,
    sql::Text,
    sql::Uuid,
    SomeBytes,
    SomeBytes,
);

/// An entry, column by column.
#[derive(Debug, Queryable)]
pub(super) struct Read {
    seq: i64,
    at: PgTimestamp,
    event: String,
    from_status: Option<String>,
    to_status: String,
    step: Option<i32>,
    step_from: Option<String>,
    step_to: Option<String>,
    attempt: Option<i32>,
    epoch: i64,
    actor: String,
    details: String,
    change_id: Uuid,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

/// The entries of a task, in order.
pub(super) fn of(task: TaskId) -> Statement<'static, Types> {
    Statement::of(
        "SELECT seq, at, event, from_status, to_status, step, step_from, step_to, attempt, epoch, actor, details,
            change_id, link, seal
         FROM audit WHERE task = ? ORDER BY seq",
        values![task.0],
    )
}

/// What [`of`] has read.
pub(super) fn decode(read: Read) -> Result<AuditRow, Fault> {
    let entry = AuditEntry {
        seq: AuditSeq(read.seq),
        event: read.event,
        from: parse_some("audit.from_status", read.from_status.as_deref())?,
        to: parse("audit.to_status", &read.to_status)?,
        step: read.step.map(StepNo),
        step_from: parse_some("audit.step_from", read.step_from.as_deref())?,
        step_to: parse_some("audit.step_to", read.step_to.as_deref())?,
        attempt: read.attempt.map(Attempt),
        epoch: Epoch(read.epoch),
        actor: read.actor,
        details: read_json("audit.details", &read.details)?,
        link: read.link.map(Link),
    };
    let (change_id, seal) = (ChangeId(read.change_id), read.seal.map(Seal));
    Ok(AuditRow { seq: entry.seq, change_id, at: time(read.at), seal, entry })
}
