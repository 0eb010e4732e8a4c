//! Every fault at every step of a task type, each with a clean slate: one line a type.

use crate::form::Form;
use crate::harness::{Harness, LEASE};
use crate::site::eventually;
use crate::test_task::TestTask;
use counterstep_contracts::{Host, OnExhausted, OnLost, StepStatus, TaskStatus, UndoDecl};
use counterstep_kernel::faults::{Fault, FaultKind};
use counterstep_kernel::plan::stage_of;
use counterstep_kernel::record::{AttemptRow, StepFailure};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::error::panic_message;
use counterstep_steps::{CancelToken, Registry, TaskType};
use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::{StreamExt, stream};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Runs at a time.
const AT_ONCE: usize = 4;

/// A fault that hangs does so until this limit, also where a step declares one of its own. The
/// limit is passed once only the step that hangs runs.
const LIMIT: Duration = Duration::from_secs(4);

/// Until the code of an attempt whose limit was passed is dropped.
const PASSED: Duration = Duration::from_secs(3);

/// A machine that needs longer than this for an attempt is none to test on.
const SLOWEST: Duration = Duration::from_secs(60);

type Run = BoxFuture<'static, ()>;

/// Runs a task of the type that the form names, or else of the registry's first by name, once for each
/// fault at each of its steps, and at each of their undos, and checks the outcome, the invariants, that nothing is left that no row refers to,
/// and that a message which comes again changes nothing.
///
/// Steps whose files arrive with the request, pure steps at the head, and steps that wait run no
/// code that a fault could strike. With another form than the one that leads through all steps,
/// those that are skipped are not struck either.
///
/// # Panics
/// When a run does not come out as it must; the message begins with fault, step and attempt.
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
    let longest = case.longest;
    let task_type = (case.form)().task_type(&case.harness().registry);
    let calm = async {
        let (calm, status) = case.run(case.harness()).await;
        assert_eq!(status, TaskStatus::Completed);
        case.check(&calm, "no fault").await;
        calm.assert_no_orphans().await;
        (calm.record().await.steps, calm.history().await.attempts)
    };
    let (steps, attempts) = named("no fault", calm).await;
    let ran: Vec<_> = steps.iter().map(|row| row.attempts.0 > 0).collect();
    let received = attempts.iter().filter(|row| row.epoch.0 == 0);
    let received: Vec<_> = received.map(|row| row.step).collect();

    let mut runs: Vec<Run> = Vec::new();
    for (at, step) in task_type.decl.steps.iter().enumerate() {
        let ahead = step.host == Host::Api && step.undo == UndoDecl::Pure;
        if step.waits.is_some() || ahead || !ran[at] || received.contains(&step.no) {
            continue;
        }
        forward(&mut runs, &case, task_type, at);
        if matches!(step.undo, UndoDecl::BuiltIn | UndoDecl::Function { .. }) {
            backward(&mut runs, &case, task_type, at);
        }
    }
    stream::iter(runs)
        .buffer_unordered(if longest > LIMIT {
            // What is slow is slow because it works, and works on all processors.
            AT_ONCE / 2
        } else {
            AT_ONCE
        })
        .collect::<()>()
        .await;
}

/// A run, and in front of its panic what was planted: an assertion on rows or objects does not know.
async fn named<T>(what: &str, run: impl Future<Output = T>) -> T {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(done) => done,
        Err(panic) => panic!("{what}: {}", panic_message(panic.as_ref())),
    }
}

/// What every run has in common.
#[derive(Clone)]
struct Case {
    surroundings: Arc<dyn Surroundings>,
    harness: Arc<dyn Fn() -> Harness + Send + Sync>,
    form: fn() -> Form,
    longest: Duration,
}

impl Case {
    fn new(
        surroundings: Arc<dyn Surroundings>,
        harness: impl Fn() -> Harness + Send + Sync + 'static,
        form: fn() -> Form,
        longest: Duration,
    ) -> Self {
        Self {
            surroundings,
            harness: Arc::new(harness),
            form,
            longest,
        }
    }

    /// Submits and runs a task to its rest.
    async fn run(&self, harness: Harness) -> (TestTask, TaskStatus) {
        let task = harness.submit((self.form)()).await;
        let status = task.run_to_rest().await;
        (task, status)
    }

    fn harness(&self) -> Harness {
        self.surroundings.around((self.harness)())
    }

