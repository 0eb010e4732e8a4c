//! The engine of a process: its ports, its task types, its settings, and the one way in which it
//! changes a task.

use crate::disable::Gate;
use crate::doubt::{self, Doubts};
use crate::draft::{As, Draft, after_commit};
use crate::faults::Fault;
use crate::isolation::Isolation;
use crate::orphans::OrphanSettings;
use crate::outbox::{Published, Stall};
use crate::output_limit::OutputLimit;
use crate::policies::Policies;
use crate::ports::{CommitError, Ports, QueueError, StoreError};
use crate::presence::Presence;
use crate::record::{DbTime, TaskRecord};
use crate::retention::RetentionSettings;
use crate::saga::Illegal;
use crate::sql::SqlRefused;
use crate::task::{Registry, TaskType};
use crate::transition::{Guard, Transition};
use crate::turn::Heavy;
use counterstep_contracts::{ChangeId, Rev, TaskId};
use futures::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A service that decides nothing may take so long to answer, whatever its adapter's own limit is.
const ADVICE_LIMIT: Duration = Duration::from_millis(250);

/// So long a turn or a request waits for the queue. What it says is durable by then, or comes
/// again; and a process that is to stop has little time for it.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);

/// What a process may set.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Lease of types that declare none.
    pub lease: Duration,
    /// Limit of one attempt of steps that declare none.
    pub step_timeout: Duration,
    /// No attempt gets longer than this, whatever its step declares. For tests, which would wait
    /// for a hanging step.
    pub longest_attempt: Option<Duration>,
    /// Limit of a request's arrival, uploads included.
    pub upload_timeout: Duration,
    /// A step whose token was cancelled may go on for so long before it is dropped.
    pub cancel_grace: Duration,
    /// On shutdown, running steps may go on for so long before their tokens are cancelled.
    pub drain: Duration,
    /// How long the answer to an idempotency key is kept.
    pub idempotency_ttl: Duration,
    /// Whether every change is told to other services, too: one more outbox row a change.
    pub events: bool,
    /// Not seen by the database for so long, this process is listed as lost. It refreshes its
    /// row three times as often.
    pub lost_after: Duration,
    /// The name of the machine.
    pub machine: String,
    /// The version of the program.
    pub program: String,
    /// How large an output, a response or a signal may be.
    pub output_limit: OutputLimit,
    /// The retry policies and breakers in effect.
    pub policies: Arc<Policies>,
    /// What becomes of orphans, and how often they are looked for.
    pub orphans: OrphanSettings,
    /// How long tasks that have ended are kept.
    pub retention: RetentionSettings,
    /// So many steps that are declared heavy run side by side in this process; at least 1.
    pub heavy: usize,
    /// Planted faults.
    pub faults: Vec<Fault>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            step_timeout: Duration::from_secs(600),
            longest_attempt: None,
            upload_timeout: Duration::from_secs(900),
            cancel_grace: Duration::from_secs(5),
            drain: Duration::from_secs(10),
            idempotency_ttl: Duration::from_secs(24 * 3600),
            events: false,
            lost_after: Duration::from_secs(45),
            machine: "unnamed".to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            output_limit: OutputLimit::default(),
            policies: Arc::default(),
            orphans: OrphanSettings::default(),
            retention: RetentionSettings::default(),
            heavy: 2,
            faults: Vec::new(),
        }
    }
}

/// Ports, task types and settings of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    /// What it runs on.
    pub ports: Ports,
    /// What it can run.
    pub registry: Arc<Registry>,
    /// How.
    pub settings: Arc<EngineSettings>,
    /// Names this start of this process in leases and audit entries.
    pub id: Arc<str>,
    /// Whose events were published and still stand in the outbox.
    pub(crate) published: Arc<Published>,
    /// Whether the queue left a brief announcement without an answer.
    pub(crate) stall: Arc<Stall>,
    /// Which task types were disabled a moment ago.
    pub(crate) gate: Arc<Gate>,
    /// What it says of itself.
    pub(crate) presence: Arc<Presence>,
    /// Which turns may run beside each other.
    pub(crate) isolation: Arc<Isolation>,
    /// Its room for heavy steps.
    pub(crate) heavy: Arc<Heavy>,
}

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
            CommitError::Sql(refused) => Self::Sql(refused),
            CommitError::Store(error) => Self::Store(error),
        }
    }
}

/// A change that happened.
#[derive(Debug)]
pub(crate) struct Changed<R> {
    pub(crate) answer: R,
    pub(crate) record: TaskRecord,
}

impl Engine {
    /// Of ports, types and settings. `role` is part of its id: `worker`, `api`, `reconciler`.
    #[must_use]
    pub fn new(
        ports: Ports,
        registry: Arc<Registry>,
        settings: EngineSettings,
        role: &str,
    ) -> Self {
        let heavy = Arc::new(Heavy::new(settings.heavy));
        let id = format!("{role}:{:012x}", ports.random.bits() & 0xffff_ffff_ffff);
        Self {
            ports,
            registry,
            settings: Arc::new(settings),
            id: id.into(),
            published: Arc::default(),
            stall: Arc::default(),
            gate: Arc::default(),
            presence: Arc::default(),
            isolation: Arc::default(),
            heavy,
        }
    }

