//! Stages: which steps run side by side, and which come next going forward, from the declaration and the states of the steps alone.
//! Those to undo are in `undo_order`.

use super::waits::waits;
use crate::record::{DbTime, StepRow};
use crate::saga::StepState;
use counterstep_contracts::{StepDecl, StepStatus, TaskDecl};

/// The next thing to do going forward. Positions are those of the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardPlan {
    /// Start these, side by side: one step, or what is left of a group.
    Start(Vec<usize>),
    /// The steps of the current stage are running, or wait for something that is not there yet.
    Hold,
    /// All are done.
    Finish,
}

/// What the judge sees of a task's steps.
#[must_use]
pub fn states(decl: &TaskDecl, steps: &[StepRow]) -> Vec<StepState> {
    decl.steps
        .iter()
        .zip(steps)
        .map(|(decl, row)| StepState {
            status: row.status,
            // What another task did is not undone with this one.
            effects: decl.undo.has_effects() && !row.kept,
            started: row.started_seq.is_some(),
        })
        .collect()
}

/// Positions of the steps that run side by side with `at`: its whole group, or itself alone.
#[must_use]
pub fn stage_of(decl: &TaskDecl, at: usize) -> Vec<usize> {
    let in_stage = |step: &StepDecl| match step.group {
        Some(group) => decl.steps[at].group == Some(group),
        None => step.no == decl.steps[at].no,
    };
    (0..decl.steps.len())
        .filter(|&other| in_stage(&decl.steps[other]))
        .collect()
}

/// Whether what a waiting step waits for is there: its time has come, or its signal.
#[must_use]
pub fn is_due(row: &StepRow, now: DbTime) -> bool {
    row.signal.is_some() || row.due_at.is_none_or(|due| due <= now)
}

/// The waiting steps of the current stage, and those whose probe waits, with when each is due.
#[must_use]
pub fn due_times(decl: &TaskDecl, steps: &[StepRow]) -> Vec<(usize, DbTime)> {
    let first = steps.iter().position(is_open);
    let stage = first.map_or_else(Vec::new, |first| stage_of(decl, first));
    let due = |at: usize| Some((at, steps[at].waits_until()?));
    stage.into_iter().filter_map(due).collect()
}

const fn is_open(row: &StepRow) -> bool {
    !matches!(row.status, StepStatus::Completed | StepStatus::Skipped)
}

/// What to do next, going forward, at this time of the database's clock.
#[must_use]
pub fn forward(decl: &TaskDecl, steps: &[StepRow], now: DbTime) -> ForwardPlan {
    let Some(first) = steps.iter().position(is_open) else {
        return ForwardPlan::Finish;
    };
    let mut start = Vec::new();
    for at in stage_of(decl, first) {
        match steps[at].status {
            StepStatus::Pending => start.push(at),
            // Else the next try of its probe is due later.
            StepStatus::InDoubt if steps[at].waits_until().is_none_or(|due| due <= now) => {
                start.push(at);
            }
            // What became of its tasks is looked at whenever something is decided.
            StepStatus::Waiting if decl.steps[at].has_children() => start.push(at),
            StepStatus::Waiting if is_due(&steps[at], now) => start.push(at),
            // Anything else is under way, or stands in a state that the judge lets nothing follow.
            StepStatus::Waiting
            | StepStatus::InDoubt
            | StepStatus::Running
            | StepStatus::Completed
            | StepStatus::Skipped
            | StepStatus::Failed
            | StepStatus::Compensating
            | StepStatus::Compensated
            | StepStatus::CompensationFailed
            | StepStatus::Resolved => {}
        }
    }
    if start.is_empty() {
        ForwardPlan::Hold
    } else {
        ForwardPlan::Start(start)
    }
}

/// Whether the output of `at` has been read by what stands: a step that reads it has completed, a
/// wait has begun by it, or a condition that reads it has decided.
#[must_use]
pub fn is_relied_on(decl: &TaskDecl, steps: &[StepRow], at: usize) -> bool {
    let name = decl.steps[at].name;
    decl.steps.iter().zip(steps).any(|(step, row)| {
        let has_read = row.status == StepStatus::Completed || wait_has_begun(step, row);
        has_read && step.reads(name) || has_decided(row) && step.condition_reads(name)
    })
}

/// Whether the step waits for what its function has said.
fn wait_has_begun(step: &StepDecl, row: &StepRow) -> bool {
    let sleeps = row.status == StepStatus::Waiting && row.due_at.is_some();
    (sleeps || row.children.is_some()) && waits(step, row).is_some()
}

/// Whether the condition of a step, where it has one, has been asked and will not be asked again.
pub(crate) fn has_decided(row: &StepRow) -> bool {
    row.status != StepStatus::Pending || row.started_seq.is_some()
}
