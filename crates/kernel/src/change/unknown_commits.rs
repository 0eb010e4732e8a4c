//! Commits whose answer was lost. Whether one was written is read from the rows: the last change of
//! a task bears its id, and an earlier one is a row of its journal. Decides nothing about the task.

use crate::change::transition::{LeaseChange, Transition};
use crate::draft::As;
use crate::record::{History, TaskRecord};
use counterstep_contracts::Rev;
use counterstep_steps::guard;
use std::sync::Arc;
use std::time::Duration;

/// How long a caller without a lease looks up whether its change was written: a client waits for the answer.
const CLIENT_WAITS: Duration = Duration::from_secs(5);

/// Changes of one task that were handed to the store, each with what its caller wants to know. A
/// task has a revision, so at most one of them was written, or will be: a server may still be busy
/// with it when its connection is gone.
#[derive(Debug)]
pub(crate) struct Doubts<R>(Vec<(R, Arc<Transition>)>);

impl<R> Default for Doubts<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R> Doubts<R> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, answer: R, transition: Arc<Transition>) {
        self.0.push((answer, transition));
    }

    /// Whether the row leaves it open which of them were written, and the history has to say.
    pub(crate) fn need_history(&self, record: &TaskRecord) -> bool {
        let latest =
            |(_, transition): &(R, Arc<Transition>)| transition.change_id == record.task.change_id;
        let may_be = |(_, transition): &(R, Arc<Transition>)| {
            written_rev(transition).is_some_and(|rev| rev <= record.task.rev)
        };
        !self.0.iter().any(latest)
            && self.0.iter().any(may_be)
            && !guard!("own change in the journal", false)
    }

    /// Takes out the one that was written; `history` where it is needed.
    pub(crate) fn settle(
        &mut self,
        record: &TaskRecord,
        history: Option<&History>,
    ) -> Option<(R, Arc<Transition>)> {
        let written = |(_, transition): &(R, Arc<Transition>)| {
            transition.change_id == record.task.change_id
                || history.is_some_and(|history| is_in(transition, history))
        };
        let found = self.0.iter().position(written);
        let at = found.filter(|_| !guard!("own change looked for", false))?;
        Some(self.0.swap_remove(at))
    }
}

/// How long the author of a change looks for it. A claim must be able to prolong its lease
/// afterwards.
pub(crate) fn patience(transition: &Transition) -> Duration {
    match transition.task.as_ref().map(|write| &write.lease) {
        Some(LeaseChange::Take { ttl, .. }) => *ttl / 2,
        Some(LeaseChange::Keep | LeaseChange::Release) | None => CLIENT_WAITS,
    }
}

/// Whether the change, once written, leaves a lease with its author that has ended since.
pub(crate) fn has_lost_its_lease(by: As, transition: &Transition, record: &TaskRecord) -> bool {
    let Some(write) = &transition.task else {
        return false;
    };
    let holds = match write.lease {
        LeaseChange::Take { .. } => true,
        LeaseChange::Keep => by == As::Owner,
        LeaseChange::Release => false,
    };
    holds && write.row.epoch != record.task.epoch
}

fn written_rev(transition: &Transition) -> Option<Rev> {
    transition.task.as_ref().map(|write| write.row.rev)
}

fn is_in(transition: &Transition, history: &History) -> bool {
    written_rev(transition)
        .is_some_and(|rev| history.changes.contains(&(rev, transition.change_id)))
}
