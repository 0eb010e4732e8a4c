//! Which steps a sweep strikes, as its calm run shows them, and what must come of a fault in each.
//! Of a step of a child it is only known what must not come of it: whether its parent completes
//! without it is the declaration's business.

use crate::harness::Harness;
use crate::planted::Planted;
use crate::test_task::{RunEnd, TestTask};
use counterstep_contracts::{
    Host, OnExhausted, OnLost, OnProbeFailure, StepDecl, StepStatus, TaskDecl, TaskId, TaskStatus,
    UndoDecl,
};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::plan::stage_of;
use counterstep_kernel::record::{AuditEntry, TaskRecord};
use std::collections::{BTreeMap, BTreeSet};

/// A step that is struck.
#[derive(Debug, Clone, Copy)]
pub(super) struct Struck {
    pub(super) decl: &'static TaskDecl,
    pub(super) step: &'static StepDecl,
    /// Its way forward is code that a fault can strike; else only its undo is.
    pub(super) runs: bool,
    /// The last step of its type behind it that is undone once it fails permanently.
    later: Option<&'static str>,
    /// Steps submit tasks of its type.
    below: bool,
    /// The step of the task at the top whose failure has the task of this step undone, which had
    /// completed.
    undone_by: Option<(&'static str, &'static str)>,
    /// A client may cancel the task at the top.
    cancellable: bool,
}

/// A way on which the probe of a step finds out how far it came, whose host was lost behind its work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    /// A client cancels the task before.
    pub(super) cancelled: bool,
    /// The reason, as text.
    pub(super) why: &'static str,
    /// What comes of it once the probe has found out.
    pub(super) settled: Expected,
    /// What comes of it where the probe gives up.
    pub(super) unknown: Expected,
}

/// How a step comes to be undone.
#[derive(Debug, Clone)]
pub(super) struct Undoing {
    trigger: Trigger,
    /// The reason, as text.
    pub(super) why: String,
    /// What comes of it where the undo succeeds.
    pub(super) undone: Expected,
}

#[derive(Debug, Clone)]
enum Trigger {
    /// A step fails permanently.
    Fails(Planted),
    /// A step fails permanently, which parks its task, and a person has the task undone.
    Parks(Planted),
}

/// What must come of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Is(TaskStatus),
    /// Completed, in spite of the fault, or failed.
    CompletedOrFailed,
    /// A task of this type is parked in this state, and the task at the top waits for it, or has left it.
    Parked(&'static str, TaskStatus),
}

impl Struck {
    /// Where it stands in the messages of a sweep.
    pub(super) fn name(&self) -> String {
        let (step, of) = (self.step.name, self.decl.name);
        if self.below {
            format!("{step} of {of}")
        } else {
            step.to_owned()
        }
    }

    pub(super) fn plant(&self, fault: Fault) -> Planted {
        Planted::at_steps_of(self.decl.name, fault)
    }

    /// Of a failure that no attempt follows, as the step declares.
    pub(super) const fn given_up(&self) -> Expected {
        match self.step.on_exhausted {
            OnExhausted::Compensate | OnExhausted::Fail => self.failed(),
            OnExhausted::DeadLetter => self.dead_lettered(),
        }
    }

    /// Of a task that fails.
    pub(super) const fn failed(&self) -> Expected {
        if self.below {
            Expected::CompletedOrFailed
        } else {
            Expected::Is(TaskStatus::Failed)
        }
    }

    /// Of an undo that gives up, or its probe.
    pub(super) const fn undo_failed(&self) -> Expected {
        self.parked(TaskStatus::CompensationFailed)
    }

    /// Of a step that is parked, as by a probe that gives up before its step can run again.
    const fn dead_lettered(&self) -> Expected {
        self.parked(TaskStatus::DeadLettered)
    }

    const fn parked(&self, status: TaskStatus) -> Expected {
        if self.below {
            Expected::Parked(self.decl.name, status)
        } else {
            Expected::Is(status)
        }
    }

