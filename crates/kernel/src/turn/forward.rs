//! Going forward: run the next steps, commit each result together with the start of what follows
//! it.

mod decide;
mod room;
mod scratch;
mod wake;

use super::breakers::{Passes, Seen};
use super::heavy::Reserved;
use super::probe::Probes;
use super::undo::UndoTurn;
use super::{Happened, Next, Turn, TurnEnd};
use crate::draft::Draft;
use crate::engine::{ChangeError, Engine};
use crate::error::{ErrorClass, StepError};
use crate::policy;
use crate::record::{Failure, TaskRecord};
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use crate::task::TaskType;
use counterstep_contracts::{Direction, Host, Outcome, StepStatus, WaitReason};
use futures::StreamExt;
use std::collections::BTreeSet;

use super::attempt::Ended;
use crate::cancel::CancelReason;

/// A claimed task that goes forward.
pub(super) struct ForwardTurn<'a>(pub(super) Turn<'a>);

impl<'a> ForwardTurn<'a> {
    /// Runs until the task is given back, rests, or has been undone.
    pub(super) async fn run(mut self, mut next: Next) -> Result<TurnEnd, ChangeError> {
        let mut was_held = false;
        loop {
            if matches!(next, Next::Run(_) | Next::Delay(..) | Next::Hold) {
                self.arm();
            }
            if !matches!(next, Next::Run(_) | Next::Probe(_)) {
                self.0.reserved.give_back();
            }
            match next {
                Next::Run(starts) => self.0.begin(starts, Direction::Forward),
                Next::Delay(at, delay) => {
                    let token = self.0.tokens.forward.clone();
                    self.0.delay(at, delay, token);
                }
                Next::Probe(steps) => self.0.ask(steps),
                // Of a change whose reply was lost, what it was decided on may be over: it is
                // decided once more.
                Next::Hold if self.0.under_way.is_empty() && !was_held => {
                    was_held = true;
                    next = self.go_on().await?;
                    continue;
                }
                Next::Hold if self.0.under_way.is_empty() => return Ok(self.0.stuck()),
                Next::Hold => {}
                Next::End => return Ok(self.0.end()),
                // The start of its first attempts was part of the commit that led here.
                Next::Undo => {
                    // No attempt is under way when an undo begins, and what its steps waited for is
                    // of no use any more.
                    self.0.delayed.clear();
                    self.0.under_way.clear();
                    self.0.waits_for_room = false;
                    return UndoTurn(self.0).run(Next::Undo).await;
                }
            }
            was_held = false;
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
                Some(Happened::Room(room)) => {
                    self.0.has_room(room);
                    self.go_on().await?
                }
                // Nothing is under way and nothing was started: the next decision finds out why.
                None => self.go_on().await?,
            };
        }
    }

    /// Decides anew, after nothing but time has passed.
    async fn go_on(&mut self) -> Result<Next, ChangeError> {
        if self.0.tokens.is_cancelled_for(CancelReason::LeaseLost) {
            return Err(ChangeError::Fenced);
        }
        loop {
            let mut ahead = self.look(None).await;
            let decided = self.0.change(|draft| ahead.next(draft)).await;
            self.passed(std::mem::take(&mut ahead.passes)).await;
            if !matches!(decided, Err(ChangeError::Condemned)) || !self.0.doubts.disbelieve() {
                return decided;
            }
        }
    }

    /// What has to be known for the next decision; `done` is the step that has just succeeded.
    async fn look(&mut self, done: Option<usize>) -> Ahead<'a> {
        let seen = Seen {
            done,
            now: self.0.now(),
        };
        let mut ahead = Ahead::look(
            self.0.engine,
            self.0.task_type,
            self.0.host,
            &self.0.record,
            seen,
        )
        .await;
        ahead.interrupted = self.0.tokens.forward.reason();
        ahead.stopping = self.0.tokens.is_cancelled_for(CancelReason::Shutdown);
        ahead.probes = self.0.doubts.clone();
        ahead.reserved = self.0.reserved.clone();
        ahead
    }

    async fn ended(&mut self, ended: Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        self.tell_breaker(&ended).await;
        match ended.in_doubt {
            // Whatever the step came to, its epoch is over: nothing that it says can be written
            // down.
            Some(CancelReason::LeaseLost) => return Err(ChangeError::Fenced),
            Some(CancelReason::Shutdown) => return self.interrupted(at).await,
            Some(CancelReason::Requested | CancelReason::Sibling) | None => {}
        }
        if self.0.record.steps[at].status == StepStatus::Completed {
            return self.rebuilt(ended).await;
        }
        match ended.result {
            Ok(output) => {
                let mut ahead = self.look(Some(at)).await;
                // What the step has just made is here.
                ahead.missing.remove(&at);
                let (stored, sql) = (ended.stored, ended.sql);
                let committed = self
                    .0
                    .change(|draft| {
                        draft.step_succeeded(at, output.clone(), stored)?;
                        draft.write_along(&sql);
                        ahead.next(draft)
                    })
                    .await;
                self.passed(std::mem::take(&mut ahead.passes)).await;
                match committed {
                    Err(ChangeError::Condemned) => {
                        let error =
                            StepError::transient("its objects were condemned before it succeeded");
                        self.failed(at, error, false).await
                    }
                    Err(ChangeError::Sql(refused)) => self.failed(at, refused.into(), false).await,
                    other => other,
                }
            }
            Err(error) => self.failed(at, error, ended.unsent).await,
        }
    }

    async fn failed(
        &mut self,
        at: usize,
        error: StepError,
        unsent: bool,
    ) -> Result<Next, ChangeError> {
        let follows = self.0.after_failure(at, Direction::Forward, &error);
        let mut ahead = self.look(None).await;
        let decided = self
            .0
            .change(|draft| {
                match follows {
                    policy::Next::Retry(delay) if !draft.is_cancel_requested() => {
                        draft.step_retries(at, &error, delay)?;
                    }
                    _ if error.class != ErrorClass::Cancelled && draft.may_fall_back(at) => {
                        draft.step_falls_back(at, &error)?;
                    }
                    policy::Next::Retry(_) | policy::Next::GiveUp => {
                        draft.step_failed(at, &error)?
                    }
                }
                if unsent {
                    draft.step_did_nothing(at);
                }
                ahead.next(draft)
            })
            .await;
        self.passed(std::mem::take(&mut ahead.passes)).await;
        decided
    }

    /// The process is shutting down and the step has stopped.
    async fn interrupted(&mut self, at: usize) -> Result<Next, ChangeError> {
        let not_running = self.0.delayed.len() + usize::from(self.0.waits_for_room);
        let (host, alone) = (self.0.host, self.0.under_way.len() == not_running);
        self.0
            .change(|draft| {
                if draft.step(at).status == StepStatus::Running {
                    draft.step_in_doubt(at, "its process shut down")?;
                } else {
                    draft.end_rebuild(at, Outcome::InDoubt, None);
                }
                if alone {
                    give_back(draft, host)
                } else {
                    Ok(Next::Hold)
                }
            })
            .await
    }

    /// Lost scratch was made again, or not.
    async fn rebuilt(&mut self, ended: Ended) -> Result<Next, ChangeError> {
        let at = ended.at;
        let error = match &ended.result {
            // The files are what a rebuild is for; the committed output stays the one that counts
            // in all else.
            Ok(output)
                if self.0.record.steps[at]
                    .output
                    .as_ref()
                    .map(scratch_files_in)
                    == Some(scratch_files_in(output)) =>
            {
                None
            }
            Ok(_) => Some(StepError::permanent(
                "the step was run again because its scratch file was lost, and came out different although a later \
                 step has already read the first one: make its output depend on its inputs alone",
            )),
            Err(error) => Some(error.clone()),
        };
        let Some(error) = error else {
            let mut ahead = self.look(Some(at)).await;
            ahead.missing.remove(&at);
            let decided = self
                .0
                .change(|draft| {
                    draft.end_rebuild(at, Outcome::Succeeded, None);
                    ahead.next(draft)
                })
                .await;
            self.passed(std::mem::take(&mut ahead.passes)).await;
            return decided;
        };
        let follows = self.0.after_failure(at, Direction::Forward, &error);
        let step = self.0.record.steps[at].name.clone();
        let mut ahead = self.look(None).await;
        let decided = self
            .0
            .change(|draft| {
                draft.end_rebuild(at, Outcome::Failed, Some(&error));
                draft.step_mut(at).retries_used += 1;
                match follows {
                    policy::Next::Retry(delay)
                        if !draft.is_cancel_requested() && delay >= policy::INLINE_LIMIT =>
                    {
                        draft.wait(WaitReason::Retry, delay)?;
                        Ok(Next::End)
                    }
                    policy::Next::Retry(delay) if !draft.is_cancel_requested() => {
                        Ok(Next::Delay(at, delay))
                    }
                    policy::Next::Retry(_) | policy::Next::GiveUp => {
                        if !draft.is_cancel_requested() {
                            draft.give_up(
                                failure(&step, &error),
                                draft.decl().steps[at].on_exhausted,
                            )?;
                        }
                        ahead.next(draft)
                    }
                }
            })
            .await;
        self.passed(std::mem::take(&mut ahead.passes)).await;
        decided
    }
}

