//! What all runs of a sweep have in common: how a task is run under a limit of its attempts, and what
//! is checked after it.

use super::Surroundings;
use crate::form::Form;
use crate::harness::{Harness, LEASE};
use crate::many_tasks::{eventually, pause};
use crate::test_task::{RunEnd, TestTask};
use counterstep_contracts::{Host, StepStatus, TaskStatus, UndoDecl};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::plan::stage_of;
use counterstep_kernel::record::{AttemptRow, StepFailure, TaskRecord};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_steps::error::panic_message;
use futures::future::{BoxFuture, Either, FutureExt, select};
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Until the code of an attempt whose limit was passed is dropped.
const PASSED: Duration = Duration::from_secs(3);

/// A machine that needs longer than this for an attempt is none to test on.
const SLOWEST: Duration = Duration::from_secs(60);

/// A run of a sweep that has not begun.
pub(super) struct Run {
    /// What goes wrong in it.
    pub(super) what: String,
    pub(super) run: BoxFuture<'static, ()>,
}

impl Run {
    pub(super) fn new(what: String, run: impl Future<Output = ()> + Send + 'static) -> Self {
        let name = what.clone();
        let run = async move { named(&name, run).await }.boxed();
        Self { what, run }
    }
}

/// A run, and in front of its panic what was planted: an assertion on rows or objects does not know.
pub(super) async fn named<T>(what: &str, run: impl Future<Output = T>) -> T {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(done) => done,
        Err(panic) => panic!("{what}: {}", panic_message(panic.as_ref())),
    }
}

/// What every run has in common.
#[derive(Clone)]
pub(super) struct Case {
    surroundings: Arc<dyn Surroundings>,
    harness: Arc<dyn Fn() -> Harness + Send + Sync>,
    form: fn() -> Form,
    pub(super) longest: Duration,
}

impl Case {
    pub(super) fn new(
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
    pub(super) async fn run(&self, harness: Harness) -> (TestTask, RunEnd) {
        let task = harness.submit((self.form)()).await;
        let end = task.run().await;
        assert_ne!(
            end,
            RunEnd::Missed,
            "the task rests before the fault struck"
        );
        (task, end)
    }

    pub(super) fn harness(&self) -> Harness {
        self.surroundings.around((self.harness)())
    }

    /// Whether its steps find services that they may call.
    pub(super) fn has_services(&self) -> bool {
        self.harness().has_services()
    }

    /// Runs a task under a limit of each attempt, which those that hang in the fault are to hang until.
    /// A machine that is too busy for the limit spoils a run: another one follows then, under a longer
    /// limit.
    pub(super) async fn limited(
        &self,
        prepare: impl Fn(Harness) -> Prepared,
    ) -> (TestTask, RunEnd) {
        let mut limit = self.longest;
        loop {
            let Prepared(harness, fault) = prepare(self.harness().settings(|settings| {
                settings.longest_attempt = Some(limit);
                // A heartbeat gets through where the limit is passed.
                settings.lease = LEASE.max(limit * 2);
            }));
            let task = harness.submit((self.form)()).await;
            let hanging = fault.as_ref().filter(|fault| hangs(fault.kind));
            let end = match hanging {
                Some(fault) => {
                    let (run, pass) = (task.run(), pass_limits(&task, fault, limit));
                    match select(pin!(run), pin!(pass)).await {
                        Either::Left((end, _)) => end,
                        Either::Right((never, _)) => match never {},
                    }
                }
                None => task.run().await,
            };
            let (late, hung) = (late(&task).await, hanging.map_or(0, Fault::struck));
            let struck = fault.is_none_or(|fault| fault.struck() > 0);
            if end != RunEnd::Missed && struck && late.len() <= hung {
                return (task, end);
            }
            assert!(
                limit < SLOWEST,
                "struck: {struck}, {end:?}, over the limit of {limit:?}: {late:#?}"
            );
            limit *= 4;
        }
    }

    /// Invariants, what a repetition does, and what is left outside.
    pub(super) async fn check(&self, task: &TestTask, end: &RunEnd, what: &str) {
        task.assert_invariants().await;
        for record in task.family().await {
            let before = record.task;
            let again = if before.status.is_at_rest() {
                TurnEnd::Rests(before.status)
            } else {
                // It waits for one that is parked.
                TurnEnd::NotNow
            };
            for host in [Host::Api, Host::Worker] {
                let end = turn(&task.engine, host, before.id, &CancelToken::new()).await;
                assert_eq!(end, again, "a repeated message after {what}");
            }
            let after = task.engine.ports.store.load(before.id).await;
            let after = after.expect("the store answers").expect("the task exists");
            assert_eq!(
                (after.task.rev, after.task.audit_seq),
                (before.rev, before.audit_seq),
                "a repeated message after {what}"
            );
        }
        match end {
            RunEnd::Rests(status) if status.is_parked() => {}
            RunEnd::Rests(status) => self.surroundings.assert_after(task, *status),
            RunEnd::Parked(_) | RunEnd::Missed => {}
        }
    }

    /// Behind a task that failed no object is left, unless a declaration lets tasks below it leave
    /// what they have done.
    pub(super) async fn assert_no_objects(&self, task: &TestTask, end: &RunEnd) {
        let leaves = |record: &TaskRecord| {
            let known = task.engine.registry.of(&*record.task);
            let steps = known.expect("a known type").decl.steps;
            let mut waived = steps.iter().zip(&record.steps);
            let waived = waived.any(|(step, row)| {
                row.children.is_some() && matches!(step.undo, UndoDecl::Waived { .. })
            });
            let below = record.task.parent.is_some();
            waived || below && record.task.residue
        };
        let failed = *end == RunEnd::Rests(TaskStatus::Failed);
        if failed && !task.family().await.iter().any(leaves) {
            task.assert_no_objects().await;
        }
    }
}

/// A harness, and the fault in it that must strike.
pub(super) struct Prepared(pub(super) Harness, pub(super) Option<Fault>);

const fn hangs(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::HangBefore | FaultKind::Hang)
}

