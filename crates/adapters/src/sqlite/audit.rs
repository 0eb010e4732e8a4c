//! Queries on the table `audit`. Entries are only ever added.

use super::fault::{Fault, parse, parse_some, read_json, write_json};
use super::schema::audit;
use counterstep_contracts::{Attempt, AuditSeq, ChangeId, Epoch, StepNo, TaskId};
use counterstep_kernel::audit::{self as chain, Link, Seal};
use counterstep_kernel::record::{AuditRow, DbTime};
use counterstep_kernel::transition::AuditEntry;
use diesel::SqliteConnection;
use diesel::prelude::*;

#[derive(Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = audit, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    task: String,
    seq: i64,
    at: i64,
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
    change_id: String,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

impl Columns {
    fn decode(self) -> Result<AuditRow, Fault> {
        let entry = AuditEntry {
            seq: AuditSeq(self.seq),
            event: self.event,
            from: parse_some("audit.from_status", self.from_status.as_deref())?,
            to: parse("audit.to_status", &self.to_status)?,
            step: self.step.map(StepNo),
            step_from: parse_some("audit.step_from", self.step_from.as_deref())?,
            step_to: parse_some("audit.step_to", self.step_to.as_deref())?,
            attempt: self.attempt.map(Attempt),
            epoch: Epoch(self.epoch),
            actor: self.actor,
            details: read_json("audit.details", &self.details)?,
            link: self.link.map(Link),
        };
        let change_id: ChangeId = parse("audit.change_id", &self.change_id)?;
        Ok(AuditRow { seq: entry.seq, change_id, at: DbTime(self.at), seal: self.seal.map(Seal), entry })
    }
}

/// The seal of an entry that is written at this time.
pub(super) fn seal(entry: &AuditEntry, at: i64) -> Option<Vec<u8>> {
    entry.link.as_ref().map(|link| chain::seal(&link.0, DbTime(at)).0)
}

/// Adds an entry.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    task: TaskId,
    change: ChangeId,
    at: i64,
    entry: &AuditEntry,
) -> Result<(), Fault> {
    let row = Columns {
        task: task.to_string(),
        seq: entry.seq.0,
        at,
        event: entry.event.clone(),
        from_status: entry.from.map(|status| status.as_str().to_owned()),
        to_status: entry.to.as_str().to_owned(),
        step: entry.step.map(|no| no.0),
        step_from: entry.step_from.map(|status| status.as_str().to_owned()),
        step_to: entry.step_to.map(|status| status.as_str().to_owned()),
        attempt: entry.attempt.map(|number| number.0),
        epoch: entry.epoch.0,
        actor: entry.actor.clone(),
        details: write_json(&entry.details)?,
        change_id: change.to_string(),
        link: entry.link.as_ref().map(|link| link.0.clone()),
        seal: seal(entry, at),
    };
    diesel::insert_into(audit::table).values(&row).execute(connection)?;
    Ok(())
}

/// The entries of a task, in order.
pub(super) fn of(connection: &mut SqliteConnection, task: TaskId) -> Result<Vec<AuditRow>, Fault> {
    let rows = audit::table.filter(audit::task.eq(task.to_string())).order(audit::seq).select(Columns::as_select());
    rows.load(connection)?.into_iter().map(Columns::decode).collect()
}