fn give_back(draft: &mut Draft, host: Host) -> Result<Next, Illegal> {
    if draft.is_cancel_requested() {
        draft.stop()?;
    }
    draft.hand_over(host, "its process shut down")?;
    Ok(Next::End)
}

fn failure(step: &str, error: &StepError) -> Failure {
    Failure {
        step: Some(step.to_owned()),
        class: error.class.as_str().to_owned(),
        message: error.message.clone(),
    }
}

/// What has to be known, beyond the rows, to decide what comes next.
pub(super) struct Ahead<'a> {
    engine: &'a Engine,
    task_type: TaskType,
    host: Host,
    /// Completed steps with a scratch file that this host does not have.
    missing: BTreeSet<usize>,
    /// What the token of the steps says.
    interrupted: Option<CancelReason>,
    /// The answers of the breakers. The caller that decides hands them on, used or not.
    pub(super) passes: Passes,
    /// The process is shutting down: nothing new starts here.
    stopping: bool,
    probes: Probes,
    /// Room for a heavy step.
    pub(super) reserved: Reserved,
}

impl<'a> Ahead<'a> {
    /// Looks which scratch files are gone, and asks the breakers. I/O, so it happens before the
    /// decision.
    pub(super) async fn look(
        engine: &'a Engine,
        task_type: TaskType,
        host: Host,
        record: &TaskRecord,
        seen: Seen,
    ) -> Self {
        let mut missing = BTreeSet::new();
        for (at, row) in record.steps.iter().enumerate() {
            let Some(output) = row
                .output
                .as_ref()
                .filter(|_| row.status == StepStatus::Completed)
            else {
                continue;
            };
            for file in scratch_files_in(output) {
                // A disk that cannot be asked counts as one that has lost it: running the step
                // again is always safe.
                if !matches!(
                    engine.ports.scratch.locate(record.task.id, &file).await,
                    Ok(Some(_))
                ) {
                    missing.insert(at);
                }
            }
        }
        let passes = Passes::ask(engine, &task_type, host, record, (seen, &missing)).await;
        let (interrupted, stopping, probes, reserved) =
            (None, false, Probes::default(), Reserved::default());
        Self {
            engine,
            task_type,
            host,
            missing,
            interrupted,
            passes,
            stopping,
            probes,
            reserved,
        }
    }
}
