//! Queries on the table `tasks`. Must not judge a change: what it is handed is written.

mod find;
mod list;
mod touch;

pub(super) use find::{find, in_flight, known};
pub(super) use list::{lines, list, successors};
pub(super) use touch::touch;

use super::fault::{
    Care, Fault, Instead, count, goal, parse, parse_some, read_some_json, write_json,
};
use super::prepared::{Prepare, Statement};
use super::schema::tasks;
use crate::columns::{read_labels, write_labels};
use counterstep_contracts::{AuditSeq, ChangeId, Epoch, Rev, TaskId, Tenant};
use counterstep_kernel::audit::EntryHash;
use counterstep_kernel::record::TaskRow;
use counterstep_steps::guard;
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use serde_json::Value;
use uuid::Uuid;

/// A row, column by column.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = tasks, check_for_backend(diesel::sqlite::Sqlite))]
pub(super) struct Columns {
    pub(super) id: String,
    pub(super) tenant: String,
    pub(super) task_type: String,
    pub(super) version: i64,
    pub(super) definition_hash: String,
    pub(super) status: String,
    pub(super) waiting: Option<String>,
    pub(super) host: String,
    pub(super) queue: String,
    pub(super) rev: i64,
    pub(super) epoch: i64,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) deadline_at: Option<i64>,
    pub(super) cancel_requested_at: Option<i64>,
    pub(super) goal: Option<String>,
    pub(super) recovery_attempts: i64,
    pub(super) audit_seq: i64,
    pub(super) audit_seal: Option<Vec<u8>>,
    pub(super) failure: Option<String>,
    pub(super) residue: bool,
    pub(super) traceparent: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) finished_at: Option<i64>,
    pub(super) sweep_at: Option<i64>,
    pub(super) change_id: String,
}

impl Columns {
    /// The columns of a row, its times included.
    pub(super) fn encode(row: &TaskRow) -> Result<Self, Fault> {
        let micros = |time: Option<DbTime>| time.map(|time| time.0);
        Ok(Self {
            id: row.id.to_string(),
            tenant: row.tenant.0.clone(),
            task_type: row.task_type.clone(),
            version: row.version.into(),
            definition_hash: row.definition_hash.clone(),
            status: row.status.as_str().to_owned(),
            waiting: row.waiting.map(|reason| reason.as_str().to_owned()),
            host: row.host.as_str().to_owned(),
            queue: row.queue.clone(),
            rev: row.rev.0,
            epoch: row.epoch.0,
            lease_owner: row.lease_owner.clone(),
            lease_expires_at: micros(row.lease_expires_at),
            due_at: micros(row.due_at),
            deadline_at: micros(row.deadline_at),
            cancel_requested_at: micros(row.cancel_requested_at),
            goal: row.goal.map(|goal| goal.status().as_str().to_owned()),
            recovery_attempts: row.recovery_attempts.into(),
            audit_seq: row.audit_seq.0,
            audit_seal: row.audit_seal.as_ref().map(|seal| seal.0.clone()),
            failure: row.failure.as_ref().map(write_json).transpose()?,
            residue: row.residue,
            traceparent: row.traceparent.clone(),
            labels: write_labels(&row.labels)?,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
            finished_at: micros(row.finished_at),
            sweep_at: micros(row.sweep_at),
            change_id: row.change_id.to_string(),
        })
    }

    /// The row that the columns say, without what its journal alone says.
    pub(super) fn decode(self, instead: Instead, care: &mut Care) -> Result<TaskRow, Fault> {
        let instead_goal = instead.goal(self.cancel_requested_at.is_some());
        Ok(TaskRow {
            id: parse("id", &self.id)?,
            tenant: Tenant(self.tenant),
            task_type: self.task_type,
            version: count("version", self.version)?,
            definition_hash: self.definition_hash,
            status: parse("status", &self.status)?,
            waiting: care.or(
                parse_some("waiting", self.waiting.as_deref()),
                instead.waiting,
            )?,
            host: care.or(parse("host", &self.host), instead.host)?,
            queue: self.queue,
            rev: Rev(self.rev),
            epoch: Epoch(self.epoch),
            lease_owner: self.lease_owner,
            lease_expires_at: self.lease_expires_at.map(DbTime),
            due_at: self.due_at.map(DbTime),
            deadline_at: self.deadline_at.map(DbTime),
            cancel_requested_at: self.cancel_requested_at.map(DbTime),
            goal: care.or(goal(self.goal.as_deref()), instead_goal)?,
            recovery_attempts: care.or(
                count("recovery_attempts", self.recovery_attempts),
                instead.recovery_attempts,
            )?,
            audit_seq: AuditSeq(self.audit_seq),
            audit_seal: self.audit_seal.map(EntryHash),
            request: Value::Null,
            client_key: None,
            response: None,
            failure: care.or(
                read_some_json("failure", self.failure.as_deref()),
                instead.failure,
            )?,
            residue: self.residue,
            traceparent: self.traceparent,
            labels: care.or(read_labels(self.labels.as_deref()), instead.labels)?,
            parent: None,
            webhook: None,
            place_key: None,
            place_no: None,
            settled: None,
            earlier_requests: Vec::new(),
            created_at: DbTime(self.created_at),
            updated_at: DbTime(self.updated_at),
            finished_at: self.finished_at.map(DbTime),
            sweep_at: self.sweep_at.map(DbTime),
            change_id: care.or(parse("change_id", &self.change_id), ChangeId(Uuid::nil()))?,
        })
    }
}

