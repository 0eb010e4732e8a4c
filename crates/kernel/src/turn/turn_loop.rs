//! A claimed task during its turn: what is under way, and the loop that waits for it, commits what
//! happened and starts what comes next.

use super::attempt::{self, Ended, Order};
use super::cut_off::{CutOff, Unwritten};
use super::lease_state::Lease;
use super::lock::TaskLock;
use super::permits::Permits;
use super::probe::Probed;
use super::read_at::ReadAt;
use super::tokens::Tokens;
use super::turn_end::TurnEnd;
use crate::admission::limits::LimitPermit;
use crate::cancel::CancelToken;
use crate::change::announce::announce;
use crate::change::queue_wait::QueueWait;
use crate::change::{Author, ChangeError};
use crate::children::{Stop, stop};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::plan::Probes;
use crate::record::TaskRecord;
use crate::saga::Illegal;
use crate::status::observe;
use crate::status::progress::Board;
use crate::status::task_log::TurnLog;
use crate::task::{Inputs, TaskType};
use crate::workers::notes::note_turn;
use crate::workers::turns::TurnNote;
use counterstep_contracts::{Direction, Host, LogPart, TaskStatus};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What follows a committed change of a turn.
#[derive(Debug)]
pub(super) enum Next {
    /// Run these.
    Run(Vec<Start>),
    /// Ask the probes of these steps, which are in doubt.
    Probe(Vec<usize>),
    /// Decide once more, with what this turn finds out or does first.
    Again(First),
    /// Something is under way, or due soon.
    Hold,
    /// The task was given back or came to rest.
    End,
}

/// What comes before a decision.
#[derive(Debug)]
pub(super) enum First {
    /// Nothing: the rows are others now.
    Nothing,
    /// To read how each task of this step has ended.
    ReadChildren(usize),
    /// To tell the tasks of this step to stop.
    StopChildren(usize),
}

/// An attempt whose start is in the draft.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) at: usize,
    pub(super) execution: crate::context::Execution,
    pub(super) limit: Duration,
    /// No attempt before it can have had an effect.
    pub(super) first: bool,
    /// Its room, where it is heavy, and its permit: its own before it waits for the lease, so that nothing that happens meanwhile
    /// gives them back.
    pub(super) room: Option<LimitPermit>,
    pub(super) permit: Option<LimitPermit>,
}

/// What a turn waits for.
#[derive(Debug)]
pub(super) enum Happened {
    /// An attempt ended.
    Ended(Ended),
    /// A probe ended.
    Probed(Probed),
    /// A short delay is over.
    Due(usize),
    /// There is room for a heavy step; `None`: that is of no use any more.
    Room(Option<LimitPermit>),
    /// Attempts that were started while the lease was over may begin.
    Leased(Vec<Start>),
    /// The store answers again, and the lease is held.
    Back,
    /// What could not be written before may be written now.
    Unwritten(Unwritten),
}

/// A task that a turn has the lease of.
pub(super) struct Claimed {
    pub(super) task_type: TaskType,
    pub(super) host: Host,
    pub(super) record: Arc<TaskRecord>,
    /// When `record.now` was read.
    pub(super) read_at: ReadAt,
    pub(super) lease: Arc<Lease>,
}

