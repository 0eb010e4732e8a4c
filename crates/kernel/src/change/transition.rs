//! A durable change as data. Deciding made it (see `draft`); a store writes it in one transaction
//! and decides nothing. Times in it are relative: the store adds them to the database's own `now`.

use crate::audit::{ContentHash, EntryHash};
use crate::ports::DocumentWrite;
use crate::record::{AuditEntry, DbTime, StepFailure, StepRow, TaskRow};
use crate::sql::Sql;
use counterstep_contracts::{
    Attempt, ChangeId, Direction, Epoch, Outcome, QueueName, Rev, StepNo, TaskEvent, TaskId,
    Tenant, WorkerMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Under what condition a change may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// By the host that runs the task: epoch and revision must both be these.
    Lease {
        /// The epoch of its claim.
        epoch: Epoch,
        /// The revision on which it decided.
        rev: Rev,
    },
    /// By anyone else (submit, cancel, claim, take-back, operator): the revision must be this one.
    /// [`Rev`] 0: there is no row yet.
    Free {
        /// The revision on which it was decided.
        rev: Rev,
    },
}

/// A change to a relative point of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// The time stays as it was.
    #[default]
    Keep,
    /// The time is removed.
    Clear,
    /// This long after the database's `now`.
    In(Duration),
}

/// What happens to the lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LeaseChange {
    /// The lease stays as it was.
    #[default]
    Keep,
    /// Claimed, for the time of `lease`. The store refuses it (as stale) while another lease is live by the
    /// database's clock.
    Take {
        /// Host that takes the lease.
        owner: String,
        /// How long without a heartbeat.
        ttl: Duration,
    },
    /// Given back, or taken from an owner whose lease ran out.
    Release,
}

/// The task row after the change.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWrite {
    /// The new row, `rev` already incremented; its times and its lease columns are ignored in
    /// favour of those below, and its seal in favour of that of the change's row in the journal.
    pub row: Box<TaskRow>,
    /// The lease.
    pub lease: LeaseChange,
    /// A take-back needs the old lease to have run out by the database's clock; the store refuses
    /// it as stale if not.
    pub needs_expired_lease: bool,
    /// Whether the labels are written anew, which no change of a task that can be read does.
    pub writes_labels: bool,
    /// Due time.
    pub due: Time,
    /// Deadline.
    pub deadline: Time,
    /// `cancel_requested_at`; only ever set once.
    pub cancel_requested: Time,
    /// `finished_at`; set on reaching a terminal state.
    pub finished: Time,
}

impl TaskWrite {
    /// A row whose lease and times stay.
    #[must_use]
    pub fn new(row: impl Into<Box<TaskRow>>) -> Self {
        Self {
            row: row.into(),
            lease: LeaseChange::Keep,
            needs_expired_lease: false,
            writes_labels: false,
            due: Time::Keep,
            deadline: Time::Keep,
            cancel_requested: Time::Keep,
            finished: Time::Keep,
        }
    }
}

/// What becomes of the objects of an attempt that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectsFate {
    /// They are now an output. Only a success keeps any.
    Output,
    /// No output refers to them, if there are any: a sweep checks.
    Nothing,
    /// The attempt stored none, so no sweep checks. Only a successful attempt is sure of that.
    None,
}

impl ObjectsFate {
    /// Of a success whose output the stored objects are.
    #[must_use]
    pub const fn when(stored: bool) -> Self {
        if stored { Self::Output } else { Self::None }
    }
}

/// What becomes of the row of a task in `places`, which is there while the task is counted and not at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceWrite {
    /// It holds this place, or waits for one. The store refuses a number that another task of the key
    /// has, with [`CommitError::PlaceTaken`](crate::ports::CommitError::PlaceTaken).
    Put {
        /// Concurrency key.
        key: String,
        /// The number of its place; `None`: it waits.
        no: Option<u32>,
        /// When the task was submitted; `None`: it is submitted now.
        since: Option<DbTime>,
    },
    /// It is at rest.
    Leave {
        /// Concurrency key; empty where that cannot be read.
        key: String,
        /// The number of the place that it held.
        no: Option<u32>,
    },
}

/// What becomes of the row of a receive, which stands for the files of a request until they have a
/// task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveWrite {
    /// Before the first file is stored. Comes without a task.
    Begun {
        /// Tenant that sent the request.
        tenant: Tenant,
        /// From then on a sweep may condemn it.
        sweep_after: Duration,
    },
    /// Its files belong to the task that is submitted now: the row goes. Where a sweep has
    /// condemned it, the store refuses the whole change with
    /// [`CommitError::Condemned`](crate::ports::CommitError::Condemned).
    Taken,
    /// The request failed: it is condemned, and a sweep looks at its time once more. Comes
    /// without a task.
    Abandoned,
}

