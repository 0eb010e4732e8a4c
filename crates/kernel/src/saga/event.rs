//! Everything that can happen to a task.

use counterstep_contracts::{OnExhausted, WaitReason};

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Try the failed undos again.
    RetryUndo,
    /// The task is settled by hand.
    Resolve,
    /// Run the step that gave up once more.
    Redrive,
    /// Undo a task that was parked going forward.
    Undo,
    /// Run a task that has ended again: as this one.
    RunAgain,
    /// Set the count of lost hosts: they were lost for reasons that are not the task's own.
    SetRecoveries,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Of the task as a whole.
    Task(LifecycleEvent),
    /// Of the step at this position of the declaration.
    Step(usize, StepEvent),
}

/// An event of the task as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleEvent {
    /// A client's request was accepted.
    Submitted,
    /// The task was offered to the workers.
    Dispatched,
    /// A host took the lease.
    Claimed,
    /// The lease's owner gave the task back for another host.
    HandedOver,
    /// The reconciler took the task from an owner whose lease ran out.
    TakenBack,
    /// No host claimed the task: it was offered once more.
    OfferedAgain,
    /// Hosts were lost more often than the type allows.
    LostTooOften,
    /// A host was lost on the way forward, and the type has such a task undone instead of run
    /// again.
    LostForGood,
    /// The lease's owner put the task to sleep.
    Waits(WaitReason),
    /// All steps are done.
    Completed,
    /// A step, the deadline or the response gave up.
    GaveUp(OnExhausted),
    /// A client asked for a cancel.
    CancelRequested,
    /// The lease's owner honours a cancel.
    Stopped,
    /// The last undo is done.
    UndoFinished {
        /// Whether the task ends as Cancelled.
        cancelled: bool,
    },
    /// An undo gave up.
    UndoGaveUp,
    /// The task that has submitted it is undone, and this one with it, although it had completed.
    ParentUndone,
    /// The task cannot be loaded.
    Quarantined,
    /// A person decided.
    Operator(Operator),
}

/// An event of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEvent {
    /// An attempt starts.
    Started,
    /// The condition says no.
    Skipped,
    /// The task that this one runs again had completed it: its output counts here too.
    Kept,
    /// The attempt's output is committed.
    Succeeded,
    /// The attempt failed and another one will follow.
    Retries,
    /// The attempt failed and no other will follow.
    Failed,
    /// The step gave up, and its fallback follows in its place.
    FallsBack,
    /// The step waits for its time, or for its signal.
    Waits,
    /// A result of an attempt came too late: another host has had the task since. It is dropped.
    ResultDropped,
    /// The step has submitted tasks that it waits for.
    ChildrenSubmitted,
    /// A signal for the step was accepted, whether or not it waits for it yet.
    SignalReceived,
    /// The attempt's outcome is unknown.
    InDoubt,
    /// The step's scratch is gone, and no reader of it has completed.
    ScratchLost,
    /// The step's scratch is gone though a reader has completed: it is made again and must come out
    /// the same.
    Rebuilt,
    /// A probe found out that the step has taken effect or not.
    Settled {
        /// Whether it had.
        done: bool,
    },
    /// A probe failed to find out whether the step has taken effect, and is tried again.
    ProbeRetries,
    /// A probe failed to find out whether the step has taken effect, and is not tried again.
    ProbeFailed,
    /// A person supplies the output of a step that gave up.
    Supplied,
    /// A dead letter is redriven: the step that gave up may run again.
    Redriven,
    /// An undo attempt starts.
    UndoStarted,
    /// The undo attempt failed and another one will follow.
    UndoRetries,
    /// The undo attempt's outcome is unknown.
    UndoInDoubt,
    /// The step is undone.
    UndoSucceeded,
    /// The undo attempt failed and no other will follow.
    UndoFailed,
    /// There is nothing to undo, and the declaration says why.
    UndoWaived,
    /// A person settled the failed undo.
    UndoResolved,
    /// A person has the failed undo tried again, with its retries anew.
    UndoRedriven,
    /// A person has the probe tried again, with its retries anew, whose giving up holds the undo up.
    ProbeRedriven,
}

impl From<LifecycleEvent> for Event {
    fn from(event: LifecycleEvent) -> Self {
        Self::Task(event)
    }
}

impl Event {
    /// The position of the step concerned.
    #[must_use]
    pub const fn step(self) -> Option<usize> {
        match self {
            Self::Task(_) => None,
            Self::Step(at, _) => Some(at),
        }
    }

    /// The stable name used in the audit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task(event) => event.name(),
            Self::Step(_, event) => event.name(),
        }
    }

    /// Those that stand in the audit under this name, for a step at this position.
    #[must_use]
    pub fn named(name: &str, at: usize) -> Vec<Self> {
        let mut all = Self::samples_at(at);
        all.retain(|event| event.name() == name);
        all
    }

    /// One of each, for a step at position 0: for enumerations.
    #[must_use]
    pub fn samples() -> Vec<Self> {
        Self::samples_at(0)
    }

    fn samples_at(at: usize) -> Vec<Self> {
        let of_the_task = LifecycleEvent::samples().into_iter().map(Self::Task);
        let of_the_step = StepEvent::SAMPLES.iter().map(|event| event.at(at));
        of_the_task.chain(of_the_step).collect()
    }
}