/// A claimed task as last committed, and what is under way.
pub(super) struct Turn<'a> {
    pub(super) engine: &'a Engine,
    pub(super) task_type: TaskType,
    pub(super) host: Host,
    pub(super) record: Arc<TaskRecord>,
    /// When `record.now` was read.
    pub(super) read_at: ReadAt,
    pub(super) lease: Arc<Lease>,
    pub(super) cut_off: CutOff,
    pub(super) tokens: Tokens,
    pub(super) lock: Arc<TaskLock>,
    /// What it has for its next steps.
    pub(super) permits: Permits,
    /// It is woken when there is room for another heavy step.
    pub(super) waits_for_room: bool,
    pub(super) under_way: FuturesUnordered<BoxFuture<'a, Happened>>,
    /// The steps whose attempts are.
    pub(super) running: BTreeSet<usize>,
    /// Steps between two attempts, waited for with the lease held, and when each is due by this
    /// host's timer.
    pub(super) delayed: BTreeMap<usize, Duration>,
    /// Steps between two attempts to make their scratch again, and when each is due.
    pub(super) rebuilds: BTreeMap<usize, Duration>,
    /// What the probes of steps in doubt have found.
    pub(super) probes: Probes,
    /// Step whose children's outcomes must be read.
    pub(super) outcomes_of: Option<usize>,
    /// Steps whose tasks this turn has told to stop.
    pub(super) stopped_children: BTreeSet<usize>,
    /// Steps with children that did not get the stop request.
    pub(super) unstopped_children: BTreeSet<usize>,
    /// The task is being undone.
    pub(super) undoing: bool,
    /// What its attempts say of their progress.
    pub(super) board: Arc<Board>,
    /// What its attempts log.
    pub(super) log: Arc<TurnLog>,
    /// What this process remembers of it.
    pub(super) note: Arc<TurnNote>,
}

/// What goes with a turn from its start: the tokens that stop it, the lock, and what it has for its next steps.
#[derive(Clone)]
pub(super) struct With {
    pub(super) tokens: Tokens,
    pub(super) lock: Arc<TaskLock>,
    pub(super) permits: Permits,
}

impl<'a> Turn<'a> {
    pub(super) fn of(engine: &'a Engine, claimed: Claimed, with: With) -> Self {
        let With {
            tokens,
            lock,
            permits,
        } = with;
        let Claimed {
            task_type,
            host,
            record,
            read_at,
            lease,
        } = claimed;
        Self {
            engine,
            task_type,
            host,
            read_at,
            lease,
            cut_off: CutOff::default(),
            tokens,
            lock,
            permits,
            waits_for_room: false,
            under_way: FuturesUnordered::new(),
            running: BTreeSet::new(),
            delayed: BTreeMap::new(),
            rebuilds: BTreeMap::new(),
            probes: Probes::default(),
            outcomes_of: None,
            stopped_children: BTreeSet::new(),
            unstopped_children: BTreeSet::new(),
            undoing: record.task.status == TaskStatus::Compensating,
            board: Board::of(&record, engine.ports.clock.clone()),
            log: TurnLog::of(&record, engine.ports.clock.clone()),
            note: note_turn(engine, record.task.id, task_type.decl.name),
            record,
        }
    }

    /// It goes on with what another turn has left.
    pub(super) fn resumed(self, cut_off: CutOff) -> Self {
        Self { cut_off, ..self }
    }

    /// Runs until the task is given back or rests, also over a time in which the store does not answer.
    pub(super) async fn run(mut self, mut next: Next) -> Result<TurnEnd, ChangeError> {
        loop {
            match self.run_on(next).await {
                Err(ChangeError::Store(error)) if self.outlasts(&error) => next = Next::Hold,
                ended => return ended,
            }
        }
    }

    async fn run_on(&mut self, mut next: Next) -> Result<TurnEnd, ChangeError> {
        let mut was_held = false;
        loop {
            self.notice_undo();
            if matches!(next, Next::Run(_) | Next::Hold) {
                self.arm();
            }
            // No undo is heavy. What is decided once more at once goes by what was taken: a start that is given back is lost.
            let goes_on = matches!(
                next,
                Next::Run(_) | Next::Probe(_) | Next::Again(First::Nothing)
            );
            if self.undoing || !goes_on {
                self.permits.give_back();
            }
            match next {
                Next::Run(starts) => self.begin(starts),
                Next::Probe(steps) => self.ask(steps),
                Next::Again(first) => {
                    self.do_first(first).await;
                    next = self.go_on().await?;
                    continue;
                }
                // Of a change whose reply was lost, what it was decided on may be over: it is
                // decided once more.
                Next::Hold if self.is_idle() && !was_held => {
                    was_held = true;
                    next = self.go_on().await?;
                    continue;
                }
                Next::Hold if self.is_idle() => return Ok(self.stuck()),
                Next::Hold => {}
                Next::End => return Ok(self.end()),
            }
            was_held = false;
            next = match self.next_happened().await? {
                Some(Happened::Ended(ended)) => {
                    self.running.remove(&ended.at);
                    self.ended(ended).await?
                }
                Some(Happened::Leased(starts)) => Next::Run(starts),
                Some(Happened::Back) => self.go_on().await?,
                Some(Happened::Unwritten(unwritten)) => {
                    Box::pin(self.write_unwritten(unwritten)).await?
                }
                Some(Happened::Due(at)) => {
                    self.delay_is_over(at);
                    self.go_on().await?
                }
                Some(Happened::Probed(probed)) => Box::pin(self.probed(probed)).await?,
                Some(Happened::Room(room)) => {
                    self.has_room(room);
                    self.go_on().await?
                }
                // Nothing is under way and nothing was started: the next decision finds out why.
                None => self.go_on().await?,
            };
        }
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.cut_off.is_idle()
    }

