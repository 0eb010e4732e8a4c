//! What bounds the steps that are next: room for the heavy ones, and the time that the deadline of the task leaves.

use super::Ahead;
use crate::draft::Draft;
use crate::record::StepRow;
use crate::scratch::scratch_files_in;
use std::time::Duration;

impl Ahead<'_> {
    /// Whether another host should run this stage: a step of it is heavy, and this process has no room. A stage that reads
    /// files of this host waits for room here instead: elsewhere they would have to be made again.
    pub(super) fn lacks_room(&self, draft: &Draft, stage: &[usize]) -> bool {
        let is_heavy = stage.iter().any(|&at| draft.decl().steps[at].heavy);
        is_heavy && !reads_scratch(draft, stage) && !self.reserved.reserve(self.engine)
    }

    /// The limit of an attempt, cut short where the deadline of the task comes first.
    pub(super) fn within_deadline(&self, draft: &Draft, limit: Duration) -> Duration {
        let record = draft.record();
        record.task.deadline_at.map_or(limit, |deadline| limit.min(deadline.after(record.now)))
    }
}

fn reads_scratch(draft: &Draft, stage: &[usize]) -> bool {
    let holds = |row: &StepRow| row.output.as_ref().is_some_and(|output| !scratch_files_in(output).is_empty());
    let makers = draft.decl().steps.iter().zip(&draft.record().steps).filter(|(_, row)| holds(row));
    makers
        .map(|(maker, _)| maker.name)
        .any(|maker| stage.iter().any(|&at| draft.inputs_of_step(at).iter().any(|input| input.source == maker)))
}
