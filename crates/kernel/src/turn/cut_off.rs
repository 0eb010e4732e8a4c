//! A turn whose store does not answer: what ends is kept in the spool of the process, and written down when the lease is
//! held again. Owns what is not written yet, and for how long a turn waits. What is written then and what follows is
//! decided as ever.

use super::attempt::{Ended, StoppedBy};
use super::lease_state::{Lease, UnderLease};
use super::read_at::ReadAt;
use super::turn_loop::{Happened, Next, Turn};
use crate::cancel::CancelReason;
use crate::change::ChangeError;
use crate::ports::{LoadFor, SpoolOutcome, StoreError};
use crate::spool::{ResultPlace, Spooling};
use counterstep_contracts::Direction;
use futures::StreamExt;
use futures::future::{Either, join, pending, select};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A result whose commit takes longer than this is kept in the spool beside it: the process may be gone before the store
/// answers.
const KEPT_AFTER: Duration = Duration::from_secs(1);

/// A commit that others under way would have to wait for is given up after this, and tried again when the lease is held.
const PATIENCE: Duration = Duration::from_secs(2);

const NOT_BEGUN: &str = "the database's answer to its start was lost, and it did not begin";
const TOO_LATE: &str =
    "the task's deadline was over when its start was written, and it did not begin";
const NOT_KEPT: &str =
    "it ended while the database did not answer, and its result could not be kept";

/// The end of an attempt that is not written down.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// A result, which the spool has.
    Kept(Box<KeptEnd>),
    /// It is unknown how far the attempt came, for this reason.
    InDoubt(usize, &'static str),
}

/// A result that the spool has.
#[derive(Debug)]
pub(super) struct KeptEnd {
    ended: Ended,
    place: ResultPlace,
    /// While it is not written, the turn tries to get its lease back.
    _under_lease: UnderLease,
}

impl Unwritten {
    pub(super) fn kept(ended: Ended, place: ResultPlace, lease: &Lease) -> Self {
        Self::Kept(Box::new(KeptEnd {
            ended,
            place,
            _under_lease: lease.goes_on_beyond(),
        }))
    }

    fn at(&self) -> usize {
        match self {
            Self::Kept(kept) => kept.ended.at,
            Self::InDoubt(at, _) => *at,
        }
    }
}

/// What ends a wait for the lease.
enum Waited {
    Happened(Happened),
    Held,
}

/// What a turn knows of the time without its store.
#[derive(Debug, Default)]
pub(super) struct CutOff {
    /// The store did not take a change, or the lease ran out, by this process's timer. `None`: all is well.
    pub(super) since: Option<Duration>,
    pub(super) unwritten: VecDeque<Unwritten>,
    /// It was waited for long enough.
    pub(super) given_up: bool,
}

impl CutOff {
    /// Of a turn that goes on with what another one of this process, or of the one before it, has kept.
    pub(super) fn resumed(since: Duration, unwritten: VecDeque<Unwritten>) -> Self {
        Self {
            since: Some(since),
            unwritten,
            given_up: false,
        }
    }

    /// The start of this step is written, and it did not begin: the deadline of its task was over.
    pub(super) fn did_not_begin(&mut self, at: usize) {
        self.unwritten.push_back(Unwritten::InDoubt(at, TOO_LATE));
    }

    /// Whether there is nothing to wait for or to write.
    pub(super) fn is_idle(&self) -> bool {
        self.since.is_none() && self.unwritten.is_empty()
    }
}

