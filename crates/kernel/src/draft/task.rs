//! What a change makes of the task's own row, beside what the judge rules: its lease and its times.

use super::Draft;
use crate::change::transition::{LeaseChange, TaskWrite, Time};
use crate::host::lost_hosts::Loss;
use crate::record::TaskRow;
use std::time::Duration;

/// Of the task itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftTask {
    pub(crate) lease: LeaseChange,
    pub(super) needs_expired_lease: bool,
    pub(crate) due: Time,
    pub(crate) deadline: Time,
    pub(super) cancel_requested: Time,
    pub(super) finished: Time,
    /// Of hosts, before the one that the draft may count.
    pub(super) earlier_losses: Vec<Loss>,
}

impl DraftTask {
    /// It has ended, or a person has to decide.
    pub(super) fn rests(&mut self) {
        self.lease = LeaseChange::Release;
        self.due = Time::Clear;
    }

    /// It is given back, and is looked at again after so long.
    pub(super) fn sleeps(&mut self, left: Duration) {
        self.lease = LeaseChange::Release;
        self.due = Time::In(left);
    }

    /// Whether a host has it after the change.
    pub(super) const fn is_leased(&self, row: &TaskRow) -> bool {
        match self.lease {
            LeaseChange::Keep => row.lease_owner.is_some(),
            LeaseChange::Take { .. } => true,
            LeaseChange::Release => false,
        }
    }

    pub(super) fn write(self, row: TaskRow) -> TaskWrite {
        TaskWrite {
            row,
            lease: self.lease,
            needs_expired_lease: self.needs_expired_lease,
            due: self.due,
            deadline: self.deadline,
            cancel_requested: self.cancel_requested,
            finished: self.finished,
        }
    }
}

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
}