    async fn do_first(&mut self, first: First) {
        match first {
            First::Nothing => {}
            First::ReadChildren(at) => self.outcomes_of = Some(at),
            First::StopChildren(at) => {
                let how = if self.record.task.status == TaskStatus::Compensating {
                    Stop::All
                } else {
                    Stop::Running
                };
                self.stopped_children.insert(at);
                if stop(self.engine, &self.record, &self.record.steps[at], how).await {
                    self.unstopped_children.remove(&at);
                } else {
                    self.unstopped_children.insert(at);
                }
            }
        }
    }

    /// No attempt is under way when an undo begins, and what forward steps waited for is of no use
    /// any more.
    fn notice_undo(&mut self) {
        if self.undoing || self.record.task.status != TaskStatus::Compensating {
            return;
        }
        self.undoing = true;
        self.delayed.clear();
        self.stopped_children.clear();
        self.unstopped_children.clear();
        self.under_way.clear();
        self.waits_for_room = false;
    }

    /// What happens next; `None`: nothing is under way.
    async fn next_happened(&mut self) -> Result<Option<Happened>, ChangeError> {
        if let Some(since) = self.cut_off.since {
            let waited = self.wait_for_the_lease(since).await;
            self.cut_off.given_up = waited.is_err();
            return waited.map(|()| Some(Happened::Back));
        }
        if let Some(unwritten) = self.cut_off.unwritten.pop_front() {
            return Ok(Some(Happened::Unwritten(unwritten)));
        }
        Ok(self.under_way.next().await)
    }

