//! Statements on the table `tasks`, and what they read. Must not judge a change: what it is handed
//! is written.

mod read;

pub(super) use read::{TaskRead, decode, load};

use super::fault::{Fault, name, words, write_json};
use super::journal;
use super::statement::{Statement, Str, interval, values, written};
use crate::columns::write_labels;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::change::transition::{Guard, LeaseChange, TaskWrite, Time};
use counterstep_kernel::record::TaskRow;
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use diesel::sql_types as sql;
use std::time::Duration;
use uuid::Uuid;

/// First piece of a commit: how long it may wait for a lock, from here to the end of its
/// transaction. The server looks at this limit where a wait begins; so the pieces behind it read
/// the answer before they take their first lock.
const LIMITS: &str =
    "WITH limits AS MATERIALIZED (SELECT set_config('lock_timeout', ?, true) AS lock)";

/// The same in a transaction of others: their limit stays.
const OWN_LIMITS: &str =
    "WITH limits AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock)";

/// Second piece: the guarded rows. Two writers of one task stand in line at its row, and the second
/// one's condition is looked at again on what the first one wrote. A claim is such a change: one that takes
/// a lease of a later epoch where `must_be_free` holds.
const UPDATE: &str = ", t AS (UPDATE tasks SET
    change_id = u.change_id, updated_at = CASE WHEN u.is_quiet THEN tasks.updated_at ELSE now() END, rev = u.rev, status = u.status, waiting = u.waiting, host = u.host,
    queue = u.queue, epoch = u.epoch,
    lease_owner = CASE WHEN u.lease_stays THEN tasks.lease_owner ELSE u.lease_owner END,
    lease_expires_at = CASE WHEN u.lease_stays THEN tasks.lease_expires_at ELSE now() + u.ttl END,
    due_at = CASE WHEN u.due_stays THEN tasks.due_at ELSE now() + u.due END,
    deadline_at = CASE WHEN u.deadline_stays THEN tasks.deadline_at ELSE now() + u.deadline END,
    cancel_requested_at = coalesce(tasks.cancel_requested_at, now() + u.cancel),
    finished_at = CASE WHEN u.finished_stays THEN tasks.finished_at ELSE now() + u.finished END,
    goal = u.goal, recovery_attempts = u.recovery_attempts, audit_seq = u.audit_seq,
    audit_seal = coalesce(sha256(u.audit_link || timestamptz_send(now())), tasks.audit_seal),
    failure = u.failure, residue = u.residue, sweep_at = u.sweep_at,
    unclaimed_since = CASE WHEN u.is_quiet THEN tasks.unclaimed_since WHEN u.claimable AND (NOT u.lease_stays OR tasks.lease_owner IS NULL)
      AND (NOT u.undo_due_stays OR tasks.due_at IS NULL) THEN now() END
  FROM limits, ";

// What never changes after the submission is not written again.
const UPDATE_AS: &str = " AS u (id, guard_rev, guard_epoch, must_be_free, must_be_expired,
    change_id, rev, status, waiting, host, queue, epoch, lease_stays, lease_owner, ttl, due_stays, due, deadline_stays,
    deadline, cancel, finished_stays, finished, goal, recovery_attempts, audit_seq, failure,
    residue, claimable, audit_link, undo_due_stays, sweep_at, is_quiet, actor, form, entries, data)
  WHERE limits.lock IS NOT NULL AND tasks.id = u.id AND tasks.rev = u.guard_rev AND tasks.epoch = coalesce(u.guard_epoch, tasks.epoch)
    AND (NOT u.must_be_free OR tasks.lease_owner IS NULL OR tasks.lease_expires_at <= now())
    AND (NOT u.must_be_expired OR tasks.lease_expires_at <= now())
  RETURNING tasks.id, tasks.rev, tasks.epoch, tasks.change_id, tasks.audit_seal, u.actor, u.form, u.entries, u.data,
    u.audit_link)";

/// The row in the journal of each change whose guard held, from what the rows became.
const UPDATE_JOURNAL: &str = ", journal_added AS (INSERT INTO journal
    (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal)
  SELECT t.id, t.rev, t.epoch, now(), t.change_id, t.actor, t.form, t.entries, t.data, t.audit_link, t.audit_seal FROM t)";

