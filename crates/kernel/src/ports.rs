//! What the engine needs from outside, as traits. Adapters implement them; nothing in here knows a
//! technology.
//!
//! No transaction handle leaks through: a store takes a whole
//! [`Transition`](crate::transition::Transition) and may write those of many tasks together, each
//! with its own result.

mod documents;
mod finding;
mod hints;
mod locks;
mod outside;
mod schedules;
mod sealed;
mod steps;
mod store;
mod types;
mod upkeep;
mod workers;

pub use crate::poison::{MessageSource, POISON_KEPT, Poison, PoisonRow};
pub use documents::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Documents, DuePlace,
};
pub use finding::{
    Due, DueTask, InFlight, KnownType, Lost, LostOf, TaskLine, TaskQuery, Unanswered,
};
pub use hints::{HintError, Hints};
pub use locks::{Acquired, LockError, LockTag, Locks};
pub use outside::{Method, NoServices, Outside, OutsideAnswer, OutsideError, OutsideRequest};
pub use schedules::{ScheduleQuery, ScheduleRow, Schedules};
pub use sealed::{AuditHead, SealedPage, SealedRow};
pub use steps::{CodeLabel, InTheTurn, StepRunner};
pub use store::{
    CommitError, Committed, Heartbeat, IdempotencyRow, OutboxOp, OutboxRow, Salvaged, Store,
    StoreError, Unread,
};
pub use types::{Disabled, FailureQuery, TypeRow, TypeRows};
pub use upkeep::{Leaving, Receive, ReceiveOp, Receives, RetireOp, SweepOp, Upkeep};
pub use workers::{Gauges, Passed, TaskCount, WORKERS_READ, WorkerRow, WorkerSeen, Workers};
pub(crate) use workers::{REFRESH_TAKES, refreshed_every};

use crate::record::DbTime;
use crate::scratch::{ScratchFile, ScratchPlace};
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_contracts::WorkerMessage;
use counterstep_contracts::{Epoch, Host, QueueName, Rev, TaskEvent, TaskId, TaskProgress};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::fmt::Debug;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

// ---- queue --------------------------------------------------------------------------------------

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
    /// What arrived.
    pub source: MessageSource,
    /// No host was handed it before. `false` where the queue does not know.
    pub is_first: bool,
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

/// What to do about what a queue's server has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRepair {
    /// Say it.
    Look,
    /// Make it again, and say it.
    Mend,
}

/// Wakes hosts up. A lost message only delays; a repeated one finds a task that is leased or at
/// rest.
#[async_trait]
pub trait Queue: Send + Sync + Debug {
    /// Publishes; returns once the queue has it for certain.
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError>;

    /// Up to `max` deliveries of these queues, waiting up to `wait` for the first.
    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError>;

    /// Publishes the events of a change that was committed at `at`, for other services; returns
    /// once the server that keeps them has all. Not called where it
    /// [hands out tasks](Self::hands_out_tasks).
    async fn publish_events(&self, at: DbTime, events: &[TaskEvent]) -> Result<(), QueueError> {
        let _ = (at, events);
        Err(QueueError(
            "this queue publishes no events: set `events` to false".to_owned(),
        ))
    }

    /// Settles a delivery. A delivery that is not the last one of its message any more: success.
    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError>;

    /// What is missing on the server for these queues, in words; mended, where that is asked for.
    async fn repair(
        &self,
        queues: &[QueueName],
        repair: QueueRepair,
    ) -> Result<Vec<String>, QueueError> {
        let _ = (queues, repair);
        Ok(Vec::new())
    }

    /// Whether it answers: for a readiness check.
    async fn check(&self) -> Result<(), QueueError> {
        Ok(())
    }

    /// Whether it has no messages of its own and hands out the tasks that wait in the store: then
    /// there is none that could be lost and would have to be sent again, and no other service can
    /// subscribe to anything here.
    fn hands_out_tasks(&self) -> bool {
        false
    }
}

// ---- objects and scratch ------------------------------------------------------------------------

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

