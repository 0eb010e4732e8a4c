//! Changes of tasks, one or many, written by one statement. Puts the pieces together that they need, and reads the
//! server's answer; must not find out what ought to happen.
//!
//! The pieces are the parts of one `WITH`, the guarded rows first, and only those that are needed: the server starts a
//! plan for each, work or no work. How many texts that makes is a matter of what the engine does, not of how much: a few
//! dozen at most, each prepared once on a connection.
//!
//! The statement writes all of its changes or none. A guard that does not hold is nothing to wonder about where the
//! change comes alone; among others it ends the statement, and each of them comes again, alone.

use super::fault::Fault;
use super::pool::Lent;
use super::statement::{Statement, time, values};
use super::{idempotency, journal, outbox, own, receives, tasks};
use counterstep_contracts::{Epoch, Rev};
use counterstep_kernel::ports::{CommitError, Committed};
use counterstep_kernel::transition::{Guard, TaskWrite, Transition};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types::{Bool, Timestamptz};
use std::time::Duration;

const NEW: Guard = Guard::Free { rev: Rev(0) };

type Answer = (Timestamptz, Bool);

/// No row where nothing was written. Where some of the guards held, their rows have been: then the statement must fail.
const ALL_OR_NONE: &str =
    " FROM ok WHERE CASE WHEN ok.every THEN TRUE WHEN ok.held = 0 THEN FALSE ELSE counterstep_refuse('guards') END";

/// What the server says to the statement: a row, where it was written.
pub(super) type Written = Result<Vec<(PgTimestamp, bool)>, Fault>;

/// Writes everything, or says why nothing was. For each of its locks it waits no longer than `lock`.
pub(super) async fn write(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    lock: Duration,
) -> Result<Committed, Fault> {
    if has_statements(transition) {
        return own::write(lent, guard, transition, lock).await;
    }
    look(lent, guard, transition).await?;
    let written = send(lent, guard, transition, lock).await;
    judge(lent, guard, transition, written).await
}

/// Whether the change comes with statements of its own, which wait for locks of their own.
pub(super) fn has_statements(transition: &Transition) -> bool {
    !transition.sql.is_empty() || transition.schedule.is_some()
}

/// What can be said without writing.
pub(super) async fn look(lent: &Lent, guard: Guard, transition: &Transition) -> Result<(), Fault> {
    if let Some(misfit) = misfit(guard, transition) {
        // Who is fenced or stale is to hear that first, as from any other store.
        check_guard(lent, guard, transition).await?;
        return Err(Fault::Corrupt(misfit.to_owned()));
    }
    if cannot_hold(guard, transition) {
        return Err(CommitError::Stale.into());
    }
    Ok(())
}

pub(super) async fn send(lent: &Lent, guard: Guard, transition: &Transition, lock: Duration) -> Written {
    let mut statement = Statement::new();
    tasks::limits(&mut statement, lock);
    lent.rows::<Answer, (PgTimestamp, bool)>(assemble(statement, &[guard], &[transition])?).await
}

/// What the server's answer means; where nothing was written, it is asked why. Not within a transaction that has failed.
pub(super) async fn judge(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    written: Written,
) -> Result<Committed, Fault> {
    match written {
        Ok(rows) => match rows.first() {
            Some((now, _)) => Ok(Committed { now: time(*now) }),
            None => Err(refused(lent, guard, transition).await),
        },
        Err(Fault::Violated { constraint, text }) => Err(match constraint.as_str() {
            idempotency::TAKEN => CommitError::KeyTaken.into(),
            receives::NOT_THERE => CommitError::Condemned.into(),
            _ => Fault::Violated { constraint, text },
        }),
        Err(fault) => Err(fault),
    }
}

/// Which changes may share a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of tasks that are there.
    Old,
    /// Of tasks that get their row.
    New,
}

/// Among which others a change may be written; `None`: it comes alone.
pub(super) fn kind(guard: Guard, transition: &Transition) -> Option<Kind> {
    let fits = transition.task.is_some()
        && !has_statements(transition)
        && misfit(guard, transition).is_none()
        && !cannot_hold(guard, transition);
    fits.then_some(if guard == NEW { Kind::New } else { Kind::Old })
}

