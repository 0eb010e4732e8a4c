//! What a turn and its heartbeats know of the lease of the task, and of each other's part in it.

use counterstep_contracts::{Direction, WhenCutOff};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How a lease stands, as its owner knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// It has not run out since a heartbeat was confirmed that was sent then, by this process's timer.
    Held(Duration),
    /// It ran out by this process's timer, and no heartbeat got through: another host may have the task.
    Over,
    /// Another host has the task, or nothing tries to get the lease back.
    Lost,
}

/// The lease of a turn. Shared by the turn and its heartbeats.
#[derive(Debug)]
pub(super) struct Lease {
    state: watch::Sender<LeaseState>,
    stopping: Arc<AtomicUsize>,
    going_on: Arc<AtomicUsize>,
}

/// The lease will not be held again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IsLost;

/// Work that the end of the lease concerns, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderLease(Arc<AtomicUsize>);

impl UnderLease {
    fn among(work: &Arc<AtomicUsize>) -> Self {
        work.fetch_add(1, Ordering::Relaxed);
        Self(work.clone())
    }
}

impl Drop for UnderLease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lease {
    /// Taken by a commit that was sent then.
    pub(super) fn taken(sent: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(LeaseState::Held(sent)),
            stopping: Arc::default(),
            going_on: Arc::default(),
        })
    }

    /// When the last heartbeat was sent that was confirmed, or the commit that took it; of one that is
    /// over: `None`.
    pub(super) fn confirmed(&self) -> Option<Duration> {
        match *self.state.borrow() {
            LeaseState::Held(sent) => Some(sent),
            LeaseState::Over | LeaseState::Lost => None,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.state.borrow() == LeaseState::Lost
    }

    /// A heartbeat that was sent then is confirmed.
    pub(super) fn confirm(&self, sent: Duration) {
        self.become_(LeaseState::Held(sent));
    }

    /// It ran out.
    pub(super) fn end(&self) {
        self.become_(LeaseState::Over);
    }

    /// It is another host's, or is not asked for any more.
    pub(super) fn lose(&self) {
        self.become_(LeaseState::Lost);
    }

    fn become_(&self, state: LeaseState) {
        self.state.send_replace(state);
    }

    /// Waits until a heartbeat is confirmed that was not sent before this moment.
    pub(super) async fn held_after(&self, moment: Duration) -> Result<(), IsLost> {
        let mut state = self.state.subscribe();
        let seen = state
            .wait_for(|state| match *state {
                LeaseState::Held(sent) => sent >= moment,
                LeaseState::Over => false,
                LeaseState::Lost => true,
            })
            .await;
        // The sender is this lease.
        match seen.as_deref() {
            Ok(LeaseState::Held(_)) => Ok(()),
            Ok(LeaseState::Over | LeaseState::Lost) | Err(_) => Err(IsLost),
        }
    }

    /// An attempt runs.
    pub(super) fn attempt(&self, direction: Direction, when_cut_off: WhenCutOff) -> UnderLease {
        match (direction, when_cut_off) {
            (Direction::Forward, WhenCutOff::Finish) => self.goes_on_beyond(),
            (Direction::Forward, WhenCutOff::Stop) | (Direction::Undo, _) => {
                UnderLease::among(&self.stopping)
            }
        }
    }

    /// Something goes on when the lease is over: a step that does, or a result that is to be written.
    pub(super) fn goes_on_beyond(&self) -> UnderLease {
        UnderLease::among(&self.going_on)
    }

    /// Whether the turn goes on when the lease is over, and tries to get it back.
    pub(super) fn outlasts_its_end(&self) -> bool {
        self.going_on.load(Ordering::Relaxed) > 0
    }

    /// Whether attempts run that must stop then.
    pub(super) fn has_to_stop_some(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) > 0
    }
}
