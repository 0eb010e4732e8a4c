//! Steps that wait, where the next steps are decided: a wait begins, is over, or times out.

use super::after_failure;
use super::children::{self, Next};
use super::decision::{Decision, WaitStep};
use super::view::View;
use crate::error::{StepError, StepResult};
use crate::record::{DbTime, StepRow};
use crate::task::output;
use crate::times::rfc3339;
use crate::waits::{Slept, Wait};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{StepDecl, StepStatus, WaitDecl, WaitReason};
use serde_json::Value;

/// What the step waits for; `None`: it runs code, its own or that of its fallback.
pub(crate) fn waits(decl: &StepDecl, row: &StepRow) -> Option<WaitDecl> {
    decl.waits.filter(|_| !row.in_fallback)
}

/// Why a task sleeps whose next step to be due is this one. Tasks that it has submitted come first:
/// by this the reconciler finds those that were not woken.
pub(super) fn reason(view: &View<'_>, at: usize) -> WaitReason {
    let waits_for_tasks = |at: usize| {
        view.decl.steps[at].has_children() && view.step(at).status == StepStatus::Waiting
    };
    if (0..view.record.steps.len()).any(waits_for_tasks) {
        return WaitReason::Children;
    }
    match waits(&view.decl.steps[at], view.step(at)) {
        Some(WaitDecl::Timer) => WaitReason::Timer,
        Some(WaitDecl::Signal { .. }) => WaitReason::Signal,
        Some(WaitDecl::Tasks { .. }) => WaitReason::Children,
        None => WaitReason::Retry,
    }
}

/// Decides on the steps of a stage that wait: those that may start, or for which their time, their
/// signal or their tasks have come.
pub(super) fn decide(view: &View<'_>, stage: &[usize]) -> Option<Decision> {
    let known = &view.answers.waits;
    let stage: Vec<usize> = stage
        .iter()
        .copied()
        .filter(|&at| waits(&view.decl.steps[at], view.step(at)).is_some())
        .collect();
    let unknown: Vec<usize> = stage
        .iter()
        .copied()
        .filter(|at| view.step(*at).signal.is_none() && !known.contains_key(at))
        .collect();
    if !unknown.is_empty() {
        return Some(Decision::AskWaits(unknown));
    }
    let mut steps: Vec<(usize, WaitStep)> = Vec::with_capacity(stage.len());
    let mut failed = false;
    for at in stage {
        let step = if view.decl.steps[at].has_children() {
            match children::decide(view, at, known.get(&at)) {
                Next::Nothing => continue,
                Next::Step(step) => step,
                // One after the other.
                Next::Ask(decision) if steps.is_empty() => return Some(decision),
                Next::Ask(_) => continue,
            }
        } else {
            decide_one(view, at, known.get(&at), failed)
        };
        failed |= matches!(
            step,
            WaitStep::Failed {
                falls_back: false,
                ..
            }
        );
        steps.push((at, step));
    }
    (!steps.is_empty()).then_some(Decision::Wait(steps))
}

/// `failed`: a step beside it has failed in the same decision.
fn decide_one(
    view: &View<'_>,
    at: usize,
    wait: Option<&StepResult<Wait>>,
    failed: bool,
) -> WaitStep {
    let row = view.step(at);
    if let Some(signal) = &row.signal {
        // Also one that came after the deadline, as long as no host had noticed it before: the
        // first commit counts.
        return WaitStep::Over(signal.body.clone());
    }
    let now = view.record.now;
    let due = match (row.due_at, wait) {
        (Some(due), _) => Ok(due),
        (None, Some(Ok(wait))) => wait.due(now),
        (None, Some(Err(error))) => Err(error.clone()),
        (None, None) => Err(StepError::permanent(
            "it is unknown what the step waits for",
        )),
    };
    let result = match due {
        Ok(due) if due > now => return WaitStep::Begins(due),
        Ok(due) => outcome(waits(&view.decl.steps[at], row), wait, due),
        Err(error) => Err(error),
    };
    match result {
        Ok(output) => WaitStep::Over(output),
        Err(error) => WaitStep::Failed {
            error: (&error).into(),
            falls_back: !failed && after_failure::may_fall_back(view.decl, view.record, at),
        },
    }
}

/// What comes of a wait whose time has come without a signal.
fn outcome(
    waits: Option<WaitDecl>,
    wait: Option<&StepResult<Wait>>,
    due: DbTime,
) -> StepResult<Value> {
    match waits {
        Some(WaitDecl::Timer) => output(&Slept {
            due_at: rfc3339(due),
        }),
        Some(WaitDecl::Signal { optional: true }) => Ok(Value::Null),
        Some(WaitDecl::Signal { optional: false } | WaitDecl::Tasks { .. }) | None => {
            Err(match wait {
                Some(Ok(Wait::Signal(within))) => StepError::permanent(format_args!(
                    "no signal came within {}",
                    format_duration(*within)
                )),
                Some(Ok(Wait::For(_) | Wait::Until(_) | Wait::Tasks(_)) | Err(_)) | None => {
                    StepError::permanent(format_args!("no signal came by {}", rfc3339(due)))
                }
            })
        }
    }
}
