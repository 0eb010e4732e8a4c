//! Scratch files that the next steps read, where they are not what those steps can use. Runs
//! nothing.

use super::Ahead;
use crate::draft::Draft;
use crate::plan;
use crate::record::StepRow;
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use crate::turn::{Next, Start, limits};
use counterstep_contracts::{Direction, StepDecl, StepStatus};

impl Ahead<'_> {
    /// A step of the stage that reads scratch of another kind of host. The compiler refuses most of
    /// these; a type such as `Mutex<ScratchFile>` slips past it.
    pub(super) fn strange_scratch(
        &self,
        draft: &Draft,
        stage: &[usize],
    ) -> Option<(usize, &'static str)> {
        let steps = draft.decl().steps;
        stage.iter().find_map(|&at| {
            let reads = |name: &str| {
                draft
                    .inputs_of_step(at)
                    .iter()
                    .any(|input| input.source == name)
            };
            let strange = |(producer, row): &(&StepDecl, &StepRow)| {
                producer.host != steps[at].host
                    && reads(producer.name)
                    && row
                        .output
                        .as_ref()
                        .is_some_and(|output| !scratch_files_in(output).is_empty())
            };
            steps
                .iter()
                .zip(&draft.record().steps)
                .find(strange)
                .map(|(producer, _)| (at, producer.name))
        })
    }

    pub(super) fn lost_input(&self, draft: &Draft, stage: &[usize]) -> Option<usize> {
        let reads = |at: usize, name: &str| {
            draft
                .inputs_of_step(at)
                .iter()
                .any(|input| input.source == name)
        };
        self.missing
            .iter()
            .copied()
            .filter(|&lost| draft.step(lost).status == StepStatus::Completed)
            .find(|&lost| {
                stage
                    .iter()
                    .any(|&at| reads(at, draft.decl().steps[lost].name))
            })
    }

    /// Has the scratch that a step of the stage reads made again, from its first lost link on;
    /// `None`: something else has to be decided first.
    pub(super) fn make_again(
        &self,
        draft: &mut Draft,
        stage: &[usize],
        mut lost: usize,
        running: bool,
    ) -> Result<Option<Next>, Illegal> {
        // It is made again once the siblings have ended: what they have read stays as it is until
        // then.
        if running {
            return Ok(Some(Next::Hold));
        }
        // What it was made of may be lost as well: the first link of the chain comes first.
        while let Some(inner) = self.lost_input(draft, &[lost]) {
            lost = inner;
        }
        if self.passes.must_wait(lost) {
            return self.wait_for_breakers(draft, &[lost]).map(Some);
        }
        if !plan::has_completed_reader(draft.decl(), &draft.record().steps, lost) {
            draft.scratch_lost(lost)?;
            return Ok(None);
        }
        // Other scratch that the stage reads may be here still: it waits here for room.
        match self.with_room(draft, vec![lost], stage, running) {
            None => return self.leave_for_room(draft).map(Some),
            Some(fits) if fits.is_empty() => return Ok(Some(Next::Hold)),
            Some(_) => {}
        }
        let (limit, sweep_after) = limits(self.engine, &self.task_type, lost, Direction::Forward);
        let execution = draft.start_rebuild(lost, sweep_after)?;
        Ok(Some(Next::Run(vec![Start {
            at: lost,
            execution,
            limit,
            first: false,
        }])))
    }
}