    /// A new task id.
    #[must_use]
    pub fn new_task_id(&self) -> TaskId {
        let bytes = self.ports.random.bits().to_be_bytes();
        let mut tail = [0; 10];
        tail.copy_from_slice(&bytes[..10]);
        TaskId(
            uuid::Builder::from_unix_timestamp_millis(self.ports.clock.unix_millis(), &tail)
                .into_uuid(),
        )
    }

    /// A new change id.
    #[must_use]
    pub fn new_change_id(&self) -> ChangeId {
        ChangeId(Uuid::from_u128(self.ports.random.bits()))
    }

    /// The lease of a type's tasks.
    #[must_use]
    pub(crate) fn lease_of(&self, task_type: &TaskType) -> Duration {
        task_type.decl.lease.unwrap_or(self.settings.lease)
    }

    /// Decides on a task and commits, again on the newer state where another writer was faster.
    /// `decide` may be called more than once, each time with a fresh draft; a draft in which
    /// nothing happened is not committed.
    pub(crate) async fn change<R>(
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
            .change_untold(actor, task_type, record, by, decide)
            .await?;
        if let Some(transition) = written {
            self.announce(&transition, changed.record.task.updated_at)
                .await;
        }
        Ok(changed)
    }

    /// The same without the announcement: the caller announces the transition, where one was
    /// written.
    pub(crate) async fn change_untold<R>(
        &self,
        actor: &str,
        task_type: &TaskType,
        mut record: TaskRecord,
        by: As,
        mut decide: impl FnMut(&mut Draft) -> Result<R, Illegal>,
    ) -> Result<(Changed<R>, Option<Transition>), ChangeError> {
        let epoch = record.task.epoch;
        let mut patience = Patience::new(self, by, self.lease_of(task_type));
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
            self.add_events(task_type.decl, &mut transition);
            match self.ports.store.commit(guard, &transition).await {
                Ok(committed) => {
                    let record = after_commit(&record, &transition, committed.now);
                    return Ok((Changed { answer, record }, Some(transition)));
                }
                Err(CommitError::Store(error @ StoreError::Unknown(_))) => {
                    if doubts.is_empty() {
                        patience.at_least(doubt::patience(&transition));
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
            let rev = record.task.rev;
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
                if doubt::has_lost_its_lease(by, &transition, &record) {
                    return Err(ChangeError::Fenced);
                }
                return Ok((Changed { answer, record }, Some(transition)));
            }
            // Refused though nothing has changed: a lease that the draft took for over is live. To
            // try at once again would only spin.
            let held = by == As::Anyone && record.task.rev == rev && record.lease_is_live();
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
        let mut patience = Patience::new(self, As::Anyone, Duration::ZERO);
        let mut lost = false;
        loop {
            let error = match self.ports.store.commit(guard, transition).await {
                Ok(committed) => return (Ok(committed.now), lost),
                Err(CommitError::Store(error @ StoreError::Unknown(_))) => error,
                Err(CommitError::Store(error @ StoreError::Unavailable(_))) if lost => error,
                Err(error) => return (Err(error), lost),
            };
            if !lost {
                patience.at_least(doubt::patience(transition));
            }
            lost = true;
            if let Err(error) = patience.wait(error).await {
                return (Err(error.into()), lost);
            }
        }
    }

    async fn reload(
        &self,
        task: TaskId,
        patience: &mut Patience<'_>,
    ) -> Result<TaskRecord, ChangeError> {
        patience
            .ask(|| self.ports.store.load(task))
            .await?
            .ok_or(ChangeError::Gone)
    }

    /// The answer of a service that decides nothing, if it comes in time.
    pub(crate) async fn advised<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        match select(pin!(answer), self.ports.clock.sleep(ADVICE_LIMIT)).await {
            Either::Left((answer, _)) => Some(answer),
            Either::Right(_) => None,
        }
    }

    /// The queue's answer, or that there was none in time.
    pub(crate) async fn patiently(
        &self,
        answer: impl Future<Output = Result<(), QueueError>>,
    ) -> Result<(), QueueError> {
        match select(pin!(answer), self.ports.clock.sleep(QUEUE_LIMIT)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(QueueError(format!("no answer within {QUEUE_LIMIT:?}"))),
        }
    }
}

/// How long to put up with a store that does not answer. The owner of a lease has a result in its
/// hands and waits for the store as long as no other host is likely to have the task; every other
/// caller has a client waiting.
struct Patience<'a> {
    engine: &'a Engine,
    until: Duration,
    pause: Duration,
}

impl<'a> Patience<'a> {
    fn new(engine: &'a Engine, by: As, lease: Duration) -> Self {
        let limit = match by {
            As::Owner => lease * 2,
            As::Anyone => Duration::ZERO,
        };
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
        if matches!(error, StoreError::Corrupt(_) | StoreError::Newer(_))
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
