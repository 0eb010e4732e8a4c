//! What is written down about a result that came too late: another host has had the task since.

use super::{Draft, Note};
use crate::saga::{Illegal, StepEvent};
use counterstep_contracts::{Attempt, Direction, Epoch};
use serde_json::json;

/// A result that is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DroppedResult<'a> {
    /// Position of the step.
    pub(crate) at: usize,
    /// Whether it runs or undoes the step.
    pub(crate) direction: Direction,
    /// Number of the attempt.
    pub(crate) attempt: Attempt,
    /// The epoch under which the attempt ran.
    pub(crate) epoch: Epoch,
    /// The process that ran it.
    pub(crate) worker: &'a str,
}

impl Draft {
    /// Names a result that is dropped. Nothing else changes.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn drop_result(&mut self, dropped: DroppedResult<'_>) -> Result<(), Illegal> {
        let note = Note::attempt(dropped.attempt).with(json!({
            "direction": dropped.direction.as_str(),
            "epoch": dropped.epoch,
            "worker": dropped.worker,
        }));
        self.apply(StepEvent::ResultDropped.at(dropped.at), note)
    }
}
