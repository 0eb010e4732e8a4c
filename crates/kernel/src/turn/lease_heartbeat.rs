//! What goes on beside the work of a turn: heartbeats, cancels, the shutdown of the process.
//!
//! The work is never dropped half-way: this only cancels tokens, and the work stops where it is
//! safe. A hint cancels nothing: only the task's row does.

use super::lease_state::Lease;
use super::lock::TaskLock;
use super::tokens::Tokens;
use crate::cancel::CancelReason;
use crate::engine::Engine;
use crate::ports::{Heartbeat, StoreError};
use crate::status::progress::Board;
use crate::status::task_log::TurnLog;
use counterstep_contracts::{Epoch, TaskId};
use counterstep_steps::guard;
use futures::StreamExt;
use futures::future::{Either, join, join3, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;

/// However many hints arrive for a task, its row is read at most once in this time because of them.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What is kept alive beside the work.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptLease<'a> {
    pub(super) task: TaskId,
    pub(super) epoch: Epoch,
    /// Whether its type allows a cancel.
    pub(super) cancellable: bool,
    /// Length of the lease, and of the lock.
    pub(super) ttl: Duration,
    /// Counted by this host's timer from before the claim was sent: the database counts it from a later
    /// moment.
    pub(super) lease: &'a Lease,
    pub(super) lock: &'a TaskLock,
    /// What the attempts say of their progress.
    pub(super) board: &'a Board,
    /// What the attempts log.
    pub(super) log: &'a TurnLog,
}

/// Runs `work` to its end while keeping the lease alive.
pub(super) async fn beside<T>(
    engine: &Engine,
    kept: KeptLease<'_>,
    tokens: &Tokens,
    work: impl Future<Output = T>,
) -> T {
    let (done, logged) = (Notify::new(), Notify::new());
    let work = async {
        let end = work.await;
        done.notify_one();
        logged.notify_one();
        end
    };
    // The heartbeats and the writes of the log end with the work. The others never end, and may be dropped anywhere: they
    // hold no transaction.
    let look = Notify::new();
    let beats = keep_alive(
        engine,
        kept,
        tokens,
        Wakes {
            look: &look,
            done: &done,
        },
    );
    let others = async {
        futures::join!(
            listen(engine, kept, &look),
            drain(engine, tokens),
            kept.board.tell(engine)
        );
    };
    let until_its_end = join3(work, beats, kept.log.keep_writing(engine, &logged));
    match select(pin!(until_its_end), pin!(others)).await {
        Either::Left(((end, (), ()), _)) => end,
        Either::Right((_, rest)) => rest.await.0,
    }
}

/// What ends the pause before the next heartbeat.
#[derive(Clone, Copy)]
struct Wakes<'a> {
    /// A hint arrived.
    look: &'a Notify,
    /// The work has ended.
    done: &'a Notify,
}

