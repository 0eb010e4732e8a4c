//! What the planner decides.

use crate::admission::gate::Hold;
use crate::builtin::ChildRequest;
use crate::record::{DbTime, Failure, StepFailure};
use counterstep_contracts::{Host, OnExhausted, WaitReason};
use serde_json::Value;
use std::time::Duration;

/// What is next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    // The planner has to know more, and is asked again with the answers.
    /// Whether the conditions of these steps hold.
    AskConditions(Vec<usize>),
    /// What these steps wait for.
    AskWaits(Vec<usize>),
    /// Permits for this number of heavy steps.
    AskRoom(usize),

    // Something is written down, and the planner is asked again.
    /// The condition of this step does not hold.
    Skip(usize),
    /// Waits begin or are over.
    Wait(Vec<(usize, WaitStep)>),
    /// A step goes back to Pending: its scratch is lost, and no completed step has read it.
    ScratchLost(usize),
    /// Probes found these steps done.
    SettleDone(Vec<usize>),
    /// All tasks of this step are undone.
    ChildrenUndone(usize),
    /// Tasks of this step could not be told to stop, again and again.
    ChildrenNotUndone(usize),
    /// Probes found that these steps did nothing: there is nothing to undo.
    SettleNotDone(Vec<usize>),
    /// The cancel that was accepted is carried out.
    Stop,
    /// The task will not complete.
    GiveUp(Failure, OnExhausted),
    /// All steps are done.
    Complete,
    /// No undo is left.
    FinishUndo,

    // The decision is complete.
    /// These start forward. `wants_room`: other steps of their stage lack room alone.
    Start { steps: Vec<usize>, wants_room: bool },
    /// The step runs again for its scratch, and stays Completed.
    Rebuild(usize),
    /// The undos of these start.
    Undo(Vec<usize>),
    /// The probes of these are asked.
    Probe(Vec<usize>),
    /// The tasks of this step begin to be undone.
    UndoChildren(usize),
    /// The tasks of this step are told to stop, or are undone.
    StopChildren(usize),
    /// How each task of this step has ended is read.
    ReadChildren(usize),
    /// Something is under way, or due soon. `wants_room`: a step lacks room alone.
    Hold { wants_room: bool },
    /// The task is given back, for a host of this kind.
    HandOver(Host, &'static str),
    /// The task is given back until then; the details go into the audit.
    Sleep {
        reason: WaitReason,
        left: Duration,
        details: Value,
    },
    /// A task that is being undone is given back until then, or until one that is undone with it has
    /// ended.
    RestInUndo { left: Duration, why: &'static str },
    /// The task is at rest.
    Rest,
}

/// What becomes of a step that waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WaitStep {
    /// It waits until then, or for its signal.
    Begins(DbTime),
    /// It submits these tasks; where it begins with it, it waits for them until then.
    Submits {
        begins: Option<DbTime>,
        tasks: Vec<(u32, ChildRequest)>,
    },
    /// What it waited for is there.
    Over(Value),
    /// What it waited for did not come. `falls_back`: its fallback runs in its place.
    Failed {
        error: StepFailure,
        falls_back: bool,
    },
}

/// Why a task is given back by a process that shuts down.
pub(crate) const SHUTS_DOWN: &str = "its process shut down";

pub(super) const HOLD: Decision = Decision::Hold { wants_room: false };

pub(super) fn sleep(reason: WaitReason, left: Duration) -> Decision {
    Decision::Sleep {
        reason,
        left,
        details: Value::Null,
    }
}

pub(super) fn sleep_held_back(hold: &Hold, step: &str, at_most: Duration) -> Decision {
    let (reason, mut details) = hold.written();
    details["step"] = step.into();
    Decision::Sleep {
        reason,
        left: hold.left.min(at_most),
        details,
    }
}
