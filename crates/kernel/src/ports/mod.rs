//! What the engine needs from outside, as traits. Adapters implement them; nothing in here knows a
//! technology.
//!
//! No transaction handle leaks through: a store takes a whole
//! [`Transition`](crate::change::transition::Transition) and may write those of many tasks together, each
//! with its own result.

mod activity;
mod api_keys;
mod children;
mod counts;
mod documents;
mod errors;
mod finding;
mod journal;
mod locks;
mod logs;
mod payloads;
mod places;
mod processes;
mod recorder;
mod runtime;
mod schedules;
mod spool;
mod statement;
mod steps;
mod store;
mod traces;
mod types;
mod upkeep;
mod workers;

pub use crate::dead_letters::poison::{MessageSource, POISON_KEPT, Poison};
pub use crate::store::Store;
pub use activity::{Activity, EndedTurn, QueueFlow, RECENT_TURNS, RunningTurn, TasksMoved};
pub use api_keys::{ApiKeyRow, ApiKeyRows};
pub use children::{ChildCount, ChildLine, ChildQuery, Relatives};
pub use counterstep_steps::ports::{
    ByteStream, HintError, Hints, HttpServices, Listed, Method, NoServices, ObjectError,
    ObjectInfo, ObjectPage, Objects, Scratch, ServiceAnswer, ServiceError, ServiceRequest,
};
pub use counterstep_steps::scratch::Sealed;
pub use counterstep_steps::task::KnownType;
pub use counts::{Count, Counted, LabelQuery};
pub use documents::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Documents, DocumentsPut,
    DuePlace,
};
pub use errors::{CommitError, StoreError};
pub use finding::{
    FailureFilter, Find, InFlight, ListOrder, Lost, LostOf, Revisions, RevisionsOf, SEEN_WITHIN,
    TaskHead, TaskLine, TaskList, TaskPage, TaskQuery, TaskRevision, Unclaimed, first_id_at,
};
pub use journal::{ChainRow, ChainTip, JournalPage, Lane};
pub use locks::{Acquired, LockError, LockTag, Locks};
pub use logs::{LogRow, LogWrite, Logs, MOST_LOG_BYTES, MOST_LOG_LINES};
pub use payloads::{ENCRYPTED, PayloadCodec, PayloadError};
pub use places::{First, PlaceCount, PlaceQuery, PlaceRow};
pub use processes::{CodePart, IsolatedCode, StepProcesses};
pub use recorder::{NoRecorder, Observation, Recorder, SpoolOutcome, SubmissionOutcome};
pub use runtime::PortsRuntime;
pub use schedules::{ScheduleQuery, ScheduleRow, Schedules};
pub use spool::{Spool, SpoolEntry, SpoolError, SpoolKey, SpoolStats};
pub use statement::{ForeignTransactions, KEY_TAKEN, SqlStatement};
pub use steps::{CodeLabel, InTheTurn, StepRunner};
pub use store::{
    Committed, Heartbeat, IdempotencyRow, LoadFor, Loaded, LoadedTask, MOST_SUCCESSORS, OutboxOp,
    OutboxRow, ServerInUse, Storage, Touch, Touched, Unread,
};
pub use traces::{NoTraces, Traces};
pub use types::{Disabled, FailureQuery, TypeRow, TypeRows, WaitingQuery};
pub use upkeep::{EndedTask, PurgeOp, Receive, ReceiveOp, Receives, Upkeep};
pub use workers::{
    DeniedConsumer, FetchError, Flow, FlowQuery, Gauges, KeptResults, MOST_LABEL_VALUES,
    MOST_PARKED_TYPES, OTHER, ParkedCount, Passed, TaskCount, WORKERS_READ, WorkerRow, WorkerSeen,
    Workers,
};
pub(crate) use workers::{REFRESH_TAKES, refreshed_every};

use crate::record::DbTime;
use async_trait::async_trait;
use counterstep_contracts::WorkerMessage;
use counterstep_contracts::{Epoch, Host, QueueName, Rev, TaskEvent, TaskId, TaskProgress};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::fmt::Debug;
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

    /// How long a delivery may be neither settled nor extended before it is delivered again.
    fn ack_wait(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Gives back what was asked for and not fetched yet, so that other hosts get it at once. For
    /// the end of a host: nothing is fetched afterwards. May last as long as the longest wait that
    /// a fetch was given.
    async fn release(&self) {}

    /// What is missing on the server for these queues, as text; mended, where that is asked for.
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

    /// What the server has refused this process lately for want of a right, as it would stand in the rules. Sends no request.
    fn refused(&self) -> Vec<String> {
        Vec::new()
    }

    /// The lanes that nothing can be fetched from for want of a right to their consumers, as far as fetches have shown. Sends no
    /// request.
    fn denied_consumers(&self) -> Vec<FetchError> {
        Vec::new()
    }

    /// Whether it has no messages of its own and hands out the tasks that wait in the store: then
    /// there is none that could be lost and would have to be sent again, and no other service can
    /// subscribe to anything here.
    fn hands_out_tasks(&self) -> bool {
        false
    }
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

    /// Milliseconds since 1970-01-01 UTC by this machine. A part of new ids, so that they sort roughly
    /// by age, and what webhooks say of when they were sent; compared with nothing but the times in access tokens and links
    /// to results, which clients bring, and with itself: to see that it moved and the timer did not.
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
    /// The database.
    pub store: Store,
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
    pub services: std::sync::Arc<dyn HttpServices>,
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
    /// Id of the task.
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
