//! What the steps of a case have really done, and by which request: written down where an attempt
//! begins and acts, and held against what the engine undoes. Must not look at what the planner notes
//! of it in the rows.

use super::shape::{Kind, Shape, Undo};
use super::small::{Broken, NAMES, broken};
use crate::record::TaskRecord;
use counterstep_contracts::{OnUndoFailure, SettledAs, TaskStatus};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Something that a step has done.
#[derive(Debug)]
struct Effect {
    step: usize,
    /// The request by which it was done; `None`: by a person.
    request: Option<u64>,
    /// It was done by an attempt that completed, or that may have.
    counts: bool,
}

/// How a step has come to rest on the output of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    Condition,
    Wait,
    Completion,
}

#[derive(Debug)]
pub(super) struct Effects<'a> {
    shape: &'a Shape,
    standing: Vec<Effect>,
    /// In the order of their first starts.
    began: Vec<usize>,
    /// Waits that have begun, and by which request.
    waits: BTreeMap<usize, u64>,
    /// Which output a step rests on.
    rests_on: BTreeMap<(usize, By), (usize, Value)>,
    waivers: BTreeMap<usize, u32>,
    undone: BTreeSet<usize>,
    /// Nothing of them is left to be undone.
    closed: BTreeSet<usize>,
    /// Their undo has given up.
    gave_up: BTreeSet<usize>,
    /// The task is being undone, or was.
    turned: bool,
    undo_finished: bool,
}

impl<'a> Effects<'a> {
    pub(super) const fn of(shape: &'a Shape) -> Self {
        Self {
            shape,
            standing: Vec::new(),
            began: Vec::new(),
            waits: BTreeMap::new(),
            rests_on: BTreeMap::new(),
            waivers: BTreeMap::new(),
            undone: BTreeSet::new(),
            closed: BTreeSet::new(),
            gave_up: BTreeSet::new(),
            turned: false,
            undo_finished: false,
        }
    }

    fn has_undo(&self, at: usize) -> bool {
        self.shape.steps[at].undo == Undo::Function
    }

    /// Not where its undo is that of the tasks that it has submitted.
    fn has_own_undo(&self, at: usize) -> bool {
        self.has_undo(at) && !matches!(self.shape.steps[at].kind, Kind::Children { .. })
    }

    /// The step has acted. `counts`: the attempt did not fail. The same request once more is the same
    /// effect: it has the same key.
    pub(super) fn act(&mut self, at: usize, request: u64, counts: bool) {
        if !self.has_own_undo(at) {
            return;
        }
        let same = |effect: &&mut Effect| (effect.step, effect.request) == (at, Some(request));
        match self.standing.iter_mut().find(same) {
            Some(effect) => effect.counts |= counts,
            None => self.standing.push(Effect {
                step: at,
                request: Some(request),
                counts,
            }),
        }
    }

    /// A person has done it.
    pub(super) fn supplied(&mut self, at: usize) {
        if self.has_own_undo(at) {
            self.standing.push(Effect {
                step: at,
                request: None,
                counts: true,
            });
        }
    }

    /// The code of the undo has run.
    pub(super) fn take_back(&mut self, at: usize, request: u64) {
        let is_of =
            |effect: &Effect| effect.step == at && effect.request.is_none_or(|of| of == request);
        self.standing.retain(|effect| !is_of(effect));
    }

    pub(super) fn has_acted(&self, at: usize) -> bool {
        self.standing.iter().any(|effect| effect.step == at)
    }

    /// What attempts in doubt have done was found out.
    pub(super) fn found_done(&mut self, at: usize) {
        let of_step = self.standing.iter_mut().filter(|it| it.step == at);
        of_step.for_each(|effect| effect.counts = true);
    }

    /// None of the step's attempts was sent.
    pub(super) fn never_sent(&mut self, at: usize) {
        self.began.retain(|&it| it != at);
    }

    /// An operator redrives the task with another request, by which these start again: what their attempts
    /// may have done by the one before is that person's concern.
    pub(super) fn redriven_otherwise(&mut self, steps: &[usize]) {
        self.standing
            .retain(|effect| effect.counts || !steps.contains(&effect.step));
    }

    /// A person has settled the undo of a step.
    pub(super) fn settled_undo(&mut self, at: usize, settled: SettledAs) {
        if settled != SettledAs::Skipped {
            self.standing.retain(|effect| effect.step != at);
        }
    }

    /// A person has settled the task.
    pub(super) fn settled(&mut self, settled: SettledAs) {
        if matches!(settled, SettledAs::Done | SettledAs::Undone) {
            self.standing.clear();
        }
    }

    /// The step waits from now on, or continues to wait. Gives the request by which it began.
    pub(super) fn wait_begins(&mut self, at: usize, last_request: u64) -> u64 {
        *self.waits.entry(at).or_insert(last_request)
    }

    pub(super) fn wait_is_over(&mut self, at: usize, last_request: u64) {
        let request = self.waits.remove(&at).unwrap_or(last_request);
        self.act(at, request, true);
    }