/// What a guard and the times of a change are compared with.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = tasks, check_for_backend(diesel::sqlite::Sqlite))]
pub(super) struct Head {
    pub(super) rev: i64,
    pub(super) epoch: i64,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) deadline_at: Option<i64>,
    pub(super) cancel_requested_at: Option<i64>,
    pub(super) created_at: i64,
    pub(super) finished_at: Option<i64>,
}

pub(super) fn head(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<Option<Head>> {
    tasks::table
        .find(task.to_string())
        .select(Head::as_select())
        .get_result(connection)
        .optional()
}

/// A task's row.
pub(super) fn load(
    connection: &mut SqliteConnection,
    task: TaskId,
) -> QueryResult<Option<Columns>> {
    tasks::table
        .find(task.to_string())
        .select(Columns::as_select())
        .get_result(connection)
        .optional()
}

pub(super) fn insert(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    diesel::insert_into(tasks::table)
        .values(row)
        .execute(connection)?;
    if row.labels.is_some() {
        let text = "INSERT INTO task_labels (tenant, name, value, task)
            SELECT ?, l.key, l.value, ? FROM json_each(?) l";
        let values = [(&row.tenant).into(), (&row.id).into(), (&row.labels).into()];
        Statement { text, values }.execute(connection)?;
    }
    Ok(())
}

/// The guard was checked in the same transaction, which holds the write lock: no other write can
/// have come between. What never changes after the submission is not written again. A claim is such a change: one that takes a
/// lease of a later epoch.
pub(super) fn update(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    let text = "UPDATE tasks SET status = ?, waiting = ?, host = ?, queue = ?, rev = ?, epoch = ?, lease_owner = ?,
        lease_expires_at = ?, due_at = ?, deadline_at = ?, cancel_requested_at = ?, goal = ?, recovery_attempts = ?,
        audit_seq = ?, audit_seal = ?, failure = ?, updated_at = ?, finished_at = ?, sweep_at = ?, residue = ?,
        change_id = ? WHERE id = ?";
    let values = [
        (&row.status).into(),
        (&row.waiting).into(),
        (&row.host).into(),
        (&row.queue).into(),
        row.rev.into(),
        row.epoch.into(),
        (&row.lease_owner).into(),
        row.lease_expires_at.into(),
        row.due_at.into(),
        row.deadline_at.into(),
        row.cancel_requested_at.into(),
        (&row.goal).into(),
        row.recovery_attempts.into(),
        row.audit_seq.into(),
        (&row.audit_seal).into(),
        (&row.failure).into(),
        row.updated_at.into(),
        row.finished_at.into(),
        row.sweep_at.into(),
        row.residue.into(),
        (&row.change_id).into(),
        (&row.id).into(),
    ];
    Statement { text, values }.execute(connection).map(drop)
}

/// The labels in a task's row, which cannot be read. Those by which it is found are rows of their own, and stay.
pub(super) fn relabel(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    let text = "UPDATE tasks SET labels = ? WHERE id = ?";
    let values = [(&row.labels).into(), (&row.id).into()];
    Statement { text, values }.execute(connection).map(drop)
}

/// Prolongs a lease; gives `cancel_requested_at` back, or `None` where the epoch has moved on.
pub(super) fn prolong(
    connection: &mut SqliteConnection,
    task: TaskId,
    epoch: Epoch,
    until: i64,
) -> QueryResult<Option<Option<i64>>> {
    let epoch = match guard!("epoch of a heartbeat", false) {
        true => head(connection, task)?.map_or(epoch, |head| Epoch(head.epoch)),
        false => epoch,
    };
    let held = tasks::table
        .find(task.to_string())
        .filter(tasks::epoch.eq(epoch.0))
        .filter(tasks::lease_owner.is_not_null());
    diesel::update(held)
        .set(tasks::lease_expires_at.eq(until))
        .returning(tasks::cancel_requested_at)
        .prepared()
        .get_result(connection)
        .optional()
}

/// Ids, as queries compare them: a JSON list.
pub(super) fn id_list(tasks: &[TaskId]) -> String {
    let texts: Vec<String> = tasks.iter().map(TaskId::to_string).collect();
    serde_json::json!(texts).to_string()
}
