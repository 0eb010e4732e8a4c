//! What follows a failed attempt: retries as the policy says, then the fallback, then the end.

use crate::error::{ErrorClass, StepError};
use crate::record::{Failure, IN_DOUBT, StepFailure, StepRow, TaskRecord};
use crate::retry_decision;
use counterstep_contracts::{Direction, StepStatus, TaskDecl};
use std::time::Duration;

/// Which attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// One of a step.
    Step,
    /// One that was to make lost scratch again.
    Rebuild,
    /// One of an undo.
    Undo,
}

/// What follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// Another attempt, after this delay.
    Retry(Duration),
    /// Attempts of the step's fallback.
    FallBack,
    /// No other attempt.
    GiveUp,
    /// A cancel was accepted: it decides what follows.
    Nothing,
}

/// `policy`: what the retry policy alone says.
pub(crate) fn after_failure(
    decl: &TaskDecl,
    record: &TaskRecord,
    at: usize,
    ended: Ended,
    class: ErrorClass,
    policy: retry_decision::Next,
) -> AfterFailure {
    let cancelled = record.task.cancel_requested_at.is_some();
    match (ended, policy) {
        (Ended::Undo, retry_decision::Next::Retry(delay)) => AfterFailure::Retry(delay),
        (Ended::Rebuild, _) if cancelled => AfterFailure::Nothing,
        (Ended::Step | Ended::Rebuild, retry_decision::Next::Retry(delay)) if !cancelled => {
            AfterFailure::Retry(delay)
        }
        (Ended::Step, _) if class != ErrorClass::Cancelled && may_fall_back(decl, record, at) => {
            AfterFailure::FallBack
        }
        (Ended::Step | Ended::Rebuild | Ended::Undo, _) => AfterFailure::GiveUp,
    }
}

/// Whether the step's fallback is to run now that the step has given up: it has one that has not
/// run yet, and nothing else speaks against going on.
pub(super) fn may_fall_back(decl: &TaskDecl, record: &TaskRecord, at: usize) -> bool {
    let failed = |row: &crate::record::StepRow| row.status == StepStatus::Failed;
    decl.steps[at].fallback.is_some()
        && !record.steps[at].in_fallback
        && record.task.cancel_requested_at.is_none()
        && !record.steps.iter().any(failed)
}

/// The failure of a task that is parked since the probe of this step gave up.
pub(super) fn unknown_outcome(row: &StepRow) -> Failure {
    let error = row.error.clone().unwrap_or_else(|| StepFailure {
        message: "its probe gave up".to_owned(),
        ..StepFailure::default()
    });
    let unknown = StepFailure {
        class: IN_DOUBT.to_owned(),
        ..error
    };
    unknown.of_task(&row.name, Direction::Forward)
}

/// The failure of a task whose step gave up with this error.
pub(crate) fn failure_of(step: &str, error: &StepError) -> Failure {
    StepFailure::from(error).of_task(step, Direction::Forward)
}