    pub(super) fn wait_failed(&mut self, at: usize) {
        self.waits.remove(&at);
        self.rests_on.remove(&(at, By::Wait));
    }

    /// The step rests on this output from now on.
    pub(super) fn rests(&mut self, at: usize, by: By, on: usize, output: Option<&Value>) {
        if let Some(output) = output {
            self.rests_on
                .entry((at, by))
                .or_insert_with(|| (on, output.clone()));
        }
    }

    /// The output of the step is superseded: it has read nothing that counts.
    fn is_superseded(&mut self, at: usize) {
        self.rests_on.remove(&(at, By::Completion));
    }

    /// Takes down an entry of the audit.
    pub(super) fn note(
        &mut self,
        event: &str,
        at: Option<usize>,
        to: TaskStatus,
    ) -> Result<(), Broken> {
        let starts = ["step_started", "step_rebuilt", "children_submitted"].contains(&event);
        if starts && self.turned {
            return broken(format_args!("{event} after the task was being undone"));
        }
        self.turned |= to == TaskStatus::Compensating;
        self.undo_finished |= ["failed", "cancelled"].contains(&event);
        let Some(at) = at else { return Ok(()) };
        match event {
            "step_started" | "step_supplied" if !self.began.contains(&at) => self.began.push(at),
            "step_scratch_lost" => self.is_superseded(at),
            "undo_started" => return self.undo_starts(at),
            "undo_succeeded" => {
                self.closed.insert(at);
                if !self.undone.insert(at) {
                    return broken(format_args!("{} is undone twice", NAMES[at]));
                }
            }
            "step_settled_not_done" | "undo_resolved" => {
                self.closed.insert(at);
            }
            "undo_failed" => {
                self.gave_up.insert(at);
            }
            "probe_failed" if self.turned => {
                self.gave_up.insert(at);
            }
            "undo_redriven" | "probe_redriven" => {
                self.gave_up.remove(&at);
            }
            "undo_waived" => *self.waivers.entry(at).or_default() += 1,
            _ => {}
        }
        Ok(())
    }

    /// Whatever began later has to be undone before, but for what runs beside it.
    fn undo_starts(&self, at: usize) -> Result<(), Broken> {
        if self.undone.contains(&at) {
            return broken(format_args!("{} is undone twice", NAMES[at]));
        }
        let Some(place) = self.began.iter().position(|&it| it == at) else {
            return broken(format_args!("{} is undone and never began", NAMES[at]));
        };
        let goes_on = self.shape.on_undo_failure == OnUndoFailure::Continue;
        let is_open = |other: &&usize| {
            let settled = self.closed.contains(other) || goes_on && self.gave_up.contains(other);
            self.has_undo(**other) && !settled && !self.is_beside(at, **other)
        };
        match self.began[place + 1..].iter().find(is_open) {
            Some(&later) => broken(format_args!(
                "{} is undone ahead of {}, which began after it",
                NAMES[at], NAMES[later]
            )),
            None => Ok(()),
        }
    }

    fn is_beside(&self, one: usize, other: usize) -> bool {
        let (first, last) = (one.min(other), one.max(other));
        self.shape.steps[first + 1..=last]
            .iter()
            .all(|step| step.beside)
    }

    /// A decision that rests on an output keeps that output.
    pub(super) fn check_outputs(&self, record: &TaskRecord) -> Result<(), Broken> {
        for ((at, by), (on, output)) in &self.rests_on {
            let now = record.steps[*on].output.as_ref();
            if now != Some(output) {
                return broken(format_args!(
                    "the output of {} was {output} and is {now:?}, and {} rests on it ({by:?})",
                    NAMES[*on], NAMES[*at]
                ));
            }
        }
        Ok(())
    }

    /// Whether all is as it is to be once the task has ended. `below`: tasks of its steps have effects
    /// that it had to undo.
    pub(super) fn check_end(&self, record: &TaskRecord, below: bool) -> Result<(), Broken> {
        let task = &record.task;
        if task.status == TaskStatus::Completed {
            return match self.undone.first() {
                Some(&at) => broken(format_args!(
                    "{} is undone, and the task completed",
                    NAMES[at]
                )),
                None => Ok(()),
            };
        }
        let standing = self.standing.first().filter(|_| !task.residue);
        if let Some(Effect { step, request, .. }) = standing {
            return broken(format_args!(
                "the task is {} without residue, and what {} did by request {request:?} stands",
                task.status, NAMES[*step]
            ));
        }
        if below && !task.residue {
            return broken(format_args!(
                "the task is {} without residue, and what a task below it did stands",
                task.status
            ));
        }
        let is_waived = |at: &&usize| self.shape.steps[**at].undo == Undo::Waived;
        for at in self.began.iter().filter(is_waived) {
            let recorded = self.waivers.get(at).copied().unwrap_or_default();
            if self.undo_finished && recorded != 1 {
                return broken(format_args!(
                    "the waiver of {} is recorded {recorded} times",
                    NAMES[*at]
                ));
            }
        }
        Ok(())
    }
}