/// The same for tasks that have no row yet.
const INSERT: &str = ", t AS (INSERT INTO tasks (
    id, tenant, task_type, version, definition_hash, traceparent, labels,
    change_id, created_at, updated_at, rev, status, waiting, host, queue, epoch, lease_owner, lease_expires_at,
    due_at, deadline_at, cancel_requested_at, finished_at, goal, recovery_attempts, audit_seq,
    failure, residue, unclaimed_since, audit_seal, sweep_at)
  SELECT u.id, u.tenant, u.task_type, u.version, u.definition_hash, u.traceparent, u.labels::json,
    u.change_id, now(), now(), u.rev, u.status, u.waiting, u.host, u.queue, u.epoch, u.lease_owner, now() + u.ttl,
    now() + u.due, now() + u.deadline, now() + u.cancel, now() + u.finished, u.goal, u.recovery_attempts,
    u.audit_seq, u.failure, u.residue, CASE WHEN u.claimable THEN now() END,
    sha256(u.audit_link || timestamptz_send(now())), u.sweep_at
  FROM limits, ";

const INSERT_AS: &str = " AS u (id, tenant, task_type, version, definition_hash, traceparent, labels,
    change_id, rev, status, waiting, host, queue, epoch, lease_owner, ttl, due, deadline, cancel, finished, goal,
    recovery_attempts, audit_seq, failure, residue, claimable, audit_link, sweep_at)
  WHERE limits.lock IS NOT NULL
  ON CONFLICT (id) DO NOTHING
  RETURNING id)";

/// A piece behind it, where some of the tasks have labels: those of a task are one value, so that a
/// change with three has the text of one with a single one. Of the new rows only the id is read back:
/// who may submit need not be able to read more.
const INSERT_LABELS: &str = ", labels_added AS (INSERT INTO task_labels (tenant, name, value, task)
  SELECT u.tenant, l.key, l.value, t.id FROM t JOIN ";

const INSERT_LABELS_AS: &str = " AS u (id, tenant, labels) ON u.id = t.id
  CROSS JOIN LATERAL json_each_text(u.labels::json) AS l (key, value))";

/// The same for receives, which come before the task. They need not lock anything: a submission has
/// received before.
const RECEIVE: &str = ", t AS (SELECT u.id FROM limits, ";

const RECEIVE_AS: &str = " AS u (id) WHERE limits.lock IS NOT NULL
  AND NOT EXISTS (SELECT FROM tasks WHERE tasks.id = u.id))";

/// A third piece, where the changes are written all or none: whether all guards held. The pieces
/// behind it write only then.
const EVERY: &str = ", ok AS MATERIALIZED (SELECT count(*) AS held, count(*) = ? AS every FROM t)";

/// Whether a column keeps its time, and otherwise its new time relative to now.
fn relative(time: Time) -> (bool, Option<PgInterval>) {
    match time {
        Time::Keep => (true, None),
        Time::Clear => (false, None),
        Time::In(duration) => (false, Some(interval(duration))),
    }
}

fn lease(change: &LeaseChange) -> Result<(bool, Option<Str<'_>>, Option<PgInterval>), Fault> {
    Ok(match change {
        LeaseChange::Keep => (true, None, None),
        LeaseChange::Release => (false, None, None),
        LeaseChange::Take { owner, ttl } => (
            false,
            Some(name("tasks.lease_owner", owner)?),
            Some(interval(*ttl)),
        ),
    })
}

/// Whether the row that this makes is unleased and in a state in which a worker is to claim it by a
/// message, unless what it keeps of the lease and the due time excludes that.
// Compensating tasks without a due time are among them: a cancel of an unleased task writes one
// with a message, and that message can be lost like any other.
fn may_be_claimed(write: &TaskWrite) -> bool {
    let unleased = !matches!(write.lease, LeaseChange::Take { .. });
    unleased
        && match write.row.status {
            TaskStatus::Submitted | TaskStatus::Dispatched => true,
            TaskStatus::Compensating => !matches!(write.due, Time::In(_)),
            _ => false,
        }
}

/// A column: what each row has in it.
fn each<'a, T, R>(rows: &[&'a T], get: impl FnMut(&'a T) -> R) -> Vec<R> {
    rows.iter().copied().map(get).collect()
}

/// The same where a row may not have what the database can store.
fn each_or<'a, T, R>(
    rows: &[&'a T],
    get: impl FnMut(&'a T) -> Result<R, Fault>,
) -> Result<Vec<R>, Fault> {
    rows.iter().copied().map(get).collect()
}

/// The ids of changes, and the link of the row in the journal of each.
pub(super) type Chained = (Vec<Uuid>, Vec<Option<Vec<u8>>>);

type Lease<'a> = (bool, Option<Str<'a>>, Option<PgInterval>);

