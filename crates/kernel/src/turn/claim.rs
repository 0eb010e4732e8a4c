//! The start of a turn: the lease is taken, and what comes first is started, where the process has room.

use super::claimable::{Claimable, Wanted, claimable};
use super::facts::{TurnPlan, TurnTask, as_taken_over, ready_for, ready_since};
use super::lease_heartbeat::{KeptLease, beside};
use super::lease_state::Lease;
use super::lock::{LOOK_AGAIN, TaskLock, Unlocked};
use super::offer::Offer;
use super::permit_before_claim::{Ready, ready};
use super::permits::Permits;
use super::read_at::ReadAt;
use super::tokens::Tokens;
use super::turn_end::{TurnEnd, end_of, tidied};
use super::turn_loop::{Claimed, Next, Turn, With};
use crate::admission::isolation::{Abandoned, Entry, Guest, Running, WhenFull, most_tasks};
use crate::admission::limits::exchange::keep_exchanged;
use crate::cancel::CancelToken;
use crate::change::{Author, ChangeError, Changed};
use crate::engine::Engine;
use crate::host::lost_hosts::earlier_losses;
use crate::plan::Facts;
use crate::ports::Observation;
use crate::record::TaskRecord;
use crate::task::TaskType;
use crate::workers::notes::note_turn_end;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_steps::guard;
use futures::future::{BoxFuture, Either, select};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Pause before a turn that does not fit beside the tasks that run here is tried again.
const NO_ROOM: Duration = Duration::from_secs(1);

/// For a due task that has to run among few and was ready for this time, a process where it does not
/// fit drains as for a delivered one: elsewhere it would have been claimed by then.
const NOT_CLAIMED: Duration = Duration::from_secs(30);

/// Minimum time for which a process that drains holds the task's lock: at least two polls.
const DRAINS_FOR: Duration = Duration::from_secs(10);

/// Runs a task as far as this host can take it, outside the loop of a host.
pub fn turn<'a>(
    engine: &'a Engine,
    host: Host,
    task: TaskId,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, TurnEnd> {
    let turn = turn_when(engine, host, task, WhenFull::Drain, shutdown);
    keep_exchanged(engine, turn)
}

/// The same, with a choice for a task that may run among few only.
pub(crate) fn turn_when<'a>(
    engine: &'a Engine,
    host: Host,
    task: TaskId,
    full: WhenFull,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, TurnEnd> {
    Box::pin(take_turn(
        engine,
        host,
        Wanted {
            task,
            full,
            offer: None,
        },
        shutdown,
    ))
}

/// The same for a message that offers the task, where the message agrees with the row.
pub fn turn_for<'a>(
    engine: &'a Engine,
    host: Host,
    offer: Offer<'a>,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, TurnEnd> {
    let wanted = Wanted {
        task: offer.message.task,
        full: WhenFull::Drain,
        offer: Some(offer),
    };
    Box::pin(take_turn(engine, host, wanted, shutdown))
}

async fn take_turn(
    engine: &Engine,
    host: Host,
    wanted: Wanted<'_>,
    shutdown: &CancelToken,
) -> TurnEnd {
    let mut drained = None;
    let end = take_turn_with(engine, host, wanted, shutdown, &mut drained).await;
    if let Some(lock) = drained {
        lock.release().await;
    }
    end
}

/// `drained`: the lock that the process held while it drained for the task, unless the turn has
/// used it.
async fn take_turn_with(
    engine: &Engine,
    host: Host,
    wanted: Wanted<'_>,
    shutdown: &CancelToken,
    drained: &mut Option<TaskLock>,
) -> TurnEnd {
    let admitted = admit(engine, host, wanted, shutdown, drained).await;
    let Admitted {
        claimable:
            Claimable {
                task_type,
                record,
                mut place,
            },
        running: _running,
    } = match admitted {
        Ok(admitted) => admitted,
        Err(end) => return end,
    };
    // Only once the task is admitted: room that waits for other turns to end could be the room that
    // they wait for.
    let permits = Permits::default();
    let ready = ready(
        engine,
        &task_type,
        host,
        &as_taken_over(&record),
        wanted.offer.is_some(),
        &permits,
        shutdown,
    )
    .await;
    // A task that could not start keeps its reserved place for a moment: the next one would end like it.
    if ready.is_ok() {
        engine.limits.release_place_of(wanted.task);
    }
    let record = match ready {
        Ok(Ready::AtOnce) => record,
        Err(left) => return TurnEnd::NoRoom(left),
        // Another host may have had it meanwhile.
        Ok(Ready::AfterAWait) => match claimable(engine, host, wanted).await {
            Ok(Claimable {
                record, place: now, ..
            }) => {
                place = now;
                record
            }
            Err(end) => return end,
        },
    };
    let ttl = engine.settings.lease_of(&task_type);
    let lock = match drained.take() {
        Some(lock) => lock,
        None if wanted.offer.is_some_and(|offer| offer.is_first) => {
            TaskLock::none(engine, wanted.task, ttl)
        }
        None => match TaskLock::take(engine, &record, ttl).await {
            Some(lock) => lock,
            None => return TurnEnd::Busy(LOOK_AGAIN),
        },
    };
    let with = With {
        tokens: Tokens::of(shutdown),
        lock: Arc::new(lock),
        permits,
    };
    let span = engine.turn_span(&record.task, wanted.offer.map(|offer| offer.message));
    let end = async {
        // A process that shuts down takes nothing new.
        if shutdown.is_cancelled() {
            return TurnEnd::Busy(Duration::ZERO);
        }
        let claimable = Claimable {
            task_type,
            record,
            place,
        };
        match claim(engine, host, claimable, with.clone()).await {
            Ok((turn, next)) => run(engine, turn, next, ttl, with.clone()).await,
            // It asks again for a place.
            Err(ChangeError::PlaceTaken) => TurnEnd::Busy(Duration::ZERO),
            // Another host or a client has changed it: a redelivery finds the task at rest or leased.
            Err(ChangeError::Illegal(_) | ChangeError::Fenced) => TurnEnd::Busy(ttl),
            Err(error) => end_of(&error, wanted.task),
        }
    };
    let end = end.instrument(span.clone()).await;
    with.permits.settle(|_| false).await;
    end.note_in(&span);
    drop(span);
    with.lock.release().await;
    tidied(engine, wanted.task, end).await
}

