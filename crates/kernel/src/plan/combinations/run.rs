//! A task and the host that runs it: what a turn gathers, asks and writes, without I/O. It does with
//! the planner's decisions what `turn` does, and notes in `effects` what the code of the steps would
//! do.

use super::child::{Child, Stop};
use super::effects::{By, Effects};
use super::shape::{Kind, Shape, When};
use super::small::{Broken, HOUR, broken, committed, number};
use crate::builtin::{ChildRequest, Tasks, TasksShape};
use crate::cancel::CancelReason;
use crate::change::transition::Transition;
use crate::draft::Draft;
use crate::plan::{Answers, Children, Decision, Facts, Probes, View, WaitStep, decide};
use crate::record::{ChildrenRow, DbTime, StepRow, TaskRecord};
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use crate::task::Probe;
use crate::waits::Wait;
use counterstep_contracts::children::{child_no, place_of};
use counterstep_contracts::{
    ChangeId, Direction, Host, ParentRef, StepStatus, TaskDecl, TaskStatus,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An attempt under way.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) at: usize,
    pub(super) direction: Direction,
    /// The request that its code was given.
    pub(super) given: u64,
    /// No attempt before it can have had an effect.
    pub(super) first: bool,
    /// It makes lost scratch again.
    pub(super) rebuilds: bool,
}

/// What a turn knows beyond the rows.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) probes: Probes,
    pub(super) rebuilds: BTreeMap<usize, DbTime>,
    pub(super) stopped: BTreeSet<usize>,
    pub(super) shuts_down: bool,
}

/// A task of a case.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) shape: &'a Shape,
    pub(super) decl: &'static TaskDecl,
    pub(super) child_decl: &'static TaskDecl,
    pub(super) record: TaskRecord,
    pub(super) open: Vec<Open>,
    /// How many of them, the last ones, were started by the last commit.
    pub(super) fresh: usize,
    pub(super) memory: Memory,
    /// Steps whose scratch files the host has.
    pub(super) files: BTreeSet<usize>,
    pub(super) children: Vec<Child>,
    pub(super) effects: Effects<'a>,
    /// The number of the last output.
    pub(super) outputs: u64,
}

/// What a decision has left to do.
#[derive(Debug)]
pub(super) enum Next {
    Run(Vec<Open>),
    Probe(Vec<usize>),
    Again,
    Stop(usize),
    Hold,
    End,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        shape: &'a Shape,
        decl: &'static TaskDecl,
        child_decl: &'static TaskDecl,
        record: TaskRecord,
    ) -> Self {
        Self {
            shape,
            decl,
            child_decl,
            record,
            open: Vec::new(),
            fresh: 0,
            memory: Memory::default(),
            files: BTreeSet::new(),
            children: Vec::new(),
            effects: Effects::of(shape),
            outputs: 0,
        }
    }
}

