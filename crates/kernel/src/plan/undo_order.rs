//! The order of an undo: which stage is undone next, from the declaration and the states of the steps alone. A live run, a recovery
//! and the `plan` route get the same answer.

use super::stages::{stage_of, states};
use crate::record::StepRow;
use counterstep_contracts::{StepStatus, TaskDecl, UndoDecl};
use counterstep_steps::guard;

/// The next thing to do going backward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackwardPlan {
    /// Undo these, side by side: one step, or the part of a group that started.
    Undo(Vec<usize>),
    /// Nothing that could still be undone is left.
    Finish,
}

/// What to do next, going backward: the latest started stage that still needs an undo. A stage that
/// failed to be undone is skipped where `go_on` says so, and is a barrier otherwise.
#[must_use]
pub fn backward(decl: &TaskDecl, steps: &[StepRow], go_on: bool) -> BackwardPlan {
    if !go_on
        && steps
            .iter()
            .any(|row| row.status == StepStatus::CompensationFailed)
    {
        return BackwardPlan::Finish;
    }
    let states = states(decl, steps);
    // Damaged rows may be more, or fewer, than the declaration has steps.
    let needs_undo = |at: usize| states.get(at).is_some_and(|step| step.needs_undo());
    let Some(last) = latest_started(steps, needs_undo) else {
        return BackwardPlan::Finish;
    };
    let stage = match guard!("one stage at a time", false) {
        true => (0..steps.len()).collect(),
        false => stage_of(decl, last),
    };
    let mut stage: Vec<usize> = stage.into_iter().filter(|&at| needs_undo(at)).collect();
    stage.sort_by_key(|&at| std::cmp::Reverse(steps[at].started_seq));
    BackwardPlan::Undo(stage)
}

/// Steps whose undo is waived and whose stage the way back has left: their waiver is due to be
/// recorded now, the latest first. None that was recorded before.
#[must_use]
pub fn waived_now(decl: &TaskDecl, steps: &[StepRow]) -> Vec<usize> {
    let states = states(decl, steps);
    let stage = |at: usize| stage_of(decl, at).first().copied();
    // The way back goes from the latest stage to the earliest. A group is left once all of it is
    // undone, in whatever order that happens.
    let needs_undo = |at: usize| states.get(at).is_some_and(|step| step.needs_undo());
    let current = latest_started(steps, needs_undo).and_then(stage);
    // Waivers of what lies beyond the earliest stage that is reached were recorded when it was.
    let reached = (0..states.len()).filter(|&at| is_reached(&steps[at]));
    let reached = reached.filter_map(stage).min();
    let is_waived = |at: &usize| matches!(decl.steps[*at].undo, UndoDecl::Waived { .. });
    let mut waived: Vec<usize> = (0..states.len())
        .filter(|&at| states[at].started)
        .filter(is_waived)
        .filter(|&at| current.is_none_or(|current| stage(at) > Some(current)))
        .filter(|&at| reached.is_none_or(|reached| stage(at) <= Some(reached)))
        .collect();
    waived.sort_by_key(|&at| std::cmp::Reverse(steps[at].started_seq));
    waived
}

/// Whether the way back has come to the step: its undo has started, or none is needed. Not where its
/// probe has given up ahead of that.
const fn is_reached(row: &StepRow) -> bool {
    row.probe.is_none()
        && matches!(
            row.status,
            StepStatus::Compensating
                | StepStatus::Compensated
                | StepStatus::CompensationFailed
                | StepStatus::Resolved
        )
}

/// What an undo of the whole task would do now, stage by stage, if every undo succeeds.
#[must_use]
pub fn undo_stages(decl: &TaskDecl, steps: &[StepRow]) -> Vec<Vec<usize>> {
    let mut steps = steps.to_vec();
    let mut stages = Vec::new();
    while let BackwardPlan::Undo(stage) = backward(decl, &steps, true) {
        for &at in &stage {
            steps[at].status = StepStatus::Compensated;
        }
        stages.push(stage);
    }
    stages
}

/// The same, step by step.
#[must_use]
pub fn undo_order(decl: &TaskDecl, steps: &[StepRow]) -> Vec<usize> {
    undo_stages(decl, steps).concat()
}

fn latest_started(steps: &[StepRow], wanted: impl Fn(usize) -> bool) -> Option<usize> {
    (0..steps.len())
        .filter(|&at| wanted(at))
        .max_by_key(|&at| steps[at].started_seq)
}
