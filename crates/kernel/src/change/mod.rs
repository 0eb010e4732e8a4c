//! The one way in which a task changes: a draft is decided on, and committed with its guard. On a revision
//! conflict it is decided again, and a commit whose answer was lost is looked up.

pub mod announce;
pub mod events;
pub mod intents;
pub(crate) mod key_hints;
pub(crate) mod outbox;
mod patience;
pub mod queue_wait;
pub mod transition;
pub(crate) mod unknown_commits;

use crate::change::announce::{ANNOUNCED_AT_ONCE, announce, announce_new};
use crate::change::events::events_of;
use crate::change::patience::Patience;
use crate::change::queue_wait::QueueWait;
use crate::change::transition::{Guard, Transition};
use crate::change::unknown_commits::Doubts;
use crate::draft::{As, Draft, after_commit};
use crate::engine::Engine;
use crate::payloads::encrypt_row;
use crate::ports::{CommitError, LoadFor, StoreError};
use crate::record::{DbTime, TaskRecord};
use crate::saga::Illegal;
use crate::sql::SqlRefused;
use crate::task::TaskType;
use crate::webhooks::add_webhook;
use crate::webhooks::alerts::add_alert;
use counterstep_contracts::{Epoch, TaskId};
use futures::{StreamExt, stream};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A change did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Another host has the task.
    #[error("another host has claimed the task")]
    Fenced,
    /// The task is gone.
    #[error("there is no such task")]
    Gone,
    /// The judge refuses.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The idempotency key is another task's.
    #[error("the idempotency key is taken")]
    KeyTaken,
    /// The attempt's objects were condemned before it succeeded.
    #[error("the attempt took longer than its objects were kept for")]
    Condemned,
    /// Another task has taken the place.
    #[error("the place among the tasks of the key is taken")]
    PlaceTaken,
    /// A statement of the step's own was refused.
    #[error(transparent)]
    Sql(#[from] SqlRefused),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CommitError> for ChangeError {
    fn from(error: CommitError) -> Self {
        match error {
            // A stale change is decided again; where that is not done, it counts as fenced.
            CommitError::Fenced { .. } | CommitError::Stale => Self::Fenced,
            CommitError::KeyTaken => Self::KeyTaken,
            CommitError::Condemned => Self::Condemned,
            // Of submissions only, and those are no changes.
            CommitError::Moved => Self::Gone,
            CommitError::PlaceTaken => Self::PlaceTaken,
            CommitError::Sql(refused) => Self::Sql(refused),
            CommitError::Store(error) => Self::Store(error),
        }
    }
}

/// A change that happened.
#[derive(Debug)]
pub struct Changed<R> {
    /// What was decided.
    pub answer: R,
    /// The task after it.
    pub record: Arc<TaskRecord>,
    /// What was written, where it is the caller who announces it.
    pub unannounced: Option<Arc<Transition>>,
}

/// Who changes a task, and how.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// In the audit.
    pub actor: &'a str,
    /// Under which guard.
    pub by: As,
    /// The database's time, where the author knows a later one than that of the record.
    pub now: Option<DbTime>,
    /// How long to retry an unavailable store; `None`: as long as the guard lets it.
    pub patience: Option<Duration>,
    /// How long its announcement waits for the queue; `None`: the caller announces it.
    pub announce: Option<QueueWait>,
    /// Whether it is told to a client, so that a standby must have also what is answered without a change.
    pub is_answered: bool,
}

impl<'a> Author<'a> {
    /// One who holds no lease.
    #[must_use]
    pub const fn anyone(actor: &'a str) -> Self {
        Self {
            actor,
            by: As::Anyone,
            now: None,
            patience: None,
            announce: Some(QueueWait::Full),
            is_answered: false,
        }
    }

    /// One who answers a client.
    #[must_use]
    pub const fn client(actor: &'a str) -> Self {
        Self {
            is_answered: true,
            ..Self::anyone(actor)
        }
    }