impl Turn<'_> {
    /// How long a change is tried before the turn looks at what else happens; `None`: as long as any.
    pub(super) fn patience(&self) -> Option<Duration> {
        let goes_on = self.lease.outlasts_its_end() && !self.lease.is_lost();
        goes_on.then_some(PATIENCE)
    }

    /// Whether the turn goes on without its store.
    pub(super) fn outlasts(&mut self, error: &StoreError) -> bool {
        let outlasts = error.may_pass() && self.patience().is_some() && !self.cut_off.given_up;
        if outlasts {
            let now = self.engine.ports.clock.monotonic();
            self.cut_off.since.get_or_insert(now);
        }
        outlasts
    }

    /// Whether the task is another host's, or may be.
    pub(super) fn is_without_lease(&self) -> bool {
        let stopped = || self.tokens.is_cancelled_for(CancelReason::LeaseLost);
        self.lease.is_lost() || self.lease.confirmed().is_none() && stopped()
    }

    /// An attempt was told to stop because the lease is lost, or over.
    pub(super) async fn stopped_without_lease(&mut self, at: usize) -> Result<Next, ChangeError> {
        // A heartbeat has got through before it had stopped.
        if self.lease.confirmed().is_some() {
            return self.interrupted(at, StoppedBy::LeaseLost.why()).await;
        }
        // Whatever the attempt came to, its epoch is over: nothing that it says can be written down.
        if self.lease.is_lost() || !self.lease.outlasts_its_end() {
            return Err(ChangeError::Fenced);
        }
        let now = self.engine.ports.clock.monotonic();
        self.cut_off.since.get_or_insert(now);
        self.cut_off
            .unwritten
            .push_back(Unwritten::InDoubt(at, StoppedBy::LeaseLost.why()));
        Ok(Next::Hold)
    }

    /// The end of the lease is not that of the turn while this lives: it has a result, which its process can keep.
    pub(super) fn goes_on_beyond(&self) -> Option<UnderLease> {
        Spooling::of(self.engine).map(|_| self.lease.goes_on_beyond())
    }

    /// Writes a result down, or keeps it.
    pub(super) async fn write_down(&mut self, ended: Ended) -> Result<Next, ChangeError> {
        let Some(spool) = Spooling::of(self.engine) else {
            return self.write_result(&ended).await;
        };
        let place = self.place(ended.at);
        let (written, kept) = {
            let clock = self.engine.ports.clock.clone();
            let write = Box::pin(self.write_result(&ended));
            match select(write, clock.sleep(KEPT_AFTER)).await {
                Either::Left((written, _)) => (written, None),
                Either::Right(((), write)) => {
                    let (written, kept) = join(write, spool.keep(&place, &ended)).await;
                    (written, Some(kept))
                }
            }
        };
        let is_unwritten = matches!(&written, Err(ChangeError::Store(error)) if error.may_pass());
        let kept = match kept {
            Some(kept) => kept,
            // One that is fenced is kept to be named in the audit.
            None if is_unwritten || matches!(written, Err(ChangeError::Fenced)) => {
                spool.keep(&place, &ended).await
            }
            None => return written,
        };
        if kept && is_unwritten {
            let unwritten = Unwritten::kept(ended, place, &self.lease);
            self.cut_off.unwritten.push_back(unwritten);
        } else if kept {
            spool.written(&place, &written).await;
        } else if is_unwritten {
            let unwritten = Unwritten::InDoubt(ended.at, NOT_KEPT);
            self.cut_off.unwritten.push_back(unwritten);
        }
        written
    }

    /// Writes down what could not be written before.
    pub(super) async fn write_unwritten(
        &mut self,
        unwritten: Unwritten,
    ) -> Result<Next, ChangeError> {
        let written = match &unwritten {
            Unwritten::Kept(kept) => self.write_result(&kept.ended).await,
            Unwritten::InDoubt(at, why) => self.interrupted(*at, why).await,
        };
        if matches!(&written, Err(ChangeError::Store(error)) if error.may_pass()) {
            self.cut_off.unwritten.push_front(unwritten);
        } else if let (Unwritten::Kept(kept), Some(spool)) = (unwritten, Spooling::of(self.engine))
        {
            spool.written(&kept.place, &written).await;
        }
        written
    }

    /// Waits until a heartbeat has got through, and reads the task again. Keeps what ends meanwhile.
    pub(super) async fn wait_for_the_lease(&mut self, since: Duration) -> Result<(), ChangeError> {
        let engine = self.engine;
        let clock = &engine.ports.clock;
        let until = since.saturating_add(engine.settings.spool_max_age);
        let (lease, told_to_stop) = (self.lease.clone(), self.tokens.told_to_stop.clone());
        let mut after = since;
        loop {
            let is_told_to_stop = told_to_stop.is_cancelled();
            let now = clock.monotonic();
            if self.under_way.is_empty() && (is_told_to_stop || !lease.outlasts_its_end()) {
                return Err(does_not_answer());
            }
            if now >= until {
                self.give_up_results().await;
                return Err(does_not_answer());
            }
            let waited = {
                let next = async {
                    match self.under_way.next().await {
                        Some(happened) => happened,
                        None => pending().await,
                    }
                };
                let stop = async {
                    if is_told_to_stop {
                        pending().await
                    }
                    told_to_stop.cancelled().await
                };
                let over = select(clock.sleep(until.saturating_sub(now)), Box::pin(stop));
                let held = select(Box::pin(lease.held_after(after)), over);
                match select(Box::pin(next), held).await {
                    Either::Left((happened, _)) => Waited::Happened(happened),
                    Either::Right((Either::Left((Ok(()), _)), _)) => Waited::Held,
                    Either::Right((Either::Left((Err(_), _)), _)) => {
                        return Err(ChangeError::Fenced);
                    }
                    Either::Right((Either::Right(_), _)) => continue,
                }
            };
            match waited {
                Waited::Happened(happened) => self.hold(happened).await,
                Waited::Held => match self.read_again().await {
                    Err(ChangeError::Store(error)) if error.may_pass() => after = clock.monotonic(),
                    read => return read,
                },
            }
        }
    }

    /// What happens while the store does not answer.
    async fn hold(&mut self, happened: Happened) {
        match happened {
            Happened::Ended(ended) => {
                let _beyond = self.goes_on_beyond();
                self.running.remove(&ended.at);
                self.tell_breaker(&ended).await;
                let log = ended.log.clone();
                let unwritten = self.keep_end(ended).await;
                // Of a result that is kept, its lines are kept with it.
                if !matches!(unwritten, Some(Unwritten::Kept(_))) {
                    self.log.write(self.engine, log).await;
                }
                self.cut_off.unwritten.extend(unwritten);
            }
            Happened::Due(at) => self.delay_is_over(at),
            Happened::Probed(probed) => self.note(probed),
            Happened::Room(room) => self.has_room(room),
            Happened::Leased(starts) => self.begin(starts),
            Happened::Unwritten(unwritten) => self.cut_off.unwritten.push_back(unwritten),
            Happened::Back => {}
        }
    }

    async fn keep_end(&mut self, ended: Ended) -> Option<Unwritten> {
        let at = ended.at;
        match ended.in_doubt {
            // The next owner of the task finds it so.
            Some(StoppedBy::Shutdown) => return None,
            Some(stopped) => return Some(Unwritten::InDoubt(at, stopped.why())),
            None => {}
        }
        if let Some(spool) = Spooling::of(self.engine)
            && spool.keep(&self.place(at), &ended).await
        {
            let place = self.place(at);
            return Some(Unwritten::kept(ended, place, &self.lease));
        }
        Some(Unwritten::InDoubt(at, NOT_KEPT))
    }

    /// The rows as they are when the lease is held again. A commit whose answer was lost may have been written, and with it
    /// the start of what follows, which has not begun here.
    async fn read_again(&mut self) -> Result<(), ChangeError> {
        let (task, store) = (self.record.task.id, &self.engine.ports.store);
        let read_at = ReadAt::now(self.engine);
        let record = store.load_for(task, LoadFor::Confirm).await?;
        let record = record.ok_or(ChangeError::Gone)?;
        if record.task.epoch != self.record.task.epoch || !record.lease_is_live() {
            return Err(ChangeError::Fenced);
        }
        (self.record, self.read_at) = (record.into(), read_at);
        let (mut unwritten, mut in_doubt) = (VecDeque::new(), BTreeMap::new());
        for end in std::mem::take(&mut self.cut_off.unwritten) {
            match (end, Spooling::of(self.engine)) {
                (Unwritten::Kept(kept), Some(spool)) if !kept.place.is_open(&self.record) => {
                    spool.forget(&kept.place.key, SpoolOutcome::Committed).await;
                }
                (Unwritten::InDoubt(at, why), _) => drop(in_doubt.insert(at, why)),
                (kept, _) => unwritten.push_back(kept),
            }
        }
        for (at, row) in self.record.steps.iter().enumerate() {
            let is_known = self.running.contains(&at) || unwritten.iter().any(|end| end.at() == at);
            if row.attempt_open && !is_known {
                let why = in_doubt.remove(&at).unwrap_or(NOT_BEGUN);
                unwritten.push_back(Unwritten::InDoubt(at, why));
            }
        }
        tracing::info!(%task, unwritten = unwritten.len(), "the database answers again, and the lease is held: the turn goes on");
        self.cut_off = CutOff {
            unwritten,
            ..CutOff::default()
        };
        Ok(())
    }

    /// Gives up the results: the time for which they are kept is over.
    async fn give_up_results(&mut self) {
        for end in std::mem::take(&mut self.cut_off.unwritten) {
            if let (Unwritten::Kept(kept), Some(spool)) = (end, Spooling::of(self.engine)) {
                spool.forget(&kept.place.key, SpoolOutcome::Expired).await;
            }
        }
    }

    fn place(&self, at: usize) -> ResultPlace {
        let direction = match self.undoing {
            true => Direction::Undo,
            false => Direction::Forward,
        };
        ResultPlace::of(&self.record, at, direction)
    }
}

fn does_not_answer() -> ChangeError {
    StoreError::Unavailable("no heartbeat has got through".to_owned()).into()
}
