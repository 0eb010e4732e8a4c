//! Everything that can happen to a task.

use counterstep_contracts::{Host, OnExhausted, WaitReason};

/// What follows a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSubmit {
    /// The next step runs on this host.
    Next(Host),
    /// There was nothing but uploads to do.
    Nothing,
}

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
    /// Set the count of lost hosts: they were lost for reasons that are not the task's own.
    SetRecoveries,
}

/// An event. Those with a `usize` concern the step at that position of the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
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
    /// The last undo is done; the flag says whether a cancel was the reason.
    UndoFinished {
        /// Whether the task ends as Cancelled.
        cancelled: bool,
    },
    /// An undo gave up.
    UndoGaveUp,
    /// The task cannot be loaded.
    Quarantined,
    /// A person decided.
    Operator(Operator),

    /// An attempt starts.
    StepStarted(usize),
    /// The condition says no.
    StepSkipped(usize),
    /// The attempt's output is committed.
    StepSucceeded(usize),
    /// The attempt failed and another one will follow.
    StepRetries(usize),
    /// The attempt failed and no other will follow.
    StepFailed(usize),
    /// The step gave up, and its fallback follows in its place.
    StepFallsBack(usize),
    /// The step waits for its time, or for its signal.
    StepWaits(usize),
    /// A signal for the step was accepted, whether or not it waits for it yet.
    SignalReceived(usize),
    /// The attempt's outcome is unknown.
    StepInDoubt(usize),
    /// The step's scratch is gone, and no reader of it has completed.
    StepScratchLost(usize),
    /// The step's scratch is gone though a reader has completed: it is made again and must come out
    /// the same.
    StepRebuilt(usize),
    /// A probe found out that the step had taken effect (`true`) or not.
    StepSettled(usize, bool),
    /// A person supplies the output of a step that gave up.
    StepSupplied(usize),
    /// A dead letter is redriven: the step that gave up may run again.
    StepRedriven(usize),

    /// An undo attempt starts.
    UndoStarted(usize),
    /// The undo attempt failed and another one will follow.
    UndoRetries(usize),
    /// The undo attempt's outcome is unknown.
    UndoInDoubt(usize),
    /// The step is undone.
    UndoSucceeded(usize),
    /// The undo attempt failed and no other will follow.
    UndoFailed(usize),
    /// There is nothing to undo, and the declaration says why.
    UndoWaived(usize),
    /// A person settled the failed undo.
    UndoResolved(usize),
    /// A person has the failed undo tried again, with its retries anew.
    UndoRedriven(usize),
}

impl Event {
    /// The position of the step concerned.
    #[must_use]
    pub const fn step(self) -> Option<usize> {
        match self {
            Self::StepStarted(at)
            | Self::StepSkipped(at)
            | Self::StepSucceeded(at)
            | Self::StepRetries(at)
            | Self::StepFailed(at)
            | Self::StepFallsBack(at)
            | Self::StepWaits(at)
            | Self::SignalReceived(at)
            | Self::StepInDoubt(at)
            | Self::StepScratchLost(at)
            | Self::StepRebuilt(at)
            | Self::StepSettled(at, _)
            | Self::StepSupplied(at)
            | Self::StepRedriven(at)
            | Self::UndoStarted(at)
            | Self::UndoRetries(at)
            | Self::UndoInDoubt(at)
            | Self::UndoSucceeded(at)
            | Self::UndoFailed(at)
            | Self::UndoWaived(at)
            | Self::UndoResolved(at)
            | Self::UndoRedriven(at) => Some(at),
            Self::Submitted
            | Self::Dispatched
            | Self::Claimed
            | Self::HandedOver
            | Self::TakenBack
            | Self::OfferedAgain
            | Self::LostTooOften
            | Self::LostForGood
            | Self::Waits(_)
            | Self::Completed
            | Self::GaveUp(_)
            | Self::CancelRequested
            | Self::Stopped
            | Self::UndoFinished { .. }
            | Self::UndoGaveUp
            | Self::Quarantined
            | Self::Operator(_) => None,
        }
    }

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
            Self::Quarantined => "quarantined",
            Self::Operator(Operator::RetryUndo) => "operator_retried_undo",
            Self::Operator(Operator::Resolve) => "operator_resolved",
            Self::Operator(Operator::Redrive) => "operator_redrove",
            Self::Operator(Operator::Undo) => "operator_undid",
            Self::Operator(Operator::SetRecoveries) => "operator_set_recoveries",
            Self::StepStarted(_) => "step_started",
            Self::StepSkipped(_) => "step_skipped",
            Self::StepSucceeded(_) => "step_succeeded",
            Self::StepRetries(_) => "step_retries",
            Self::StepFailed(_) => "step_failed",
            Self::StepFallsBack(_) => "step_falls_back",
            Self::StepWaits(_) => "step_waits",
            Self::SignalReceived(_) => "signal_received",
            Self::StepInDoubt(_) => "step_in_doubt",
            Self::StepScratchLost(_) => "step_scratch_lost",
            Self::StepRebuilt(_) => "step_rebuilt",
            Self::StepSettled(_, true) => "step_settled_done",
            Self::StepSettled(_, false) => "step_settled_not_done",
            Self::StepSupplied(_) => "step_supplied",
            Self::StepRedriven(_) => "step_redriven",
            Self::UndoStarted(_) => "undo_started",
            Self::UndoRetries(_) => "undo_retries",
            Self::UndoInDoubt(_) => "undo_in_doubt",
            Self::UndoSucceeded(_) => "undo_succeeded",
            Self::UndoFailed(_) => "undo_failed",
            Self::UndoWaived(_) => "undo_waived",
            Self::UndoResolved(_) => "undo_resolved",
            Self::UndoRedriven(_) => "undo_redriven",
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
            Self::Quarantined,
            Self::Operator(Operator::RetryUndo),
            Self::Operator(Operator::Resolve),
            Self::Operator(Operator::Redrive),
            Self::Operator(Operator::Undo),
            Self::Operator(Operator::SetRecoveries),
            Self::StepStarted(at),
            Self::StepSkipped(at),
            Self::StepSucceeded(at),
            Self::StepRetries(at),
            Self::StepFailed(at),
            Self::StepFallsBack(at),
            Self::StepWaits(at),
            Self::SignalReceived(at),
            Self::StepInDoubt(at),
            Self::StepScratchLost(at),
            Self::StepRebuilt(at),
            Self::StepSettled(at, true),
            Self::StepSettled(at, false),
            Self::StepSupplied(at),
            Self::StepRedriven(at),
            Self::UndoStarted(at),
            Self::UndoRetries(at),
            Self::UndoInDoubt(at),
            Self::UndoSucceeded(at),
            Self::UndoFailed(at),
            Self::UndoWaived(at),
            Self::UndoResolved(at),
            Self::UndoRedriven(at),
        ];
        all.extend(WaitReason::ALL.iter().map(|&reason| Self::Waits(reason)));
        all.extend(OnExhausted::ALL.iter().map(|&policy| Self::GaveUp(policy)));
        all
    }
}
