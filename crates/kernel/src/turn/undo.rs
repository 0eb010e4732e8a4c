//! Going backward: undo what started, the latest first, each with its own retries. Nothing in here
//! can run a step forward.

use super::attempt::Ended;
use super::probe::Probes;
use super::{Happened, Next, Start, Turn, TurnEnd, limits};
use crate::cancel::CancelReason;
use crate::draft::Draft;
use crate::engine::{ChangeError, Engine};
use crate::error::StepError;
use crate::plan::{self, Backward};
use crate::policy;
use crate::saga::Illegal;
use crate::task::{Probe, TaskType};
use counterstep_contracts::{Direction, Host, OnUndoFailure, StepStatus};
use futures::StreamExt;
use std::collections::BTreeSet;
use std::time::Duration;

/// A claimed task that is being undone.
pub(super) struct UndoTurn<'a>(pub(super) Turn<'a>);

impl UndoTurn<'_> {
    /// Runs until the task rests or is given back.
    pub(super) async fn run(mut self, mut next: Next) -> Result<TurnEnd, ChangeError> {
        loop {
            match next {
                Next::Run(starts) => self.0.begin(starts, Direction::Undo),
                Next::Delay(at, delay) => {
                    let token = self.0.tokens.undo.clone();
                    self.0.delay(at, delay, token);
                }
                Next::Undo => {
                    let starts = self.started();
                    self.0.begin(starts, Direction::Undo);
                }
                Next::Probe(steps) => self.0.ask(steps),
                Next::Hold if self.0.under_way.is_empty() => return Ok(self.0.stuck()),
                Next::Hold => {}
                Next::End => return Ok(self.0.end()),
            }
            next = match self.0.under_way.next().await {
                Some(Happened::Ended(ended)) => self.ended(ended).await?,
                Some(Happened::Due(at)) => {
                    self.0.delayed.remove(&at);
                    self.go_on().await?
                }
                Some(Happened::Probed(at, found)) => {
                    self.0.told(at, found);
                    self.go_on().await?
                }
                // No undo is heavy.
                Some(Happened::Room(_)) | None => self.go_on().await?,
            };
        }
    }

    /// The undo attempts that the last commit of a forward turn, or of a claim, has started.
    fn started(&self) -> Vec<Start> {
        let turn = &self.0;
        let draft = Draft::new(turn.task_type.decl, turn.record.clone(), "");
        (0..turn.record.steps.len())
            .filter(|&at| {
                draft.step(at).status == StepStatus::Compensating && draft.step(at).attempt_open
            })
            .map(|at| Start {
                at,
                execution: draft.execution(at, Direction::Undo, draft.step(at).undo_attempts),
                limit: limits(turn.engine, &turn.task_type, at, Direction::Undo).0,
                first: false,
            })
            .collect()
    }

    async fn go_on(&mut self) -> Result<Next, ChangeError> {
        match self.0.tokens.undo.reason() {
            Some(CancelReason::LeaseLost) => return Err(ChangeError::Fenced),
            Some(CancelReason::Shutdown) if self.0.under_way.is_empty() => {
                let host = self.0.host;
                return self
                    .0
                    .change(|draft| {
                        draft.hand_over(host, "its process shut down")?;
                        Ok(Next::End)
                    })
                    .await;
            }
            Some(_) | None => {}
        }
        let back = self.back();
        self.0.change(|draft| back.next(draft)).await
    }

    fn back(&self) -> Back {
        Back {
            engine: self.0.engine.clone(),
            task_type: self.0.task_type,
            host: self.0.host,
            delayed: self.0.delayed.keys().copied().collect(),
            stopping: self.0.tokens.undo.reason() == Some(CancelReason::Shutdown),
            probes: self.0.doubts.clone(),
        }
    }

    async fn ended(&mut self, ended: Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        let (host, alone) = (self.0.host, self.0.under_way.len() == self.0.delayed.len());
        let others = self.0.longest_delay();
        match ended.in_doubt {
            Some(CancelReason::LeaseLost) => return Err(ChangeError::Fenced),
            Some(CancelReason::Shutdown) => {
                return self
                    .0
                    .change(|draft| {
                        draft.undo_in_doubt(at, "its process shut down")?;
                        if !alone {
                            return Ok(Next::Hold);
                        }
                        draft.hand_over(host, "its process shut down")?;
                        Ok(Next::End)
                    })
                    .await;
            }
            Some(CancelReason::Requested | CancelReason::Sibling) | None => {}
        }
        let (back, stored) = (self.back(), ended.stored);
        match ended.result {
            Ok(_) => {
                let sql = ended.sql;
                let committed = self
                    .0
                    .change(|draft| {
                        draft.undo_succeeded(at, stored)?;
                        draft.write_along(&sql);
                        back.next(draft)
                    })
                    .await;
                match committed {
                    Err(ChangeError::Sql(refused)) => {
                        self.failed(at, &refused.into(), alone, others).await
                    }
                    other => other,
                }
            }
            Err(error) => self.failed(at, &error, alone, others).await,
        }
    }

    async fn failed(
        &mut self,
        at: usize,
        error: &StepError,
        alone: bool,
        others: Duration,
    ) -> Result<Next, ChangeError> {
        let follows = self.0.after_failure(at, Direction::Undo, error);
        let back = self.back();
        let task = self.0.record.task.id;
        self.0
            .change(|draft| match follows {
                policy::Next::Retry(delay) => {
                    draft.undo_retries(at, error, delay)?;
                    if !alone || delay.max(others) < policy::INLINE_LIMIT {
                        return Ok(Next::Delay(at, delay));
                    }
                    draft.rest_between_undos(delay.max(others))?;
                    Ok(Next::End)
                }
                policy::Next::GiveUp => {
                    draft.undo_failed(at, error)?;
                    tracing::error!(%task, step = draft.step(at).name, %error, "an undo gave up: a person has to decide");
                    back.next(draft)
                }
            })
            .await
    }
}

