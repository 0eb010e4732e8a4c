//! A permit of a limit in the hands of an attempt.

use super::{LimitKey, Limits};
use counterstep_steps::guard;
use std::sync::Arc;
use std::time::Duration;

/// The right to run one attempt under a limit. Dropped, it is another attempt's.
#[derive(Debug)]
pub(crate) struct LimitPermit {
    limits: Arc<Limits>,
    key: LimitKey,
    /// The attempt starts then, by this process's timer.
    start: Duration,
}

impl LimitPermit {
    pub(super) fn new(limits: &Arc<Limits>, key: &LimitKey, start: Duration) -> Self {
        Self {
            limits: limits.clone(),
            key: key.clone(),
            start,
        }
    }

    /// The limit's name.
    pub(crate) fn limit(&self) -> &str {
        &self.key.limit
    }

    /// Waits for the start that it stands for.
    pub(crate) async fn started(&self) {
        let clock = &self.limits.clock;
        let left = self.start.saturating_sub(clock.monotonic());
        if !left.is_zero() {
            clock.sleep(left).await;
        }
    }

    /// Waits until the permit is lost: it could not be renewed for a lease, and another process may
    /// have it.
    pub(crate) async fn lost(&self) {
        while let Some(left) = self.limits.left(&self.key) {
            if left.is_zero() {
                if guard!("lease of a permit", false) {
                    break;
                }
                return;
            }
            self.limits.clock.sleep(left).await;
        }
        std::future::pending().await
    }
}

impl Drop for LimitPermit {
    fn drop(&mut self) {
        if guard!("permit given back", false) {
            return;
        }
        self.limits.give_back(&self.key);
    }
}