/// Prolongs the lease at a third of its length until the work is done, or the lease is over and nothing
/// goes on beyond its end.
async fn keep_alive(engine: &Engine, kept: KeptLease<'_>, tokens: &Tokens, wakes: Wakes<'_>) {
    let KeptLease {
        task,
        epoch,
        ttl,
        lease,
        ..
    } = kept;
    let clock = &engine.ports.clock;
    let mut confirmed = lease.confirmed().unwrap_or_default();
    let (mut is_over, mut goes_on) = (false, false);
    let round = engine.vitals.enter("heartbeat", Some(task));
    loop {
        let since = clock.monotonic().saturating_sub(confirmed);
        // After a failed one the next comes sooner: there is less time left.
        let pause = if since > ttl / 3 { ttl / 12 } else { ttl / 3 };
        // The heartbeat itself takes at most as long again.
        round.back_by(clock.monotonic() + pause + ttl / 3);
        let left = ttl.saturating_sub(since);
        let pause = clock.sleep(if is_over { pause } else { pause.min(left) });
        // Both are dropped before anything else waits for the same: a notification goes to the one that waits longest.
        let is_done = {
            let look = pin!(wakes.look.notified());
            let done = pin!(wakes.done.notified());
            matches!(select(select(pause, look), done).await, Either::Right(_))
        };
        if is_done {
            return;
        }
        let sent = clock.monotonic();
        let left = ttl.saturating_sub(sent.saturating_sub(confirmed));
        if left.is_zero() && !is_over {
            (is_over, goes_on) = (true, lease.outlasts_its_end());
            lease.end();
            if goes_on {
                if lease.has_to_stop_some() {
                    tokens.stop_without_lease();
                }
                tracing::warn!(%task, %epoch, "the lease is over and no heartbeat got through: what may go on does");
            }
        }
        // A heartbeat of a lease that is over is not even sent where the turn stops: it would prolong
        // the lease. Where something went on, the turn does: what it has written since waits for the
        // lease.
        let answer = if !is_over {
            beat(engine, kept, left.min(ttl / 3)).await
        } else if goes_on {
            beat(engine, kept, ttl / 3).await
        } else {
            Beat::Over
        };
        match answer {
            Beat::Answered(Ok(Heartbeat::Held { cancel_requested })) => {
                confirmed = sent;
                if std::mem::take(&mut is_over) {
                    kept.board.tell_again();
                    // What starts from now on has its lease.
                    tokens.renew();
                }
                lease.confirm(sent);
                if cancel_requested && !guard!("cancel of a running step", false) {
                    tokens.cancel(CancelReason::Requested);
                }
                continue;
            }
            // What was said when the lease ended holds as long as it takes.
            Beat::Answered(Err(_)) | Beat::Unanswered if is_over => continue,
            Beat::Answered(Err(error)) => {
                tracing::warn!(%task, %error, "a heartbeat failed");
                continue;
            }
            Beat::Unanswered => {
                tracing::warn!(%task, "a heartbeat got no answer in time");
                continue;
            }
            Beat::Answered(Ok(Heartbeat::Lost)) => {
                tracing::warn!(%task, %epoch, "the lease is lost: stopping")
            }
            // The database may answer every other host, and give the task to one of them.
            Beat::Over => {
                tracing::warn!(%task, %epoch, "the lease is over and no heartbeat got through: stopping")
            }
        }
        drop(round);
        lease.lose();
        if !guard!("lost lease told to steps", false) {
            tokens.cancel(CancelReason::LeaseLost);
        }
        wakes.done.notified().await;
        return;
    }
}

/// What came of a heartbeat.
enum Beat {
    /// The store answered.
    Answered(Result<Heartbeat, StoreError>),
    /// The store did not answer in time.
    Unanswered,
    /// The lease ended before it was sent.
    Over,
}

/// One heartbeat, which takes at most `limit`: a part of what is left of the lease, since a
/// connection may be dead without a sign of it, and the next heartbeat goes over another one.
async fn beat(engine: &Engine, kept: KeptLease<'_>, limit: Duration) -> Beat {
    let heartbeat = engine
        .ports
        .store
        .heartbeat(kept.task, kept.epoch, kept.ttl);
    match select(
        Box::pin(join(heartbeat, kept.lock.extend())),
        engine.ports.clock.sleep(limit),
    )
    .await
    {
        Either::Left(((answer, ()), _)) => Beat::Answered(answer),
        Either::Right(_) => Beat::Unanswered,
    }
}

/// Brings the next heartbeat forward when a hint of a cancel arrives. Anyone on the bus can send
/// one, so that it decides nothing: the heartbeat returns what the row holds.
async fn listen(engine: &Engine, kept: KeptLease<'_>, look: &Notify) {
    if !kept.cancellable {
        return;
    }
    let mut cancels = engine.ports.signals.cancels_of(kept.task);
    while let Some(()) = cancels.next().await {
        look.notify_one();
        engine.ports.clock.sleep(LOOK_PAUSE).await;
    }
}

/// On shutdown, gives running steps time to end by themselves before they are told to stop, unless
/// the process is to hurry.
async fn drain(engine: &Engine, tokens: &Tokens) {
    tokens.shutdown.cancelled().await;
    let drained = engine.ports.clock.sleep(engine.settings.drain);
    select(drained, pin!(engine.settings.hurry.cancelled())).await;
    if !guard!("end of a process told to its steps", false) {
        tokens.cancel(CancelReason::Shutdown);
    }
    std::future::pending().await
}