/// What has to be known, beyond the rows, to decide what is undone next.
pub(super) struct Back {
    engine: Engine,
    task_type: TaskType,
    host: Host,
    delayed: BTreeSet<usize>,
    /// The process is shutting down: nothing new starts here.
    pub(super) stopping: bool,
    pub(super) probes: Probes,
}

impl Back {
    /// At the start of an undo.
    pub(super) fn fresh(engine: &Engine, task_type: TaskType, host: Host) -> Self {
        Self {
            engine: engine.clone(),
            task_type,
            host,
            delayed: BTreeSet::new(),
            stopping: false,
            probes: Probes::default(),
        }
    }

    /// Decides what is undone next, and writes its start into the draft.
    pub(super) fn next(&self, draft: &mut Draft) -> Result<Next, Illegal> {
        if draft.status().is_at_rest() {
            return Ok(Next::End);
        }
        let under_way = |draft: &Draft, at: usize| {
            draft.step(at).attempt_open
                || self.delayed.contains(&at)
                || self.probes.asked.contains(&at)
        };
        let go_on = draft.decl().on_undo_failure == OnUndoFailure::Continue;
        let stage = match plan::backward(draft.decl(), &draft.record().steps, go_on) {
            // A sibling's undo may still be under way when another one has given up.
            Backward::Finish if (0..draft.record().steps.len()).any(|at| under_way(draft, at)) => {
                return Ok(Next::Hold);
            }
            Backward::Finish => {
                draft.finish_undo()?;
                return Ok(Next::End);
            }
            Backward::Undo(stage) => stage,
        };
        let fresh: Vec<usize> = stage
            .into_iter()
            .filter(|&at| !under_way(draft, at))
            .collect();
        if fresh.is_empty() {
            return Ok(Next::Hold);
        }
        if self.stopping && (0..draft.record().steps.len()).any(|at| under_way(draft, at)) {
            return Ok(Next::Hold);
        }
        if self.stopping {
            draft.hand_over(self.host, "its process shut down")?;
            return Ok(Next::End);
        }
        let ask = self.probes.to_ask(&self.task_type, draft, &fresh);
        if !ask.is_empty() {
            return Ok(Next::Probe(ask));
        }
        let nothing =
            |at: &usize| matches!(self.probes.of(draft, *at), Some(Probe::NothingHappened));
        let unneeded: Vec<usize> = fresh.iter().copied().filter(nothing).collect();
        if !unneeded.is_empty() {
            for at in unneeded {
                draft.step_settled_not_done(at)?;
            }
            return self.next(draft);
        }
        let mut starts = Vec::with_capacity(fresh.len());
        for at in fresh {
            let (limit, sweep_after) = limits(&self.engine, &self.task_type, at, Direction::Undo);
            let found = self.probes.of(draft, at);
            let execution = draft.start_undo(at, sweep_after)?;
            if let Some(found) = found {
                draft.add_detail("probe", super::probe::word(found).into());
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
            });
        }
        Ok(Next::Run(starts))
    }
}