/// Attempts that ran into their limit.
async fn late(task: &TestTask) -> Vec<AttemptRow> {
    let is_late = |error: &StepFailure| error.message.contains("ran longer than its limit");
    let mut late = Vec::new();
    for record in task.family().await {
        let history = task.engine.ports.store.history(record.task.id).await;
        let attempts = history.expect("the store answers").attempts.into_iter();
        late.extend(attempts.filter(|row| row.error.as_ref().is_some_and(is_late)));
    }
    late
}

/// Passes the limit of each attempt that hangs, once its siblings have ended. Of several tasks of one
/// type, each hangs in its turn.
async fn pass_limits(task: &TestTask, fault: &Fault, limit: Duration) -> Infallible {
    loop {
        if hangs_alone(task, fault).await {
            pass_limit(task, fault, limit).await;
        } else {
            pause().await;
        }
    }
}

/// Whether an attempt hangs, and nothing else is under way or about to start.
async fn hangs_alone(task: &TestTask, fault: &Fault) -> bool {
    // Before the rows are read: rows from before the hang would show an earlier step alone.
    if fault.hanging() == 0 {
        return false;
    }
    let family = task.family().await;
    let open_of = |record: &TaskRecord| -> Vec<usize> {
        let steps = &record.steps;
        (0..steps.len())
            .filter(|&at| steps[at].attempt_open)
            .collect()
    };
    let mut open = family
        .iter()
        .flat_map(|record| open_of(record).into_iter().map(move |at| (record, at)));
    let (Some((record, hangs)), None) = (open.next(), open.next()) else {
        return false;
    };
    let known = task.engine.registry.of(&*record.task);
    let decl = known.expect("a known type").decl;
    // A heavy sibling may wait for room: it would start while the limit is passed. One that waits
    // for tasks starts nothing in this turn.
    let waits = |&at: &usize| {
        at != hangs
            && !decl.steps[at].has_children()
            && matches!(
                record.steps[at].status,
                StepStatus::Pending | StepStatus::Waiting
            )
    };
    !stage_of(decl, hangs).iter().any(waits)
}

async fn pass_limit(task: &TestTask, fault: &Fault, limit: Duration) {
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
pub(super) fn assert_struck(fault: &Fault) {
    assert!(fault.struck() > 0, "the planted fault did not strike");
}
