//! The cancel tokens of a turn: which of its work is told to stop, and why.

use super::attempt::StoppedBy;
use crate::cancel::{CancelReason, CancelToken};
use counterstep_contracts::{Direction, WhenCutOff};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The tokens of a turn. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    /// That of the process: nothing new starts. What runs goes on, until the others are cancelled.
    pub(super) shutdown: CancelToken,
    /// Of steps that go on when the lease is over because the database does not answer.
    finishing: CancelToken,
    stopping: Arc<Mutex<Stopping>>,
    /// Of the turn itself: its process ends, whatever else its work was told before.
    pub(super) told_to_stop: CancelToken,
}

/// Of all else. An undo has its own: the cancel that led to it must not cancel it. They are others once the turn has
/// its lease again.
#[derive(Debug, Default)]
struct Stopping {
    forward: CancelToken,
    undo: CancelToken,
}

impl Tokens {
    /// Of a turn of a process with this token.
    pub(super) fn of(shutdown: &CancelToken) -> Self {
        Self {
            shutdown: shutdown.clone(),
            ..Self::default()
        }
    }

    fn stopping(&self) -> MutexGuard<'_, Stopping> {
        self.stopping.lock()
    }

    /// Of steps that stop when the lease is over, and of all that waits on the way forward.
    pub(super) fn forward(&self) -> CancelToken {
        self.stopping().forward.clone()
    }

    /// Of undos and probes.
    pub(super) fn undo(&self) -> CancelToken {
        self.stopping().undo.clone()
    }

    /// Of an attempt.
    pub(super) fn of_attempt(&self, direction: Direction, when_cut_off: WhenCutOff) -> CancelToken {
        match (direction, when_cut_off) {
            (Direction::Forward, WhenCutOff::Finish) => self.finishing.clone(),
            (Direction::Forward, WhenCutOff::Stop) => self.forward(),
            (Direction::Undo, _) => self.undo(),
        }
    }

    /// Whether one of them was cancelled for this reason. The first reason of a token stays: a
    /// forward token that was cancelled on request says nothing of a shutdown that came later, but
    /// the undo's does.
    pub(super) fn is_cancelled_for(&self, reason: CancelReason) -> bool {
        [self.forward(), self.undo(), self.finishing.clone()]
            .iter()
            .any(|token| token.reason() == Some(reason))
    }

    pub(super) fn cancel(&self, reason: CancelReason) {
        if reason == CancelReason::Shutdown {
            self.told_to_stop.cancel(reason);
        }
        self.cancel_forward(reason);
        if StoppedBy::of(reason).is_some() {
            self.undo().cancel(reason);
        }
    }

    /// All that goes forward.
    pub(super) fn cancel_forward(&self, reason: CancelReason) {
        self.forward().cancel(reason);
        self.finishing.cancel(reason);
    }

    /// The lease is over, and nothing is known of another owner.
    pub(super) fn stop_without_lease(&self) {
        self.forward().cancel(CancelReason::LeaseLost);
        self.undo().cancel(CancelReason::LeaseLost);
    }

    /// The lease is held again: what was stopped for it may start anew, unless something else stands
    /// against that.
    pub(super) fn renew(&self) {
        {
            let Stopping { forward, undo } = &mut *self.stopping();
            for token in [forward, undo] {
                if token.reason() == Some(CancelReason::LeaseLost) {
                    *token = CancelToken::new();
                }
            }
        }
        if let Some(reason) = self.finishing.reason() {
            self.cancel(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tokens;
    use crate::cancel::CancelReason;
    use counterstep_contracts::{Direction, WhenCutOff};

    #[test]
    fn only_steps_that_finish_go_on_without_a_lease_and_the_others_start_anew_with_it() {
        let tokens = Tokens::default();
        let of = |direction, when_cut_off| tokens.of_attempt(direction, when_cut_off);
        let running = [
            of(Direction::Forward, WhenCutOff::Stop),
            of(Direction::Forward, WhenCutOff::Finish),
            of(Direction::Undo, WhenCutOff::Finish),
        ];
        tokens.stop_without_lease();
        let reasons = running.clone().map(|token| token.reason());
        let lost = Some(CancelReason::LeaseLost);
        assert_eq!(reasons, [lost, None, lost]);
        assert!(tokens.is_cancelled_for(CancelReason::LeaseLost));

        tokens.renew();
        assert!(!tokens.is_cancelled_for(CancelReason::LeaseLost));
        assert!(!tokens.forward().is_cancelled() && !tokens.undo().is_cancelled());
        assert_eq!(running[0].reason(), lost, "what was stopped stays stopped");
    }

    #[test]
    fn a_shutdown_and_a_cancel_hold_over_the_time_without_a_lease() {
        for (reason, stops_undos) in [
            (CancelReason::Shutdown, true),
            (CancelReason::Requested, false),
        ] {
            let tokens = Tokens::default();
            tokens.stop_without_lease();
            tokens.cancel(reason);
            tokens.renew();
            assert_eq!(tokens.forward().reason(), Some(reason));
            assert_eq!(tokens.undo().is_cancelled(), stops_undos);
        }
    }
}