    /// Decides and commits as the owner of the lease.
    pub(super) async fn change<R>(
        &mut self,
        decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<R, ChangeError> {
        let engine = self.engine;
        let author = Author {
            // Deadlines must not wait for a commit.
            now: Some(self.now()),
            patience: self.patience(),
            announce: None,
            ..Author::owner(&engine.id)
        };
        let changed = engine
            .change(author, &self.task_type, self.record.clone(), decide)
            .await?;
        if let Some(transition) = &changed.unannounced {
            // The lock goes with the lease, ahead of the message: another host that gets it at once
            // is to find it free.
            let given_up = changed.record.task.lease_owner.is_none();
            let release = async {
                if given_up {
                    self.lock.release().await;
                }
            };
            futures::join!(
                release,
                announce(
                    engine,
                    transition,
                    changed.record.task.updated_at,
                    QueueWait::Full
                )
            );
        }
        // As it was read, where nothing was to be written.
        if !Arc::ptr_eq(&self.record, &changed.record) {
            self.record = changed.record;
            self.read_at = ReadAt::now(engine);
        }
        Ok(changed.answer)
    }

    pub(super) fn begin(&mut self, mut starts: Vec<Start>) {
        // No undo is heavy or limited.
        let is_forward = |it: &&mut Start| it.execution.direction == Direction::Forward;
        for start in starts.iter_mut().filter(is_forward) {
            if start.room.is_none() && self.task_type.decl.steps[start.at].heavy {
                start.room = self.permits.take_room();
            }
            if start.permit.is_none() {
                start.permit = self.permits.take(start.at);
            }
        }
        // Their start was written while the lease was over: another host may have the task.
        if self.lease.confirmed().is_none() {
            let (lease, since) = (self.lease.clone(), self.engine.ports.clock.monotonic());
            if !lease.is_lost() {
                self.under_way.push(Box::pin(async move {
                    let _ = lease.held_after(since).await;
                    Happened::Leased(starts)
                }));
            }
            return;
        }
        for Start {
            at,
            execution,
            limit,
            first,
            room,
            permit,
        } in starts
        {
            let direction = execution.direction;
            let limit = self.within_deadline(direction, limit);
            // Its start was written by a time that had passed already.
            if limit.is_zero() {
                self.cut_off.did_not_begin(at);
                continue;
            }
            let when_cut_off = self.task_type.decl.steps[at].when_cut_off;
            let cancel = self.tokens.of_attempt(direction, when_cut_off);
            let under_lease = self.lease.attempt(direction, when_cut_off);
            self.running.insert(at);
            let own_output = self.record.steps[at].output.clone();
            let fallback = direction == Direction::Forward && self.record.steps[at].in_fallback;
            let (inputs, facts) = (self.inputs_of(at), self.record.task.facts());
            let (meter, beats) = self
                .board
                .meter(&execution.step, direction, execution.attempt);
            let part = LogPart::of(direction);
            let log = self.log.attempt(&execution.step, part, execution.attempt);
            debug_assert!(
                permit.is_some()
                    || fallback
                    || direction == Direction::Undo
                    || self.task_type.decl.steps[at].limit.is_none(),
                "an attempt starts without a permit of its limit"
            );
            let order = Box::new(Order {
                at,
                execution,
                inputs,
                own_output,
                fallback,
                limit,
                cancel,
                facts,
                meter,
                beats: Some(beats),
                log,
                room,
                permit,
            });
            let (engine, task_type) = (self.engine, self.task_type);
            let (note, step) = (self.note.clone(), task_type.decl.steps[at].name);
            note.attempt_begins(step);
            self.under_way.push(Box::pin(async move {
                let started = engine.ports.clock.monotonic();
                let mut ended = attempt::execute(engine, &task_type, order).await;
                let took = engine.ports.clock.monotonic().saturating_sub(started);
                observe::attempt(engine, &task_type, at, direction, ended.outcome(), took);
                note.attempt_ended(step, ended.outcome());
                ended.unsent &= first;
                drop(under_lease);
                Happened::Ended(ended)
            }));
        }
        // A step that was to be heavy was skipped, or settled by its probe.
        self.permits.give_back();
    }

    /// For an attempt of a step that has started, in either direction.
    pub(super) fn inputs_of(&self, at: usize) -> Inputs {
        let request = self.record.request_of(at).clone();
        self.engine.inputs(request, self.record.outputs())
    }

    pub(super) fn delay(&mut self, at: usize, delay: Duration, cancel: CancelToken) {
        // It would end at once, again and again.
        if cancel.is_cancelled() {
            return;
        }
        self.delayed
            .insert(at, self.engine.ports.clock.monotonic() + delay);
        let sleep = self.engine.ports.clock.sleep(delay);
        self.under_way.push(Box::pin(async move {
            // A cancelled delay ends at once: there is nothing to wait for any more.
            futures::future::select(sleep, Box::pin(cancel.cancelled())).await;
            Happened::Due(at)
        }));
    }

    /// Nothing is under way and nothing may start: no state leads here, so the turn ends and leaves
    /// the task to the next claim, instead of spinning.
    fn stuck(&self) -> TurnEnd {
        tracing::error!(task = %self.record.task.id, status = %self.record.task.status, "nothing is under way");
        TurnEnd::Lost
    }

    pub(super) fn end(&self) -> TurnEnd {
        let status = self.record.task.status;
        if status.is_at_rest() {
            TurnEnd::Rests(status)
        } else {
            TurnEnd::GivenBack
        }
    }
}

/// The request and the outputs committed so far.
pub(super) fn inputs_of(engine: &Engine, record: &TaskRecord) -> Inputs {
    engine.inputs(record.task.request.clone(), record.outputs())
}
