//! Scratch files that the next steps read, where they are not what those steps can use.

use super::view::View;
use crate::error::StepError;
use crate::scratch::scratch_files_in;
use counterstep_contracts::StepStatus;
use counterstep_contracts::declaration::InputDecl;

/// What the code that the step's next attempt runs reads.
fn inputs_of(view: &View<'_>, at: usize) -> &'static [InputDecl] {
    let decl = &view.decl.steps[at];
    decl.fallback
        .filter(|_| view.step(at).in_fallback)
        .map_or(decl.inputs, |fallback| fallback.inputs)
}

fn reads(view: &View<'_>, at: usize, producer: usize) -> bool {
    let name = view.decl.steps[producer].name;
    inputs_of(view, at).iter().any(|input| input.source == name)
}

fn has_scratch(view: &View<'_>, at: usize) -> bool {
    let task = view.record.task.id;
    let output = view.step(at).output.as_ref();
    output.is_some_and(|output| !scratch_files_in(task, output).is_empty())
}

/// Whether an attempt that makes lost scratch again is under way.
pub(super) fn is_rebuilding(view: &View<'_>) -> bool {
    view.record
        .steps
        .iter()
        .any(|row| row.status == StepStatus::Completed && row.attempt_open)
}

/// Whether a step of the stage reads a scratch file.
pub(super) fn is_read_by(view: &View<'_>, stage: &[usize]) -> bool {
    (0..view.record.steps.len())
        .filter(|&producer| has_scratch(view, producer))
        .any(|producer| stage.iter().any(|&at| reads(view, at, producer)))
}

/// A step of the stage that reads scratch of another kind of host. The compiler refuses most of
/// these; a type such as `Mutex<ScratchFile>` slips past it.
pub(super) fn unreachable(view: &View<'_>, stage: &[usize]) -> Option<(usize, StepError)> {
    let steps = view.decl.steps;
    stage.iter().find_map(|&at| {
        let elsewhere = |producer: &usize| {
            steps[*producer].host != steps[at].host
                && reads(view, at, *producer)
                && has_scratch(view, *producer)
        };
        let producer = (0..view.record.steps.len()).find(elsewhere)?;
        let error = StepError::permanent(format_args!(
            "it reads a scratch file of `{}`, which runs on another kind of host: scratch files never \
             cross hosts, also not inside another type; store the file instead",
            steps[producer].name
        ));
        Some((at, error))
    })
}

/// A completed step whose scratch is lost and that a step of the stage reads.
pub(super) fn lost_input(view: &View<'_>, stage: &[usize]) -> Option<usize> {
    let lost = view.facts.lost_scratch.iter().copied();
    lost.filter(|&lost| view.step(lost).status == StepStatus::Completed)
        .find(|&lost| stage.iter().any(|&at| reads(view, at, lost)))
}

/// What lost scratch was made of may be lost as well: the first link of the chain comes first.
pub(super) fn first_lost_link(view: &View<'_>, mut lost: usize) -> usize {
    while let Some(inner) = lost_input(view, &[lost]) {
        lost = inner;
    }
    lost
}