    /// The ways to the step's probe.
    pub(super) fn doubts(&self) -> Vec<Doubt> {
        let may_run_again = self.step.on_probe_failure == OnProbeFailure::RunAgain;
        let undone = matches!(self.step.undo, UndoDecl::Function { .. });
        let fails = self.decl.on_lost == OnLost::Fail;
        let doubt = |why, cancelled, settled, parked| Doubt {
            cancelled,
            why,
            settled,
            unknown: if may_run_again { settled } else { parked },
        };
        let mut doubts = Vec::new();
        if fails && undone {
            doubts.push(doubt("", false, self.failed(), self.undo_failed()));
        }
        if !fails {
            let completed = Expected::Is(TaskStatus::Completed);
            doubts.push(doubt("", false, completed, self.dead_lettered()));
        }
        if !fails && undone && self.cancellable {
            let cancelled = Expected::Is(TaskStatus::Cancelled);
            doubts.push(doubt(
                " after a cancel",
                true,
                cancelled,
                self.undo_failed(),
            ));
        }
        doubts
    }

    /// # Panics
    /// When an attempt or an undo follows one in doubt without an answer of the probe.
    pub(super) async fn assert_probed(&self, task: &TestTask) {
        for past in self.pasts(task).await {
            let doubt = past.iter().position(|entry| entry.event == "step_in_doubt");
            let later = &past[doubt.unwrap_or(past.len())..];
            let begins = |entry: &&AuditEntry| {
                entry.event == "step_started" || entry.event == "undo_started"
            };
            if let Some(unasked) = later.iter().find(begins) {
                let answer = &unasked.details["probe"];
                assert!(!answer.is_null(), "{} without its probe", unasked.event);
            }
        }
    }

    /// # Panics
    /// When the probe has found out something although no service gave it an answer.
    pub(super) async fn assert_unanswered(&self, task: &TestTask) {
        let admits = |entry: &AuditEntry| {
            matches!(entry.event.as_str(), "probe_retries" | "probe_failed")
                || entry.details["probe"] == "unknown"
        };
        let admitted = self.pasts(task).await.iter().flatten().any(admits);
        assert!(
            admitted,
            "no service gave the probe an answer, and it neither failed nor found `Unknown`"
        );
    }

    /// What happened to the step, in each task of its type.
    async fn pasts(&self, task: &TestTask) -> Vec<Vec<AuditEntry>> {
        let mut pasts = Vec::new();
        let family = task.family().await;
        for record in family
            .iter()
            .filter(|it| it.task.task_type == self.decl.name)
        {
            let history = task.engine.ports.store.history(record.task.id).await;
            let audit = history.expect("the store answers").audit.into_iter();
            let of_step = audit
                .map(|row| row.entry)
                .filter(|it| it.step == Some(self.step.no));
            pasts.push(of_step.collect());
        }
        pasts
    }

    /// What has the step undone: its own failure, without a result; that of a later step, with one; and that of a
    /// step of the task at the top.
    pub(super) fn undoings(&self) -> Vec<Undoing> {
        let fails = |of, step| Planted::at_steps_of(of, Fault::at(step, FaultKind::FailAfter));
        let failed = Expected::Is(TaskStatus::Failed);
        let undoing = |trigger, why: &str, undone| Undoing {
            trigger,
            why: why.to_owned(),
            undone,
        };
        let (of, step) = (self.decl.name, self.step.name);
        let on_exhausted = self.runs.then_some(self.step.on_exhausted);
        let parks = on_exhausted == Some(OnExhausted::DeadLetter) && !self.below;
        let mut undoings = Vec::new();
        if on_exhausted == Some(OnExhausted::Compensate) {
            undoings.push(undoing(Trigger::Fails(fails(of, step)), "", self.failed()));
        } else if parks {
            // Where a failure alone has a step undone, the runs of that failure show an undo of nothing.
            let nothing = Planted::at_steps_of(of, Fault::at(step, FaultKind::FailBefore));
            for (fails, why) in [
                (fails(of, step), " after a person decided it"),
                (nothing, " that has done nothing after a person decided it"),
            ] {
                undoings.push(undoing(Trigger::Parks(fails), why, failed));
            }
        }
        if let Some(later) = self.later {
            let fails = Trigger::Fails(fails(of, later));
            let why = format!(" after {later} failed");
            undoings.push(undoing(fails, &why, self.failed()));
        }
        if let Some((of, step)) = self.undone_by {
            let why = format!(" after {step} failed");
            undoings.push(undoing(Trigger::Fails(fails(of, step)), &why, failed));
        }
        undoings
    }
}