impl Run<'_> {
    pub(super) fn last_request(&self) -> u64 {
        self.record.task.request.as_u64().unwrap_or_default()
    }

    /// Writes down what has happened, and decides what is next, in one commit.
    pub(super) fn decide(
        &mut self,
        happened: impl FnOnce(&mut Draft, &mut Facts) -> Result<(), Illegal>,
    ) -> Result<Next, Broken> {
        let mut facts = self.facts();
        let mut draft = Draft::new(self.decl, self.record.clone(), "host");
        happened(&mut draft, &mut facts)?;
        let next = self.next(&mut draft, &facts)?;
        let now = self.record.now;
        self.commit(&draft)?;
        let delayed = facts.delayed_rebuilds.into_iter();
        self.memory.rebuilds = delayed.map(|(at, left)| (at, now.later(left))).collect();
        Ok(next)
    }

    /// A change that does not come from the task's host.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut Draft) -> Result<(), Illegal>,
    ) -> Result<(), Broken> {
        let mut draft = Draft::new(self.decl, self.record.clone(), "client");
        change(&mut draft)?;
        self.commit(&draft)
    }

    fn commit(&mut self, draft: &Draft) -> Result<(), Broken> {
        for entry in draft.entries() {
            let at = entry.step.map(|no| usize::try_from(no.0 - 1).unwrap_or(0));
            self.effects.note(&entry.event, at, entry.to)?;
        }
        let turns = self.record.task.status != TaskStatus::Compensating
            && draft.status() == TaskStatus::Compensating;
        self.record = committed(draft);
        if self.record.task.lease_owner.is_none() {
            if !self.open.is_empty() {
                return broken("the task is given back while attempts are under way");
            }
            self.memory = Memory::default();
        } else if turns {
            self.memory.rebuilds.clear();
            self.memory.stopped.clear();
        }
        if self.record.task.status.is_at_rest() {
            self.files.clear();
        }
        self.effects.check_outputs(&self.record)
    }

    fn facts(&self) -> Facts {
        let record = &self.record;
        let cancelled = record.task.cancel_requested_at.is_some();
        let mut facts = Facts {
            probes: self.memory.probes.clone(),
            stopped_children: self.memory.stopped.clone(),
            stopping: self.memory.shuts_down,
            interrupted: match (self.memory.shuts_down, cancelled) {
                (true, _) => Some(CancelReason::Shutdown),
                (false, true) => Some(CancelReason::Requested),
                (false, false) => None,
            },
            ..Facts::default()
        };
        let undoing = record.task.status == TaskStatus::Compensating;
        for (at, row) in record.steps.iter().enumerate() {
            let has_scratch = |output| !scratch_files_in(record.task.id, output).is_empty();
            if !undoing
                && !self.memory.shuts_down
                && row.status == StepStatus::Completed
                && !self.files.contains(&at)
                && row.output.as_ref().is_some_and(has_scratch)
            {
                facts.lost_scratch.insert(at);
            }
            if let Some(left) = undo_delay(row, record.now) {
                facts.delayed_undos.insert(at, left);
            }
        }
        if !undoing {
            let delayed = self.memory.rebuilds.iter();
            let delayed = delayed.map(|(&at, due)| (at, due.after(record.now)));
            facts.delayed_rebuilds = delayed.filter(|(_, left)| !left.is_zero()).collect();
        }
        for at in 0..record.steps.len() {
            if let Some(children) = self.look(at, undoing) {
                facts.children.insert(at, children);
            }
        }
        facts
    }

    /// How the tasks of a step stand, where it waits for them, or undoes them.
    fn look(&self, at: usize, undoing: bool) -> Option<Children> {
        let row = &self.record.steps[at];
        let wanted = if undoing {
            StepStatus::Compensating
        } else {
            StepStatus::Waiting
        };
        let ChildrenRow {
            started,
            generation,
            ..
        } = row.children?;
        if row.status != wanted || started == 0 {
            return None;
        }
        let of_step = || self.children.iter().filter(|child| child.of == at);
        // Going backward each counts.
        let places = of_step().zip(0..).map(|(child, each)| {
            let no = if undoing { each } else { child.no() };
            (no, child.status())
        });
        let mut children = Children::of_places(places, if undoing { 0 } else { generation });
        children.residue =
            of_step().any(|child| child.record.task.residue && child.status().is_terminal());
        if !undoing && children.ended() == started {
            let latest: BTreeMap<u32, &Child> = of_step()
                .map(|child| (place_of(child.no()), child))
                .collect();
            children.outcomes = Some(latest.into_values().map(Child::outcome).collect());
        }
        Some(children)
    }

    /// Decides what is next, and writes it into the draft, as `TurnPlan::next`.
    fn next(&mut self, draft: &mut Draft, facts: &Facts) -> Result<Next, Broken> {
        let mut answers = Answers::default();
        for _ in 0..100 {
            let decision = decide(&View {
                decl: self.decl,
                record: draft.record(),
                host: Host::Worker,
                facts,
                answers: &answers,
            });
            match decision {
                Decision::AskConditions(steps) => {
                    let holds = |at: usize| (at, Ok(self.condition(at, draft.record())));
                    answers.conditions.extend(steps.into_iter().map(holds));
                }
                Decision::AskWaits(steps) => {
                    let wait = |at: usize| (at, Ok(self.wait(at)));
                    answers.waits.extend(steps.into_iter().map(wait));
                }
                Decision::AskRoom(_) => return broken("no step is heavy"),
                Decision::Skip(at) => {
                    self.rests_on_condition(at, draft.record());
                    draft.skip_step(at)?;
                }
                Decision::Wait(steps) => {
                    for (at, step) in steps {
                        self.rests_on_condition(at, draft.record());
                        self.wait_step(draft, facts, at, step)?;
                    }
                }
                Decision::ChildrenUndone(at) => {
                    let seen = facts.children.get(&at);
                    draft.children_are_undone(at, seen.is_some_and(|seen| seen.residue))?;
                }
                Decision::ChildrenNotUndone(at) => draft.children_not_undone(at)?,
                Decision::ScratchLost(at) => draft.scratch_lost(at)?,
                Decision::SettleDone(steps) => {
                    for at in steps {
                        if let Some(Probe::Done(output)) = facts.probes.of(at, draft.step(at)) {
                            draft.step_settled_done(at, output.clone())?;
                            self.effects.found_done(at);
                            self.rests_on_input(at, By::Completion, draft.record());
                        }
                    }
                }
                Decision::SettleNotDone(steps) => {
                    for at in steps {
                        draft.step_settled_not_done(at)?;
                    }
                }
                Decision::Stop => draft.stop()?,
                Decision::GiveUp(failure, policy) => draft.give_up(failure, policy)?,
                Decision::Complete => draft.complete(Value::Null)?,
                Decision::FinishUndo => draft.finish_undo()?,
                Decision::Start { steps, .. } => {
                    let mut starts = Vec::with_capacity(steps.len());
                    for at in steps {
                        self.rests_on_condition(at, draft.record());
                        let first = draft.step(at).started_seq.is_none();
                        draft.start_step(at, Duration::ZERO)?;
                        starts.push(open(draft, at, Direction::Forward, first));
                    }
                    return Ok(Next::Run(starts));
                }
                Decision::Rebuild(at) => {
                    draft.start_rebuild(at, Duration::ZERO)?;
                    let start = open(draft, at, Direction::Forward, false);
                    return Ok(Next::Run(vec![Open {
                        rebuilds: true,
                        ..start
                    }]));
                }
                Decision::Undo(steps) => {
                    let mut starts = Vec::with_capacity(steps.len());
                    for at in steps {
                        let found = facts.probes.of(at, draft.step(at));
                        draft.start_undo(at, Duration::ZERO)?;
                        if let Some(Probe::Done(output)) = found {
                            draft.step_mut(at).output = Some(output.clone());
                        }
                        starts.push(open(draft, at, Direction::Undo, false));
                    }
                    return Ok(Next::Run(starts));
                }
                Decision::Probe(steps) => return Ok(Next::Probe(steps)),
                Decision::UndoChildren(at) => {
                    draft.start_undo_of_children(at)?;
                    return Ok(Next::Again);
                }
                Decision::StopChildren(at) => return Ok(Next::Stop(at)),
                Decision::ReadChildren(_) => return broken("few tasks are read unasked"),
                Decision::Hold { .. } => return Ok(Next::Hold),
                Decision::HandOver(host, why) => {
                    draft.hand_over(host, why)?;
                    return Ok(Next::End);
                }
                Decision::Sleep {
                    reason,
                    left,
                    details,
                } => {
                    draft.wait_with(reason, left, details)?;
                    return Ok(Next::End);
                }
                Decision::RestInUndo { left, why } => {
                    draft.rest_in_undo(left, why)?;
                    return Ok(Next::End);
                }
                Decision::Rest => return Ok(Next::End),
            }
        }
        broken("the planner decides without end")
    }

    fn condition(&self, at: usize, record: &TaskRecord) -> bool {
        match self.shape.steps[at].when {
            When::Always => true,
            When::Request => self.last_request().is_multiple_of(2),
            When::Output(of) => {
                let output = record.steps[of].output.as_ref();
                output.is_none_or(|output| number(output).is_multiple_of(2))
            }
        }
    }

    fn rests_on_condition(&mut self, at: usize, record: &TaskRecord) {
        if let When::Output(of) = self.shape.steps[at].when {
            let output = record.steps[of].output.as_ref();
            self.effects.rests(at, By::Condition, of, output);
        }
    }

    pub(super) fn rests_on_input(&mut self, at: usize, by: By, record: &TaskRecord) {
        if let Some(of) = self.shape.steps[at].reads {
            let output = record.steps[of].output.as_ref();
            self.effects.rests(at, by, of, output);
        }
    }

    fn wait(&self, at: usize) -> Wait {
        match self.shape.steps[at].kind {
            Kind::Timer => Wait::For(HOUR / 2),
            Kind::Children { count, any } => {
                let child = ChildRequest {
                    of: "Child",
                    version: 1,
                    request: Value::Null,
                };
                let count = usize::try_from(count).unwrap_or(1);
                Wait::Tasks(Tasks {
                    list: vec![child; count],
                    at_a_time: count,
                    need: if any { 1 } else { count },
                    stops_early: any,
                    within: HOUR,
                    shape: TasksShape::Outcomes,
                    fault: None,
                })
            }
            Kind::Signal { .. } | Kind::Code | Kind::Call => Wait::Signal(HOUR),
        }
    }

    fn wait_step(
        &mut self,
        draft: &mut Draft,
        facts: &Facts,
        at: usize,
        step: WaitStep,
    ) -> Result<(), Broken> {
        let last = self.last_request();
        match step {
            WaitStep::Begins(due) => {
                self.effects.wait_begins(at, last);
                self.rests_on_input(at, By::Wait, draft.record());
                draft.wait_begins(at, due)?;
            }
            WaitStep::Submits { begins, tasks } => {
                self.rests_on_input(at, By::Wait, draft.record());
                if let Some(due) = begins {
                    draft.wait_begins(at, due)?;
                }
                let mut transitions = Vec::with_capacity(tasks.len());
                let from = tasks.first().map_or(0, |(place, _)| *place);
                let row = draft.step(at);
                let (step, children) = (row.no, row.children.unwrap_or_default());
                for (place, _) in tasks {
                    let (task, now) = (draft.record().task.id, draft.record().now);
                    let parent = ParentRef {
                        task,
                        step,
                        no: child_no(children.generation, place),
                        depth: 1,
                    };
                    let child = Child::submitted(self.child_decl, at, parent, now)?;
                    let change = ChangeId(uuid::Uuid::nil());
                    transitions.push(Transition::new(change, child.record.task.id));
                    self.children.push(child);
                }
                draft.submit_children(at, from, transitions)?;
            }
            WaitStep::Over(output) => {
                self.effects.wait_is_over(at, last);
                draft.wait_is_over(at, output)?;
                self.rests_on_input(at, By::Completion, draft.record());
            }
            WaitStep::Failed { error, falls_back } => {
                let none = Children::default();
                let seen = facts.children.get(&at).unwrap_or(&none);
                // Of a list that does not stop early, all have to complete.
                if let Wait::Tasks(tasks) = self.wait(at)
                    && seen.completed as usize >= tasks.need
                {
                    return broken("a step fails although enough of its tasks have completed");
                }
                self.effects.wait_failed(at);
                draft.wait_failed(at, error, falls_back)?;
            }
        }
        Ok(())
    }

    /// The tasks of a step are told to stop, or are undone.
    pub(super) fn stop_children(&mut self, at: usize) -> Result<(), Broken> {
        let how = if self.record.task.status == TaskStatus::Compensating {
            Stop::All
        } else {
            Stop::Running
        };
        self.memory.stopped.insert(at);
        let mut of_step = self.children.iter_mut().filter(|child| child.of == at);
        of_step.try_for_each(|child| child.stop(how))
    }
}

/// An attempt whose start is in the draft. Its code is given what the rows say then.
fn open(draft: &Draft, at: usize, direction: Direction, first: bool) -> Open {
    Open {
        at,
        direction,
        given: draft.record().request_of(at).as_u64().unwrap_or_default(),
        first,
        rebuilds: false,
    }
}

/// As `delayed_undos` of a turn.
fn undo_delay(row: &StepRow, now: DbTime) -> Option<Duration> {
    let between = match row.status {
        StepStatus::Compensating => !row.attempt_open,
        StepStatus::InDoubt => row.probe.is_some(),
        _ => false,
    };
    let left = row.due_at.filter(|_| between)?.after(now);
    (!left.is_zero()).then_some(left)
}
