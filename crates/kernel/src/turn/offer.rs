//! A message that offers a task, held against the task's row. Anyone who may publish on the broker
//! can name any task in a message, so a message only wakes a host up for what is in the row.
//! Compares; writes nothing.

use crate::record::TaskRow;
use counterstep_contracts::{QueueName, WorkerMessage};

/// A message that offers a task, and where it came from.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The message.
    pub message: &'a WorkerMessage,
    /// The queue that delivered it.
    pub queue: &'a QueueName,
    /// No host was handed it before: then most likely no other one is about to claim the task.
    pub is_first: bool,
}

/// What an offer is, by the row of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OfferVerdict {
    /// It agrees with the row.
    Agrees,
    /// It was true of an earlier dispatch; the task is on the other queue of its type since.
    Outdated,
    /// No dispatch of the task has made it, for this reason.
    Contradicts(String),
}

impl Offer<'_> {
    /// Holds the message against the row.
    pub(super) fn verdict(&self, row: &TaskRow) -> OfferVerdict {
        let Self { message, queue, .. } = self;
        let contradicts = |what: &str, given: &str, stored: &str| {
            OfferVerdict::Contradicts(format!(
                "its {what} is `{}`, and its task's `{stored}`",
                short(given)
            ))
        };
        if let Some(tenant) = &message.tenant
            && *tenant != row.tenant
        {
            return contradicts("tenant", &tenant.0, &row.tenant.0);
        }
        if message.task_type != row.task_type {
            return contradicts("type", &message.task_type, &row.task_type);
        }
        if message.version != row.version {
            return contradicts(
                "version",
                &message.version.to_string(),
                &row.version.to_string(),
            );
        }
        let of_row = QueueName(row.queue.clone()).base();
        if queue.base() == of_row {
            return OfferVerdict::Agrees;
        }
        // A redelivery from before the task went from one kind of host to the other is no fault of
        // its publisher.
        if message.rev < row.rev && declared(&queue.base().0) == declared(&of_row.0) {
            return OfferVerdict::Outdated;
        }
        contradicts("queue", &queue.0, &row.queue)
    }
}

/// The queue as a declaration names it: that of the worker hosts.
fn declared(queue: &str) -> &str {
    queue.strip_suffix(".api").unwrap_or(queue)
}

/// Of any length, from anyone, and on its way into a log.
fn short(text: &str) -> String {
    text.escape_debug().take(100).collect()
}