/// A task that may be claimed, with room for it in this process.
struct Admitted {
    claimable: Claimable,
    running: Running,
}

/// Reads a task, and waits until it fits beside those that run in this process.
async fn admit(
    engine: &Engine,
    host: Host,
    wanted: Wanted<'_>,
    shutdown: &CancelToken,
    drained: &mut Option<TaskLock>,
) -> Result<Admitted, TurnEnd> {
    let Wanted { task, full, .. } = wanted;
    let mut waiting = None;
    loop {
        let claimable = claimable(engine, host, wanted).await?;
        let Claimable {
            task_type, record, ..
        } = &claimable;
        // A loss that the claim will count is counted here, too.
        let losses = record.task.recovery_attempts + u32::from(record.lease_has_expired());
        let most = most_tasks(
            losses,
            task_type.decl.max_recoveries,
            engine.registration.concurrency(),
        );
        let guest = Guest {
            task,
            most,
            abandoned: Abandoned::beside_one_ready_for(ready_for(record)),
        };
        let is_next = waiting.is_some();
        let mut entry = engine
            .isolation
            .enter(guest, WhenFull::Leave, waiting.take());
        if !is_next && matches!(entry, Entry::Full) && engine.isolation.can_drain(guest) {
            *drained = lock_to_drain(engine, task_type, record, full).await;
            if drained.is_some() {
                entry = engine.isolation.enter(guest, WhenFull::Drain, None);
            }
            if matches!(entry, Entry::Next(_)) {
                tracing::info!(%task, ?most, "this process drains for a task that has to run among few");
            }
        }
        match entry {
            Entry::In(running) => {
                let abandoned = engine.isolation.abandoned_beside(task);
                if most.is_some() && guest.abandoned == Abandoned::Tolerated && abandoned > 0 {
                    tracing::warn!(
                        %task,
                        losses,
                        abandoned,
                        "a task that has to run among few starts beside abandoned code, which can end the process yet: \
                         no other process has taken it; a restart would end that code"
                    );
                }
                return Ok(Admitted { claimable, running });
            }
            Entry::Full => return Err(TurnEnd::NoRoom(NO_ROOM)),
            Entry::Next(next) => waiting = Some(next),
        }
        if let Some(lock) = drained.as_ref() {
            lock.extend().await;
        }
        tracing::debug!(%task, losses, ?most, "waits until fewer tasks run here");
        // Another process may have claimed it meanwhile.
        let again = select(
            Box::pin(engine.isolation.turn_ended()),
            engine.ports.clock.sleep(NO_ROOM),
        );
        if let Either::Right(_) = select(again, Box::pin(shutdown.cancelled())).await {
            return Err(TurnEnd::Busy(Duration::ZERO));
        }
    }
}

/// The lock with which this process drains for a task, if it is to do so.
async fn lock_to_drain(
    engine: &Engine,
    task_type: &TaskType,
    record: &TaskRecord,
    full: WhenFull,
) -> Option<TaskLock> {
    let (row, ready) = (&record.task, ready_for(record));
    if full == WhenFull::Leave && ready <= NOT_CLAIMED {
        return None;
    }
    // The first message comes to one process. While that one drains, the task is offered again, and
    // to others.
    let offered_again = row.due_at.is_some_and(|due| due <= row.updated_at);
    let due = match full {
        WhenFull::Drain if !offered_again => Unlocked::Due,
        // Without locks the processes begin one after the other.
        WhenFull::Drain | WhenFull::Leave => {
            Unlocked::after(engine, ready.as_millis() / NOT_CLAIMED.as_millis())
        }
    };
    TaskLock::to_drain(
        engine,
        row.id,
        engine.settings.lease_of(task_type).max(DRAINS_FOR),
        due,
    )
    .await
}

