//! One transition, written in one transaction. Checks what the transition says must hold, and
//! writes what it says must be written; must not find out what ought to happen.

use super::fault::{Fault, micros, write_json};
use super::{children, documents, idempotency, journal, outbox, places, receives, tasks, user_sql};
use counterstep_contracts::{Epoch, Rev, TaskId};
use counterstep_kernel::change::transition::{
    Guard, IdempotencyWrite, LeaseChange, ReceiveWrite, TaskWrite, Time, Transition,
};
use counterstep_kernel::ports::CommitError;
use counterstep_steps::guard;
use diesel::SqliteConnection;

/// Writes everything, or says why nothing was.
pub(super) fn write(
    connection: &mut SqliteConnection,
    now: i64,
    guard: Guard,
    transition: &Transition,
) -> Result<(), Fault> {
    let Transition {
        change_id, task_id, ..
    } = *transition;
    let head = tasks::head(connection, task_id)?;
    check_guard(guard, head.as_ref())?;
    match &transition.task {
        Some(write) => {
            let head = head.as_ref();
            write_task(connection, now, Guarded { guard, head }, transition, write)?;
        }
        // Without its row a task's revision stays where it is, so such a change may only come
        // before the task.
        None if head.is_some() || guard != NEW => {
            return Err(Fault::Corrupt(
                "only a receive may leave the task's row alone".to_owned(),
            ));
        }
        None => {}
    }
    if let Some(place) = &transition.place {
        places::put(connection, task_id, place, now)?;
    }
    if let Some(write) = &transition.receive {
        write_receive(connection, now, task_id, write)?;
    }
    if !transition.events.is_empty() {
        outbox::insert(connection, task_id, change_id, now, &transition.events)?;
    }
    if let Some(write) = &transition.idempotency {
        write_idempotency(connection, now, transition, write)?;
    }
    if let Some(write) = &transition.document
        && !documents::put(connection, write, now)?
    {
        return Err(CommitError::Moved.into());
    }
    if let Some(write) = &transition.alert {
        // One of its name may be there, and stays.
        documents::put(connection, write, now)?;
    }
    for child in &transition.children {
        if guard!("children with their parent", false) {
            break;
        }
        write(connection, now, NEW, child)?;
    }
    user_sql::execute_all(connection, &transition.sql)
}

const NEW: Guard = Guard::Free { rev: Rev(0) };

/// What a change expects of the task's row, and what there is of it.
struct Guarded<'a> {
    guard: Guard,
    head: Option<&'a tasks::Head>,
}

fn check_guard(guard: Guard, head: Option<&tasks::Head>) -> Result<(), CommitError> {
    match (guard, head) {
        (Guard::Lease { .. }, None) => Err(CommitError::Fenced { current: Epoch(0) }),
        (Guard::Lease { epoch, .. }, Some(head)) if epoch.0 != head.epoch => {
            Err(CommitError::Fenced {
                current: Epoch(head.epoch),
            })
        }
        (Guard::Lease { rev, .. } | Guard::Free { rev }, head)
            if rev.0 != head.map_or(0, |head| head.rev) =>
        {
            Err(CommitError::Stale)
        }
        (Guard::Lease { .. } | Guard::Free { .. }, _) => Ok(()),
    }
}