impl Undoing {
    /// A harness in which it comes about.
    pub(super) fn in_harness(&self, harness: Harness) -> Harness {
        match self.trigger.clone() {
            Trigger::Fails(fails) => harness.plant(fails),
            Trigger::Parks(fails) => harness.plant(fails).undone_when_parked(),
        }
    }
}

impl Doubt {
    /// A harness in which it comes about.
    pub(super) fn in_harness(&self, of: &Struck, harness: Harness) -> Harness {
        let fault = Fault::at(of.step.name, FaultKind::Hang).on_attempt(1);
        let harness = harness.lose_host(of.plant(fault));
        if self.cancelled {
            harness.cancelled()
        } else {
            harness
        }
    }
}

impl Expected {
    /// Whether it is the end of the task at the top.
    pub(super) fn is(self, end: &RunEnd) -> bool {
        match self {
            Self::Is(status) => *end == RunEnd::Rests(status),
            Self::CompletedOrFailed => matches!(
                end,
                RunEnd::Rests(TaskStatus::Completed | TaskStatus::Failed)
            ),
            Self::Parked(..) => false,
        }
    }

    /// # Panics
    /// When something else came of the run.
    pub(super) async fn assert(self, task: &TestTask, end: &RunEnd) {
        match self {
            Self::Is(status) => assert_eq!(*end, RunEnd::Rests(status)),
            Self::CompletedOrFailed => {
                assert!(self.is(end), "{end:?} instead of completed or failed")
            }
            Self::Parked(of, status) => {
                let parked = |it: &TaskRecord| it.task.task_type == of && it.task.status == status;
                let family = task.family().await;
                assert!(family.iter().any(parked), "{end:?}, and no task is parked");
            }
        }
    }
}

/// Whether the step is undone once it fails permanently. A fault in every attempt strikes those of its
/// fallback as well.
fn gives_up(step: &StepDecl) -> bool {
    step.on_exhausted == OnExhausted::Compensate
}

/// Steps of a type, by position, that ran code, and those that completed without any and have an undo.
#[derive(Debug)]
struct Ran {
    decl: &'static TaskDecl,
    steps: BTreeSet<usize>,
    waited: BTreeSet<usize>,
    below: bool,
}

impl Ran {
    /// The last step in a later stage whose failure has this one undone.
    fn later(&self, at: usize) -> Option<&'static str> {
        let steps = self.decl.steps;
        let is_later = |&other: &usize| other > at && !stage_of(self.decl, at).contains(&other);
        let mut ran = self.steps.iter().copied();
        let last = ran.rfind(|other| is_later(other) && gives_up(&steps[*other]));
        last.map(|at| steps[at].name)
    }
}

