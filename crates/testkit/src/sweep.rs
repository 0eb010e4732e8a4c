//! Every fault at every step of a task type, each with a clean slate: one line a type.

mod case;
mod runs;
mod struck;

use crate::form::Form;
use crate::harness::Harness;
use crate::test_task::{RunEnd, TestTask};
use case::{Case, Run, named};
use counterstep_contracts::{TaskStatus, UndoDecl};
use counterstep_steps::Registry;
use futures::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

/// Runs at a time.
const AT_ONCE: usize = 4;

/// A fault that hangs does so until this limit, also where a step declares one of its own. The
/// limit is passed once only the step that hangs runs.
const LIMIT: Duration = Duration::from_secs(4);

/// Runs a task of the type that the form names, or else of the registry's first by name, once for each
/// fault at each of its steps, and at each of their undos and probes, and checks the outcome, the invariants, that nothing is left that no row
/// refers to, and that a message which comes again changes nothing.
///
/// A probe is struck where the host was lost behind the work of its step: on the way forward, and, where the
/// step has an undo, on the way back of a task that is cancelled or that its declaration fails with its host. One that gets no
/// answer must fail or answer `Unknown`.
///
/// A step is undone because it fails, or a person has the parked task undone: without a result. And it is undone
/// because a later step fails: with its result.
///
/// Where the harness has services, none of them gives an answer to one attempt of each step and of each undo.
///
/// Steps whose files arrive with the request, pure steps at the head, and steps that wait run no
/// code that a fault could strike; the undo of one that waits is struck. With another form than the
/// one that leads through all steps, those that are skipped are not struck either.
///
/// Where steps submit tasks, the steps of those are struck as well, all the way down: of each type
/// those that run with this form. Whether the task completes in spite of one that fails is its
/// declaration's business; the checks are those of the task and of all tasks below it.
///
/// # Panics
/// When a run does not end as it must; the message begins with fault, step and attempt.
pub async fn every_fault(registry: fn() -> Registry, form: fn() -> Form) {
    every_fault_within(registry, form, LIMIT).await;
}

/// The same for steps that take their time: a fault that hangs is ended after `longest`, and so is
/// everything else.
///
/// # Panics
/// As [`every_fault`].
pub async fn every_fault_within(registry: fn() -> Registry, form: fn() -> Form, longest: Duration) {
    let harness = move || Harness::embedded(registry());
    sweep(Case::new(Arc::new(Nothing), harness, form, longest)).await;
}

/// The same in harnesses that a test sets up: with state, services, tables of one's own.
///
/// # Panics
/// As [`every_fault`].
pub async fn every_fault_in(harness: fn() -> Harness, form: fn() -> Form) {
    sweep(Case::new(Arc::new(Nothing), harness, form, LIMIT)).await;
}

/// The same for steps that reach beyond the engine.
///
/// # Panics
/// As [`every_fault`], and when the surroundings are not as they must be after a run.
pub async fn every_fault_amid(
    surroundings: Arc<dyn Surroundings>,
    registry: fn() -> Registry,
    form: fn() -> Form,
) {
    let harness = move || Harness::embedded(registry());
    sweep(Case::new(surroundings, harness, form, LIMIT)).await;
}

/// What goes wrong in each run of a sweep, in the words with which its message begins.
///
/// # Panics
/// When the run without a fault does not end as it must.
pub async fn faults_amid(
    surroundings: Arc<dyn Surroundings>,
    registry: fn() -> Registry,
    form: fn() -> Form,
) -> Vec<String> {
    let harness = move || Harness::embedded(registry());
    let runs = runs_of(&Case::new(surroundings, harness, form, LIMIT)).await;
    runs.into_iter().map(|run| run.what).collect()
}

/// The runs of a sweep with this fault alone, to look into one that failed: `fault` is one of
/// [`faults_amid`].
///
/// # Panics
/// As [`every_fault_amid`], and when there is no such fault.
pub async fn one_fault_amid(
    surroundings: Arc<dyn Surroundings>,
    registry: fn() -> Registry,
    form: fn() -> Form,
    fault: &str,
) {
    let harness = move || Harness::embedded(registry());
    let mut runs = runs_of(&Case::new(surroundings, harness, form, LIMIT)).await;
    runs.retain(|run| run.what == fault);
    assert!(
        !runs.is_empty(),
        "no run of the sweep has this fault: {fault}"
    );
    for run in runs {
        run.run.await;
    }
}

/// What steps reach beyond the engine, and what must be true there after a run.
pub trait Surroundings: Send + Sync {
    /// A harness in which the steps find it.
    fn around(&self, harness: Harness) -> Harness;

    /// Looks at it once the task has completed, or has been undone.
    ///
    /// # Panics
    /// When it is not as it must be.
    fn assert_after(&self, task: &TestTask, status: TaskStatus);
}

/// Nothing beyond the engine.
struct Nothing;

impl Surroundings for Nothing {
    fn around(&self, harness: Harness) -> Harness {
        harness
    }

    fn assert_after(&self, _: &TestTask, _: TaskStatus) {}
}

async fn sweep(case: Case) {
    let at_once = if case.longest > LIMIT {
        // What is slow is slow because it works, and works on all processors.
        AT_ONCE / 2
    } else {
        AT_ONCE
    };
    let runs = runs_of(&case).await.into_iter().map(|it| it.run);
    stream::iter(runs)
        .buffer_unordered(at_once)
        .collect::<()>()
        .await;
}

/// Checks a run without a fault, and gives one for each fault at each step that it has run.
async fn runs_of(case: &Case) -> Vec<Run> {
    let calm = async {
        let (calm, end) = case.run(case.harness()).await;
        assert_eq!(end, RunEnd::Rests(TaskStatus::Completed));
        case.check(&calm, &end, "no fault").await;
        calm.assert_no_orphans().await;
        struck::in_family(&calm).await
    };
    let mut runs: Vec<Run> = Vec::new();
    for struck in named("no fault", calm).await {
        if struck.runs {
            runs::forward(&mut runs, case, &struck);
        }
        if matches!(
            struck.step.undo,
            UndoDecl::BuiltIn | UndoDecl::Function { .. }
        ) {
            runs::backward(&mut runs, case, &struck);
        }
        if struck.step.probe.is_some() {
            runs::in_doubt(&mut runs, case, &struck);
        }
    }
    runs
}
