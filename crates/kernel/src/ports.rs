//! What the engine needs from outside, as traits. Adapters implement them; nothing in here knows a technology.
//!
//! No transaction handle leaks through: a store takes a whole [`Transition`] and may write those of many tasks
//! together, each with its own result.

mod finding;
mod hints;
mod locks;
mod outside;
mod schedules;

pub use crate::poison::{POISON_KEPT, Poison, PoisonRow};
pub use finding::{Due, DueTask, InFlight, KnownType, Lost, TaskLine, TaskQuery};
pub use hints::{HintError, Hints};
pub use locks::{Acquired, LockError, LockTag, Locks};
pub use outside::{Method, NoServices, Outside, OutsideAnswer, OutsideError, OutsideRequest};
pub use schedules::{ScheduleChange, ScheduleQuery, ScheduleRow, ScheduleWrite, Schedules};

use crate::record::{DbTime, History, TaskRecord};
use crate::scratch::{ScratchFile, ScratchPlace};
use crate::sql::SqlRefused;
use crate::transition::{Guard, Transition};
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_contracts::WorkerMessage;
use counterstep_contracts::{Attempt, Epoch, Host, QueueName, Rev, StepNo, TaskEvent, TaskId, TaskProgress, Tenant};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

// ---- store ---------------------------------------------------------------------------------------------------

/// A store could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It does not answer, or is busy beyond its time limit. Nothing was written.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The connection was lost while committing: written or not, nobody knows. Compare the task's `change_id`.
    #[error("the database's answer to a commit was lost: {0}")]
    Unknown(String),
    /// A row cannot be understood.
    #[error("a row cannot be read: {0}")]
    Corrupt(String),
}

/// A change was not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Another host has claimed the task since: stop at once.
    #[error("fenced: the task is at epoch {current}")]
    Fenced {
        /// The row's epoch.
        current: Epoch,
    },
    /// Somebody else changed the task: load it and judge again.
    #[error("stale: the task has changed meanwhile")]
    Stale,
    /// The idempotency key belongs to another task: read its row.
    #[error("the idempotency key is taken")]
    KeyTaken,
    /// A sweep has condemned the objects of the attempt that was to succeed.
    #[error("condemned: the attempt took longer than its objects were kept for")]
    Condemned,
    /// The schedule that the change fires has moved on: somebody else has fired it, or changed it.
    #[error("the schedule has moved on meanwhile")]
    Moved,
    /// A statement of the step's own was refused.
    #[error(transparent)]
    Sql(#[from] SqlRefused),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A change was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The database's clock in the transaction.
    pub now: DbTime,
}

/// Answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// The lease holds for another term.
    Held {
        /// A cancel was accepted meanwhile.
        cancel_requested: bool,
    },
    /// The epoch has moved on: stop.
    Lost,
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Its id.
    pub id: i64,
    /// What is to be published.
    pub content: Outgoing,
}

/// What a row of the outbox holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    /// A message for hosts.
    Work {
        /// Where to.
        queue: QueueName,
        /// What.
        message: WorkerMessage,
    },
    /// What one change tells other services.
    Events {
        /// When it was committed.
        at: DbTime,
        /// In order.
        events: Vec<TaskEvent>,
    },
}

/// Work on the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxOp {
    /// The oldest messages that nobody has published for this long; another relay does not get them meanwhile.
    Take {
        /// Age.
        older_than: Duration,
        /// At most so many.
        limit: u32,
    },
    /// These are published.
    Mark(Vec<i64>),
    /// All messages of these changes are published.
    MarkChanges(Vec<counterstep_contracts::ChangeId>),
    /// Keeps a message that nobody understands; durable when it returns. One row for each [`Poison::source`]: a
    /// repetition is success and changes nothing.
    Poison(PoisonRow),
}

/// An attempt whose objects no success has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its task; there may be no row of it, when a request never finished arriving.
    pub task: TaskId,
    /// Its step.
    pub step: StepNo,
    /// Which way.
    pub direction: counterstep_contracts::Direction,
    /// Its number.
    pub attempt: Attempt,
    /// Where its objects lie.
    pub prefix: String,
    /// For how long a sweep might have taken them already.
    pub overdue: Duration,
}

/// Work on intents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentOp {
    /// The oldest open intents whose time to be swept has come, and condemned ones that were not yet swept. Reads only.
    Overdue {
        /// At most so many.
        limit: u32,
    },
    /// From now on no success can keep them. Returns those that were open or condemned: only they may be deleted.
    Condemn(Vec<Intent>),
    /// Their prefixes are empty.
    Swept(Vec<Intent>),
}

/// The row of a client's idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub struct IdempotencyRow {
    /// The task that the key's first request made, or is making.
    pub task: TaskId,
    /// Digest of the request and the answer's body; `None` while the request still arrives.
    pub finished: Option<(String, Value)>,
}

