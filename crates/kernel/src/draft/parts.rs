//! The five parts of a draft, each with its fields and with what only they need to know. Must not ask the judge.

use crate::change::intents;
use crate::change::transition::{
    AttemptWrite, IdempotencyWrite, LeaseChange, PlaceWrite, Time, Transition, Work,
};
use crate::host::lost_hosts::Loss;
use crate::ports::DocumentWrite;
use crate::record::{TaskRecord, TaskRow};
use crate::sql::Sql;
use counterstep_contracts::StepNo;
use serde_json::Value;
use std::time::Duration;

/// What the change makes of the task's own row: its lease and its times.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftTask {
    pub(crate) lease: LeaseChange,
    pub(super) needs_expired_lease: bool,
    pub(super) writes_labels: bool,
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

    /// It is given back, and is looked at again after `left`.
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
}

/// Attempts that the change starts and ends, and whose their objects are then.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftAttempts {
    pub(super) writes: Vec<AttemptWrite>,
    pub(super) keeps_condemned: bool,
    pub(super) takes_receive: bool,
}

impl DraftAttempts {
    pub(super) fn push(&mut self, record: &mut TaskRecord, attempt: AttemptWrite) {
        self.keeps_condemned |= intents::keeps_condemned(&record.marks, &attempt);
        intents::apply(&mut record.marks, &attempt, record.now);
        self.writes.push(attempt);
    }
}

/// What is written or sent beside the task.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftOutgoing {
    pub(super) work: Vec<Work>,
    pub(crate) idempotency: Option<IdempotencyWrite>,
    pub(super) document: Option<Box<DocumentWrite>>,
    /// For the first audit entry.
    pub(super) submitted: Value,
    /// For tables of the user's own, in the same transaction.
    pub(crate) sql: Vec<Sql>,
}

impl DraftOutgoing {
    /// A schedule submits the task; `details` go into the first audit entry.
    pub(crate) fn set_schedule(&mut self, write: DocumentWrite, details: Value) {
        self.document = Some(Box::new(write));
        self.submitted = details;
    }
}

/// Tasks that steps submit with the change, and how many of earlier ones were seen to have ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct DraftChildren {
    pub(super) new: Vec<Transition>,
    pub(super) seen: Vec<(StepNo, u32)>,
}

/// What the change means for the place of the task among those of its key.
#[derive(Debug, Clone, Default)]
pub(super) struct DraftPlace {
    /// The task cannot be read: whether it has one is not known.
    pub(super) is_unknown: bool,
}

impl DraftPlace {
    /// The row in `places` is there while the task is not at rest.
    pub(super) fn write(&self, before: Option<&TaskRow>, row: &TaskRow) -> Option<PlaceWrite> {
        let was_open = before.filter(|before| !before.status.is_at_rest());
        let is_open = !row.status.is_at_rest();
        let Some(key) = &row.place_key else {
            let leaves = self.is_unknown && was_open.is_some();
            return leaves.then(|| PlaceWrite::Leave {
                key: String::new(),
                no: None,
            });
        };
        let has = |row: &TaskRow| row.place_no;
        match (was_open, is_open) {
            (Some(before), true) if has(before) == has(row) => None,
            (_, true) => Some(PlaceWrite::Put {
                key: key.clone(),
                no: has(row),
                since: before.map(|before| before.created_at),
            }),
            (Some(before), false) => Some(PlaceWrite::Leave {
                key: key.clone(),
                no: has(before),
            }),
            (None, false) => None,
        }
    }
}
