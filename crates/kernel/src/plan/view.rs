//! What the planner decides from: the declaration, the rows, and what a host knows beyond them.

use crate::admission::gate::Hold;
use crate::cancel::CancelReason;
use crate::error::StepResult;
use crate::record::{StepRow, TaskRecord};
use crate::task::Probe;
use crate::waits::Wait;
use counterstep_contracts::children::{generation_of, place_of};
use counterstep_contracts::{Attempt, Host, StepStatus, TaskDecl, TaskStatus};
use counterstep_steps::{ChildFailure, ChildOutcome};
use serde_json::Value;
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
    /// Steps that their circuit breaker or their limit holds back.
    pub(crate) held_back: BTreeMap<usize, Hold>,
    /// What the probes of steps in doubt have found.
    pub(crate) probes: Probes,
    /// Steps between two attempts to make their scratch again, and how long each still waits. What
    /// forward steps wait for stands in their rows.
    pub(crate) delayed_rebuilds: BTreeMap<usize, Duration>,
    /// Undos between two attempts, and how long each still waits.
    pub(crate) delayed_undos: BTreeMap<usize, Duration>,
    /// How the tasks stand that steps have submitted and wait for, or that are undone with them.
    pub(crate) children: BTreeMap<usize, Children>,
    /// Steps whose tasks could not all be read, or did not all get the stop request.
    pub(crate) unseen_children: BTreeSet<usize>,
    /// Why, where a task of them cannot be read: waiting alone does not help.
    pub(crate) unreadable_children: BTreeMap<usize, String>,
    /// Steps whose tasks this turn has told to stop.
    pub(crate) stopped_children: BTreeSet<usize>,
    /// Why the running steps were told to stop.
    pub(crate) interrupted: Option<CancelReason>,
    /// The process shuts down: an attempt starts only where it reads scratch files of this host.
    pub(crate) draining: bool,
    /// The time for that is over: no attempt starts.
    pub(crate) stopping: bool,
}

impl Facts {
    /// Whether the process shuts down.
    pub(crate) const fn is_leaving(&self) -> bool {
        self.draining || self.stopping
    }
}

/// How the tasks of a step stand. Going forward, of each place of its list the latest counts; going
/// backward, each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Children {
    /// Number of places that have a task.
    pub(crate) places: u32,
    /// Number of tasks that were replaced by a later one of their place.
    pub(crate) replaced: u32,
    /// Places whose task has ended without completing and may be replaced, since the task of the step
    /// was retried, in order.
    pub(crate) again: Vec<u32>,
    /// Number of tasks that have completed.
    pub(crate) completed: u32,
    /// Number of tasks that have ended otherwise.
    pub(crate) failed: u32,
    /// One that has ended did so with effects that were not undone.
    pub(crate) residue: bool,
    /// One of those that have not completed.
    pub(crate) failure: Option<ChildFailure>,
    /// How each has ended, where that was read.
    pub(crate) outcomes: Option<Vec<ChildOutcome<Value>>>,
}

impl Children {
    /// Going forward, from the numbers and states of all tasks of the step, in order. `generation`:
    /// that of the step.
    pub(crate) fn of_places(
        all: impl IntoIterator<Item = (u32, TaskStatus)>,
        generation: u32,
    ) -> Self {
        let mut children = Self::default();
        let mut latest = BTreeMap::new();
        for (no, status) in all {
            let before = latest.insert(place_of(no), (no, status));
            children.replaced += u32::from(before.is_some());
        }
        for (place, (no, status)) in latest {
            children.places += 1;
            match status {
                TaskStatus::Completed => children.completed += 1,
                status if !status.is_terminal() => {}
                _ if generation_of(no) < generation => children.again.push(place),
                _ => children.failed += 1,
            }
        }
        children
    }

    /// Number of tasks that have ended, with those that were replaced.
    pub(crate) fn ended(&self) -> u32 {
        let again = u32::try_from(self.again.len()).unwrap_or(u32::MAX);
        let latest = self.completed.saturating_add(self.failed);
        latest.saturating_add(again).saturating_add(self.replaced)
    }
}

/// What a turn knows from the probes of steps in doubt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probes {
    /// Under way.
    pub(crate) asked: BTreeSet<usize>,
    /// Answered, each about one attempt: of a later one it says nothing.
    pub(crate) found: BTreeMap<usize, (Attempt, Probe<Value>)>,
}

impl Probes {
    /// What was found done cannot be kept: a sweep has taken its objects since. Then it is unknown
    /// how far it came. `false`: nothing was found done.
    pub(crate) fn disbelieve(&mut self) -> bool {
        let done = self
            .found
            .values_mut()
            .filter(|(_, found)| matches!(found, Probe::Done(_)));
        done.map(|(_, found)| *found = Probe::Unknown).count() > 0
    }

    /// What was found out about a step that is in doubt.
    pub(crate) fn of(&self, at: usize, row: &StepRow) -> Option<&Probe<Value>> {
        let in_doubt = row.status == StepStatus::InDoubt;
        let (attempt, found) = self.found.get(&at).filter(|_| in_doubt)?;
        (*attempt == row.attempts).then_some(found)
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
    /// Number of steps, of those that were asked for, that have a permit.
    pub(crate) steps: usize,
    /// All of the process's room is in abandoned code, which may hold it as long as the process
    /// lives.
    pub(crate) stuck: bool,
}

impl View<'_> {
    pub(super) fn step(&self, at: usize) -> &StepRow {
        &self.record.steps[at]
    }

    pub(super) fn has(&self, status: StepStatus) -> bool {
        self.record.steps.iter().any(|row| row.status == status)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.record.task.cancel_requested_at.is_some()
    }

    /// Steps among these that are in doubt and have a probe that was not asked yet.
    pub(super) fn unprobed(&self, steps: &[usize]) -> Vec<usize> {
        let probes = &self.facts.probes;
        let open = |at: &usize| {
            self.step(*at).status == StepStatus::InDoubt
                && self.decl.steps[*at].probe.is_some()
                && probes.of(*at, self.step(*at)).is_none()
                && !probes.asked.contains(at)
        };
        steps.iter().copied().filter(open).collect()
    }

    /// Those of `steps` about which a probe has found what `is_it` asks for.
    pub(super) fn found(
        &self,
        steps: &[usize],
        is_it: impl Fn(&Probe<Value>) -> bool,
    ) -> Vec<usize> {
        let of = |at: usize| self.facts.probes.of(at, self.step(at));
        let found = steps.iter().copied();
        found.filter(|&at| of(at).is_some_and(&is_it)).collect()
    }
}