/// The steps of a task, and of all tasks below it, that ran code or have some to undo them.
pub(super) async fn in_family(task: &TestTask) -> Vec<Struck> {
    let family = task.family().await;
    let mut types: Vec<Ran> = Vec::new();
    for (at, record) in family.iter().enumerate() {
        let decl = decl_of(task, record);
        let steps = ran(task, decl, record, at > 0).await;
        let waited = waited(decl, record);
        match types.iter_mut().find(|known| known.decl.name == decl.name) {
            Some(known) => {
                known.steps.extend(steps);
                known.waited.extend(waited);
                known.below |= at > 0;
            }
            None => types.push(Ran {
                decl,
                steps,
                waited,
                below: at > 0,
            }),
        }
    }
    let undone_by = undone_by(task, &family, &types[0]);
    let cancellable = types[0].decl.cancellable;
    let of_type = |it: Ran| {
        let steps = it.decl.steps;
        let undone_by = undone_by.get(it.decl.name).copied();
        let all: BTreeSet<usize> = it.steps.union(&it.waited).copied().collect();
        all.into_iter().map(move |at| Struck {
            decl: it.decl,
            step: &steps[at],
            runs: it.steps.contains(&at),
            later: it.later(at),
            below: it.below,
            undone_by,
            cancellable,
        })
    };
    types.into_iter().flat_map(of_type).collect()
}

fn decl_of(task: &TestTask, record: &TaskRecord) -> &'static TaskDecl {
    let known = task.engine.registry.of(&*record.task);
    known.expect("a known type").decl
}

/// A client's submission runs pure steps at the head in its request, and receives files as a step.
async fn ran(
    task: &TestTask,
    decl: &TaskDecl,
    record: &TaskRecord,
    below: bool,
) -> BTreeSet<usize> {
    let history = task.engine.ports.store.history(record.task.id).await;
    let attempts = history.expect("the store answers").attempts;
    let received = |no| {
        attempts
            .iter()
            .any(|row| row.epoch.0 == 0 && row.step == no)
    };
    let is_struck = |&at: &usize| {
        let step = &decl.steps[at];
        let ahead = !below && step.host == Host::Api && step.undo == UndoDecl::Pure;
        let ran = record.steps[at].attempts.0 > 0;
        step.waits.is_none() && !ahead && ran && !received(step.no)
    };
    (0..decl.steps.len()).filter(is_struck).collect()
}

/// The steps that waited for something until they completed, and that a function undoes.
fn waited(decl: &TaskDecl, record: &TaskRecord) -> BTreeSet<usize> {
    let has_undo = |&at: &usize| {
        let step = &decl.steps[at];
        step.waits.is_some()
            && record.steps[at].status == StepStatus::Completed
            && matches!(step.undo, UndoDecl::Function { .. })
    };
    (0..decl.steps.len()).filter(has_undo).collect()
}

/// By the types whose tasks are undone with the task at the top once its last step fails: type and
/// name of that step.
fn undone_by(
    task: &TestTask,
    family: &[TaskRecord],
    top: &Ran,
) -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let steps = top.decl.steps;
    let last = top.steps.iter().rfind(|at| gives_up(&steps[**at]));
    // A fault of a type strikes all its tasks: those below would not complete.
    let Some(&last) = last.filter(|_| !top.below) else {
        return BTreeMap::new();
    };
    let by_id: BTreeMap<TaskId, &TaskRecord> = family
        .iter()
        .map(|record| (record.task.id, record))
        .collect();
    let mut undone = BTreeMap::new();
    for record in &family[1..] {
        let (mut below, mut with_parent) = (record, true);
        while let Some(of) = below.task.parent {
            with_parent &= below.task.status == TaskStatus::Completed;
            below = by_id[&of.task];
            let steps = decl_of(task, below).steps;
            let at = steps.iter().position(|step| step.no == of.step);
            let at = at.expect("a step of the type");
            with_parent &= steps[at].undo == UndoDecl::BuiltIn;
            if below.task.parent.is_none() {
                with_parent &= at < last && !stage_of(top.decl, last).contains(&at);
            }
        }
        if with_parent {
            let by = (top.decl.name, steps[last].name);
            undone.insert(decl_of(task, record).name, by);
        }
    }
    undone
}
