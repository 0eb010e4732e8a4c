//! Statements on the table `tasks`, and what they read. Must not judge a change: what it is handed is written.

use super::fault::{Fault, count, name, parse, parse_some, read_json, words, write_json};
use super::statement::{Bind, Statement, Str, interval, some_time, time, values};
use super::steps;
use counterstep_contracts::{AuditSeq, ChangeId, Epoch, Rev, TaskId, TaskStatus, Tenant};
use counterstep_kernel::record::{TaskRecord, TaskRow, UndoGoal};
use counterstep_kernel::transition::{Guard, LeaseChange, TaskWrite, Time};
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

/// First piece of a commit: the guarded row. The pieces behind it take the task from `t`, so that a guard that does not
/// hold leaves them nothing to write. Two writers of one task stand in line at its row, and the second one's condition
/// is looked at again on what the first one wrote.
// What never changes after the submission is not written again: a large request would be stored anew with each commit.
const UPDATE: &str = "WITH t AS (UPDATE tasks SET
    change_id = ?, updated_at = now(), rev = ?, status = ?, waiting = ?, host = ?, queue = ?, epoch = ?,
    lease_owner = CASE WHEN ? THEN lease_owner ELSE ? END,
    lease_expires_at = CASE WHEN ? THEN lease_expires_at ELSE now() + ? END,
    due_at = CASE WHEN ? THEN due_at ELSE now() + ? END,
    deadline_at = CASE WHEN ? THEN deadline_at ELSE now() + ? END,
    cancel_requested_at = coalesce(cancel_requested_at, now() + ?),
    finished_at = CASE WHEN ? THEN finished_at ELSE now() + ? END,
    goal = ?, recovery_attempts = ?, dispatch_seq = ?, audit_seq = ?, response = ?, failure = ?, residue = ?,
    unclaimed_since = CASE WHEN ? AND (NOT ? OR lease_owner IS NULL) AND (NOT ? OR due_at IS NULL) THEN now() END
  WHERE id = ? AND rev = ? AND epoch = coalesce(?, epoch)
    AND (NOT ? OR lease_owner IS NULL OR lease_expires_at <= now())
    AND (NOT ? OR lease_expires_at <= now())
  RETURNING id, change_id, updated_at AS now)";

/// The same for a task that has no row yet.
const INSERT: &str = "WITH t AS (INSERT INTO tasks (
    change_id, created_at, updated_at, rev, status, waiting, host, queue, epoch, lease_owner, lease_expires_at,
    due_at, deadline_at, cancel_requested_at, finished_at, goal, recovery_attempts, dispatch_seq, audit_seq,
    response, failure, residue, unclaimed_since, id, tenant, task_type, version, definition_hash, request, traceparent)
  VALUES (?, now(), now(), ?, ?, ?, ?, ?, ?, ?, now() + ?, now() + ?, now() + ?, now() + ?, now() + ?, ?, ?, ?, ?,
    ?, ?, ?, CASE WHEN ? THEN now() END, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO NOTHING
  RETURNING id, change_id, updated_at AS now)";

/// The same for a receive, which comes before the task. It need not lock anything: whoever submits has received before.
const RECEIVE: &str = "WITH t AS (SELECT v.id, v.change_id, now() AS now FROM (VALUES (?, ?)) AS v (id, change_id)
  WHERE NOT EXISTS (SELECT FROM tasks WHERE tasks.id = v.id))";

/// Whether a time stays, and what else it is from now.
fn relative(time: Time) -> (bool, Option<PgInterval>) {
    match time {
        Time::Keep => (true, None),
        Time::Clear => (false, None),
        Time::In(duration) => (false, Some(interval(duration))),
    }
}

struct Texts<'a> {
    goal: Option<&'a str>,
    waiting: Option<&'a str>,
    queue: Str<'a>,
    response: Option<Str<'a>>,
    failure: Option<Str<'a>>,
}

impl<'a> Texts<'a> {
    fn of(row: &'a TaskRow) -> Result<Self, Fault> {
        Ok(Self {
            goal: row.goal.map(|goal| goal.status().as_str()),
            waiting: row.waiting.map(|reason| reason.as_str()),
            queue: name("tasks.queue", &row.queue)?,
            response: row.response.as_ref().map(write_json).transpose()?,
            failure: row.failure.as_ref().map(write_json).transpose()?,
        })
    }
}

fn lease(change: &LeaseChange) -> Result<(bool, Option<Str<'_>>, Option<PgInterval>), Fault> {
    Ok(match change {
        LeaseChange::Keep => (true, None, None),
        LeaseChange::Release => (false, None, None),
        LeaseChange::Take { owner, ttl } => (false, Some(name("tasks.lease_owner", owner)?), Some(interval(*ttl))),
    })
}

fn some(text: Option<&str>) -> Bind<'_> {
    Bind::Text(text.map(Str::Borrowed))
}

