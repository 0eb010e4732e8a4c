//! What a process counts of its own work, for its metrics. What is under way in the whole
//! installation is the store's to count ([`Gauges`](super::Gauges)).

use counterstep_contracts::webhook::DeliveryStatus;
use counterstep_contracts::{Direction, Labels, Outcome, TaskStatus};
use std::fmt::Debug;
use std::time::Duration;

/// Counts what a process observes, and writes the counts.
pub trait Recorder: Debug + Send + Sync {
    /// Counts an observation. Called on the way of every task: it must neither wait nor fail.
    fn record(&self, observation: Observation<'_>);

    /// Appends the counts to a page of metrics: whole lines in the text format of OpenMetrics, without
    /// its last line.
    fn write(&self, page: &mut String);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn record(&self, _: Observation<'_>) {}

    fn write(&self, _: &mut String) {}
}

/// What happened. Changes of tasks are observed once each, by the process that has committed them.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// A request was answered.
    Submission {
        /// Declared name of its type.
        task_type: &'a str,
        /// How it ended.
        outcome: SubmissionOutcome,
    },
    /// A task came to rest.
    Rest {
        /// Declared name of its type.
        task_type: &'a str,
        /// State in which the task rests.
        status: TaskStatus,
        /// Its labels.
        labels: &'a Labels,
        /// Since its submission, by the database's clock.
        after: Duration,
    },
    /// A host has claimed a task.
    Claim {
        /// Declared name of its type.
        task_type: &'a str,
        /// Since it could have been claimed, by the database's clock.
        after: Duration,
    },
    /// An attempt has ended on this host.
    Attempt {
        /// Declared name of its task's type.
        task_type: &'a str,
        /// Its step.
        step: &'a str,
        /// Whether it runs or undoes the step.
        direction: Direction,
        /// How it ended.
        outcome: Outcome,
        /// By the host's timer.
        took: Duration,
    },
    /// The undo of a task has begun.
    Undo {
        /// Declared name of its type.
        task_type: &'a str,
    },
    /// A webhook was sent, with or without success.
    Webhook {
        /// How it stands now.
        status: DeliveryStatus,
    },
    /// A task ran that a message should have announced, and that polling found while the queue brought nothing.
    FoundByPolling {
        /// Declared name of its type.
        task_type: &'a str,
    },
    /// A turn of this process has lost its lease.
    LeaseLost,
    /// Code that blocks its thread is not waited for any more.
    Abandoned,
    /// Something happened to a result in the spool of this process.
    Spooled(SpoolOutcome),
    /// A task was taken over from a host that was lost.
    Recovery {
        /// Declared name of its type.
        task_type: &'a str,
    },
}

/// What happened to a result that was to be kept in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpoolOutcome {
    /// It is kept.
    Kept,
    /// The spool did not take it: it is full, or its disk fails.
    Refused,
    /// It is in the database.
    Committed,
    /// Another host has had its task since: it was dropped.
    Fenced,
    /// It was kept for as long as any: it was dropped.
    Expired,
    /// It cannot be committed: it was dropped.
    Unusable,
}

impl SpoolOutcome {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Kept,
        Self::Refused,
        Self::Committed,
        Self::Fenced,
        Self::Expired,
        Self::Unusable,
    ];

    /// Its text in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Refused => "refused",
            Self::Committed => "committed",
            Self::Fenced => "fenced",
            Self::Expired => "expired",
            Self::Unusable => "unusable",
        }
    }
}

/// How a submission was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubmissionOutcome {
    /// It is a task.
    Accepted,
    /// It repeats an earlier one.
    Repeated,
    /// It breaks a rule, or did not arrive whole.
    Refused,
    /// Its idempotency key is taken, or its schedule has moved on.
    Conflict,
    /// Its type takes no submissions.
    Disabled,
    /// As many tasks of its type wait as may.
    TooManyWaiting,
    /// A server did not answer, or the declaration's own code failed.
    Failed,
}

impl SubmissionOutcome {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Accepted,
        Self::Repeated,
        Self::Refused,
        Self::Conflict,
        Self::Disabled,
        Self::TooManyWaiting,
        Self::Failed,
    ];

    /// Its text in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Repeated => "repeated",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Disabled => "disabled",
            Self::TooManyWaiting => "too_many_waiting",
            Self::Failed => "failed",
        }
    }
}
