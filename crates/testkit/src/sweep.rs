//! Every fault at every step of a task type, one after another, each with a clean slate afterwards: one line a type.

use crate::form::Form;
use crate::harness::Harness;
use counterstep_contracts::{Host, StepStatus, TaskStatus};
use counterstep_kernel::Registry;
use counterstep_kernel::faults::{Fault, FaultKind};
use std::time::Duration;

/// Runs the task of a registry's only type once for each fault at each of its worker steps, and checks the outcome,
/// the invariants, and that nothing is left that no row refers to.
///
/// # Panics
/// When a run does not come out as it must; the message names fault and step.
pub async fn every_fault(registry: fn() -> Registry, form: fn() -> Form) {
    every_fault_within(registry, form, Duration::from_millis(700)).await;
}

/// The same for steps that take their time: a fault that hangs is ended after `longest`, and so is everything else.
///
/// # Panics
/// As [`every_fault`].
pub async fn every_fault_within(registry: fn() -> Registry, form: fn() -> Form, longest: Duration) {
    let task_type = *registry().iter().next().expect("a task type");
    let compensates =
        |at: usize| task_type.decl.steps[at].on_exhausted == counterstep_contracts::OnExhausted::Compensate;
    let task = Harness::embedded(registry()).submit(form()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed, "without a fault");
    task.assert_invariants().await;
    task.assert_no_orphans().await;
    let rows = task.record().await.steps;
    // A step that waits, or that the form has skipped, runs no code that a fault could strike.
    let steps: Vec<_> = task_type
        .decl
        .steps
        .iter()
        .enumerate()
        .filter(|(at, step)| {
            step.host == Host::Worker && step.waits.is_none() && rows[*at].status != StepStatus::Skipped
        })
        .collect();
    for (at, step) in steps {
        let name = step.name;
        for kind in [FaultKind::FailBefore, FaultKind::FailAfter] {
            if compensates(at) {
                let task = Harness::embedded(registry()).fault(Fault::at(name, kind)).submit(form()).await;
                assert_eq!(task.run_to_rest().await, TaskStatus::Failed, "{kind:?} at {name}");
                task.assert_invariants().await;
                task.assert_no_orphans().await;
                task.assert_no_objects().await;
            }
        }
        // Once only: whether another attempt follows is the policy's business, the outcome must fit either way.
        for kind in [FaultKind::FailTransiently, FaultKind::Panic, FaultKind::Hang] {
            let fault = Fault::at(name, kind).on_attempt(1);
            let task = Harness::embedded(registry())
                // Also where a step declares a limit of its own: a fault hangs until the limit.
                .settings(|settings| settings.longest_attempt = Some(longest))
                .fault(fault)
                .submit(form())
                .await;
            let follows = step.retry.policy.max_retries > 0 || step.fallback.is_some();
            let expected = if follows { TaskStatus::Completed } else { TaskStatus::Failed };
            assert_eq!(task.run_to_rest().await, expected, "{kind:?} once at {name}");
            task.assert_invariants().await;
            task.assert_no_orphans().await;
        }
        let task = Harness::embedded(registry()).crash_at(name).submit(form()).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Completed, "a lost host at {name}");
        task.assert_invariants().await;
        task.assert_no_orphans().await;
    }
}
