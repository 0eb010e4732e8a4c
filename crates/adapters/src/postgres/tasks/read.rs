//! Loading tasks with their journals from their two tables, and what the columns say. Must not
//! repair what cannot be read, nor hide one task because of another.

use crate::columns::read_labels;
use crate::postgres::fault::{
    Care, Content, Fault, content, count, goal, parse, parse_some, read_some_json,
};
use crate::postgres::journal;
use crate::postgres::statement::{Statement, replicated, some_time, time, values};
use counterstep_contracts::{AuditSeq, ChangeId, Epoch, Rev, TaskId, Tenant};
use counterstep_kernel::audit::EntryHash;
use counterstep_kernel::journal::JournalRow;
use counterstep_kernel::ports::{LoadFor, Loaded};
use counterstep_kernel::record::{TaskRecord, TaskRow};
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use std::collections::HashMap;
use uuid::Uuid;

type SomeBig = sql::Nullable<sql::BigInt>;
type SomeBool = sql::Nullable<sql::Bool>;
type SomeUuid = sql::Nullable<sql::Uuid>;
type SomeTime = sql::Nullable<sql::Timestamptz>;
type SomeText = sql::Nullable<sql::Text>;
type SomeBytes = sql::Nullable<sql::Binary>;

/// The columns of a row as [`load`] selects them.
pub(in super::super) type TaskTypes = (
    (
        sql::Uuid,
        SomeText,
        SomeText,
        SomeBig,
        SomeText,
        SomeText,
        SomeText,
        SomeText,
        SomeText,
        SomeBig,
    ),
    (
        SomeBig,
        SomeText,
        SomeTime,
        SomeTime,
        SomeTime,
        SomeTime,
        SomeText,
        SomeBig,
        SomeBig,
        SomeBytes,
    ),
    (
        SomeText,
        SomeBool,
        SomeText,
        SomeText,
        SomeTime,
        SomeTime,
        SomeTime,
        SomeTime,
        SomeUuid,
        SomeTime,
    ),
    journal::JournalRowTypes,
);

/// A row as [`load`] reads it: a task's, or one of its journal, which has the task's id and nothing
/// else of it. In four parts because a tuple has its limits.
pub(in super::super) type TaskRead = (Identity, Progress, End, journal::JournalRowRead);

#[derive(Debug, Queryable)]
pub(in super::super) struct Identity {
    id: Uuid,
    tenant: Option<String>,
    task_type: Option<String>,
    version: Option<i64>,
    definition_hash: Option<String>,
    status: Option<String>,
    waiting: Option<String>,
    host: Option<String>,
    queue: Option<String>,
    rev: Option<i64>,
}

#[derive(Debug, Queryable)]
pub(in super::super) struct Progress {
    epoch: Option<i64>,
    lease_owner: Option<String>,
    lease_expires_at: Option<PgTimestamp>,
    due_at: Option<PgTimestamp>,
    deadline_at: Option<PgTimestamp>,
    cancel_requested_at: Option<PgTimestamp>,
    goal: Option<String>,
    recovery_attempts: Option<i64>,
    audit_seq: Option<i64>,
    audit_seal: Option<Vec<u8>>,
}

#[derive(Debug, Queryable)]
pub(in super::super) struct End {
    failure: Option<String>,
    residue: Option<bool>,
    traceparent: Option<String>,
    labels: Option<String>,
    created_at: Option<PgTimestamp>,
    updated_at: Option<PgTimestamp>,
    finished_at: Option<PgTimestamp>,
    sweep_at: Option<PgTimestamp>,
    change_id: Option<Uuid>,
    now: Option<PgTimestamp>,
}

/// Tasks and their journals, in one query: two would see a task before a commit and its journal
/// after it. In no order; one that is not there has no row.
// Not a join, which would send the task once more with each row; and an array for each column of
// the journal costs more than all else in this query.
macro_rules! load {
    ($data:literal) => {
        load!($data, "", "")
    };
    ($data:literal, $before:expr, $and:literal) => {
        concat!(
            $before,
            "SELECT id, tenant, task_type, version, definition_hash, status, waiting, host, queue, rev,
            epoch, lease_owner, lease_expires_at, due_at, deadline_at, cancel_requested_at, goal, recovery_attempts,
            audit_seq, audit_seal,
            failure, residue, traceparent, labels::text, created_at, updated_at, finished_at, sweep_at, change_id, now(),
            NULL::bigint, NULL::bigint, NULL::timestamptz, NULL::uuid, NULL, NULL::integer, NULL, NULL, NULL::bytea,
            NULL::bytea
         FROM tasks WHERE id = ANY(?)",
            $and,
            " UNION ALL
         SELECT task, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            rev, epoch, at, change_id, actor, form, entries, ",
            $data,
            ", link, seal
         FROM journal WHERE task = ANY(?)"
        )
    };
}