/// The changed columns of rows that are there and of new ones alike.
struct Columns<'a> {
    ids: Vec<Uuid>,
    changes: Vec<Uuid>,
    revs: Vec<i64>,
    statuses: Vec<Str<'a>>,
    waiting: Vec<Option<Str<'a>>>,
    hosts: Vec<Str<'a>>,
    queues: Vec<Str<'a>>,
    epochs: Vec<i64>,
    leases: Vec<Lease<'a>>,
    due: Vec<Option<PgInterval>>,
    deadlines: Vec<Option<PgInterval>>,
    cancels: Vec<Option<PgInterval>>,
    finished: Vec<Option<PgInterval>>,
    goals: Vec<Option<Str<'a>>>,
    recovery_attempts: Vec<i64>,
    audit_seqs: Vec<i64>,
    failures: Vec<Option<Str<'a>>>,
    residues: Vec<bool>,
    claimable: Vec<bool>,
    sweeps: Vec<Option<PgTimestamp>>,
    audit_links: Vec<Option<Vec<u8>>>,
}

impl<'a> Columns<'a> {
    fn of((changes, audit_links): Chained, writes: &[&'a TaskWrite]) -> Result<Self, Fault> {
        Ok(Self {
            changes,
            audit_links,
            ids: each(writes, |write| write.row.id.0),
            revs: each(writes, |write| write.row.rev.0),
            statuses: each(writes, |write| write.row.status.as_str().into()),
            waiting: each(writes, |write| {
                write.row.waiting.map(|reason| reason.as_str().into())
            }),
            hosts: each(writes, |write| write.row.host.as_str().into()),
            queues: each_or(writes, |write| name("tasks.queue", &write.row.queue))?,
            epochs: each(writes, |write| write.row.epoch.0),
            leases: each_or(writes, |write| lease(&write.lease))?,
            due: each(writes, |write| relative(write.due).1),
            deadlines: each(writes, |write| relative(write.deadline).1),
            cancels: each(writes, |write| relative(write.cancel_requested).1),
            finished: each(writes, |write| relative(write.finished).1),
            goals: each(writes, |write| {
                write.row.goal.map(|goal| goal.status().as_str().into())
            }),
            recovery_attempts: each(writes, |write| i64::from(write.row.recovery_attempts)),
            audit_seqs: each(writes, |write| write.row.audit_seq.0),
            failures: each_or(writes, |write| {
                write.row.failure.as_ref().map(write_json).transpose()
            })?,
            residues: each(writes, |write| write.row.residue),
            claimable: each(writes, may_be_claimed),
            sweeps: each(writes, |write| write.row.sweep_at.map(written)),
        })
    }
}

/// Adds the changes of rows that are there.
pub(super) fn update<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: Chained,
    quiet: Vec<bool>,
    guards: &[Guard],
    writes: &[&'a TaskWrite],
    rows: journal::Texts<'a>,
) -> Result<(), Fault> {
    let columns = Columns::of(changes, writes)?;
    let guarded = |guard: &Guard| match guard {
        Guard::Lease { epoch, rev } => (rev.0, Some(epoch.0)),
        Guard::Free { rev } => (rev.0, None),
    };
    let (guard_revs, guard_epochs) = guards.iter().map(guarded).unzip::<_, _, Vec<_>, Vec<_>>();
    // Under a lease guard the live lease is the committer's own: its epoch is compared.
    let takes = |write: &TaskWrite| matches!(write.lease, LeaseChange::Take { .. });
    let must_be_free = writes
        .iter()
        .zip(&guard_epochs)
        .map(|(write, epoch)| takes(write) && epoch.is_none());
    let must_be_free: Vec<bool> = must_be_free.collect();
    let undo_due_stays =
        |write: &TaskWrite| write.row.status == TaskStatus::Compensating && write.due == Time::Keep;
    let mut owners = Vec::with_capacity(writes.len());
    let (mut lease_stays, mut ttls) = (
        Vec::with_capacity(writes.len()),
        Vec::with_capacity(writes.len()),
    );
    for (stays, owner, ttl) in columns.leases {
        lease_stays.push(stays);
        owners.push(owner);
        ttls.push(ttl);
    }
    let binds = values![
        columns.ids,
        guard_revs,
        guard_epochs,
        must_be_free,
        each(writes, |write| write.needs_expired_lease),
        columns.changes,
        columns.revs,
        columns.statuses,
        columns.waiting,
        columns.hosts,
        columns.queues,
        columns.epochs,
        lease_stays,
        owners,
        ttls,
        each(writes, |write| relative(write.due).0),
        columns.due,
        each(writes, |write| relative(write.deadline).0),
        columns.deadlines,
        columns.cancels,
        each(writes, |write| relative(write.finished).0),
        columns.finished,
        columns.goals,
        columns.recovery_attempts,
        columns.audit_seqs,
        columns.failures,
        columns.residues,
        columns.claimable,
        columns.audit_links,
        each(writes, undo_due_stays),
        columns.sweeps,
        quiet,
        rows.actors,
        rows.forms,
        rows.entries,
        rows.data,
    ];
    statement.push_table(UPDATE, writes.len(), binds, UPDATE_AS);
    statement.push(UPDATE_JOURNAL, values![]);
    Ok(())
}

/// Adds new rows.
pub(super) fn insert<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: Chained,
    writes: &[&'a TaskWrite],
) -> Result<(), Fault> {
    let columns = Columns::of(changes, writes)?;
    let mut owners = Vec::with_capacity(writes.len());
    let mut ttls = Vec::with_capacity(writes.len());
    for (_, owner, ttl) in columns.leases {
        owners.push(owner);
        ttls.push(ttl);
    }
    let labels: Vec<Option<Str<'a>>> = each_or(writes, |write| {
        Ok(write_labels(&write.row.labels)?.map(Str::from))
    })?;
    let mut labelled = (Vec::new(), Vec::new(), Vec::new());
    for (write, labels) in writes.iter().zip(&labels) {
        if let Some(labels) = labels {
            labelled.0.push(write.row.id.0);
            labelled.1.push(name("tasks.tenant", &write.row.tenant.0)?);
            labelled.2.push(labels.clone());
        }
    }
    let binds = values![
        columns.ids,
        each_or(writes, |write| name("tasks.tenant", &write.row.tenant.0))?,
        each_or(writes, |write| name(
            "tasks.task_type",
            &write.row.task_type
        ))?,
        each(writes, |write| i64::from(write.row.version)),
        each_or(writes, |write| name(
            "tasks.definition_hash",
            &write.row.definition_hash
        ))?,
        each(writes, |write| write.row.traceparent.as_deref().map(words)),
        labels,
        columns.changes,
        columns.revs,
        columns.statuses,
        columns.waiting,
        columns.hosts,
        columns.queues,
        columns.epochs,
        owners,
        ttls,
        columns.due,
        columns.deadlines,
        columns.cancels,
        columns.finished,
        columns.goals,
        columns.recovery_attempts,
        columns.audit_seqs,
        columns.failures,
        columns.residues,
        columns.claimable,
        columns.audit_links,
        columns.sweeps,
    ];
    statement.push_table(INSERT, writes.len(), binds, INSERT_AS);
    let rows = labelled.0.len();
    if rows > 0 {
        let (ids, tenants, labels) = labelled;
        let binds = values![ids, tenants, labels];
        statement.push_table(INSERT_LABELS, rows, binds, INSERT_LABELS_AS);
    }
    Ok(())
}