/// What happens to an attempt, and to what it has stored. It stands in the row of the journal
/// alone.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptWrite {
    /// The attempt starts: from here on it may store objects.
    Start {
        /// The step.
        step: StepNo,
        /// Whether it runs or undoes the step.
        direction: Direction,
        /// Number of the attempt.
        attempt: Attempt,
        /// The epoch it runs under.
        epoch: Epoch,
        /// From then on a sweep may condemn what a success has not kept.
        sweep_after: Duration,
    },
    /// The attempt ends. A success keeps what is open; what a sweep has condemned, no change can
    /// keep.
    End {
        /// The step.
        step: StepNo,
        /// Whether it runs or undoes the step.
        direction: Direction,
        /// Number of the attempt.
        attempt: Attempt,
        /// How it ended.
        outcome: Outcome,
        /// Its error.
        error: Option<StepFailure>,
        /// What becomes of its objects.
        kept: ObjectsFate,
    },
    /// What an attempt has stored, which did not end well, is an output after all: it was found, or
    /// a person says so. Not what a sweep has condemned.
    Keep {
        /// The step; forward.
        step: StepNo,
        /// The attempt's number.
        attempt: Attempt,
    },
    /// The step was undone, or its output superseded: what its attempts kept is open to the sweep
    /// again.
    Release {
        /// The step.
        step: StepNo,
    },
    /// A sweep is about to delete what the attempt has stored: no success can keep it any more.
    Condemn {
        /// The step.
        step: StepNo,
        /// Whether it runs or undoes the step.
        direction: Direction,
        /// The attempt's number.
        attempt: Attempt,
    },
    /// A sweep has deleted what the attempt had stored.
    Swept {
        /// The step.
        step: StepNo,
        /// Whether it runs or undoes the step.
        direction: Direction,
        /// The attempt's number.
        attempt: Attempt,
    },
}

/// A message that is published once the change is durable. It is not written: the task's row says
/// that it waits for a host, and hosts look for such rows where no message came.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Where to.
    pub queue: QueueName,
    /// The message.
    pub message: WorkerMessage,
}

/// A change to the row of a client's idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub enum IdempotencyWrite {
    /// First sight of the key, while the request still arrives.
    Begin {
        /// Tenant that owns the key.
        tenant: Tenant,
        /// The key.
        key: String,
        /// The process that receives the request, as the worker registry names it.
        owner: String,
        /// Gone after this, if nothing follows.
        expires_in: Duration,
    },
    /// The answer that every repetition gets. Replaces this task's own `Begin`; conflicts with
    /// another task's row.
    Finish {
        /// Tenant that owns the key.
        tenant: Tenant,
        /// The key.
        key: String,
        /// Digest of the request.
        fingerprint: String,
        /// The answer's body.
        answer: Value,
        /// Gone after this.
        expires_in: Duration,
    },
    /// The request failed: the key is free again, unless it has its answer.
    Abandon {
        /// Tenant that owns the key.
        tenant: Tenant,
        /// The key.
        key: String,
    },
}

/// A row of the journal, but for what only the database knows: its time, and the seal that binds
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Who caused the change.
    pub actor: String,
    /// The form of the two texts.
    pub form: i16,
    /// What happened, as JSON.
    pub entries: String,
    /// What was handed in, as JSON; `None`: nothing.
    pub data: Option<String>,
    /// The seal of the row before it.
    pub before: EntryHash,
    /// Binds it to the rows before it.
    pub link: ContentHash,
    /// Its payloads are encrypted, where they are to be.
    pub is_encrypted: bool,
}

/// One durable change of one task.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a transition does nothing until it is committed"]
pub struct Transition {
    /// All rows written carry it.
    pub change_id: ChangeId,
    /// Id of the task.
    pub task_id: TaskId,
    /// The task row; `None` for a receive, which has no task yet.
    pub task: Option<TaskWrite>,
    /// The steps that changed, whole.
    pub steps: Vec<StepRow>,
    /// Attempts, in order.
    pub attempts: Vec<AttemptWrite>,
    /// The row of a receive.
    pub receive: Option<ReceiveWrite>,
    /// Audit, in order.
    pub audit: Vec<AuditEntry>,
    /// The change's row in the journal, in which the audit stands; `None` exactly where there is no
    /// task row.
    pub journal: Option<Written>,
    /// Messages for hosts.
    pub work: Vec<Work>,
    /// What other services are told: one outbox row with all of them; none where there are none.
    pub events: Vec<TaskEvent>,
    /// The client's key.
    pub idempotency: Option<IdempotencyWrite>,
    /// The schedule that submits the task, after it has. Where it is not at the expected revision,
    /// the store refuses the whole change with
    /// [`CommitError::Moved`](crate::ports::CommitError::Moved). Such a change is written alone.
    pub document: Option<Box<DocumentWrite>>,
    /// What becomes of the task's row in `places`; `None`: it stays, or there is none.
    pub place: Option<PlaceWrite>,
    /// What operators are told of: a document that is written where there is none of its name, and else left
    /// as it is. Such a change is written alone.
    pub alert: Option<Box<DocumentWrite>>,
    /// Tasks that a step submits: their first changes, each with a row that says of which task it is
    /// a child. Written in the same transaction, or not at all; a change that has some is written
    /// alone.
    pub children: Vec<Transition>,
    /// The task is put to sleep for tasks that these steps have submitted: how many of each had ended when
    /// that was decided. Where more have ended by the commit, the task is to be woken.
    pub children_seen: Vec<(StepNo, u32)>,
    /// Statements for tables of the user's own, in order, after all the rest. A change that has
    /// some is written alone.
    pub sql: Vec<Sql>,
}

impl Transition {
    /// A change that writes nothing yet.
    pub const fn new(change_id: ChangeId, task_id: TaskId) -> Self {
        Self {
            change_id,
            task_id,
            task: None,
            steps: Vec::new(),
            attempts: Vec::new(),
            receive: None,
            audit: Vec::new(),
            journal: None,
            work: Vec::new(),
            events: Vec::new(),
            idempotency: None,
            document: None,
            place: None,
            alert: None,
            children: Vec::new(),
            children_seen: Vec::new(),
            sql: Vec::new(),
        }
    }

    /// Whether it has no event: a sweep of the task's attempts, or the end of one that made scratch
    /// again. It leaves the task as long unchanged, and as long unclaimed, as it was.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.audit.is_empty()
    }
}
