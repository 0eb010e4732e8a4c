//! How attempts, probes and hosts end: each end is written down as a turn would, and what follows is
//! begun.

use super::effects::By;
use super::moves::{Found, How};
use super::run::{Memory, Next, Open, Run};
use super::small::{Broken, HOUR, broken, output};
use crate::draft::DroppedResult;
use crate::error::{ErrorClass, StepError};
use crate::plan::{AfterFailure, Ended, after_failure, failure_of};
use crate::retry_decision::{self, INLINE_LIMIT};
use crate::task::Probe;
use counterstep_contracts::{Attempt, Direction, OnProbeFailure, Outcome, StepStatus, TaskStatus};

const WHY: &str = "test";

impl Run<'_> {
    /// A host claims the task, and decides what comes first.
    pub(super) fn claim(&mut self) -> Result<(), Broken> {
        self.memory = Memory::default();
        let next = self.decide(|draft, _| draft.claim("host", HOUR * 1000))?;
        self.follow(next)
    }

    fn go_on(&mut self) -> Result<Next, Broken> {
        self.decide(|_, _| Ok(()))
    }

    /// Does what a decision has left to do, until something is under way or the task is given back.
    fn follow(&mut self, mut next: Next) -> Result<(), Broken> {
        let mut was_idle = false;
        for _ in 0..100 {
            let is_idle = self.open.is_empty() && self.memory.probes.asked.is_empty();
            next = match next {
                Next::Run(starts) => {
                    self.fresh = starts.len();
                    self.open.extend(starts);
                    return Ok(());
                }
                Next::Probe(steps) => {
                    self.memory.probes.asked.extend(steps);
                    return Ok(());
                }
                Next::End => return Ok(()),
                Next::Hold if !is_idle => return Ok(()),
                Next::Hold if self.passes_inline() => {
                    was_idle = false;
                    self.go_on()?
                }
                Next::Hold if was_idle => {
                    return broken("nothing is under way, and nothing may start");
                }
                Next::Hold => {
                    was_idle = true;
                    self.go_on()?
                }
                Next::Again => self.go_on()?,
                Next::Stop(at) => {
                    self.stop_children(at)?;
                    self.go_on()?
                }
            };
        }
        broken("a turn decides without end")
    }

    /// The next short delay passes, where there is one.
    fn passes_inline(&mut self) -> bool {
        let now = self.record.now;
        let rows = self.record.steps.iter();
        let rows = rows.filter_map(|row| {
            let undoes = row.status == StepStatus::Compensating && !row.attempt_open;
            row.waits_until().or(row.due_at.filter(|_| undoes))
        });
        let due = rows.chain(self.memory.rebuilds.values().copied());
        let next = due.filter(|&due| due > now).min();
        let short = next.filter(|due| due.after(now) < INLINE_LIMIT);
        if let Some(due) = short {
            self.record.now = due;
        }
        short.is_some()
    }

    /// An attempt has succeeded.
    pub(super) fn succeeds(&mut self, place: usize) -> Result<(), Broken> {
        let open = self.open.remove(place);
        self.ended_well(&open)
    }

    fn ended_well(&mut self, open: &Open) -> Result<(), Broken> {
        let at = open.at;
        self.fresh = 0;
        if open.direction == Direction::Undo {
            self.effects.take_back(at, open.given);
            let next = self.decide(|draft, _| draft.undo_succeeded(at, false))?;
            return self.follow(next);
        }
        self.effects.act(at, open.given, true);
        if self.shape.steps[at].scratch {
            self.files.insert(at);
        }
        if open.rebuilds {
            let next = self.decide(|draft, _| {
                draft.end_rebuild(at, Outcome::Succeeded, None);
                Ok(())
            })?;
            return self.follow(next);
        }
        let output = self.new_output(at);
        let record = self.record.clone();
        self.rests_on_input(at, By::Completion, &record);
        let next = self.decide(|draft, _| draft.step_succeeded(at, output, false))?;
        self.follow(next)
    }

    fn new_output(&mut self, at: usize) -> serde_json::Value {
        self.outputs += 1;
        output(
            self.record.task.id,
            self.decl.steps[at].name,
            self.outputs,
            self.shape.steps[at].scratch,
        )
    }

    /// An attempt has ended otherwise.
    pub(super) fn fails(&mut self, place: usize, how: How) -> Result<(), Broken> {
        let open = self.open.remove(place);
        self.fresh = 0;
        let (error, acted) = match how {
            How::Transient { acted } => (StepError::new(ErrorClass::Transient, WHY), acted),
            How::Permanent { acted } => (StepError::new(ErrorClass::Permanent, WHY), acted),
            How::NotSent => (StepError::new(ErrorClass::Permanent, WHY), false),
            How::Stopped { acted } => (StepError::cancelled(), acted),
            How::Different => (StepError::new(ErrorClass::Permanent, WHY), true),
        };
        if acted {
            self.acts(&open);
        }
        let at = open.at;
        let follows = |run: &Self, what| {
            let (decl, row) = (&run.decl.steps[at], &run.record.steps[at]);
            let (policy, used) = match open.direction {
                Direction::Forward => (decl.retry.policy, row.retries_used),
                Direction::Undo => (decl.undo_retry.policy, row.undo_retries_used),
            };
            let policy = retry_decision::decide_retry(&policy, error.class, used, 0);
            after_failure(run.decl, &run.record, at, what, error.class, policy)
        };
        if open.direction == Direction::Undo {
            let follows = follows(self, Ended::Undo);
            let next = self.decide(|draft, facts| {
                if let AfterFailure::Retry(delay) = follows {
                    facts.delayed_undos.insert(at, delay);
                    return draft.undo_retries(at, &error, delay);
                }
                draft.undo_failed(at, &error)
            })?;
            return self.follow(next);
        }
        if open.rebuilds {
            let follows = follows(self, Ended::Rebuild);
            let next = self.decide(|draft, facts| {
                facts.delayed_rebuilds.remove(&at);
                draft.end_rebuild(at, Outcome::Failed, Some(&error));
                draft.step_mut(at).retries_used += 1;
                match follows {
                    AfterFailure::Retry(delay) => {
                        facts.delayed_rebuilds.insert(at, delay);
                        Ok(())
                    }
                    AfterFailure::FallBack | AfterFailure::Nothing => Ok(()),
                    AfterFailure::GiveUp => {
                        let decl = &draft.decl().steps[at];
                        draft.give_up(failure_of(decl.name, &error), decl.on_exhausted)
                    }
                }
            })?;
            return self.follow(next);
        }
        let (follows, unsent) = (
            follows(self, Ended::Step),
            how == How::NotSent && open.first,
        );
        if unsent {
            self.effects.never_sent(at);
        }
        let next = self.decide(|draft, _| {
            match follows {
                AfterFailure::Retry(delay) => draft.step_retries(at, &error, delay)?,
                AfterFailure::FallBack => draft.step_falls_back(at, &error)?,
                AfterFailure::GiveUp | AfterFailure::Nothing => draft.step_failed(at, &error)?,
            }
            if unsent {
                draft.step_did_nothing(at);
            }
            Ok(())
        })?;
        self.follow(next)
    }

    /// The code has taken effect, whatever is known of it.
    fn acts(&mut self, open: &Open) {
        match open.direction {
            Direction::Forward => self.effects.act(open.at, open.given, false),
            Direction::Undo => self.effects.take_back(open.at, open.given),
        }
    }

    /// It is unknown how far the attempt came, and no other host has the task.
    fn interrupted(&mut self, open: &Open) -> Result<(), Broken> {
        let at = open.at;
        let next = self.decide(|draft, _| {
            if open.direction == Direction::Undo {
                draft.undo_in_doubt(at, WHY)
            } else if open.rebuilds {
                draft.end_rebuild(at, Outcome::InDoubt, None);
                Ok(())
            } else {
                draft.step_in_doubt(at, WHY)
            }
        })?;
        self.follow(next)
    }

    /// The same of these, one after the other.
    fn interrupt(&mut self, open: &[Open]) -> Result<(), Broken> {
        self.fresh = 0;
        for open in open {
            self.open.retain(|it| it.at != open.at);
            self.interrupted(open)?;
        }
        Ok(())
    }

    /// What the last commit started has not begun.
    pub(super) fn loses_reply(&mut self) -> Result<(), Broken> {
        let begun = self.open.len().saturating_sub(self.fresh);
        let fresh = self.open[begun..].to_vec();
        self.interrupt(&fresh)
    }

    pub(super) fn shuts_down(&mut self, acted: bool) -> Result<(), Broken> {
        self.memory.shuts_down = true;
        self.memory.probes.asked.clear();
        let open = self.open.clone();
        if acted {
            open.iter().for_each(|open| self.acts(open));
        }
        if open.is_empty() {
            let next = self.go_on()?;
            return self.follow(next);
        }
        self.interrupt(&open)
    }

    pub(super) fn loses_host(&mut self, acted: bool, claimed: bool) -> Result<(), Broken> {
        let open = std::mem::take(&mut self.open);
        if acted {
            open.iter().for_each(|open| self.acts(open));
        }
        self.files.clear();
        self.is_lost(claimed)
    }

    /// The lease is over, and another host has the task.
    fn is_lost(&mut self, claimed: bool) -> Result<(), Broken> {
        self.open.clear();
        self.fresh = 0;
        self.record.task.lease_expires_at = Some(self.record.now);
        if claimed {
            return self.claim();
        }
        self.change(|draft| draft.take_back())
    }

    /// An attempt succeeds while the database is away, and its process ends: the one after it has the result,
    /// and continues with it, where no other host has the task.
    pub(super) fn keeps_result(&mut self, place: usize, fenced: bool) -> Result<(), Broken> {
        let kept = self.open.remove(place);
        if fenced {
            self.acts(&kept);
            let (at, epoch) = (kept.at, self.record.task.epoch);
            let attempt = self.attempt_of(&kept);
            self.is_lost(false)?;
            return self.change(|draft| {
                draft.drop_result(DroppedResult {
                    at,
                    direction: kept.direction,
                    attempt,
                    epoch,
                    worker: "host",
                })
            });
        }
        self.memory = Memory::default();
        let others = self.open.clone();
        self.ended_well(&kept)?;
        self.interrupt(&others)
    }

    fn attempt_of(&self, open: &Open) -> Attempt {
        self.record.steps[open.at].last_attempt(open.direction)
    }

    /// A probe has ended. It says how things are, where it says anything.
    pub(super) fn probed(&mut self, at: usize, found: Option<Found>) -> Result<(), Broken> {
        self.memory.probes.asked.remove(&at);
        let attempt = self.record.steps[at].attempts;
        let answer = match found {
            None if self.effects.has_acted(at) => Probe::Done(self.new_output(at)),
            None => Probe::NothingHappened,
            Some(Found::Unknown) => Probe::Unknown,
            Some(Found::Fails) => match self.probe_fails(at)? {
                Some(answer) => answer,
                None => return Ok(()),
            },
        };
        if matches!(answer, Probe::Done(_)) && self.shape.steps[at].scratch {
            self.files.insert(at);
        }
        self.memory.probes.found.insert(at, (attempt, answer));
        let next = self.go_on()?;
        self.follow(next)
    }

    /// The answer that stands for a probe that has failed; `None`: that was written down.
    fn probe_fails(&mut self, at: usize) -> Result<Option<Probe<serde_json::Value>>, Broken> {
        let decl = &self.decl.steps[at];
        let error = StepError::new(ErrorClass::Transient, WHY);
        let used = self.record.steps[at]
            .probe
            .map_or(0, |row| row.retries_used);
        let policy = decl.probe_retry.unwrap_or(decl.retry).policy;
        let next = match retry_decision::decide_retry(&policy, error.class, used, 0) {
            retry_decision::Next::Retry(delay) => self.decide(|draft, facts| {
                facts.delayed_undos.insert(at, delay);
                draft.probe_retries(at, &error, delay)
            })?,
            retry_decision::Next::GiveUp if decl.on_probe_failure == OnProbeFailure::RunAgain => {
                return Ok(Some(Probe::Unknown));
            }
            retry_decision::Next::GiveUp => {
                self.decide(|draft, _| draft.probe_failed(at, &error))?
            }
        };
        self.follow(next)?;
        Ok(None)
    }

    pub(super) fn goes_forward(&self) -> bool {
        self.record.task.status != TaskStatus::Compensating
    }
}