/// Writes changes of one kind, of different tasks. `None`: not one of them was written, and each should come alone.
pub(super) async fn write_all(
    lent: &Lent,
    changes: &[(Guard, &Transition)],
    lock: Duration,
) -> Result<Option<Committed>, Fault> {
    let (guards, transitions): (Vec<_>, Vec<_>) = changes.iter().copied().unzip();
    let mut statement = Statement::of_many();
    tasks::limits(&mut statement, lock);
    let statement = assemble(statement, &guards, &transitions)?;
    match lent.rows::<Answer, (PgTimestamp, bool)>(statement).await {
        Ok(rows) => Ok(rows.first().map(|(now, _)| Committed { now: time(*now) })),
        Err(fault @ Fault::Lost(_)) => Err(fault),
        Err(_) => Ok(None),
    }
}

/// A row that is not there has no lease that could have run out.
fn cannot_hold(guard: Guard, transition: &Transition) -> bool {
    guard == NEW && transition.task.as_ref().is_some_and(|write| write.needs_expired_lease)
}

/// What the change contradicts itself in.
fn misfit(guard: Guard, transition: &Transition) -> Option<&'static str> {
    let (Guard::Lease { rev, .. } | Guard::Free { rev }) = guard;
    match &transition.task {
        Some(write) if write.row.id != transition.task_id || write.row.rev != rev.next() => {
            Some("the new row is not the guarded one with the next revision")
        }
        Some(_) if transition.journal.is_none() => Some("a change of a task comes with its row in the journal"),
        // Without its row a task's revision stays where it is, so such a change may only come before the task.
        None if guard != NEW => Some("only a receive may leave the task's row alone"),
        Some(_) | None => None,
    }
}

fn assemble<'a>(
    mut statement: Statement<'a, Answer>,
    guards: &[Guard],
    changes: &[&'a Transition],
) -> Result<Statement<'a, Answer>, Fault> {
    let link = |change: &Transition| change.journal.as_ref().map(|row| row.link.0.clone());
    // Rows of tasks and changes are the same ones, where there are rows.
    let ids = changes.iter().map(|change| (change.change_id.0, link(change))).unzip();
    let writes: Vec<&TaskWrite> = changes.iter().filter_map(|change| change.task.as_ref()).collect();
    if writes.is_empty() {
        tasks::receive(&mut statement, changes.iter().map(|change| change.task_id.0).collect());
    } else if guards.contains(&NEW) {
        tasks::insert(&mut statement, ids, &writes)?;
    } else {
        let quiet = changes.iter().map(|change| change.is_quiet()).collect();
        tasks::update(&mut statement, ids, quiet, guards, &writes)?;
    }
    let to_take = receives::put(&mut statement, changes)?;
    journal::insert(&mut statement, changes)?;
    outbox::insert(&mut statement, changes)?;
    let keys = idempotency::put(&mut statement, changes)?;
    statement.push(" SELECT now(), TRUE", values![]);
    // Columns of the answer, so that they are looked at before the statement can end well.
    if let Some(number) = to_take {
        statement.push(receives::TAKE_OR_REFUSE, values![number]);
    }
    if let Some(number) = keys {
        statement.push(idempotency::PUT_OR_REFUSE, values![number]);
    }
    statement.push(ALL_OR_NONE, values![]);
    Ok(statement)
}

/// Why the guarded row was not found.
async fn refused(lent: &Lent, guard: Guard, transition: &Transition) -> Fault {
    // The one who is free to come again does not care what it was.
    if matches!(guard, Guard::Free { .. }) {
        return CommitError::Stale.into();
    }
    match check_guard(lent, guard, transition).await {
        Err(fault) => fault,
        // The guard holds; so it was the lease, as the write wanted it.
        Ok(()) => CommitError::Stale.into(),
    }
}

async fn check_guard(lent: &Lent, guard: Guard, transition: &Transition) -> Result<(), Fault> {
    let head: Vec<(i64, i64)> = lent.rows(tasks::head(transition.task_id)).await.map_err(Fault::of_a_read)?;
    let found = head.first().copied();
    let (rev, epoch) = found.unwrap_or((0, 0));
    match guard {
        Guard::Lease { epoch: ours, .. } if found.is_none() || ours.0 != epoch => {
            Err(CommitError::Fenced { current: Epoch(epoch) }.into())
        }
        Guard::Lease { rev: ours, .. } | Guard::Free { rev: ours } if ours.0 != rev => Err(CommitError::Stale.into()),
        Guard::Lease { .. } | Guard::Free { .. } => Ok(()),
    }
}
