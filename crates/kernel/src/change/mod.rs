//! The one way in which a task changes: a draft is decided on, and committed with its guard. Where
//! another writer was faster it is decided again, and a commit whose answer was lost is looked up.

pub mod announce;
pub mod events;
pub mod intents;
pub(crate) mod outbox;
pub mod transition;
pub(crate) mod unknown_commits;

use crate::change::announce::announce;
use crate::change::events::events_of;
use crate::change::transition::{Guard, Transition};
use crate::change::unknown_commits::Doubts;
use crate::draft::{As, Draft, after_commit};
use crate::engine::Engine;
use crate::payloads::encrypt_row;
use crate::ports::{CommitError, Committed, LoadFor, StoreError};
use crate::record::{DbTime, TaskRecord};
use crate::saga::Illegal;
use crate::sql::SqlRefused;
use crate::task::TaskType;
use crate::webhooks::add_webhook;
use crate::webhooks::alerts::add_alert;
use counterstep_contracts::{Rev, TaskDecl, TaskId};
use std::future::Future;
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
            // A stale change is decided again; where that is not done, another writer was faster.
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
    pub record: TaskRecord,
}

impl Engine {
    /// Decides on a task and commits, again on the newer state where another writer was faster.
    /// `decide` may be called more than once, each time with a fresh draft; a draft in which
    /// nothing happened is not committed.
    ///
    /// # Errors
    /// [`ChangeError`]; with [`StoreError::Unknown`] the change may have happened all the same.
    pub async fn change<R>(
        &self,
        task_type: &TaskType,
        record: TaskRecord,
        by: As,
        decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<Changed<R>, ChangeError> {
        self.change_for(&self.id, task_type, record, by, decide)
            .await
    }

    /// The same, with another actor in the audit.
    pub(crate) async fn change_for<R>(
        &self,
        actor: &str,
        task_type: &TaskType,
        record: TaskRecord,
        by: As,
        decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<Changed<R>, ChangeError> {
        let (changed, written) = self
            .change_unannounced(actor, task_type, record, by, decide)
            .await?;
        if let Some(transition) = written {
            announce(self, &transition, changed.record.task.updated_at).await;
        }
        Ok(changed)
    }

    /// The same without the announcement: the caller announces the transition, where one was
    /// written.
    ///
    /// # Errors
    /// [`ChangeError`]; with [`StoreError::Unknown`] the change may have happened all the same.
    pub async fn change_unannounced<R>(
        &self,
        actor: &str,
        task_type: &TaskType,
        record: TaskRecord,
        by: As,
        decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<(Changed<R>, Option<Transition>), ChangeError> {
        // The owner of a lease has a result in its hands and waits for the store as long as no other
        // host is likely to have the task; every other caller has a client waiting.
        let patience = match by {
            As::Owner => self.settings.lease_of(task_type) * 2,
            As::Anyone => Duration::ZERO,
        };
        let author = Author {
            actor,
            by,
            patience,
        };
        self.change_by(author, task_type, record, decide).await
    }

    /// The same by this author.
    pub(crate) async fn change_by<R>(
        &self,
        Author {
            actor,
            by,
            patience,
        }: Author<'_>,
        task_type: &TaskType,
        mut record: TaskRecord,
        mut decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<(Changed<R>, Option<Transition>), ChangeError> {
        let epoch = record.task.epoch;
        let mut patience = Patience::new(self, patience);
        let mut doubts = Doubts::default();
        loop {
            let mut draft = Draft::new(task_type.decl, record.clone(), actor);
            let answer = decide(&mut draft)?;
            if draft.is_empty() {
                return Ok((Changed { answer, record }, None));
            }
            if draft.keeps_condemned() {
                return Err(ChangeError::Condemned);
            }
            let (guard, mut transition) = draft.finish(self.new_change_id(), by);
            add_outgoing(self, task_type.decl, &mut transition);
            add_alert(self, &mut transition, record.now);
            let store = &self.ports.store;
            let committed = match encrypt_row(store.payload_codec(), &mut transition) {
                Ok(()) => store.commit(guard, &transition).await,
                Err(error) => Err(StoreError::from(error).into()),
            };
            match committed {
                Ok(committed) => {
                    let record = after_commit(&record, &transition, committed.now);
                    return Ok((Changed { answer, record }, Some(transition)));
                }
                Err(CommitError::Store(error @ StoreError::Unknown(_))) => {
                    if doubts.is_empty() {
                        patience.at_least(unknown_commits::patience(&transition));
                    }
                    doubts.add(answer, transition);
                    patience.wait(error).await?;
                }
                Err(CommitError::Store(error @ StoreError::Unavailable(_))) => {
                    patience.wait(error).await?
                }
                // An earlier try that was written has moved the revision, which is looked at first.
                Err(CommitError::Stale) => {}
                Err(error) => return Err(error.into()),
            }
            let (rev, was_live) = (record.task.rev, record.lease_is_live());
            record = self.reload(record.task.id, &mut patience).await?;
            let history = if doubts.need_history(&record) {
                Some(
                    patience
                        .ask(|| self.ports.store.history(record.task.id))
                        .await?,
                )
            } else {
                None
            };
            if let Some((answer, transition)) = doubts.settle(&record, history.as_ref()) {
                if unknown_commits::has_lost_its_lease(by, &transition, &record) {
                    return Err(ChangeError::Fenced);
                }
                return Ok((Changed { answer, record }, Some(transition)));
            }
            // Refused though nothing has changed, by a lease that the draft knew to be live: to try at once again would only spin.
            let held =
                by == As::Anyone && record.task.rev == rev && was_live && record.lease_is_live();
            if held || (by == As::Owner && record.task.epoch != epoch) {
                return Err(ChangeError::Fenced);
            }
        }
    }

    /// Commits the first change of a task, a receive or a submission, until the store answers: the
    /// same change is refused when it is written a second time. The flag is set where an answer was
    /// lost on the way.
    pub(crate) async fn commit_new(
        &self,
        transition: &Transition,
    ) -> (Result<DbTime, CommitError>, bool) {
        let guard = Guard::Free { rev: Rev(0) };
        let limit = unknown_commits::patience(transition);
        self.until_answered(limit, || self.ports.store.commit(guard, transition))
            .await
    }

    /// The same for those of many submissions, which are written all or none.
    pub(crate) async fn commit_all_new(
        &self,
        transitions: &[&Transition],
    ) -> (Result<DbTime, CommitError>, bool) {
        let limits = transitions.iter().map(|one| unknown_commits::patience(one));
        let limit = limits.max().unwrap_or_default();
        self.until_answered(limit, || self.ports.store.commit_all(transitions))
            .await
    }

    /// `limit`: for so long it is tried again, once an answer was lost.
    async fn until_answered<F>(
        &self,
        limit: Duration,
        commit: impl Fn() -> F,
    ) -> (Result<DbTime, CommitError>, bool)
    where
        F: Future<Output = Result<Committed, CommitError>>,
    {
        let mut patience = Patience::new(self, Duration::ZERO);
        let mut lost = false;
        loop {
            let error = match commit().await {
                Ok(committed) => return (Ok(committed.now), lost),
                Err(CommitError::Store(error @ StoreError::Unknown(_))) => error,
                Err(CommitError::Store(error @ StoreError::Unavailable(_))) if lost => error,
                Err(error) => return (Err(error), lost),
            };
            if !lost {
                patience.at_least(limit);
            }
            lost = true;
            if let Err(error) = patience.wait(error).await {
                return (Err(error.into()), lost);
            }
        }
    }

    /// A turn goes on from it.
    async fn reload(
        &self,
        task: TaskId,
        patience: &mut Patience<'_>,
    ) -> Result<TaskRecord, ChangeError> {
        patience
            .ask(|| self.ports.store.load_for(task, LoadFor::Run))
            .await?
            .ok_or(ChangeError::Gone)
    }
}

/// Adds to a change what others are told of it: its webhook, and its events where this process is to
/// publish any.
pub(crate) fn add_outgoing(engine: &Engine, decl: &TaskDecl, transition: &mut Transition) {
    add_webhook(transition);
    if !engine.settings.events || engine.ports.queue.hands_out_tasks() {
        return;
    }
    transition.events = events_of(decl, transition);
}

/// Who changes a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    /// In the audit.
    pub(crate) actor: &'a str,
    /// Under which guard.
    pub(crate) by: As,
    /// How long to retry an unavailable store.
    pub(crate) patience: Duration,
}

/// How long to put up with a store that does not answer.
struct Patience<'a> {
    engine: &'a Engine,
    until: Duration,
    pause: Duration,
}

impl<'a> Patience<'a> {
    fn new(engine: &'a Engine, limit: Duration) -> Self {
        Self {
            engine,
            until: engine.ports.clock.monotonic() + limit,
            pause: Duration::from_millis(50),
        }
    }

    /// From now on for so long at least: a change was sent, and its outcome is unknown.
    fn at_least(&mut self, limit: Duration) {
        self.until = self.until.max(self.engine.ports.clock.monotonic() + limit);
    }

    /// Asks until there is an answer.
    async fn ask<T, F>(&mut self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.wait(error).await?,
            }
        }
    }

    async fn wait(&mut self, error: StoreError) -> Result<(), StoreError> {
        if matches!(error, StoreError::Corrupt(_) | StoreError::Unsupported(_))
            || self.engine.ports.clock.monotonic() >= self.until
        {
            return Err(error);
        }
        tracing::warn!(%error, "the store did not take a change; trying again");
        self.engine.ports.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}
