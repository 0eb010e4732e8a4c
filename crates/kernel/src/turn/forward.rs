//! Going forward: run the next steps, commit each result together with the start of what follows
//! it.

mod room;
mod scratch;
mod wake;

use super::breakers::{Passes, Seen};
use super::heavy::Reserved;
use super::probe::Probes;
use super::undo::{Back, UndoTurn};
use super::{Happened, Next, Start, Turn, TurnEnd, inputs_of, limits};
use crate::draft::Draft;
use crate::engine::{ChangeError, Engine};
use crate::error::{ErrorClass, StepError};
use crate::plan::{self, Forward};
use crate::policy;
use crate::record::{Failure, TaskRecord};
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use crate::task::{TaskType, guarded};
use counterstep_contracts::{
    Direction, Host, OnExhausted, Outcome, StepStatus, TaskStatus, WaitReason,
};
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
    /// What the breakers say. Whoever decides hands them on, used or not.
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

    /// Decides what comes next, and writes its start into the draft.
    pub(super) fn next(&self, draft: &mut Draft) -> Result<Next, Illegal> {
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
            super::waits::decide(&self.task_type, draft, at, &inputs)?;
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
                draft.add_detail("probe", super::probe::word(found).into());
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