    /// Runs a task under a limit of each attempt, which `hangs` attempts are to hang until. A machine
    /// that is too busy for the limit spoils a run: another one follows then, under a longer limit.
    async fn limited(
        &self,
        hangs: usize,
        prepare: impl Fn(Harness) -> Prepared,
    ) -> (TestTask, TaskStatus) {
        let mut limit = self.longest;
        loop {
            let Prepared(harness, fault) = prepare(self.harness().settings(|settings| {
                settings.longest_attempt = Some(limit);
                // A heartbeat gets through where the limit is passed.
                settings.lease = LEASE.max(limit * 2);
            }));
            let task = harness.submit((self.form)()).await;
            let status = match &fault {
                Some(fault) if hangs > 0 => {
                    let (run, pass) = (task.run_unless_missed(), pass_limit(&task, fault, limit));
                    match select(pin!(run), pin!(pass)).await {
                        Either::Left((status, _)) => status,
                        Either::Right(((), run)) => run.await,
                    }
                }
                _ => task.run_unless_missed().await,
            };
            let late = late(&task).await;
            let struck = fault.is_none_or(|fault| fault.struck() > 0);
            match status {
                Some(status) if struck && late.len() <= hangs => return (task, status),
                _ => assert!(
                    limit < SLOWEST,
                    "struck: {struck}, status: {status:?}, over the limit of {limit:?}: {late:#?}"
                ),
            }
            limit *= 4;
        }
    }

    /// Invariants, what a repetition does, and what is left outside.
    async fn check(&self, task: &TestTask, what: &str) {
        task.assert_invariants().await;
        let before = task.record().await.task;
        for host in [Host::Api, Host::Worker] {
            let end = turn(&task.engine, host, task.id, &CancelToken::new()).await;
            assert_eq!(
                end,
                TurnEnd::Rests(before.status),
                "a repeated message after {what}"
            );
        }
        let after = task.record().await.task;
        assert_eq!(
            (after.rev, after.audit_seq),
            (before.rev, before.audit_seq),
            "a repeated message after {what}"
        );
        if before.status != TaskStatus::CompensationFailed {
            self.surroundings.assert_after(task, before.status);
        }
    }
}

/// A harness, and the fault in it that must strike.
struct Prepared(Harness, Option<Fault>);

/// Attempts that hang where this fault strikes once.
const fn hangs(kind: FaultKind) -> usize {
    match kind {
        FaultKind::HangBefore | FaultKind::Hang => 1,
        _ => 0,
    }
}

/// Attempts that ran into their limit.
async fn late(task: &TestTask) -> Vec<AttemptRow> {
    let is_late = |error: &StepFailure| error.message.contains("ran longer than its limit");
    let attempts = task.history().await.attempts.into_iter();
    attempts
        .filter(|row| row.error.as_ref().is_some_and(is_late))
        .collect()
}

/// Passes the limit of an attempt that hangs, once its siblings have ended.
async fn pass_limit(task: &TestTask, fault: &Fault, limit: Duration) {
    let row = task.record().await.task;
    let task_type = task.engine.registry.get(&row.task_type, row.version);
    let decl = task_type.expect("a known type").decl;
    eventually("an attempt that hangs alone", || async {
        // Before the rows are read: rows from before the hang would show an earlier step alone.
        if fault.hanging() == 0 {
            return None;
        }
        let steps = task.record().await.steps;
        let open: Vec<usize> = (0..steps.len())
            .filter(|&at| steps[at].attempt_open)
            .collect();
        let [hangs] = open[..] else { return None };
        // A heavy sibling may wait for room: it would start while the limit is passed.
        let waits = |&at: &usize| {
            at != hangs && matches!(steps[at].status, StepStatus::Pending | StepStatus::Waiting)
        };
        let siblings = stage_of(decl, hangs);
        (!siblings.iter().any(waits)).then_some(())
    })
    .await;
    // The fault strikes in the code, a moment before or after the limit begins to count. Nothing is
    // awaited between the look and the advance, so the limit of a later attempt is never passed.
    while fault.hanging() > 0 {
        task.clock.advance_by(limit);
        let dropped = eventually("the end of the code that hangs", || async {
            (fault.hanging() == 0).then_some(())
        });
        let _ = tokio::time::timeout(PASSED, dropped).await;
    }
}

/// A run whose fault did not strike proves nothing.
fn assert_struck(fault: &Fault) {
    assert!(fault.struck() > 0, "the planted fault did not strike");
}