pub(in super::super) fn load(tasks: Vec<Uuid>, purpose: LoadFor) -> Statement<'static, TaskTypes> {
    let text = match purpose {
        LoadFor::State => load!("NULL"),
        LoadFor::Look | LoadFor::Run | LoadFor::Salvage => load!("data"),
        LoadFor::Confirm => load!(
            "data",
            concat!(
                "WITH replicated AS MATERIALIZED (SELECT ",
                replicated!(),
                " AS held) "
            ),
            " AND (SELECT r.held FROM replicated r)"
        ),
    };
    Statement::of(text, values![tasks.clone(), tasks])
}

/// What [`load`] has read, task by task. One that cannot be read is no trouble of the others.
pub(in super::super) fn decode(
    rows: Vec<TaskRead>,
    purpose: impl Fn(TaskId) -> LoadFor,
) -> HashMap<TaskId, Result<Loaded, Fault>> {
    let mut tasks = Vec::new();
    let mut journals: HashMap<Uuid, Vec<JournalRow>> = HashMap::new();
    for (identity, progress, end, row) in rows {
        match journal::decode(row) {
            Some(row) => journals.entry(identity.id).or_default().push(row),
            None => tasks.push((identity, progress, end)),
        }
    }
    let one = |(identity, progress, end): (Identity, Progress, End)| {
        let mut journal = journals.remove(&identity.id).unwrap_or_default();
        journal.sort_unstable_by_key(|row| row.rev);
        let task = TaskId(identity.id);
        let mut care = Care::of(purpose(task));
        let record = record(identity, progress, end, &journal, &mut care);
        (task, record.map(|record| care.loaded(record)))
    };
    tasks.into_iter().map(one).collect()
}

/// What is never NULL in a row.
fn there<T>(column: &str, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::Corrupt(format!("tasks.{column}: nothing is there")))
}

fn record(
    identity: Identity,
    progress: Progress,
    end: End,
    journal: &[JournalRow],
    care: &mut Care,
) -> Result<TaskRecord, Fault> {
    let (id, rev) = (TaskId(identity.id), Rev(there("rev", identity.rev)?));
    let Content {
        request,
        client_key,
        response,
        parent,
        webhook,
        earlier_requests,
        place_key,
        place_no,
        settled,
        steps,
        marks,
        payload_key,
        instead,
    } = content(id, rev, journal, care)?;
    let instead_goal = instead.goal(progress.cancel_requested_at.is_some());
    let task = TaskRow {
        id,
        tenant: Tenant(there("tenant", identity.tenant)?),
        task_type: there("task_type", identity.task_type)?,
        version: count("version", there("version", identity.version)?)?,
        definition_hash: there("definition_hash", identity.definition_hash)?,
        status: parse("status", &there("status", identity.status)?)?,
        waiting: care.or(
            parse_some("waiting", identity.waiting.as_deref()),
            instead.waiting,
        )?,
        host: care.or(parse("host", &there("host", identity.host)?), instead.host)?,
        queue: there("queue", identity.queue)?,
        rev,
        epoch: Epoch(there("epoch", progress.epoch)?),
        lease_owner: progress.lease_owner,
        lease_expires_at: some_time(progress.lease_expires_at),
        due_at: some_time(progress.due_at),
        deadline_at: some_time(progress.deadline_at),
        cancel_requested_at: some_time(progress.cancel_requested_at),
        goal: care.or(goal(progress.goal.as_deref()), instead_goal)?,
        recovery_attempts: care.or(
            count(
                "recovery_attempts",
                there("recovery_attempts", progress.recovery_attempts)?,
            ),
            instead.recovery_attempts,
        )?,
        audit_seq: AuditSeq(there("audit_seq", progress.audit_seq)?),
        audit_seal: progress.audit_seal.map(EntryHash),
        request,
        client_key,
        response,
        failure: care.or(
            read_some_json("failure", end.failure.as_deref()),
            instead.failure,
        )?,
        residue: there("residue", end.residue)?,
        traceparent: end.traceparent,
        labels: care.or(read_labels(end.labels.as_deref()), instead.labels)?,
        parent,
        webhook,
        earlier_requests,
        place_key,
        place_no,
        settled,
        created_at: time(there("created_at", end.created_at)?),
        updated_at: time(there("updated_at", end.updated_at)?),
        finished_at: some_time(end.finished_at),
        sweep_at: some_time(end.sweep_at),
        change_id: ChangeId(there("change_id", end.change_id)?),
    };
    Ok(TaskRecord {
        task: Box::new(task),
        steps,
        marks,
        payload_key,
        now: time(there("now", end.now)?),
    })
}
