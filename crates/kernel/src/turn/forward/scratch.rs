//! Scratch files that the next steps read, where they are not what those steps can use. Looks at rows only.

use super::Ahead;
use crate::draft::Draft;
use crate::record::StepRow;
use crate::scratch::scratch_files_in;
use counterstep_contracts::{StepDecl, StepStatus};

impl Ahead<'_> {
    /// A step of the stage that reads scratch of another kind of host. The compiler refuses most of these; a type such
    /// as `Mutex<ScratchFile>` slips past it.
    pub(super) fn strange_scratch(&self, draft: &Draft, stage: &[usize]) -> Option<(usize, &'static str)> {
        let steps = draft.decl().steps;
        stage.iter().find_map(|&at| {
            let reads = |name: &str| draft.inputs_of_step(at).iter().any(|input| input.source == name);
            let strange = |(producer, row): &(&StepDecl, &StepRow)| {
                producer.host != steps[at].host
                    && reads(producer.name)
                    && row.output.as_ref().is_some_and(|output| !scratch_files_in(output).is_empty())
            };
            steps.iter().zip(&draft.record().steps).find(strange).map(|(producer, _)| (at, producer.name))
        })
    }

    pub(super) fn lost_input(&self, draft: &Draft, stage: &[usize]) -> Option<usize> {
        let reads = |at: usize, name: &str| draft.inputs_of_step(at).iter().any(|input| input.source == name);
        self.missing
            .iter()
            .copied()
            .filter(|&lost| draft.step(lost).status == StepStatus::Completed)
            .find(|&lost| stage.iter().any(|&at| reads(at, draft.decl().steps[lost].name)))
    }
}