fn forward(runs: &mut Vec<Run>, case: &Case, task_type: TaskType, at: usize) {
    let step = &task_type.decl.steps[at];
    let name = step.name;
    let falls_back = step.fallback.is_some();
    if step.on_exhausted == OnExhausted::Compensate {
        for kind in [
            FaultKind::FailBefore,
            FaultKind::FailHalfWay,
            FaultKind::FailAfter,
        ] {
            let case = case.clone();
            runs.push(
                async move {
                    let what = format!("{kind:?} at {name}, in every attempt");
                    let run = async {
                        let fault = Fault::at(name, kind);
                        let (task, status) = case.run(case.harness().fault(fault.clone())).await;
                        assert_eq!(status, TaskStatus::Failed);
                        assert_struck(&fault);
                        case.check(&task, &what).await;
                        task.assert_no_orphans().await;
                        task.assert_no_objects().await;
                    };
                    named(&what, run).await;
                }
                .boxed(),
            );
        }
    }
    // Once only: whether another attempt follows is the policy's business, the outcome must fit
    // either way.
    let follows = step.retry.policy.max_retries > 0 || falls_back;
    let expected = if follows {
        TaskStatus::Completed
    } else {
        TaskStatus::Failed
    };
    for kind in [
        FaultKind::FailTransiently,
        FaultKind::Panic,
        FaultKind::HangBefore,
        FaultKind::Hang,
    ] {
        if !follows && step.on_exhausted != OnExhausted::Compensate {
            continue;
        }
        let case = case.clone();
        runs.push(
            async move {
                let what = format!("{kind:?} at {name}, in attempt 1");
                let run = async {
                    let prepare = |harness: Harness| {
                        let fault = Fault::at(name, kind).on_attempt(1);
                        Prepared(harness.fault(fault.clone()), Some(fault))
                    };
                    let (task, status) = case.limited(hangs(kind), prepare).await;
                    assert_eq!(status, expected);
                    case.check(&task, &what).await;
                    task.assert_no_orphans().await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
    // A host that is lost after a step was committed is one that is lost before the work of the
    // next one.
    let undone = task_type.decl.on_lost == OnLost::Fail;
    let expected = if undone {
        TaskStatus::Failed
    } else {
        TaskStatus::Completed
    };
    for before in [true, false] {
        let case = case.clone();
        runs.push(
            async move {
                let when = if before { "before" } else { "after" };
                let what = format!("a host lost at {name}, in attempt 1, {when} its work");
                let run = async {
                    // What a sibling had stored and not committed is an orphan once its attempt may
                    // not write any more.
                    let prepare = |harness: Harness| {
                        Prepared(
                            if before {
                                harness.crash_before(name)
                            } else {
                                harness.crash_at(name)
                            },
                            None,
                        )
                    };
                    let (task, status) = case.limited(0, prepare).await;
                    assert_eq!(status, expected);
                    case.check(&task, &what).await;
                    task.assert_no_orphans().await;
                    if undone {
                        task.assert_no_objects().await;
                    }
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
}

/// The step does its work and fails, and then something goes wrong with its undo.
fn backward(runs: &mut Vec<Run>, case: &Case, task_type: TaskType, at: usize) {
    let step = &task_type.decl.steps[at];
    let name = step.name;
    if step.on_exhausted != OnExhausted::Compensate || step.fallback.is_some() {
        return;
    }
    let follows = step.undo_retry.policy.max_retries > 0;
    for kind in [
        FaultKind::FailTransiently,
        FaultKind::Panic,
        FaultKind::Hang,
    ] {
        let case = case.clone();
        runs.push(
            async move {
                let what = format!("{kind:?} in the undo of {name}, in attempt 1");
                let run = async {
                    let prepare = |harness: Harness| {
                        let fault = Fault::at(name, kind).in_undo().on_attempt(1);
                        Prepared(harness.fail_at(name).fault(fault.clone()), Some(fault))
                    };
                    let (task, status) = case.limited(hangs(kind), prepare).await;
                    let expected = if follows {
                        TaskStatus::Failed
                    } else {
                        TaskStatus::CompensationFailed
                    };
                    assert_eq!(status, expected);
                    case.check(&task, &what).await;
                    task.assert_no_orphans().await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
    let lost = case.clone();
    runs.push(
        async move {
            let case = lost;
            let what = format!("a host lost in the undo of {name}, in attempt 1");
            let run = async {
                let harness = case.harness().fail_at(name).crash_in_undo_of(name);
                let (task, status) = case.run(harness).await;
                assert_eq!(status, TaskStatus::Failed);
                case.check(&task, &what).await;
                task.assert_no_orphans().await;
                task.assert_no_objects().await;
            };
            named(&what, run).await;
        }
        .boxed(),
    );
    let case = case.clone();
    runs.push(
        async move {
            let what = format!("FailBefore in the undo of {name}, in every attempt");
            let run = async {
                let fault = Fault::at(name, FaultKind::FailBefore).in_undo();
                let harness = case.harness().fail_at(name).fault(fault.clone());
                let (task, status) = case.run(harness).await;
                assert_eq!(status, TaskStatus::CompensationFailed);
                assert_struck(&fault);
                case.check(&task, &what).await;
            };
            named(&what, run).await;
        }
        .boxed(),
    );
}
