//! The port of the database: what a store answers, and what may go wrong.

use super::children::{ChildLine, ChildQuery, Relatives};
use super::counts::{Count, Counted};
use super::documents::{DocumentQuery, DocumentWrite, Documents, DocumentsPut};
use super::errors::{CommitError, StoreError};
use super::finding::{Find, Revisions, RevisionsOf, TaskHead, TaskList, TaskPage};
use super::journal::{ChainRow, ChainTip, JournalPage};
use super::logs::Logs;
use super::places::{PlaceQuery, PlaceRow};
use super::upkeep::Upkeep;
use crate::change::transition::{Guard, Transition};
use crate::record::{DbTime, TaskRecord};
use async_trait::async_trait;
use counterstep_contracts::{Epoch, Rev, TaskEvent, TaskId, Tenant};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

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

/// A row of the outbox: what one change tells other services.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Id of the row.
    pub id: i64,
    /// When the change was committed.
    pub at: DbTime,
    /// Events in the order in which they happened.
    pub events: Vec<TaskEvent>,
}

/// Work on the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxOp {
    /// The oldest rows that were not published for this long; another relay does not get them
    /// meanwhile.
    Take {
        /// Age.
        older_than: Duration,
        /// Maximum number of them.
        limit: u32,
    },
    /// These are published: they are deleted.
    Published(Vec<i64>),
    /// The events of these changes are published: their rows are deleted.
    PublishedOf(Vec<counterstep_contracts::ChangeId>),
}

/// The row of a client's idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub struct IdempotencyRow {
    /// The task that the key's first request made, or is making.
    pub task: TaskId,
    /// While the request still arrives, the process that receives it; `None`: unknown.
    pub owner: Option<String>,
    /// Digest of the request and the answer's body; `None` while the request still arrives.
    pub finished: Option<(String, Value)>,
}

/// What a task is loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFor {
    /// To show it, or to decide what its state alone decides.
    Look,
    /// To run its steps: what was handed in is held against the digests in the journal, and damage is refused.
    Run,
    /// As `Run`, to learn whether a change without an answer was written: where the database has a standby, it has what is
    /// read, as it has what was committed.
    Confirm,
    /// For its state alone: without what was handed in, that is no request, outputs, signals or response.
    State,
    /// To take what can be read: damage is noted in [`Loaded::unreadable`], and refused only where not even the state can be read.
    Salvage,
}

/// A task as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Its state, and what the readable rows of its journal say of its steps. Where it was salvaged, in place
    /// of a value that is none stands `Null` or nothing; a step that runs where a row cannot be
    /// read is in doubt, and an undo whose goal is unreadable ends as cancelled where a cancel was
    /// accepted.
    pub record: TaskRecord,
    /// What cannot be read. Nothing: it is whole.
    pub unreadable: Vec<Unread>,
}

/// A task that was asked for, as far as it can be read.
pub type LoadedTask = (TaskId, Result<Loaded, StoreError>);

/// A column, or a row of the journal, that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unread {
    /// Which, and why, without what it holds.
    pub what: String,
    /// What it holds; of a long one the beginning.
    pub held: String,
}

/// A time of tasks that is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    /// Reserves lost tasks for this caller for a time: other reconcilers skip them. Touches those that are
    /// still lost and that no other reconciler has reserved. It only saves others the work; the outcome of a
    /// task is decided by its revision.
    Reserve {
        /// Ids of the tasks.
        lost: Vec<TaskId>,
        /// For how long.
        ttl: Duration,
    },
    /// Puts off the next sweep of these tasks, as far as they can be locked at once: this sweep cannot read
    /// them.
    PutOff {
        /// Ids of the tasks.
        tasks: Vec<TaskId>,
        /// For how long.
        by: Duration,
    },
    /// Makes a task due now that sleeps: waits for tasks that it has submitted, or for a place, or is
    /// between two undos, without a lease and with a due time ahead.
    Wake(TaskId),
}

/// A task that was touched, as far as a message needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Id of the task.
    pub task: TaskId,
    /// Declared name of its type.
    pub task_type: String,
    /// Version of its type; `None`: it cannot be read.
    pub version: Option<u32>,
    /// Its revision.
    pub rev: Rev,
    /// The queue of the host that is to claim it.
    pub queue: String,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// Maximum successors that are read of a task: the newest ones that run it again.
pub const MOST_SUCCESSORS: u32 = 20;

/// One of the servers that the settings name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerInUse {
    /// Its position among them, from 1.
    pub position: usize,
    /// How many there are.
    pub of: usize,
}

/// A database. Each method is atomic. What sweeps alone ask is [`Upkeep`], what steps log is [`Logs`]. The engine sees it through [`Store`](super::Store) alone.
#[async_trait]
pub trait Storage: Upkeep + Logs + Send + Sync + Debug {
    /// Tasks with their steps, each seen in one moment, in any order. Those that are not there are left out; one that cannot be
    /// read is no trouble of the others.
    async fn load(&self, tasks: &[TaskId], purpose: LoadFor)
    -> Result<Vec<LoadedTask>, StoreError>;

    /// The one way to change tasks: writes a change whole, or not at all. Several changes are the first ones of different
    /// tasks, of which none is there yet, and are written in one transaction, or none of them: refused as stale where one of
    /// the tasks is there, and where one of the keys is taken.
    async fn commit(
        &self,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError>;

    /// Prolongs a lease by `ttl` from the database's now. Leaves `rev` alone.
    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError>;

    /// Tasks for the caller to look at, at most `limit`. One whose id cannot be read is left out.
    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError>;

    /// Moves a time of tasks, where that is allowed, and leaves `rev` alone. Returns those that were touched. It need not be
    /// on the disk: what a power cut undoes is done again.
    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError>;

    /// Tasks as lists show them. One that cannot be read is left out.
    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError>;

    /// Counts tasks.
    async fn count(&self, what: Count) -> Result<Counted, StoreError>;

    /// A page of rows of journals as they lie there, in the order of task and place, each with what
    /// its task's row says of them in the same moment. Also rows of tasks that are not there, and
    /// what no other method could read.
    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError>;

    /// A page of what tasks' rows say of their journal, by task.
    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError>;

    /// At which revisions tasks are, all seen in one moment. Of tasks that ended in the order of
    /// their end, of others in any.
    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError>;

    /// Takes or deletes events. Only a take returns any.
    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError>;

    /// The unexpired row of a client's key.
    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError>;

    /// Documents, and the time at which they were read.
    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError>;

    /// Writes or deletes documents in this order: all of them in one transaction, or none. On the disk when it answers, where one
    /// of the kinds [is durable](super::DocumentKind::is_durable). A schedule that fires is part of a [`commit`](Self::commit).
    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError>;

    /// Tasks that stand in a relation to others.
    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError>;

    /// A page of the tasks that a task has submitted, in the order of step and place.
    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError>;

    /// Tasks that are counted with others of a key, and the places that they hold.
    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError>;

    /// Which server it uses, where it may have several; answered from memory.
    fn server_in_use(&self) -> Option<ServerInUse> {
        None
    }
}