/// Begins a commit that waits for each of its locks no longer than this.
pub(super) fn limits<Row>(statement: &mut Statement<'_, Row>, lock: Duration) {
    // 0 would be no limit.
    statement.push(LIMITS, values![lock.as_millis().max(1).to_string()]);
}

/// Begins a commit that waits for each of its locks as long as its transaction does.
pub(super) fn limits_of_others<Row>(statement: &mut Statement<'_, Row>) {
    statement.push(OWN_LIMITS, values![]);
}

/// Adds the places of tasks that have no row yet and get none.
pub(super) fn receive<Row>(statement: &mut Statement<'_, Row>, tasks: Vec<Uuid>) {
    statement.push_table(RECEIVE, tasks.len(), values![tasks], RECEIVE_AS);
}

/// Adds whether the guards of all these rows held.
pub(super) fn every<Row>(statement: &mut Statement<'_, Row>, rows: usize) {
    statement.push(EVERY, values![i64::try_from(rows).unwrap_or(i64::MAX)]);
}

/// Revision and epoch of a row.
pub(super) fn head(task: TaskId) -> Statement<'static, (sql::BigInt, sql::BigInt)> {
    Statement::of("SELECT rev, epoch FROM tasks WHERE id = ?", values![task.0])
}

/// The same of many tasks.
pub(super) fn heads(tasks: Vec<Uuid>) -> Statement<'static, (sql::Uuid, sql::BigInt, sql::BigInt)> {
    Statement::of(
        "SELECT id, rev, epoch FROM tasks WHERE id = ANY(?)",
        values![tasks],
    )
}

/// The labels in a task's row, which cannot be read. Those by which it is found are rows of their own, and stay.
pub(super) fn relabel(row: &TaskRow) -> Result<Statement<'static, sql::Uuid>, Fault> {
    let labels = write_labels(&row.labels)?.map(Str::from);
    Ok(Statement::of(
        "UPDATE tasks SET labels = ?::json WHERE id = ? RETURNING id",
        values![labels, row.id.0],
    ))
}
