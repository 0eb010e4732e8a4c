//! What comes next of a task that goes forward, decided from its rows and from what was looked up.
//! Must do no I/O and run no step.

use super::{Ahead, failure, give_back};
use crate::cancel::CancelReason;
use crate::draft::Draft;
use crate::error::StepError;
use crate::plan::{self, Forward};
use crate::policy;
use crate::record::Failure;
use crate::saga::Illegal;
use crate::task::guarded;
use crate::turn::undo::Back;
use crate::turn::{Next, Start, inputs_of, limits, probe};
use counterstep_contracts::{Direction, OnExhausted, StepStatus, TaskStatus};

impl Ahead<'_> {
    /// Decides what comes next, and writes its start into the draft.
    pub(in crate::turn) fn next(&self, draft: &mut Draft) -> Result<Next, Illegal> {
        self.reserved.wants_enough();
        loop {
            if draft.status().is_at_rest() {
                return Ok(Next::End);
            }
            if draft.status() == TaskStatus::Compensating {
                let mut back = Back::fresh(self.engine, self.task_type, self.host);
                back.stopping = self.stopping;
                back.probes = self.probes.clone();
                return Ok(match back.next(draft)? {
                    Next::End => Next::End,
                    // The starts are in the draft; the undo takes them up from the rows.
                    Next::Run(_) | Next::Undo | Next::Hold | Next::Delay(..) | Next::Probe(_) => {
                        Next::Undo
                    }
                });
            }
            if draft.is_rebuilding() || !self.probes.asked.is_empty() {
                return Ok(Next::Hold);
            }
            let running = !draft.running_steps().is_empty();
            let give_up = self.reason_to_give_up(draft);
            if running {
                // Beside those that run a sibling may start again, unless something speaks against
                // going on.
                if draft.is_cancel_requested() || self.stopping || give_up.is_some() {
                    return Ok(Next::Hold);
                }
            } else if draft.is_cancel_requested() {
                draft.stop()?;
                continue;
            } else if let Some((failure, policy)) = give_up {
                draft.give_up(failure, policy)?;
                continue;
            }
            match plan::forward(draft.decl(), &draft.record().steps, draft.record().now) {
                Forward::Finish => self.respond(draft)?,
                Forward::Hold if running => return Ok(Next::Hold),
                Forward::Hold => return self.rest(draft),
                Forward::Start(stage) => {
                    if let Some(next) = self.start(draft, stage, running)? {
                        return Ok(next);
                    }
                }
            }
        }
    }

    /// Nothing runs, and nothing may start before something is due: long waits are slept through.
    fn rest(&self, draft: &mut Draft) -> Result<Next, Illegal> {
        let record = draft.record();
        let Some((at, due)) = plan::next_due(draft.decl(), &record.steps) else {
            return Ok(Next::Hold);
        };
        let left = due.after(record.now);
        if left < policy::INLINE_LIMIT {
            match self.interrupted {
                None => return Ok(Next::Hold),
                Some(CancelReason::Shutdown) => return give_back(draft, self.host),
                // The rows know more than this draft: its commit finds out what.
                Some(CancelReason::Requested | CancelReason::Sibling | CancelReason::LeaseLost) => {
                }
            }
        }
        draft.wait(draft.reason_to_wait(at), left)?;
        Ok(Next::End)
    }

    fn reason_to_give_up(&self, draft: &Draft) -> Option<(Failure, OnExhausted)> {
        let record = draft.record();
        let failed = |row: &crate::record::StepRow| row.status == StepStatus::Failed;
        // The siblings that it took with it have failed too; the culprit is the one that was not
        // cancelled.
        let culprit = |row: &crate::record::StepRow| {
            failed(row)
                && row
                    .error
                    .as_ref()
                    .is_some_and(|error| !error.ends_with("(cancelled)"))
        };
        let steps = &record.steps;
        if let Some(at) = steps
            .iter()
            .position(culprit)
            .or_else(|| steps.iter().position(failed))
        {
            let decl = &draft.decl().steps[at];
            let text = record.steps[at]
                .error
                .clone()
                .unwrap_or_else(|| "it failed".to_owned());
            // The row has the error as `message (class)`.
            let (message, class) = match text.rsplit_once(" (") {
                Some((message, class)) => {
                    (message.to_owned(), class.trim_end_matches(')').to_owned())
                }
                None => (text, "permanent".to_owned()),
            };
            return Some((
                Failure {
                    step: Some(decl.name.to_owned()),
                    class,
                    message,
                },
                decl.on_exhausted,
            ));
        }
        if record
            .task
            .deadline_at
            .is_some_and(|deadline| deadline <= record.now)
        {
            let message = "the task ran into its deadline, counted from its submission".to_owned();
            return Some((
                Failure {
                    step: None,
                    class: "deadline".to_owned(),
                    message,
                },
                OnExhausted::Compensate,
            ));
        }
        None
    }

    fn respond(&self, draft: &mut Draft) -> Result<(), Illegal> {
        let inputs = inputs_of(draft.record()).within(self.engine.settings.output_limit);
        match guarded("respond", || (self.task_type.respond)(&inputs)) {
            Ok(response) => draft.complete(response),
            Err(error) => draft.give_up(failure("respond", &error), OnExhausted::Compensate),
        }
    }

    /// Starts a stage, or what of it is due beside what is `running`; `None`: something else has to
    /// be decided first.
    fn start(
        &self,
        draft: &mut Draft,
        stage: Vec<usize>,
        running: bool,
    ) -> Result<Option<Next>, Illegal> {
        let inputs = inputs_of(draft.record());
        let mut decided = false;
        for &at in &stage {
            let Some(when) = self.task_type.steps[at].when else {
                continue;
            };
            if draft.step(at).status != StepStatus::Pending {
                continue;
            }
            match guarded("the condition", || when(&inputs)) {
                Ok(true) => {}
                Ok(false) => {
                    draft.skip_step(at)?;
                    decided = true;
                }
                Err(error) => {
                    draft.give_up(
                        failure(&draft.step(at).name.clone(), &error),
                        draft.decl().steps[at].on_exhausted,
                    )?;
                    return Ok(None);
                }
            }
        }
        if decided {
            return Ok(None);
        }
        let host = draft.decl().steps[stage[0]].host;
        if host != self.host {
            draft.hand_over(host, "the next step runs there")?;
            return Ok(Some(Next::End));
        }
        if self.stopping {
            return give_back(draft, self.host).map(Some);
        }
        let waits: Vec<usize> = stage
            .iter()
            .copied()
            .filter(|&at| draft.waits(at).is_some())
            .collect();
        for &at in &waits {
            crate::turn::waits::decide(&self.task_type, draft, at, &inputs)?;
        }
        if !waits.is_empty() {
            return Ok(None);
        }
        let (barred, stage): (Vec<usize>, Vec<usize>) =
            stage.into_iter().partition(|&at| self.passes.must_wait(at));
        if stage.is_empty() {
            return self.wait_for_breakers(draft, &barred).map(Some);
        }
        if let Some((at, producer)) = self.strange_scratch(draft, &stage).filter(|_| !running) {
            let error = StepError::permanent(format_args!(
                "it reads a scratch file of `{producer}`, which runs on another kind of host: scratch files never \
                 cross hosts, also not inside another type; store the file instead"
            ));
            draft.give_up(
                failure(&draft.step(at).name.clone(), &error),
                draft.decl().steps[at].on_exhausted,
            )?;
            return Ok(None);
        }
        if let Some(lost) = self.lost_input(draft, &stage) {
            return self.make_again(draft, &stage, lost, running);
        }
        if let Some(decided) = self.probes.settle(&self.task_type, draft, &stage)? {
            return Ok(decided);
        }
        let readers = stage.clone();
        let Some(stage) = self.with_room(draft, stage, &readers, running) else {
            return self.leave_for_room(draft).map(Some);
        };
        if stage.is_empty() {
            return Ok(Some(Next::Hold));
        }
        let mut starts = Vec::with_capacity(stage.len());
        for at in stage {
            let (limit, sweep_after) = limits(self.engine, &self.task_type, at, Direction::Forward);
            let found = self.probes.of(draft, at);
            let first = draft.step(at).started_seq.is_none();
            let execution = draft.start_step(at, sweep_after)?;
            if let Some(found) = found {
                draft.add_detail("probe", probe::word(found).into());
            }
            starts.push(Start {
                at,
                execution,
                limit: self.within_deadline(draft, limit),
                first,
            });
        }
        Ok(Some(Next::Run(starts)))
    }
}