/// Whether the row that this makes is unleased and in a state in which somebody is to come for it by a message, where what
/// it keeps of the lease and the due time says nothing else.
// Compensating tasks without a due time are among them: a cancel of a task that nobody holds writes one with a message,
// and that message can be lost like any other.
fn may_be_claimed(write: &TaskWrite) -> bool {
    let unleased = !matches!(write.lease, LeaseChange::Take { .. });
    unleased
        && match write.row.status {
            TaskStatus::Submitted | TaskStatus::Dispatched => true,
            TaskStatus::Compensating => !matches!(write.due, Time::In(_)),
            _ => false,
        }
}

/// Adds the change of a row that is there.
pub(super) fn update<'a, Row>(
    statement: &mut Statement<'a, Row>,
    change: ChangeId,
    guard: Guard,
    write: &'a TaskWrite,
) -> Result<(), Fault> {
    let row = &write.row;
    let texts = Texts::of(row)?;
    let (keep, owner, ttl) = lease(&write.lease)?;
    let (due_stays, due) = relative(write.due);
    let (deadline_stays, deadline) = relative(write.deadline);
    let (finished_stays, finished) = relative(write.finished);
    let (epoch, rev) = match guard {
        Guard::Lease { epoch, rev } => (Some(epoch.0), rev),
        Guard::Free { rev } => (None, rev),
    };
    // Under a lease guard the live lease is the committer's own: its epoch is compared.
    let must_be_free = matches!(write.lease, LeaseChange::Take { .. }) && epoch.is_none();
    let binds = values![
        change.0,
        row.rev.0,
        row.status.as_str(),
        some(texts.waiting),
        row.host.as_str(),
        texts.queue,
        row.epoch.0,
        keep,
        owner,
        keep,
        ttl,
        due_stays,
        due,
        deadline_stays,
        deadline,
        relative(write.cancel_requested).1,
        finished_stays,
        finished,
        some(texts.goal),
        i64::from(row.recovery_attempts),
        row.dispatch_seq,
        row.audit_seq.0,
        texts.response,
        texts.failure,
        row.residue,
        may_be_claimed(write),
        matches!(write.lease, LeaseChange::Keep),
        row.status == TaskStatus::Compensating && write.due == Time::Keep,
        row.id.0,
        rev.0,
        epoch,
        must_be_free,
        write.needs_expired_lease,
    ];
    statement.push(UPDATE, binds);
    Ok(())
}

/// Adds a new row.
pub(super) fn insert<'a, Row>(
    statement: &mut Statement<'a, Row>,
    change: ChangeId,
    write: &'a TaskWrite,
) -> Result<(), Fault> {
    let row = &write.row;
    let texts = Texts::of(row)?;
    let (_, owner, ttl) = lease(&write.lease)?;
    let binds = values![
        change.0,
        row.rev.0,
        row.status.as_str(),
        some(texts.waiting),
        row.host.as_str(),
        texts.queue,
        row.epoch.0,
        owner,
        ttl,
        relative(write.due).1,
        relative(write.deadline).1,
        relative(write.cancel_requested).1,
        relative(write.finished).1,
        some(texts.goal),
        i64::from(row.recovery_attempts),
        row.dispatch_seq,
        row.audit_seq.0,
        texts.response,
        texts.failure,
        row.residue,
        may_be_claimed(write),
        row.id.0,
        name("tasks.tenant", &row.tenant.0)?,
        name("tasks.task_type", &row.task_type)?,
        i64::from(row.version),
        name("tasks.definition_hash", &row.definition_hash)?,
        write_json(&row.request)?,
        row.traceparent.as_deref().map(words),
    ];
    statement.push(INSERT, binds);
    Ok(())
}

/// Adds the place of a task that has no row yet and gets none.
pub(super) fn receive<Row>(statement: &mut Statement<'_, Row>, change: ChangeId, task: TaskId) {
    statement.push(RECEIVE, values![task.0, change.0]);
}

/// Revision and epoch of a row.
pub(super) fn head(task: TaskId) -> Statement<'static, (sql::BigInt, sql::BigInt)> {
    Statement::of("SELECT rev, epoch FROM tasks WHERE id = ?", values![task.0])
}

type Time_ = sql::Timestamptz;
type SomeTime = sql::Nullable<sql::Timestamptz>;
type SomeText = sql::Nullable<sql::Text>;

/// The columns of a row as [`load`] selects them.
pub(super) type Types = (
    (sql::Uuid, sql::Text, sql::Text, sql::BigInt, sql::Text, sql::Text, SomeText, sql::Text, sql::Text, sql::BigInt),
    (sql::BigInt, SomeText, SomeTime, SomeTime, SomeTime, SomeTime, SomeText, sql::BigInt, sql::BigInt, sql::BigInt),
    (sql::Text, SomeText, SomeText, sql::Bool, SomeText, Time_, Time_, SomeTime, sql::Uuid, Time_),
    steps::Types,
);

