//! The planner: what is next for a task, from its declaration, its rows and the facts that its host
//! has gathered. Pure: no I/O, no clock, no chance, no code of a step. A turn, a recovery and the
//! plan of an undo ask the same functions; `design` is its table of cases.

#[cfg(test)]
mod design;
mod failure;
mod forward;
mod scratch;
mod stages;
mod undo;
mod waits;

pub(crate) use failure::{AfterFailure, Ended, after_failure, failure_of};
pub use stages::*;
pub(crate) use waits::waits;

use crate::cancel::CancelReason;
use crate::error::StepResult;
use crate::record::{Failure, StepRow, TaskRecord};
use crate::task::Probe;
use crate::waits::Wait;
use counterstep_contracts::{Host, OnExhausted, StepStatus, TaskDecl, TaskStatus, WaitReason};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the planner decides from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) decl: &'static TaskDecl,
    /// The rows, and the database's time.
    pub(crate) record: &'a TaskRecord,
    /// The kind of host that asks.
    pub(crate) host: Host,
    pub(crate) facts: &'a Facts,
    pub(crate) answers: &'a Answers,
}

/// What a host knows of a task beyond its rows. Steps by their position in the declaration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Completed steps with a scratch file that this host does not have.
    pub(crate) lost_scratch: BTreeSet<usize>,
    /// Steps that their circuit breaker holds back.
    pub(crate) breakers: BTreeMap<usize, BreakerWait>,
    /// What the probes of steps in doubt have found.
    pub(crate) probes: Probes,
    /// Steps between two attempts to make their scratch again, and how long each still waits. What
    /// forward steps wait for stands in their rows.
    pub(crate) delayed_rebuilds: BTreeMap<usize, Duration>,
    /// Undos between two attempts, and how long each still waits.
    pub(crate) delayed_undos: BTreeMap<usize, Duration>,
    /// Why the running steps were told to stop.
    pub(crate) interrupted: Option<CancelReason>,
    /// The process shuts down: no attempt starts.
    pub(crate) stopping: bool,
}

/// How long a circuit breaker holds a step back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BreakerWait {
    /// The breaker's key.
    pub(crate) key: String,
    /// Until its next attempt may be let through.
    pub(crate) left: Duration,
}

/// What a turn knows from the probes of steps in doubt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probes {
    /// Under way.
    pub(crate) asked: BTreeSet<usize>,
    /// Answered.
    pub(crate) found: BTreeMap<usize, Probe<Value>>,
}

impl Probes {
    /// What was found done cannot be kept: a sweep has taken its objects since. Then it is unknown
    /// how far it came. `false`: nothing was found done.
    pub(crate) fn disbelieve(&mut self) -> bool {
        let done = self
            .found
            .values_mut()
            .filter(|found| matches!(found, Probe::Done(_)));
        done.map(|found| *found = Probe::Unknown).count() > 0
    }

    /// What was found out about a step that is in doubt.
    pub(crate) fn of(&self, at: usize, row: &StepRow) -> Option<&Probe<Value>> {
        self.found
            .get(&at)
            .filter(|_| row.status == StepStatus::InDoubt)
    }
}

/// Answers to what the planner has asked for in this decision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    /// Whether the condition of a step holds.
    pub(crate) conditions: BTreeMap<usize, StepResult<bool>>,
    /// What a step waits for.
    pub(crate) waits: BTreeMap<usize, StepResult<Wait>>,
    /// Room for heavy steps, once it was asked for.
    pub(crate) room: Option<Room>,
}

/// Room of a process for heavy steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// For so many steps, of those that were asked for.
    pub(crate) steps: usize,
    /// All of the process's room is in abandoned code, which may hold it as long as the process
    /// lives.
    pub(crate) stuck: bool,
}

/// What is next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    // The planner has to know more, and is asked again with the answers.
    /// Whether the conditions of these steps hold.
    AskConditions(Vec<usize>),
    /// What these steps wait for.
    AskWaits(Vec<usize>),
    /// Room for so many heavy steps.
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
    /// The task is given back until an undo's next attempt is due.
    RestBetweenUndos(Duration),
    /// The task is at rest.
    Rest,
}

/// What becomes of a step that waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WaitStep {
    /// It waits until then, or for its signal.
    Begins(crate::record::DbTime),
    /// What it waited for is there.
    Over(Value),
    /// What it waited for did not come. `falls_back`: its fallback runs in its place.
    Failed {
        error: crate::error::StepError,
        falls_back: bool,
    },
}

/// Why a task is given back by a process that shuts down.
pub(crate) const SHUTS_DOWN: &str = "its process shut down";

const HOLD: Decision = Decision::Hold { wants_room: false };

/// What is next for the task.
pub(crate) fn decide(view: &View<'_>) -> Decision {
    match view.record.task.status {
        status if status.is_at_rest() => Decision::Rest,
        TaskStatus::Compensating => undo::decide(view),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => forward::decide(view),
    }
}

impl View<'_> {
    fn step(&self, at: usize) -> &StepRow {
        &self.record.steps[at]
    }

    fn has(&self, status: StepStatus) -> bool {
        self.record.steps.iter().any(|row| row.status == status)
    }

    fn is_cancelled(&self) -> bool {
        self.record.task.cancel_requested_at.is_some()
    }

    /// Steps among these that are in doubt and have a probe that was not asked yet.
    fn unprobed(&self, steps: &[usize]) -> Vec<usize> {
        let probes = &self.facts.probes;
        let open = |at: &usize| {
            self.step(*at).status == StepStatus::InDoubt
                && self.decl.steps[*at].probe.is_some()
                && !probes.found.contains_key(at)
                && !probes.asked.contains(at)
        };
        steps.iter().copied().filter(open).collect()
    }

    /// Those of `steps` about which a probe has found what `is_it` asks for.
    fn found(&self, steps: &[usize], is_it: impl Fn(&Probe<Value>) -> bool) -> Vec<usize> {
        let of = |at: usize| self.facts.probes.of(at, self.step(at));
        let found = steps.iter().copied();
        found.filter(|&at| of(at).is_some_and(&is_it)).collect()
    }
}

fn sleep(reason: WaitReason, left: Duration) -> Decision {
    Decision::Sleep {
        reason,
        left,
        details: Value::Null,
    }
}

fn sleep_for_breaker(wait: &BreakerWait, step: &str, at_most: Duration) -> Decision {
    Decision::Sleep {
        reason: WaitReason::Breaker,
        left: wait.left.min(at_most),
        details: json!({"breaker": wait.key, "step": step}),
    }
}
