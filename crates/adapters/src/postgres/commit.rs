//! One transition, written by one statement. Puts the pieces together that the change needs, and reads the server's
//! answer; must not find out what ought to happen.
//!
//! The pieces are the parts of one `WITH`, the guarded row first, and only those that the change needs: the server starts a
//! plan for each, work or no work. How many texts that makes is a matter of what the engine does, not of how much: a few
//! dozen at most, each prepared once on a connection.

use super::fault::Fault;
use super::pool::Lent;
use super::statement::{Statement, time, values};
use super::{attempts, audit, idempotency, outbox, steps, tasks};
use counterstep_contracts::{Epoch, Rev};
use counterstep_kernel::ports::{CommitError, Committed};
use counterstep_kernel::transition::{Guard, Transition};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types::{Bool, Timestamptz};

const NEW: Guard = Guard::Free { rev: Rev(0) };

type Answer = (Timestamptz, Bool);

/// Writes everything, or says why nothing was.
pub(super) async fn write(lent: &Lent, guard: Guard, transition: &Transition) -> Result<Committed, Fault> {
    if let Some(misfit) = misfit(guard, transition) {
        // Who is fenced or stale is to hear that first, as from any other store.
        check_guard(lent, guard, transition).await?;
        return Err(Fault::Corrupt(misfit.to_owned()));
    }
    let written = lent.rows::<Answer, (PgTimestamp, bool)>(assemble(guard, transition)?).await;
    match written {
        Ok(rows) => match rows.first() {
            Some((now, _)) => Ok(Committed { now: time(*now) }),
            None => Err(refused(lent, guard, transition).await),
        },
        Err(Fault::Violated { constraint, text }) => Err(match constraint.as_str() {
            idempotency::TAKEN => CommitError::KeyTaken.into(),
            // Somebody has claimed this execution: whoever decided on it did not know.
            attempts::STARTED => CommitError::Stale.into(),
            attempts::NOT_OPEN => match lent.rows(attempts::states(transition.task_id)).await {
                Ok(states) => {
                    attempts::why_not(&transition.attempts, &states).unwrap_or_else(|| CommitError::Stale.into())
                }
                // The commit itself was refused: nothing about it is unknown.
                Err(fault) => fault.of_a_read(),
            },
            _ => Fault::Violated { constraint, text },
        }),
        Err(fault) => Err(fault),
    }
}

/// What the change contradicts itself in.
fn misfit(guard: Guard, transition: &Transition) -> Option<&'static str> {
    let (Guard::Lease { rev, .. } | Guard::Free { rev }) = guard;
    match &transition.task {
        Some(write) if write.row.id != transition.task_id || write.row.rev != rev.next() => {
            Some("the new row is not the guarded one with the next revision")
        }
        // Without its row a task's revision stays where it is, so such a change may only come before the task.
        None if guard != NEW => Some("only a receive may leave the task's row alone"),
        Some(_) | None => None,
    }
}

fn assemble(guard: Guard, transition: &Transition) -> Result<Statement<'_, Answer>, Fault> {
    let mut statement = Statement::new();
    match &transition.task {
        None => tasks::receive(&mut statement, transition.change_id, transition.task_id),
        // A row that is not there has no lease that could have run out.
        Some(write) if guard == NEW && write.needs_expired_lease => return Err(CommitError::Stale.into()),
        Some(write) if guard == NEW => tasks::insert(&mut statement, transition.change_id, write)?,
        Some(write) => tasks::update(&mut statement, transition.change_id, guard, write)?,
    }
    steps::put(&mut statement, &transition.steps)?;
    let writes = attempts::Writes::of(&transition.attempts)?;
    let to_end = writes.to_end();
    writes.put(&mut statement);
    audit::insert(&mut statement, &transition.audit)?;
    outbox::insert(&mut statement, &transition.outbox, &transition.events)?;
    let has_key = idempotency::write(&mut statement, transition.idempotency.as_ref())?;
    statement.push(" SELECT t.now, TRUE", values![]);
    // Columns of the answer, so that they are looked at before the statement can end well.
    if let Some(number) = to_end {
        statement.push(attempts::END_OR_REFUSE, values![number]);
    }
    if has_key {
        statement.push(idempotency::PUT_OR_REFUSE, values![]);
    }
    statement.push(" FROM t", values![]);
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
