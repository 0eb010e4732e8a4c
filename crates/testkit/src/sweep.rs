//! Every fault at every step of a task type, one after another, each with a clean slate afterwards: one line a type.

use crate::form::Form;
use crate::harness::{Harness, TestTask};
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::Registry;
use counterstep_kernel::faults::{Fault, FaultKind};

/// Runs the task of a registry's only type once for each fault at each of its worker steps, and checks the outcome,
/// the invariants, and that nothing is left that no row refers to.
///
/// # Panics
/// When a run does not come out as it must; the message names fault and step.
pub async fn every_fault(registry: fn() -> Registry, form: fn() -> Form) {
    every_fault_amid(&Nothing, registry, form).await;
}

/// What steps reach beyond the engine, and what must be true there after a run.
pub trait Surroundings {
    /// A harness in which the steps find it.
    fn around(&self, harness: Harness) -> Harness;

    /// Looks at it once the task rests.
    ///
    /// # Panics
    /// When it is not as it must be.
    fn assert_after(&self, task: &TestTask, status: TaskStatus);
}

/// Nothing beyond the engine.
#[derive(Debug)]
struct Nothing;

impl Surroundings for Nothing {
    fn around(&self, harness: Harness) -> Harness {
        harness
    }
    fn assert_after(&self, _: &TestTask, _: TaskStatus) {}
}

/// The same for steps that reach beyond the engine.
///
/// # Panics
/// As [`every_fault`], and when the surroundings are not as they must be after a run.
pub async fn every_fault_amid(surroundings: &impl Surroundings, registry: fn() -> Registry, form: fn() -> Form) {
    let harness = || surroundings.around(Harness::embedded(registry()));
    let ends = async |task: &TestTask, expected: TaskStatus, what: &str| {
        assert_eq!(task.run_to_rest().await, expected, "{what}: {}", task.trail().await);
        task.assert_invariants().await;
        task.assert_no_orphans().await;
        surroundings.assert_after(task, expected);
    };
    let task_type = *registry().iter().next().expect("a task type");
    let compensates =
        |at: usize| task_type.decl.steps[at].on_exhausted == counterstep_contracts::OnExhausted::Compensate;
    // A step that waits runs no code that a fault could strike.
    let steps: Vec<_> = task_type
        .decl
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.host == Host::Worker && step.waits.is_none())
        .collect();
    for (at, step) in steps {
        let name = step.name;
        for kind in [FaultKind::FailBefore, FaultKind::FailAfter] {
            if compensates(at) {
                let task = harness().fault(Fault::at(name, kind)).submit(form()).await;
                ends(&task, TaskStatus::Failed, &format!("{kind:?} at {name}")).await;
                task.assert_no_objects().await;
            }
        }
        // Once only: whether another attempt follows is the policy's business, the outcome must fit either way.
        for kind in [FaultKind::FailTransiently, FaultKind::Panic, FaultKind::Hang] {
            let fault = Fault::at(name, kind).on_attempt(1);
            let task = harness()
                // Also where a step declares a limit of its own: a fault hangs until the limit.
                .settings(|settings| settings.longest_attempt = Some(std::time::Duration::from_millis(700)))
                .fault(fault)
                .submit(form())
                .await;
            let follows = step.retry.policy.max_retries > 0 || step.fallback.is_some();
            let expected = if follows { TaskStatus::Completed } else { TaskStatus::Failed };
            ends(&task, expected, &format!("{kind:?} once at {name}")).await;
        }
        let task = harness().crash_at(name).submit(form()).await;
        ends(&task, TaskStatus::Completed, &format!("a lost host at {name}")).await;
    }
}