/// A row as [`load`] reads it, in three parts because a tuple has its limits; with the database's now, and the steps.
pub(super) type Read = (Identity, Progress, Content, steps::Read);

#[derive(Debug, Queryable)]
pub(super) struct Identity {
    id: Uuid,
    tenant: String,
    task_type: String,
    version: i64,
    definition_hash: String,
    status: String,
    waiting: Option<String>,
    host: String,
    queue: String,
    rev: i64,
}

#[derive(Debug, Queryable)]
pub(super) struct Progress {
    epoch: i64,
    lease_owner: Option<String>,
    lease_expires_at: Option<PgTimestamp>,
    due_at: Option<PgTimestamp>,
    deadline_at: Option<PgTimestamp>,
    cancel_requested_at: Option<PgTimestamp>,
    goal: Option<String>,
    recovery_attempts: i64,
    dispatch_seq: i64,
    audit_seq: i64,
}

#[derive(Debug, Queryable)]
pub(super) struct Content {
    request: String,
    response: Option<String>,
    failure: Option<String>,
    residue: bool,
    traceparent: Option<String>,
    created_at: PgTimestamp,
    updated_at: PgTimestamp,
    finished_at: Option<PgTimestamp>,
    change_id: Uuid,
    now: PgTimestamp,
}

/// A task and its steps, in one query: two would see the task before a commit and the steps after it.
pub(super) fn load(task: TaskId) -> Statement<'static, Types> {
    Statement::of(
        "SELECT t.id, tenant, task_type, version, definition_hash, t.status, waiting, host, queue, rev,
            epoch, lease_owner, lease_expires_at, due_at, deadline_at, cancel_requested_at, goal, recovery_attempts,
            dispatch_seq, audit_seq,
            request, response, failure, residue, traceparent, created_at, updated_at, finished_at, t.change_id, now(),
            s.nos, s.names, s.statuses, s.outputs, s.attempts, s.retries_used, s.undo_attempts, s.undo_retries_used,
            s.attempts_open, s.started_seqs, s.errors, s.dues, s.signals, s.in_fallbacks
         FROM tasks t CROSS JOIN LATERAL (
            SELECT array_agg(o.no) AS nos, array_agg(o.name) AS names, array_agg(o.status) AS statuses,
                array_agg(o.output) AS outputs, array_agg(o.attempts) AS attempts,
                array_agg(o.retries_used) AS retries_used, array_agg(o.undo_attempts) AS undo_attempts,
                array_agg(o.undo_retries_used) AS undo_retries_used, array_agg(o.attempt_open) AS attempts_open,
                array_agg(o.started_seq) AS started_seqs, array_agg(o.error) AS errors,
                array_agg(o.due_at) AS dues, array_agg(o.signal) AS signals,
                array_agg(o.in_fallback) AS in_fallbacks
            FROM (SELECT * FROM steps WHERE steps.task = t.id ORDER BY no) o) s
         WHERE t.id = ?",
        values![task.0],
    )
}

/// What [`load`] has read.
pub(super) fn decode((identity, progress, content, steps): Read) -> Result<TaskRecord, Fault> {
    let goal = match progress.goal.as_deref() {
        None => None,
        Some("failed") => Some(UndoGoal::Failed),
        Some("cancelled") => Some(UndoGoal::Cancelled),
        Some(other) => return Err(Fault::Corrupt(format!("goal: `{other}` is no UndoGoal"))),
    };
    let task = TaskRow {
        id: TaskId(identity.id),
        tenant: Tenant(identity.tenant),
        task_type: identity.task_type,
        version: count("version", identity.version)?,
        definition_hash: identity.definition_hash,
        status: parse("status", &identity.status)?,
        waiting: parse_some("waiting", identity.waiting.as_deref())?,
        host: parse("host", &identity.host)?,
        queue: identity.queue,
        rev: Rev(identity.rev),
        epoch: Epoch(progress.epoch),
        lease_owner: progress.lease_owner,
        lease_expires_at: some_time(progress.lease_expires_at),
        due_at: some_time(progress.due_at),
        deadline_at: some_time(progress.deadline_at),
        cancel_requested_at: some_time(progress.cancel_requested_at),
        goal,
        recovery_attempts: count("recovery_attempts", progress.recovery_attempts)?,
        dispatch_seq: progress.dispatch_seq,
        audit_seq: AuditSeq(progress.audit_seq),
        request: read_json("request", &content.request)?,
        response: content.response.as_deref().map(|text| read_json("response", text)).transpose()?,
        failure: content.failure.as_deref().map(|text| read_json("failure", text)).transpose()?,
        residue: content.residue,
        traceparent: content.traceparent,
        created_at: time(content.created_at),
        updated_at: time(content.updated_at),
        finished_at: some_time(content.finished_at),
        change_id: ChangeId(content.change_id),
    };
    Ok(TaskRecord { task, steps: steps::decode(steps)?, now: time(content.now) })
}