/// A task of which not everything can be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Salvaged {
    /// What can be: its state, and that of its steps. In place of a value that is none stands `Null` or nothing; a step
    /// whose state is unreadable is in doubt, and an undo whose goal is unreadable ends as cancelled where a cancel was
    /// accepted.
    pub record: TaskRecord,
    /// What cannot be. Nothing: it is whole.
    pub unreadable: Vec<Unread>,
}

/// A column that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unread {
    /// Which, and why, without what it holds.
    pub what: String,
    /// What it holds; of a long one the beginning.
    pub held: String,
}

/// The durable truth. Fourteen methods, each atomic.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// A task with its steps; `None`: there is none.
    async fn load(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError>;

    /// A task as far as it can be read. An error where not even its state can be.
    async fn salvage(&self, task: TaskId) -> Result<Option<Salvaged>, StoreError>;

    /// The one door: writes a change whole, or not at all.
    async fn commit(&self, guard: Guard, transition: &Transition) -> Result<Committed, CommitError>;

    /// Prolongs a lease by `ttl` from the database's now. The only write that leaves `rev` alone.
    async fn heartbeat(&self, task: TaskId, epoch: Epoch, ttl: Duration) -> Result<Heartbeat, StoreError>;

    /// Tasks that somebody should look at, the oldest first, at most `limit`.
    async fn due(&self, due: &Due, limit: u32) -> Result<Vec<DueTask>, StoreError>;

    /// Keeps lost tasks for this caller for so long: other reconcilers pass them over. Returns those that are still lost
    /// and that nobody else holds. It only spares others the work; what becomes of a task its revision decides.
    async fn hold(&self, lost: &[TaskId], ttl: Duration) -> Result<Vec<TaskId>, StoreError>;

    /// A page, the newest first.
    async fn list(&self, query: &TaskQuery) -> Result<Vec<TaskLine>, StoreError>;

    /// Tasks that have not ended, counted by what they were submitted under; in the order of that.
    async fn in_flight(&self) -> Result<Vec<InFlight>, StoreError>;

    /// Audit entries and attempts of a task.
    async fn history(&self, task: TaskId) -> Result<History, StoreError>;

    /// Takes or marks messages, or keeps poison. Only a take returns any.
    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError>;

    /// Finds, condemns or closes intents.
    async fn intents(&self, op: IntentOp) -> Result<Vec<Intent>, StoreError>;

    /// The unexpired row of a client's key.
    async fn idempotency(&self, tenant: &Tenant, key: &str) -> Result<Option<IdempotencyRow>, StoreError>;

    /// Schedules, and the time at which they were read.
    async fn schedules(&self, query: &ScheduleQuery) -> Result<Schedules, StoreError>;

    /// Changes a schedule that does nothing else; what fires one is a [`commit`](Self::commit). `false`: it was changed
    /// meanwhile, or is gone, and nothing was written.
    async fn change_schedule(&self, change: &ScheduleChange) -> Result<bool, StoreError>;
}

// ---- queue ---------------------------------------------------------------------------------------------------

/// A queue could not answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the queue does not answer: {0}")]
pub struct QueueError(pub String);

/// Names one delivery to its queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeliveryTag(pub String);

/// A message that was handed to this host.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// To settle it by.
    pub tag: DeliveryTag,
    /// From which of the queues.
    pub queue: QueueName,
    /// The message.
    pub message: Result<WorkerMessage, Poison>,
}

/// What becomes of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// Done with.
    Ack,
    /// Deliver it again, after this long.
    Nak(Duration),
    /// Still at it: wait longer before a redelivery.
    Progress,
    /// Never deliver it again.
    Term(String),
}

/// Wakes hosts up. A lost message only delays; a repeated one finds a task that is leased or at rest.
#[async_trait]
pub trait Queue: Send + Sync + Debug {
    /// Publishes; returns once the queue has it for certain.
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError>;

    /// Up to `max` deliveries of these queues, waiting up to `wait` for the first.
    async fn fetch(&self, queues: &[QueueName], max: usize, wait: Duration) -> Result<Vec<Delivery>, QueueError>;

    /// Publishes what a change that was committed at `at` tells other services; returns once whoever keeps events for
    /// them has all. Only called where [`reads_the_outbox`](Self::reads_the_outbox) says no.
    async fn publish_events(&self, at: DbTime, events: &[TaskEvent]) -> Result<(), QueueError> {
        let _ = (at, events);
        Err(QueueError("this queue publishes no events: set `events` to false".to_owned()))
    }

    /// Settles a delivery. A delivery that is not the last one of its message any more: success.
    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError>;

    /// Whether it answers: for a readiness check.
    async fn check(&self) -> Result<(), QueueError> {
        Ok(())
    }

    /// Whether the queue itself keeps the outbox rows it has delivered apart from the others, so that neither the fast
    /// path nor the relay has anything to mark.
    fn reads_the_outbox(&self) -> bool {
        false
    }
}

// ---- objects and scratch -------------------------------------------------------------------------------------