    /// The owner of the lease.
    #[must_use]
    pub const fn owner(actor: &'a str) -> Self {
        Self {
            by: As::Owner,
            ..Self::anyone(actor)
        }
    }
}

impl Engine {
    /// Decides on a task that exists and commits; on a revision conflict again, on the newer state. `decide`
    /// may be called more than once, each time with a fresh draft; a draft in which nothing happened is not
    /// committed.
    ///
    /// # Errors
    /// [`ChangeError`]; with [`StoreError::Unknown`] the change may have happened all the same.
    pub async fn change<R>(
        &self,
        author: Author<'_>,
        task_type: &TaskType,
        record: impl Into<Arc<TaskRecord>>,
        decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<Changed<R>, ChangeError> {
        let record = record.into();
        let mut changed = self.write(author, task_type, record, decide).await?;
        if let Some(wait) = author.announce
            && let Some(transition) = changed.unannounced.take()
        {
            announce(self, &transition, changed.record.task.updated_at, wait).await;
        }
        Ok(changed)
    }

    async fn write<R>(
        &self,
        author: Author<'_>,
        task_type: &TaskType,
        mut record: Arc<TaskRecord>,
        mut decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<Changed<R>, ChangeError> {
        let by = author.by;
        // The owner of a lease has a result in its hands and waits for the store as long as no other
        // host is likely to have the task; every other caller has a client waiting.
        let patience = author.patience.unwrap_or_else(|| match by {
            As::Owner => self.settings.lease_of(task_type) * 2,
            As::Anyone => Duration::ZERO,
        });
        let epoch = record.task.epoch;
        let mut now = author.now;
        let mut must_confirm = author.is_answered;
        let mut tries = Tries {
            patience: Patience::new(self, patience),
            doubts: Doubts::default(),
        };
        loop {
            let draft = || {
                let mut draft = Draft::new(task_type.decl, record.clone(), author.actor);
                draft.set_now(now.take());
                draft
            };
            let (answer, drafted) = self.drafted(draft, by, &mut decide)?;
            let Some(Drafted {
                guard,
                transition,
                after,
            }) = drafted
            else {
                if std::mem::take(&mut must_confirm) {
                    let confirmed = self.confirmed(&record, &mut tries.patience);
                    if let Some(newer) = Box::pin(confirmed).await? {
                        record = Arc::new(newer);
                        continue;
                    }
                }
                return Ok(Changed {
                    answer,
                    record,
                    unannounced: None,
                });
            };
            match self.ports.store.commit(guard, transition.clone()).await {
                Ok(committed) => {
                    let record = after_commit(&record, after, &transition, committed.now);
                    return Ok(Changed {
                        answer,
                        record: Arc::new(record),
                        unannounced: Some(transition),
                    });
                }
                Err(error) => {
                    let tried = Tried {
                        by,
                        epoch,
                        answer,
                        transition,
                    };
                    // Rare, and large.
                    let looked = self.look_again(tried, error, &mut record, &mut tries);
                    if let Some(changed) = Box::pin(looked).await? {
                        return Ok(changed);
                    }
                }
            }
        }
    }

    /// What is decided; `None`: nothing has happened. It waits for nothing, so that the future of a change holds no draft.
    fn drafted<R>(
        &self,
        draft: impl FnOnce() -> Draft,
        by: As,
        decide: &mut impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<(R, Option<Drafted>), ChangeError> {
        let mut draft = draft();
        let answer = decide(&mut draft)?;
        if draft.is_empty() {
            return Ok((answer, None));
        }
        if draft.keeps_condemned() {
            return Err(ChangeError::Condemned);
        }
        let (guard, mut transition, after) = self.finish(draft, by);
        encrypt_row(self.ports.store.payload_codec(), &mut transition).map_err(StoreError::from)?;
        let drafted = Drafted {
            guard,
            transition: Arc::new(transition),
            after,
        };
        Ok((answer, Some(drafted)))
    }

    /// After a commit that was refused, or whose answer was lost: reads the task again. `None`: it is decided once more;
    /// otherwise an earlier commit was written.
    async fn look_again<R>(
        &self,
        tried: Tried<R>,
        error: CommitError,
        record: &mut Arc<TaskRecord>,
        Tries { patience, doubts }: &mut Tries<'_, R>,
    ) -> Result<Option<Changed<R>>, ChangeError> {
        let Tried {
            by,
            epoch,
            answer,
            transition,
        } = tried;
        match error {
            CommitError::Store(error @ StoreError::Unknown(_)) => {
                if doubts.is_empty() {
                    patience.at_least(unknown_commits::patience(&transition));
                }
                doubts.add(answer, transition);
                patience.wait(error).await?;
            }
            CommitError::Store(error @ StoreError::Unavailable(_)) => patience.wait(error).await?,
            // An earlier try that was written has moved the revision, which is looked at first.
            CommitError::Stale => {}
            error => return Err(error.into()),
        }
        let (rev, was_live) = (record.task.rev, record.lease_is_live());
        let purpose = match doubts.is_empty() {
            true => LoadFor::Run,
            false => LoadFor::Confirm,
        };
        *record = Arc::new(self.reload(record.task.id, purpose, patience).await?);
        let history = if doubts.need_history(record) {
            let history = || self.ports.store.history(record.task.id);
            Some(patience.ask(history).await?)
        } else {
            None
        };
        if let Some((answer, transition)) = doubts.settle(record, history.as_ref()) {
            if unknown_commits::has_lost_its_lease(by, &transition, record) {
                return Err(ChangeError::Fenced);
            }
            return Ok(Some(Changed {
                answer,
                record: record.clone(),
                unannounced: Some(transition),
            }));
        }
        // Refused though nothing has changed, by a lease that the draft knew to be live: to try at once again would only spin.
        let held = by == As::Anyone && record.task.rev == rev && was_live && record.lease_is_live();
        if held || (by == As::Owner && record.task.epoch != epoch) {
            return Err(ChangeError::Fenced);
        }
        Ok(None)
    }

    /// Commits first changes, of new tasks or of receives, all or none, and announces them. The same
    /// change is refused when it is written a second time, so it is written until the store answers,
    /// and where an answer was lost the first task tells whether all are there.
    ///
    /// # Errors
    /// [`CommitError`]; with [`StoreError::Unknown`] they may be written all the same.
    pub(crate) async fn commit_new(
        &self,
        new: &[Arc<Transition>],
        wait: QueueWait,
    ) -> Result<(), CommitError> {
        let Some(first) = new.first() else {
            return Ok(());
        };
        let mut patience = Patience::new(self, Duration::ZERO);
        let tried = self.until_answered(|_| Cow::Borrowed(new), &mut patience);
        let at = match tried.await {
            (Ok(now), _) => now,
            (Err(error), lost) => {
                // A receive has no task.
                let may_be = first.task.is_some() && (lost || matches!(error, CommitError::Stale));
                let store = &self.ports.store;
                let found = match may_be {
                    true => {
                        let confirm = store.load_for(first.task_id, LoadFor::Confirm);
                        patience.within(Box::pin(confirm)).await
                    }
                    false => Ok(None),
                };
                // No other submission makes a task of this id.
                match found {
                    Ok(Some(record)) => record.task.created_at,
                    Ok(None) => return Err(error),
                    Err(unread) => {
                        let text =
                            format!("{error}; whether it was written cannot be read: {unread}");
                        return Err(StoreError::Unknown(text).into());
                    }
                }
            }
        };
        stream::iter(new.iter().filter(|one| one.task.is_some()))
            .for_each_concurrent(ANNOUNCED_AT_ONCE, |one| announce_new(self, one, at, wait))
            .await;
        Ok(())
    }

    /// Commits the beginning of a receive: what `begin` makes, which is called for each try. `true`: the one before had no answer,
    /// and may be written yet.
    ///
    /// # Errors
    /// [`CommitError`]; with [`StoreError::Unknown`] each of them may be written all the same.
    pub(crate) async fn commit_receive(
        &self,
        mut begin: impl FnMut(bool) -> Transition + Send,
    ) -> Result<(), CommitError> {
        let mut patience = Patience::new(self, Duration::ZERO);
        let begin = |is_lost| Cow::Owned(vec![Arc::new(begin(is_lost))]);
        let (written, _) = self.until_answered(begin, &mut patience).await;
        written.map(drop)
    }

    /// Commits what `next` gives for each try until the store answers; `next` gets whether the answer to the one before was lost.
    /// `true`: an answer was lost on the way.
    async fn until_answered<'a>(
        &self,
        mut next: impl FnMut(bool) -> Cow<'a, [Arc<Transition>]> + Send,
        patience: &mut Patience<'_>,
    ) -> (Result<DbTime, CommitError>, bool) {
        let store = &self.ports.store;
        let (mut lost, mut is_last_lost) = (false, false);
        loop {
            let new = next(is_last_lost);
            let error = match store.commit_all(&new).await {
                Ok(committed) => return (Ok(committed.now), lost),
                Err(CommitError::Store(error @ StoreError::Unknown(_))) => error,
                Err(CommitError::Store(error @ StoreError::Unavailable(_))) if lost => error,
                Err(error) => return (Err(error), lost),
            };
            if !lost {
                let limits = new.iter().map(|one| unknown_commits::patience(one));
                patience.at_least(limits.max().unwrap_or_default());
            }
            (lost, is_last_lost) = (true, matches!(error, StoreError::Unknown(_)));
            if let Err(error) = patience.wait(error).await {
                return (Err(error.into()), lost);
            }
        }
    }

    /// What a draft comes to, with what others are told of it: its webhook, its events where this
    /// process is to publish any, and the alert of a task that is parked.
    pub(crate) fn finish(&self, draft: Draft, by: As) -> (Guard, Transition, TaskRecord) {
        let (decl, now) = (draft.decl(), draft.record().now);
        let (guard, mut transition, after) = draft.finish(self.new_change_id(), by);
        add_webhook(&mut transition);
        if self.settings.events && !self.ports.queue.hands_out_tasks() {
            transition.events = events_of(decl, &transition);
        }
        add_alert(self, &mut transition, now);
        (guard, transition, after)
    }

    /// Reads a task again, so that a standby has what is read; `None`: it is as it was, or at rest and damaged.
    async fn confirmed(
        &self,
        record: &TaskRecord,
        patience: &mut Patience<'_>,
    ) -> Result<Option<TaskRecord>, ChangeError> {
        let read = self.reload(record.task.id, LoadFor::Confirm, patience);
        match read.await {
            Ok(read) => Ok((read.task.rev != record.task.rev).then_some(read)),
            // What is damaged is shown as far as it can be read, and nothing of it is written.
            Err(ChangeError::Store(StoreError::Corrupt(_))) if record.task.status.is_at_rest() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A turn goes on from it.
    async fn reload(
        &self,
        task: TaskId,
        purpose: LoadFor,
        patience: &mut Patience<'_>,
    ) -> Result<TaskRecord, ChangeError> {
        patience
            .ask(|| self.ports.store.load_for(task, purpose))
            .await?
            .ok_or(ChangeError::Gone)
    }
}

/// A change that is to be written.
struct Drafted {
    guard: Guard,
    transition: Arc<Transition>,
    /// The task after it, but for its times and its lease.
    after: TaskRecord,
}

/// A change that was handed to the store and is not known to be written.
struct Tried<R> {
    by: As,
    /// Of the task as it was read first.
    epoch: Epoch,
    answer: R,
    transition: Arc<Transition>,
}

/// What a change keeps over its tries.
struct Tries<'a, R> {
    patience: Patience<'a>,
    doubts: Doubts<R>,
}
