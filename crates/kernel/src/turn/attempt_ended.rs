//! What happened in a turn, written down together with what is next.

use super::attempt::{Ended, StoppedBy};
use super::facts::{TurnPlan, TurnTask};
use super::likely::Done;
use super::turn_loop::{Next, Turn};
use crate::cancel::CancelReason;
use crate::change::ChangeError;
use crate::draft::Draft;
use crate::error::StepError;
use crate::payloads::in_log;
use crate::plan::{self, AfterFailure, Facts, after_failure, failure_of};
use crate::record::TaskRecord;
use crate::retry_decision;
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use counterstep_contracts::{Direction, Outcome, StepStatus, TaskStatus};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

impl<'a> Turn<'a> {
    /// Decides anew, after time has passed or something was found out.
    pub(super) async fn go_on(&mut self) -> Result<Next, ChangeError> {
        self.decide_if_leased(|_, _| Ok(())).await
    }

    /// The same, with what has happened beside the attempts of the turn.
    pub(super) async fn decide_if_leased(
        &mut self,
        mut happened: impl FnMut(&mut Draft, &mut Facts) -> Result<(), Illegal>,
    ) -> Result<Next, ChangeError> {
        if self.is_without_lease() {
            return Err(ChangeError::Fenced);
        }
        loop {
            let decided = self.decide(None, &mut happened).await;
            if !matches!(decided, Err(ChangeError::Condemned)) || !self.probes.disbelieve() {
                return decided;
            }
        }
    }

    /// Writes down what has happened and decides what is next, in one commit.
    async fn decide(
        &mut self,
        done: Done<'_>,
        mut happened: impl FnMut(&mut Draft, &mut Facts) -> Result<(), Illegal>,
    ) -> Result<Next, ChangeError> {
        self.follow_calendar().await;
        let mut plan = self.look(done).await;
        let decided = self
            .change(|draft| {
                happened(draft, &mut plan.facts)?;
                plan.next(draft)
            })
            .await;
        if decided.is_ok() {
            self.delay_retries(&plan.facts);
        }
        self.settle(plan.facts.held_back).await;
        decided
    }