fn write_task(
    connection: &mut SqliteConnection,
    now: i64,
    Guarded { guard, head }: Guarded<'_>,
    transition: &Transition,
    write: &TaskWrite,
) -> Result<(), Fault> {
    let (Guard::Lease { rev, .. } | Guard::Free { rev }) = guard;
    if write.row.id != transition.task_id || write.row.rev != rev.next() {
        return Err(Fault::Corrupt(
            "the new row is not the guarded one with the next revision".to_owned(),
        ));
    }
    let Some(row) = &transition.journal else {
        return Err(Fault::Corrupt(
            "a change of a task comes with its row in the journal".to_owned(),
        ));
    };
    let owned = head.is_some_and(|head| head.lease_owner.is_some());
    let live = owned
        && head
            .and_then(|head| head.lease_expires_at)
            .is_some_and(|until| until > now);
    if write.needs_expired_lease && !guard!("lease that ran out", owned && !live) {
        return Err(CommitError::Stale.into());
    }
    let (lease_owner, lease_expires_at) = match &write.lease {
        LeaseChange::Keep => (
            head.and_then(|head| head.lease_owner.clone()),
            head.and_then(|h| h.lease_expires_at),
        ),
        LeaseChange::Release => (None, None),
        // Under a lease guard the live lease is the committer's own: its epoch was compared above.
        LeaseChange::Take { .. }
            if !guard!("lease of another host", !live) && matches!(guard, Guard::Free { .. }) =>
        {
            return Err(CommitError::Stale.into());
        }
        LeaseChange::Take { owner, ttl } => (Some(owner.clone()), Some(now + micros(*ttl))),
    };
    let cancelled = head.and_then(|head| head.cancel_requested_at);
    let columns = tasks::Columns {
        lease_owner,
        lease_expires_at,
        due_at: at(write.due, now, head.and_then(|head| head.due_at)),
        deadline_at: at(write.deadline, now, head.and_then(|head| head.deadline_at)),
        // Once set it stays: a client may have the answer "cancelling" already.
        cancel_requested_at: cancelled.or_else(|| at(write.cancel_requested, now, None)),
        finished_at: at(write.finished, now, head.and_then(|head| head.finished_at)),
        audit_seal: Some(journal::seal(row, now)),
        created_at: head.map_or(now, |head| head.created_at),
        updated_at: if head.is_some() && transition.is_quiet() {
            write.row.updated_at.0
        } else {
            now
        },
        change_id: transition.change_id.to_string(),
        ..tasks::Columns::encode(&write.row)?
    };
    match head {
        Some(_) => {
            tasks::update(connection, &columns)?;
            if write.writes_labels {
                tasks::relabel(connection, &columns)?;
            }
        }
        None => {
            tasks::insert(connection, &columns)?;
            if let Some(parent) = &write.row.parent {
                children::insert(connection, write.row.id, parent)?;
            }
        }
    }
    Ok(journal::insert(
        connection,
        transition.change_id,
        &write.row,
        now,
        row,
    )?)
}

fn at(time: Time, now: i64, before: Option<i64>) -> Option<i64> {
    match time {
        Time::Keep => before,
        Time::Clear => None,
        Time::In(duration) => Some(now + micros(duration)),
    }
}

fn write_receive(
    connection: &mut SqliteConnection,
    now: i64,
    task: TaskId,
    write: &ReceiveWrite,
) -> Result<(), Fault> {
    match write {
        ReceiveWrite::Begun {
            tenant,
            sweep_after,
        } => {
            receives::insert(connection, task, tenant, now + micros(*sweep_after))?;
        }
        ReceiveWrite::Taken => {
            let is_open = receives::take(connection, task)?;
            if !guard!("condemned request", is_open) {
                return Err(CommitError::Condemned.into());
            }
        }
        ReceiveWrite::Abandoned => receives::abandon(connection, task)?,
    }
    Ok(())
}

fn write_idempotency(
    connection: &mut SqliteConnection,
    now: i64,
    transition: &Transition,
    write: &IdempotencyWrite,
) -> Result<(), Fault> {
    let task: TaskId = transition.task_id;
    let (tenant, key, finished, owner, expires_in) = match write {
        IdempotencyWrite::Abandon { tenant, key } => {
            return Ok(idempotency::delete(connection, tenant, key, task)?);
        }
        IdempotencyWrite::Begin {
            tenant,
            key,
            owner,
            expires_in,
        } => (tenant, key, None, Some(owner.clone()), *expires_in),
        IdempotencyWrite::Finish {
            tenant,
            key,
            fingerprint,
            answer,
            expires_in,
        } => (
            tenant,
            key,
            Some((fingerprint.clone(), write_json(answer)?)),
            None,
            *expires_in,
        ),
    };
    let own = task.to_string();
    let other = idempotency::task_of(connection, tenant, key, now)?;
    if !guard!("key of no other task", other.is_none_or(|task| task == own)) {
        return Err(CommitError::KeyTaken.into());
    }
    let (fingerprint, answer) = finished.unzip();
    let row = idempotency::Columns {
        tenant: tenant.0.clone(),
        key: key.clone(),
        task: own,
        fingerprint,
        answer,
        expires_at: now + micros(expires_in),
        change_id: transition.change_id.to_string(),
        owner,
    };
    Ok(idempotency::put(connection, &row)?)
}