/// Bytes on their way.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// An object store could not do it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ObjectError {
    /// No such object.
    #[error("there is no object `{0}`")]
    NotFound(String),
    /// The stream that was to be stored broke off.
    #[error("the source of the object broke off: {0}")]
    Source(String),
    /// The settings know no such bucket, or the key is not acceptable.
    #[error("{0}")]
    Refused(String),
    /// It does not answer, or answers with an error that may pass.
    #[error("the object store does not answer: {0}")]
    Unavailable(String),
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its declared bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Bytes.
    pub size_bytes: u64,
}

/// Where large results live. Buckets are the declaration's names; an adapter maps them.
#[async_trait]
pub trait Objects: Send + Sync + Debug {
    /// Streams an object to its place; it is visible whole or not at all. Returns its size in bytes.
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError>;

    /// Streams an object back.
    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError>;

    /// Deletes everything under a prefix (a folder of keys, ending in `/`), half-done uploads too, in every bucket that
    /// the settings know. Returns how many objects there were. Nothing there is success.
    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError>;

    /// Everything under a prefix, in every bucket that the settings know, half-done uploads too. For checks and
    /// sweeps: it pages inside, and it hands over one object at a time.
    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>>;
}

/// What a scratch file turned out to be when it was finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes.
    pub size_bytes: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

/// Local files of this host.
#[async_trait]
pub trait Scratch: Send + Sync + Debug {
    /// Makes an empty file for writing.
    async fn create(&self, place: &ScratchPlace, name: &str) -> std::io::Result<PathBuf>;

    /// Measures a written file and moves it to the place that its content names.
    async fn seal(&self, place: &ScratchPlace, path: &std::path::Path) -> std::io::Result<Sealed>;

    /// The path of a finished file; `None`: this host does not have it (any more).
    async fn locate(&self, task: TaskId, file: &ScratchFile) -> std::io::Result<Option<PathBuf>>;

    /// Streams a local file.
    async fn read(&self, path: &std::path::Path) -> std::io::Result<ByteStream>;

    /// Removes all scratch of a task. Nothing there is success.
    async fn remove(&self, task: TaskId) -> std::io::Result<()>;

    /// Tasks that have scratch on this host.
    async fn tasks(&self) -> std::io::Result<Vec<TaskId>>;
}

// ---- signals, time, chance -----------------------------------------------------------------------------------

/// A hint to whoever listens. Losing one only delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A cancel was accepted: tell the running step.
    CancelRequested(TaskId),
    /// The task changed, and goes on.
    Changed(TaskId),
    /// The task changed and is at rest now: what most listeners wait for.
    Rests(TaskId),
    /// How far its running steps have come. Nothing about the task's state has changed.
    Progress(std::sync::Arc<TaskProgress>),
}

/// Hints between processes.
pub trait Signals: Send + Sync + Debug {
    /// Sends; never waits.
    fn send(&self, signal: Signal);

    /// Everything sent from now on. May skip some under load.
    fn subscribe(&self) -> BoxStream<'static, Signal>;

    /// The cancels of one task from now on. Each turn listens to its own: if it had to hear all that is sent, a hundred
    /// turns would wake up a hundred times for every change of each of them.
    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()>;
}

/// A monotonic timer. Never a calendar for decisions: that is the database's.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed point of this process.
    fn monotonic(&self) -> Duration;

    /// Milliseconds since 1970-01-01 UTC by this machine. Only ever a part of new ids, so that they sort roughly by
    /// age; never compared with anything.
    fn unix_millis(&self) -> u64;

    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Chance.
pub trait Random: Send + Sync + Debug {
    /// Evenly distributed bits.
    fn bits(&self) -> u128;
}

// ---- together ------------------------------------------------------------------------------------------------

/// All ports of a process.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Truth.
    pub store: std::sync::Arc<dyn Store>,
    /// Wake-ups.
    pub queue: std::sync::Arc<dyn Queue>,
    /// Side effects.
    pub objects: std::sync::Arc<dyn Objects>,
    /// Local files.
    pub scratch: std::sync::Arc<dyn Scratch>,
    /// Locks of tasks. They spare work and decide nothing.
    pub locks: std::sync::Arc<dyn Locks>,
    /// What processes tell each other to spare the store a question.
    pub hints: std::sync::Arc<dyn Hints>,
    /// Wake-ups between processes that may get lost.
    pub signals: std::sync::Arc<dyn Signals>,
    /// Services that steps call.
    pub outside: std::sync::Arc<dyn Outside>,
    /// Timer.
    pub clock: std::sync::Arc<dyn Clock>,
    /// Chance.
    pub random: std::sync::Arc<dyn Random>,
}

/// The lease of a claimed task, as its holder knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Of which task.
    pub task: TaskId,
    /// Fence number of the claim.
    pub epoch: Epoch,
    /// The last revision that the holder wrote or read.
    pub rev: Rev,
    /// Where the holder runs.
    pub host: Host,
    /// How long it holds without a heartbeat.
    pub ttl: Duration,
}
