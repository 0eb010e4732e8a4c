//! Decisions of the planner, written into a draft: whatever it asks for is answered, whatever it
//! decides is put before the judge. Must decide nothing itself.

use super::code;
use super::facts::TurnPlan;
use super::probe;
use super::turn_loop::{First, Next, Start, inputs_of};
use crate::builtin::{ChildRequest, Work};
use crate::children;
use crate::draft::Draft;
use crate::error::{StepError, StepResult};
use crate::plan::{self, Answers, Children, Decision, Room, View, WaitStep, failure_of};
use crate::record::{DbTime, TaskRecord};
use crate::saga::Illegal;
use crate::task::{Inputs, Probe, Run, guarded};
use crate::waits::Wait;
use counterstep_contracts::children::child_no;
use counterstep_contracts::{Direction, OnExhausted, StepStatus};

impl TurnPlan<'_> {
    /// Decides what is next, and writes it into the draft.
    pub(super) fn next(&self, draft: &mut Draft) -> Result<Next, Illegal> {
        self.permits.want_room(false);
        let mut answers = Answers::default();
        loop {
            let decision = plan::decide(&View {
                decl: draft.decl(),
                record: draft.record(),
                host: self.host,
                facts: &self.facts,
                answers: &answers,
            });
            match decision {
                Decision::AskConditions(steps) => {
                    let inputs = inputs_of(self.engine, draft.record());
                    let holds = |&at| (at, self.condition(at, draft.record(), &inputs));
                    answers.conditions.extend(steps.iter().map(holds));
                }
                Decision::AskWaits(steps) => {
                    let wait = |&at| (at, self.wait(at, draft));
                    answers.waits.extend(steps.iter().map(wait));
                }
                Decision::AskRoom(steps) => {
                    answers.room = Some(Room {
                        steps: self.permits.reserve(self.engine, steps),
                        stuck: self.engine.heavy.is_stuck(),
                    });
                }

                Decision::Skip(at) => draft.skip_step(at)?,
                Decision::Wait(steps) => {
                    for (at, step) in steps {
                        self.wait_step(draft, at, step)?;
                    }
                }
                Decision::ChildrenUndone(at) => {
                    let seen = self.facts.children.get(&at);
                    draft.children_are_undone(at, seen.is_some_and(|seen| seen.residue))?;
                }
                Decision::ChildrenNotUndone(at) => draft.children_not_undone(at)?,
                Decision::ScratchLost(at) => draft.scratch_lost(at)?,
                Decision::SettleDone(steps) => self.settle_done(draft, &steps)?,
                Decision::SettleNotDone(steps) => {
                    for at in steps {
                        draft.step_settled_not_done(at)?;
                    }
                }
                Decision::Stop => draft.stop()?,
                Decision::GiveUp(failure, policy) => draft.give_up(failure, policy)?,
                Decision::Complete => self.complete(draft)?,
                Decision::FinishUndo => draft.finish_undo()?,

                Decision::Start { steps, wants_room } => {
                    if wants_room {
                        self.permits.want_room(true);
                    }
                    return self.start(draft, steps);
                }
                Decision::Rebuild(at) => return self.rebuild(draft, at),
                Decision::Undo(steps) => return self.undo(draft, steps),
                Decision::Probe(steps) => return Ok(Next::Probe(steps)),
                Decision::UndoChildren(at) => {
                    draft.start_undo_of_children(at)?;
                    return Ok(Next::Again(First::Nothing));
                }
                Decision::StopChildren(at) => return Ok(Next::Again(First::StopChildren(at))),
                Decision::ReadChildren(at) => return Ok(Next::Again(First::ReadChildren(at))),
                Decision::Hold { wants_room } => {
                    if wants_room {
                        self.permits.want_room(true);
                    }
                    return Ok(Next::Hold);
                }
                Decision::HandOver(host, why) => {
                    draft.hand_over(host, why)?;
                    return Ok(Next::End);
                }
                Decision::Sleep {
                    reason,
                    left,
                    details,
                } => {
                    self.children_were_seen(draft, StepStatus::Waiting);
                    draft.wait_with(reason, left, details)?;
                    return Ok(Next::End);
                }
                Decision::RestInUndo { left, why } => {
                    self.children_were_seen(draft, StepStatus::Compensating);
                    draft.rest_in_undo(left, why)?;
                    return Ok(Next::End);
                }
                Decision::Rest => return Ok(Next::End),
            }
        }
    }

    fn condition(&self, at: usize, record: &TaskRecord, inputs: &Inputs) -> StepResult<bool> {
        let step = record.steps[at].name.as_str();
        let _in = code::span(&record.task, Some(step), "condition").entered();
        self.task_type.steps[at]
            .when
            .map_or(Ok(true), |when| guarded("the condition", || when(inputs)))
    }

    fn wait(&self, at: usize, draft: &Draft) -> StepResult<Wait> {
        let record = draft.record();
        let step = record.steps[at].name.as_str();
        let _in = code::span(&record.task, Some(step), "wait").entered();
        let no_wait = || {
            StepError::permanent("the declaration says that the step waits, and its code does not")
        };
        let Run::BuiltIn(evaluate) = self.task_type.steps[at].run else {
            return Err(no_wait());
        };
        let request = record.numbered_request(draft.request_at_start(at)).clone();
        let inputs = self.engine.inputs(request, record.outputs());
        match guarded("the step's function", || evaluate(&inputs))? {
            Work::Wait(wait) => Ok(wait),
            Work::Upload(_) | Work::Call(_) => Err(no_wait()),
        }
    }

    fn wait_step(&self, draft: &mut Draft, at: usize, step: WaitStep) -> Result<(), Illegal> {
        match step {
            WaitStep::Begins(due) => draft.wait_begins(at, due),
            WaitStep::Submits { begins, tasks } => self.submit_children(draft, at, begins, &tasks),
            WaitStep::Over(output) => match self.fits(draft, at, &output) {
                Ok(()) => draft.wait_is_over(at, output),
                Err(error) => draft.wait_failed(at, (&error).into(), false),
            },
            WaitStep::Failed { error, falls_back } => draft.wait_failed(at, error, falls_back),
        }
    }

    fn submit_children(
        &self,
        draft: &mut Draft,
        at: usize,
        begins: Option<DbTime>,
        tasks: &[(u32, ChildRequest)],
    ) -> Result<(), Illegal> {
        let (parent, step) = (&draft.record().task, draft.step(at));
        let generation = step.children.map_or(0, |children| children.generation);
        let new = |(place, task): &(u32, ChildRequest)| {
            let _in = code::span(parent, Some(&step.name), "wait").entered();
            let no = child_no(generation, *place);
            children::submission(self.engine, parent, step.no, no, task)
        };
        let new: StepResult<Vec<_>> = tasks.iter().map(new).collect();
        match new {
            Ok(new) => {
                if let Some(due) = begins {
                    draft.wait_begins(at, due)?;
                }
                let from = tasks.first().map_or(0, |(place, _)| *place);
                draft.submit_children(at, from, new)
            }
            Err(error) => draft.wait_failed(at, (&error).into(), false),
        }
    }

    /// The responses of many tasks may be more than a step may give. What a signal gives was looked at
    /// when it came.
    fn fits(&self, draft: &Draft, at: usize, output: &serde_json::Value) -> StepResult<()> {
        if draft.decl().steps[at].has_children() {
            return self.engine.settings.output_limit.check(output);
        }
        Ok(())
    }

    /// Notes what is known of the tasks that steps in this state have submitted.
    fn children_were_seen(&self, draft: &mut Draft, status: StepStatus) {
        let seen = |at: usize| {
            let row = draft.step(at);
            let children = row.children.filter(|_| row.status == status)?;
            if self.facts.unseen_children.contains(&at) {
                return Some((at, None));
            }
            let known = self.facts.children.get(&at);
            Some((at, Some(known.map_or(children.seen, Children::ended))))
        };
        let seen: Vec<_> = (0..draft.record().steps.len()).filter_map(seen).collect();
        draft.children_were_seen(&seen);
    }

    fn complete(&self, draft: &mut Draft) -> Result<(), Illegal> {
        let inputs = inputs_of(self.engine, draft.record());
        let span = code::span(&draft.record().task, None, "respond");
        match span.in_scope(|| guarded("respond", || (self.task_type.respond)(&inputs))) {
            Ok(response) => draft.complete(response),
            Err(error) => draft.give_up(failure_of("respond", &error), OnExhausted::Compensate),
        }
    }

    fn found(&self, draft: &Draft, at: usize) -> Option<&Probe<serde_json::Value>> {
        self.facts.probes.of(at, draft.step(at))
    }

    fn settle_done(&self, draft: &mut Draft, steps: &[usize]) -> Result<(), Illegal> {
        for &at in steps {
            if let Some(Probe::Done(output)) = self.found(draft, at) {
                draft.step_settled_done(at, output.clone())?;
            }
        }
        Ok(())
    }

    fn start(&self, draft: &mut Draft, steps: Vec<usize>) -> Result<Next, Illegal> {
        let lacks = |&at: &usize| self.asked.lacks(draft.decl(), draft.record(), at);
        // Their limits and breakers are asked once the rows say what is to start.
        if steps.iter().any(lacks) {
            return Ok(Next::Again(First::Nothing));
        }
        let mut starts = Vec::with_capacity(steps.len());
        for at in steps {
            let (limit, sweep_after) =
                self.engine
                    .settings
                    .attempt_limits(&self.task_type, at, Direction::Forward);
            let found = self.found(draft, at);
            let first = draft.step(at).started_seq.is_none();
            let execution = draft.start_step(at, sweep_after)?;
            if let Some(found) = found {
                draft.add_detail("probe", probe::word(found).into());
            }
            starts.push(Start {
                at,
                execution,
                limit,
                first,
                room: None,
                permit: None,
            });
        }
        Ok(Next::Run(starts))
    }

    fn rebuild(&self, draft: &mut Draft, at: usize) -> Result<Next, Illegal> {
        // It had no room when its limit was to be asked, and has some now.
        if self.asked.lacks(draft.decl(), draft.record(), at) {
            return Ok(Next::Again(First::Nothing));
        }
        let (limit, sweep_after) =
            self.engine
                .settings
                .attempt_limits(&self.task_type, at, Direction::Forward);
        let execution = draft.start_rebuild(at, sweep_after)?;
        Ok(Next::Run(vec![Start {
            at,
            execution,
            limit,
            first: false,
            room: None,
            permit: None,
        }]))
    }

    fn undo(&self, draft: &mut Draft, steps: Vec<usize>) -> Result<Next, Illegal> {
        let mut starts = Vec::with_capacity(steps.len());
        for at in steps {
            let (limit, sweep_after) =
                self.engine
                    .settings
                    .attempt_limits(&self.task_type, at, Direction::Undo);
            let found = self.found(draft, at);
            let execution = draft.start_undo(at, sweep_after)?;
            if let Some(found) = found {
                draft.add_detail("probe", probe::word(found).into());
            }
            if let Some(Probe::Done(output)) = found {
                // In the row, so that a later attempt of this undo gets it too.
                draft.step_mut(at).output = Some(output.clone());
            }
            starts.push(Start {
                at,
                execution,
                limit,
                first: false,
                room: None,
                permit: None,
            });
        }
        Ok(Next::Run(starts))
    }
}
