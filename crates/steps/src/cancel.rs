//! Cancel tokens that carry their reason.

use futures::future::{Either, select};
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// Why a running step should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelReason {
    /// A client asked for it: the task will be undone.
    Requested,
    /// A sibling of its parallel group gave up: the task will be undone.
    Sibling,
    /// The process is shutting down: another one goes on. Uses up no retry.
    Shutdown,
    /// The lease is lost, or over without a heartbeat that got through: another host has the task,
    /// or may have it. Uses up no retry.
    LeaseLost,
}

/// Tells a step to stop, and why. Clones share the state; the first reason stays.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    reason: OnceLock<CancelReason>,
    wake: Notify,
}

impl CancelToken {
    /// A fresh one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels; a second reason changes nothing.
    pub fn cancel(&self, reason: CancelReason) {
        let _ = self.0.reason.set(reason);
        self.0.wake.notify_waiters();
    }

    /// Why, once cancelled.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        self.0.reason.get().copied()
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Waits until cancelled.
    pub async fn cancelled(&self) -> CancelReason {
        loop {
            let wake = self.0.wake.notified();
            tokio::pin!(wake);
            // Registered before the look, so that a cancel between the two is not missed.
            wake.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            wake.await;
        }
    }

    /// The result of the work, or `None` where the token is cancelled first. The work is dropped
    /// then: it may be requests and reads, never a transaction.
    pub async fn run_until_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (cancelled, work) = (pin!(self.cancelled()), pin!(work));
        match select(cancelled, work).await {
            Either::Left(_) => None,
            Either::Right((done, _)) => Some(done),
        }
    }
}