    async fn look(&mut self, done: Done<'_>) -> TurnPlan<'a> {
        let task = TurnTask {
            engine: self.engine,
            task_type: self.task_type,
            host: self.host,
            record: &self.record,
            now: self.now(),
            done,
            outcomes_of: self.outcomes_of.take(),
        };
        let facts = Facts {
            probes: self.probes.clone(),
            stopped_children: self.stopped_children.clone(),
            unseen_children: self.unstopped_children.clone(),
            draining: self.tokens.shutdown.is_cancelled(),
            stopping: self.tokens.is_cancelled_for(CancelReason::Shutdown),
            ..Facts::default()
        };
        let mut plan = TurnPlan::gather(self.engine, task, facts, self.permits.clone()).await;
        // The tokens may have been cancelled while it looked.
        plan.facts.interrupted = self.tokens.forward().reason();
        plan.facts.draining |= self.tokens.shutdown.is_cancelled();
        plan.facts.stopping |= self.tokens.is_cancelled_for(CancelReason::Shutdown);
        if self.undoing {
            plan.facts.delayed_undos.extend(self.left_of(&self.delayed));
        } else {
            plan.facts.delayed_rebuilds = self.left_of(&self.rebuilds);
        }
        plan
    }

    /// Steps between two attempts, and how long each still waits by this host's timer.
    fn left_of(&self, delayed: &BTreeMap<usize, Duration>) -> BTreeMap<usize, Duration> {
        let now = self.engine.ports.clock.monotonic();
        let left = |(&at, due): (&usize, &Duration)| (at, due.saturating_sub(now));
        delayed.iter().map(left).collect()
    }

    /// Waits out the delays that a decision has left to this turn.
    fn delay_retries(&mut self, facts: &Facts) {
        if self.record.task.status == TaskStatus::Compensating {
            for (&at, &left) in &facts.delayed_undos {
                if !self.delayed.contains_key(&at) {
                    self.delay(at, left, self.tokens.undo());
                }
            }
            return;
        }
        let now = self.engine.ports.clock.monotonic();
        for (&at, &left) in &facts.delayed_rebuilds {
            if let Entry::Vacant(delay) = self.rebuilds.entry(at) {
                delay.insert(now + left);
                self.delay(at, left, self.tokens.forward());
            }
        }
    }

    /// The delay of a step is over.
    pub(super) fn delay_is_over(&mut self, at: usize) {
        self.delayed.remove(&at);
        let now = self.engine.ports.clock.monotonic();
        self.rebuilds.retain(|_, due| *due > now);
    }

    /// An attempt has ended.
    pub(super) async fn ended(&mut self, ended: Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        let _beyond = ended.in_doubt.is_none().then(|| self.goes_on_beyond());
        self.tell_breaker(&ended).await;
        let Some(stopped) = ended.in_doubt else {
            return self.write_down(ended).await;
        };
        self.log.write(self.engine, ended.log).await;
        match stopped {
            StoppedBy::LeaseLost => Box::pin(self.stopped_without_lease(at)).await,
            StoppedBy::Shutdown | StoppedBy::PermitLost => {
                Box::pin(self.interrupted(at, stopped.why())).await
            }
        }
    }

    /// Writes a result down, and decides what is next.
    pub(super) async fn write_result(&mut self, ended: &Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        // Ahead of the outcome: a reader of that finds what led to it.
        self.log.write(self.engine, ended.log.clone()).await;
        if !self.undoing && self.record.steps[at].status == StepStatus::Completed {
            return self.rebuilt(ended).await;
        }
        match &ended.result {
            Ok(output) => self.succeeded(ended, output).await,
            Err(error) => self.failed(at, error.clone(), ended.unsent).await,
        }
    }

    /// The attempt has stopped, or did not begin, and no other host has the task.
    pub(super) async fn interrupted(&mut self, at: usize, why: &str) -> Result<Next, ChangeError> {
        let undoing = self.undoing;
        self.decide(None, |draft, _| {
            if undoing {
                draft.undo_in_doubt(at, why)
            } else if draft.step(at).status == StepStatus::Running {
                draft.step_in_doubt(at, why)
            } else {
                draft.end_rebuild(at, Outcome::InDoubt, None);
                Ok(())
            }
        })
        .await
    }

    async fn succeeded(&mut self, ended: &Ended, output: &Value) -> Result<Next, ChangeError> {
        let (at, undoing) = (ended.at, self.undoing);
        let committed = self
            .decide(Some((at, output)), |draft, _| {
                if undoing {
                    draft.undo_succeeded(at, ended.stored)?;
                } else {
                    draft.step_succeeded(at, output.clone(), ended.stored)?;
                }
                draft.outgoing.sql.extend_from_slice(&ended.sql);
                Ok(())
            })
            .await;
        match committed {
            Err(ChangeError::Condemned) if !undoing => {
                let error = StepError::transient("its objects were condemned before it succeeded");
                self.failed(at, error, false).await
            }
            Err(ChangeError::Sql(refused)) => self.failed(at, refused.into(), false).await,
            other => other,
        }
    }

    async fn failed(
        &mut self,
        at: usize,
        error: StepError,
        unsent: bool,
    ) -> Result<Next, ChangeError> {
        if self.undoing {
            return self.undo_failed(at, &error).await;
        }
        let follows = self.after_failure(at, Direction::Forward, &error);
        let what = plan::Ended::Step;
        self.decide(None, |draft, _| {
            match follows(draft.record(), what) {
                AfterFailure::Retry(delay) => draft.step_retries(at, &error, delay)?,
                AfterFailure::FallBack => draft.step_falls_back(at, &error)?,
                AfterFailure::GiveUp | AfterFailure::Nothing => draft.step_failed(at, &error)?,
            }
            if unsent {
                draft.step_did_nothing(at);
            }
            Ok(())
        })
        .await
    }

    async fn undo_failed(&mut self, at: usize, error: &StepError) -> Result<Next, ChangeError> {
        let follows = self.after_failure(at, Direction::Undo, error);
        let task = self.record.task.id;
        let said = in_log(&self.engine.ports.store, error);
        self.decide(None, |draft, facts| {
            if let AfterFailure::Retry(delay) = follows(draft.record(), plan::Ended::Undo) {
                facts.delayed_undos.insert(at, delay);
                return draft.undo_retries(at, error, delay);
            }
            tracing::error!(%task, step = draft.step(at).name, error = said, "an undo gave up: a person has to decide");
            draft.undo_failed(at, error)
        })
        .await
    }

    /// Lost scratch was made again, or not.
    async fn rebuilt(&mut self, ended: &Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        let files = |output| scratch_files_in(self.record.task.id, output);
        let committed = self.record.steps[at].output.as_ref().map(files);
        let error = match &ended.result {
            // The files are what a rebuild is for; the committed output stays the one that counts
            // in all else.
            Ok(output) if committed == Some(files(output)) => {
                let succeeded = |draft: &mut Draft, _: &mut Facts| {
                    draft.end_rebuild(at, Outcome::Succeeded, None);
                    Ok(())
                };
                return self.decide(Some((at, output)), succeeded).await;
            }
            Ok(_) => StepError::permanent(
                "the step was run again because its scratch file was lost, and came out different although a later \
                 step has already read the first one: make its output depend on its inputs alone",
            ),
            Err(error) => error.clone(),
        };
        let follows = self.after_failure(at, Direction::Forward, &error);
        let step = self.record.steps[at].name.clone();
        self.decide(None, |draft, facts| {
            facts.delayed_rebuilds.remove(&at);
            draft.end_rebuild(at, Outcome::Failed, Some(&error));
            draft.step_mut(at).retries_used += 1;
            match follows(draft.record(), plan::Ended::Rebuild) {
                AfterFailure::Retry(delay) => {
                    facts.delayed_rebuilds.insert(at, delay);
                    Ok(())
                }
                AfterFailure::FallBack | AfterFailure::Nothing => Ok(()),
                AfterFailure::GiveUp => {
                    let policy = draft.decl().steps[at].on_exhausted;
                    draft.give_up(failure_of(&step, &error), policy)
                }
            }
        })
        .await
    }

    /// What follows a failed attempt, by the rows as they are when it is written down.
    fn after_failure(
        &self,
        at: usize,
        direction: Direction,
        error: &StepError,
    ) -> impl Fn(&TaskRecord, plan::Ended) -> AfterFailure + use<> {
        let row = &self.record.steps[at];
        let retries_used = match direction {
            Direction::Forward => row.retries_used,
            Direction::Undo => row.undo_retries_used,
        };
        let decl = self.task_type.decl;
        let settings = &self.engine.settings.policies;
        let retry = settings.retry_of(&decl.steps[at], direction);
        let (class, bits) = (error.class, self.engine.ports.random.bits());
        let policy = retry_decision::decide_retry(&retry, class, retries_used, bits);
        move |record, ended| after_failure(decl, record, at, ended, class, policy)
    }
}
