//! What goes on beside the work of a turn: heartbeats, cancels, the shutdown of the process.
//!
//! The work is never dropped half-way: this only cancels tokens, and the work stops where it is safe.

use super::lock::TaskLock;
use crate::cancel::{CancelReason, CancelToken};
use crate::engine::Engine;
use crate::ports::Heartbeat;
use crate::progress::Board;
use counterstep_contracts::{Epoch, TaskId};
use futures::StreamExt;
use futures::future::{Either, join, select};
use std::future::Future;
use std::time::Duration;
use tokio::sync::Notify;

/// The two tokens of a turn. An undo has its own: the cancel that led to it must not cancel it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    pub(crate) forward: CancelToken,
    pub(crate) undo: CancelToken,
}

impl Tokens {
    /// Whether either was cancelled for this reason. The first reason of a token stays: a forward token that was
    /// cancelled on request says nothing of a shutdown that came later, but the undo's does.
    pub(super) fn is_cancelled_for(&self, reason: CancelReason) -> bool {
        [&self.forward, &self.undo].iter().any(|token| token.reason() == Some(reason))
    }

    fn cancel(&self, reason: CancelReason) {
        self.forward.cancel(reason);
        if reason.leaves_in_doubt() {
            self.undo.cancel(reason);
        }
    }
}

/// What is kept alive beside the work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) task: TaskId,
    pub(super) epoch: Epoch,
    /// Length of the lease, and of the lock.
    pub(super) ttl: Duration,
    pub(super) lock: &'a TaskLock,
    /// What the attempts say of their progress.
    pub(super) board: &'a Board,
}

/// Runs `work` to its end while keeping the lease alive.
pub(super) async fn beside<T>(
    engine: &Engine,
    kept: Kept<'_>,
    tokens: &Tokens,
    shutdown: &CancelToken,
    work: impl Future<Output = T>,
) -> T {
    let done = Notify::new();
    let work = async {
        let end = work.await;
        done.notify_one();
        end
    };
    // The heartbeats end with the work. The others never end, and may be dropped anywhere: they hold no transaction.
    let beats = keep_alive(engine, kept, tokens, &done);
    let others = async {
        futures::join!(listen(engine, kept.task, tokens), drain(engine, tokens, shutdown), kept.board.tell(engine));
    };
    match select(Box::pin(join(work, beats)), Box::pin(others)).await {
        Either::Left(((end, ()), _)) => end,
        Either::Right((_, rest)) => rest.await.0,
    }
}

/// Prolongs the lease at a third of its length until the work is done. A heartbeat under way is always awaited.
async fn keep_alive(engine: &Engine, kept: Kept<'_>, tokens: &Tokens, done: &Notify) {
    let Kept { task, epoch, ttl, lock, board: _ } = kept;
    let clock = &engine.ports.clock;
    let mut confirmed = clock.monotonic();
    loop {
        // After a failed one the next comes sooner: there is less time left.
        let pause = if clock.monotonic().saturating_sub(confirmed) > ttl / 3 { ttl / 12 } else { ttl / 3 };
        if let Either::Right(_) = select(clock.sleep(pause), Box::pin(done.notified())).await {
            return;
        }
        let (beat, ()) = join(engine.ports.store.heartbeat(task, epoch, ttl), lock.extend()).await;
        match beat {
            Ok(Heartbeat::Held { cancel_requested }) => {
                confirmed = clock.monotonic();
                if cancel_requested {
                    tokens.cancel(CancelReason::Requested);
                }
            }
            Ok(Heartbeat::Lost) => {
                tracing::warn!(%task, %epoch, "the lease is lost: stopping");
                tokens.cancel(CancelReason::LeaseLost);
                done.notified().await;
                return;
            }
            // Only the database says that a lease is lost; while it does not answer, nobody else can claim either.
            Err(error) => tracing::warn!(%task, %error, "a heartbeat failed"),
        }
    }
}

/// Passes a cancel on as soon as it is heard of. The heartbeat is the guarantee; this is only faster.
async fn listen(engine: &Engine, task: TaskId, tokens: &Tokens) {
    let mut cancels = engine.ports.signals.cancels_of(task);
    while let Some(()) = cancels.next().await {
        tokens.cancel(CancelReason::Requested);
    }
}

/// On shutdown, gives running steps time to end by themselves before they are told to stop.
async fn drain(engine: &Engine, tokens: &Tokens, shutdown: &CancelToken) {
    shutdown.cancelled().await;
    engine.ports.clock.sleep(engine.settings.drain).await;
    tokens.cancel(CancelReason::Shutdown);
    std::future::pending().await
}
