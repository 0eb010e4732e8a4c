//! Room for heavy steps: those that take a processor or much memory for themselves. A process runs
//! few of them side by side, whatever its number of tasks, and takes no task whose next step is
//! heavy while all of that room is taken. It is counted as a limit of this process alone.
//!
//! Must not hold up a light step.

use crate::admission::limits::{KeyedLimit, LimitKey, LimitPermit, Limits};
use counterstep_contracts::Limit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::sync::Notify;

/// What a process has for heavy steps.
#[derive(Debug)]
pub(crate) struct Heavy {
    limits: Arc<Limits>,
    key: LimitKey,
    limit: Limit,
    /// Maximum number of steps side by side.
    pub(crate) steps: u32,
    /// Rooms in the code of steps.
    inside: AtomicU32,
    /// Rooms in abandoned code, which may hold them as long as the process lives.
    abandoned: AtomicU32,
    more_abandoned: Notify,
}

/// Room that went into a step's code.
#[derive(Debug)]
pub(crate) struct RoomInCode {
    heavy: Arc<Heavy>,
    abandoned: AtomicBool,
    _permit: LimitPermit,
}

impl RoomInCode {
    pub(crate) fn new(heavy: &Arc<Heavy>, permit: LimitPermit) -> Arc<Self> {
        heavy.inside.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self {
            heavy: heavy.clone(),
            abandoned: AtomicBool::new(false),
            _permit: permit,
        })
    }

    /// Nothing waits for the code any more, and the room is still inside it.
    pub(crate) fn abandon(&self) {
        if !self.abandoned.swap(true, Ordering::SeqCst) {
            self.heavy.abandoned.fetch_add(1, Ordering::SeqCst);
            self.heavy.more_abandoned.notify_waiters();
        }
    }
}

impl Drop for RoomInCode {
    fn drop(&mut self) {
        self.heavy.inside.fetch_sub(1, Ordering::SeqCst);
        if *self.abandoned.get_mut() {
            self.heavy.abandoned.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Heavy {
    /// `steps`: maximum number of steps side by side.
    pub(crate) fn new(limits: &Arc<Limits>, steps: usize) -> Self {
        let most = usize::try_from(Limit::MOST).unwrap_or(usize::MAX);
        let steps = u32::try_from(steps.clamp(1, most)).unwrap_or(Limit::MOST);
        Self {
            limits: limits.clone(),
            key: LimitKey::of_process(),
            limit: Limit::named("heavy").at_once(steps),
            steps,
            inside: AtomicU32::new(0),
            abandoned: AtomicU32::new(0),
            more_abandoned: Notify::new(),
        }
    }

    /// The limit of this process that it is.
    pub(crate) const fn limit(&self) -> KeyedLimit<'_> {
        KeyedLimit {
            key: &self.key,
            limit: &self.limit,
        }
    }

    /// Number of steps that run now. Room that a task has taken and still waits for something else is not among them.
    pub(crate) fn running(&self) -> u32 {
        self.inside.load(Ordering::SeqCst)
    }

    /// Whether all of the room is in abandoned code, so that waiting for it may take as long as the
    /// process lives.
    pub(crate) fn is_stuck(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst) >= self.steps
    }

    /// Waits until all of the room is in abandoned code.
    pub(crate) async fn stuck(&self) {
        loop {
            // Before the look: what is abandoned after it ends this wait.
            let more = self.more_abandoned.notified();
            if self.is_stuck() {
                return;
            }
            more.await;
        }
    }

    /// Waits for room, for as long as it takes.
    pub(crate) async fn room(&self) -> Option<LimitPermit> {
        self.limits.take_whenever(self.limit()).await
    }

    /// Room that is free now.
    pub(crate) fn free_room(&self) -> Option<LimitPermit> {
        self.limits.take_free(self.limit())
    }
}