impl LifecycleEvent {
    /// The stable name used in the audit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Dispatched => "dispatched",
            Self::Claimed => "claimed",
            Self::HandedOver => "handed_over",
            Self::TakenBack => "taken_back",
            Self::OfferedAgain => "offered_again",
            Self::LostTooOften => "lost_too_often",
            Self::LostForGood => "lost_for_good",
            Self::Waits(_) => "waits",
            Self::Completed => "completed",
            Self::GaveUp(_) => "gave_up",
            Self::CancelRequested => "cancel_requested",
            Self::Stopped => "stopped",
            Self::UndoFinished { cancelled: false } => "failed",
            Self::UndoFinished { cancelled: true } => "cancelled",
            Self::UndoGaveUp => "undo_gave_up",
            Self::ParentUndone => "parent_undone",
            Self::Quarantined => "quarantined",
            Self::Operator(Operator::RetryUndo) => "operator_retried_undo",
            Self::Operator(Operator::Resolve) => "operator_resolved",
            Self::Operator(Operator::Redrive) => "operator_redrove",
            Self::Operator(Operator::Undo) => "operator_undid",
            Self::Operator(Operator::RunAgain) => "operator_ran_again",
            Self::Operator(Operator::SetRecoveries) => "operator_set_recoveries",
        }
    }

    fn samples() -> Vec<Self> {
        let mut all = vec![
            Self::Submitted,
            Self::Dispatched,
            Self::Claimed,
            Self::HandedOver,
            Self::TakenBack,
            Self::OfferedAgain,
            Self::LostTooOften,
            Self::LostForGood,
            Self::Completed,
            Self::CancelRequested,
            Self::Stopped,
            Self::UndoFinished { cancelled: false },
            Self::UndoFinished { cancelled: true },
            Self::UndoGaveUp,
            Self::ParentUndone,
            Self::Quarantined,
            Self::Operator(Operator::RetryUndo),
            Self::Operator(Operator::Resolve),
            Self::Operator(Operator::Redrive),
            Self::Operator(Operator::Undo),
            Self::Operator(Operator::RunAgain),
            Self::Operator(Operator::SetRecoveries),
        ];
        all.extend(WaitReason::ALL.iter().map(|&reason| Self::Waits(reason)));
        all.extend(OnExhausted::ALL.iter().map(|&policy| Self::GaveUp(policy)));
        all
    }
}

impl StepEvent {
    const SAMPLES: &[Self] = &[
        Self::Started,
        Self::Skipped,
        Self::Kept,
        Self::Succeeded,
        Self::Retries,
        Self::Failed,
        Self::FallsBack,
        Self::Waits,
        Self::ChildrenSubmitted,
        Self::SignalReceived,
        Self::InDoubt,
        Self::ResultDropped,
        Self::ScratchLost,
        Self::Rebuilt,
        Self::Settled { done: true },
        Self::Settled { done: false },
        Self::ProbeRetries,
        Self::ProbeFailed,
        Self::Supplied,
        Self::Redriven,
        Self::UndoStarted,
        Self::UndoRetries,
        Self::UndoInDoubt,
        Self::UndoSucceeded,
        Self::UndoFailed,
        Self::UndoWaived,
        Self::UndoResolved,
        Self::UndoRedriven,
        Self::ProbeRedriven,
    ];

    /// Of the step at this position.
    #[must_use]
    pub const fn at(self, at: usize) -> Event {
        Event::Step(at, self)
    }

    /// The stable name used in the audit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "step_started",
            Self::Skipped => "step_skipped",
            Self::Kept => "step_kept",
            Self::Succeeded => "step_succeeded",
            Self::Retries => "step_retries",
            Self::Failed => "step_failed",
            Self::FallsBack => "step_falls_back",
            Self::Waits => "step_waits",
            Self::ChildrenSubmitted => "children_submitted",
            Self::SignalReceived => "signal_received",
            Self::InDoubt => "step_in_doubt",
            Self::ResultDropped => "result_dropped",
            Self::ScratchLost => "step_scratch_lost",
            Self::Rebuilt => "step_rebuilt",
            Self::Settled { done: true } => "step_settled_done",
            Self::Settled { done: false } => "step_settled_not_done",
            Self::ProbeRetries => "probe_retries",
            Self::ProbeFailed => "probe_failed",
            Self::Supplied => "step_supplied",
            Self::Redriven => "step_redriven",
            Self::UndoStarted => "undo_started",
            Self::UndoRetries => "undo_retries",
            Self::UndoInDoubt => "undo_in_doubt",
            Self::UndoSucceeded => "undo_succeeded",
            Self::UndoFailed => "undo_failed",
            Self::UndoWaived => "undo_waived",
            Self::UndoResolved => "undo_resolved",
            Self::UndoRedriven => "undo_redriven",
            Self::ProbeRedriven => "probe_redriven",
        }
    }
}
