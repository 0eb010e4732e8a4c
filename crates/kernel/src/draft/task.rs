//! What a change makes of the task's own row, beside what the judge rules: its lease, its times and its place.

use super::Draft;
use crate::change::transition::Time;
use crate::host::lost_hosts::Loss;
use std::time::Duration;

impl Draft {
    /// The losses of hosts before the one that the draft may count, to be named where the task is
    /// given up.
    pub fn set_earlier_losses(&mut self, losses: &[Loss]) {
        self.task.earlier_losses = losses.to_vec();
    }

    /// Notes that a cancel was accepted now.
    pub(super) fn mark_cancel_requested(&mut self) {
        self.task.cancel_requested = Time::In(Duration::ZERO);
        self.record.task.cancel_requested_at = Some(self.record.now);
    }

    /// Holds the place with this number from now on. The store refuses the change where another task
    /// has it.
    pub(crate) const fn take_place(&mut self, no: u32) {
        self.record.task.place_no = Some(no);
    }
}