/// Runs a turn to its end while keeping its lease alive.
pub(super) async fn run(
    engine: &Engine,
    turn: Turn<'_>,
    next: Next,
    ttl: Duration,
    With { tokens, lock, .. }: With,
) -> TurnEnd {
    let note = turn.note.clone();
    let noted = |end: TurnEnd| {
        note_turn_end(engine, &note, end.outcome());
        end
    };
    if matches!(next, Next::End) {
        return noted(turn.end());
    }
    let (row, lease) = (&turn.record.task, turn.lease.clone());
    let (board, log) = (turn.board.clone(), turn.log.clone());
    // Its parent may cancel it, whatever clients may.
    let cancellable = turn.task_type.decl.cancellable || row.parent.is_some();
    let kept = KeptLease {
        task: row.id,
        epoch: row.epoch,
        cancellable,
        ttl,
        lease: &lease,
        lock: &lock,
        board: &board,
        log: &log,
    };
    // In a box of its own: what comes before and after it is not as large.
    let work = Box::pin(async {
        let end = turn.run(next).await;
        end.unwrap_or_else(|error| {
            if matches!(error, ChangeError::Fenced) {
                engine.observe(Observation::LeaseLost);
            }
            end_of(&error, kept.task)
        })
    });
    noted(beside(engine, kept, &tokens, work).await)
}

/// Takes the lease and starts what comes first, in one commit.
async fn claim<'a>(
    engine: &'a Engine,
    host: Host,
    Claimable {
        task_type,
        record,
        place,
    }: Claimable,
    with: With,
) -> Result<(Turn<'a>, Next), ChangeError> {
    let ttl = engine.settings.lease_of(&task_type);
    let task = record.task.id;
    let epoch_before = record.task.epoch;
    let (ready_since, was_lost) = (ready_since(&record.task), record.lease_has_expired());
    let seen = as_taken_over(&record);
    let looked = TurnTask {
        engine,
        task_type,
        host,
        record: &seen,
        now: record.now,
        done: None,
        outcomes_of: None,
    };
    let plan = TurnPlan::gather(engine, looked, Facts::default(), with.permits.clone()).await;
    drop(seen);
    let losses = earlier_losses(&engine.ports.store, &task_type, &record).await;
    let leased_at = engine.ports.clock.monotonic();
    let changed = engine
        .change(Author::anyone(&engine.id), &task_type, record, |draft| {
            // Judged again on a newer state: another host has taken it, the old owner is alive after
            // all, or the task sleeps now. Not ours, and no reason to try again.
            let now = draft.record();
            let elsewhere = now.task.host != host && now.task.status != TaskStatus::Compensating;
            if now.task.epoch != epoch_before
                || !guard!("lease of another host", !now.lease_is_live())
                || elsewhere
                || !now.due_in().is_zero()
            {
                return Ok(None);
            }
            draft.set_earlier_losses(&losses);
            draft.claim(&engine.id, ttl)?;
            if let Some(no) = place {
                draft.take_place(no);
            }
            plan.next(draft).map(Some)
        })
        .await;
    let held_back = plan.facts.held_back;
    let (record, next) = match changed {
        Ok(Changed {
            answer: Some(next),
            record,
            ..
        }) => (record, next),
        refused => return Err(refused.err().unwrap_or(ChangeError::Fenced)),
    };
    let name = task_type.decl.name;
    engine.observe(Observation::Claim {
        task_type: name,
        after: record.task.updated_at.after(ready_since),
    });
    if was_lost {
        engine.observe(Observation::Recovery { task_type: name });
    }
    tracing::debug!(%task, epoch = %record.task.epoch, status = %record.task.status, "claimed");
    let claimed = Claimed {
        task_type,
        host,
        record,
        read_at: ReadAt::now(engine),
        lease: Lease::taken(leased_at),
    };
    let mut turn = Turn::of(engine, claimed, with);
    turn.settle(held_back).await;
    Ok((turn, next))
}

/// Bytes of the futures of a turn, with their bounds.
#[cfg(test)]
pub(crate) fn sizes() -> [(&'static str, usize, usize); 6] {
    use crate::engine::sizes::{bytes, never};
    let a_turn = || never::<&'static mut Turn<'static>>();
    [
        (
            "a turn, without its run",
            6_144,
            bytes(|| take_turn(never(), never(), never(), never())),
        ),
        (
            "a turn's run",
            5_376,
            bytes(|| never::<Turn<'static>>().run(never())),
        ),
        (
            "what is claimable",
            512,
            bytes(|| claimable(never(), never(), never())),
        ),
        (
            "a claim",
            3_072,
            bytes(|| claim(never(), never(), never(), never())),
        ),
        ("a decision", 2_560, bytes(|| a_turn().go_on())),
        ("an attempt's end", 3_840, bytes(|| a_turn().ended(never()))),
    ]
}