/// An object, or a half-done upload of one, in a page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its declared bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Bytes; 0 for a half-done upload.
    pub size_bytes: u64,
    /// When it was stored, or the upload began: microseconds since 1970-01-01 UTC by the object
    /// store's clock.
    pub stored_at: i64,
    /// The store's own name of a half-done upload; `None`: it is whole.
    pub upload: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectPage {
    /// Objects in the order of their keys within a bucket, then half-done uploads. May be empty
    /// before the last page.
    pub objects: Vec<Listed>,
    /// So many more are not named like ours: other programs own them.
    pub foreign: u64,
    /// The object store's clock: microseconds since 1970-01-01 UTC.
    pub now: i64,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<String>,
}

/// A folder of keys in which nothing is ever stored, so that looking into it costs little.
const NOWHERE: &str = "t/readyz/";

/// Where large results live. Buckets are the declaration's names; an adapter maps them.
#[async_trait]
pub trait Objects: Send + Sync + Debug {
    /// Streams an object to its place; it is visible whole or not at all. Returns its size in
    /// bytes.
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError>;

    /// Streams an object back.
    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError>;

    /// Streams a part of an object back: the bytes of a range that lies within it and is not empty.
    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<ByteStream, ObjectError> {
        let _ = (bucket, key, range);
        Err(ObjectError::Refused(
            "these objects cannot be read in part".to_owned(),
        ))
    }

    /// Whether an object could be stored now, as far as that can be told without storing one.
    async fn check(&self) -> Result<(), ObjectError> {
        self.list(NOWHERE).next().await.transpose().map(drop)
    }

    /// Deletes everything under a prefix (a folder of keys, ending in `/`), half-done uploads too,
    /// in every bucket that the settings know. Returns how many objects there were. Nothing there
    /// is success.
    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError>;

    /// Everything under a prefix, in every bucket that the settings know, half-done uploads too.
    /// For checks and sweeps: it pages inside, and it hands over one object at a time.
    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>>;

    /// A page of what lies under a prefix (`t/`, or a folder of keys below it), behind a cursor
    /// that an earlier page gave, also in another process. At most `limit` entries, and never more
    /// than 1000.
    async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ObjectPage, ObjectError> {
        let _ = (prefix, after, limit);
        Err(ObjectError::Refused(
            "these objects cannot be listed page by page".to_owned(),
        ))
    }

    /// Deletes just these: objects and half-done uploads. One that is not there any more is
    /// success. Returns how many it was asked to delete and knows to be gone.
    async fn remove(&self, listed: &[Listed]) -> Result<u64, ObjectError> {
        let _ = listed;
        Err(ObjectError::Refused(
            "these objects cannot be removed one by one".to_owned(),
        ))
    }

    /// Streams an object to `archive/{name}` of a bucket, where no listing of pages shows it; as
    /// durable as a put.
    async fn put_aside(
        &self,
        bucket: &str,
        name: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        let _ = (bucket, name, body);
        Err(ObjectError::Refused(
            "these objects have no archive".to_owned(),
        ))
    }

    /// Moves an object to `archive/{prefix}/{key}` of its bucket, where no listing of pages shows
    /// it. It is there before it is gone here. A half-done upload cannot be moved.
    async fn set_aside(&self, listed: &Listed, prefix: &str) -> Result<(), ObjectError> {
        let _ = (listed, prefix);
        Err(ObjectError::Refused(
            "these objects cannot be moved".to_owned(),
        ))
    }
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

// ---- signals, time, chance ----------------------------------------------------------------------

/// A hint to all subscribers. Losing one only delays.
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

    /// The cancels of one task from now on. Each turn listens to its own: if it had to hear all
    /// that is sent, a hundred turns would wake up a hundred times for every change of each of
    /// them.
    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()>;
}

/// A monotonic timer. Never a calendar for decisions: that is the database's.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed point of this process.
    fn monotonic(&self) -> Duration;

    /// Milliseconds since 1970-01-01 UTC by this machine. Only ever a part of new ids, so that they
    /// sort roughly by age; never compared with anything.
    fn unix_millis(&self) -> u64;

    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Chance.
pub trait Random: Send + Sync + Debug {
    /// Evenly distributed bits.
    fn bits(&self) -> u128;
}

// ---- together -----------------------------------------------------------------------------------

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
    /// Where the code of steps runs.
    pub steps: std::sync::Arc<dyn StepRunner>,
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
