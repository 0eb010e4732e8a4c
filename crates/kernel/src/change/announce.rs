//! A change that was committed is announced at once: to hosts by work messages, to other services by
//! its events. A work message that is lost here costs time only, because hosts look for tasks that
//! wait for them. Events stand in the outbox until they are published; what is lost here, the relay
//! publishes.

use crate::admission::disable::weigh_failure;
use crate::admission::places;
use crate::change::events::is_alert;
use crate::change::key_hints;
use crate::change::queue_wait::QueueWait;
use crate::change::transition::{IdempotencyWrite, Transition};
use crate::children;
use crate::engine::Engine;
use crate::engine::time_limits::{best_effort, queue_answer};
use crate::ports::{OutboxOp, QueueError, Signal};
use crate::record::{AuditEntry, DbTime, Failure, TaskRow};
use crate::status::observe;
use crate::status::traces;
use crate::workers::notes::note_change;
use counterstep_contracts::{ChangeId, QueueName, Tenant, WorkerMessage};
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use serde_json::Value;

/// New tasks of one change that are announced at a time.
pub(super) const ANNOUNCED_AT_ONCE: usize = 64;

fn has_messages(transition: &Transition) -> bool {
    !transition.work.is_empty() || !transition.events.is_empty()
}

/// Announces a change that was committed at `at`: a signal to clients that wait for the task,
/// messages and events to the queue.
pub(crate) async fn announce(
    engine: &Engine,
    transition: &Transition,
    at: DbTime,
    wait: QueueWait,
) {
    tell(engine, transition, at).await;
    if has_messages(transition) {
        match wait {
            QueueWait::Full => {
                let publish = publish(engine, transition, at);
                let published = queue_answer(engine.ports.clock.as_ref(), publish).await;
                after_publishing(engine, transition, published).await;
            }
            QueueWait::Brief => Box::pin(publish_briefly(engine, transition, at)).await,
        }
    }
    announce_to_relatives(engine, transition, at).await;
}

/// The same for the first change of a task: a repetition of its request asks the row of its key first.
pub(crate) async fn announce_new(
    engine: &Engine,
    transition: &Transition,
    at: DbTime,
    wait: QueueWait,
) {
    let remember = async {
        if let Some(IdempotencyWrite::Finish { tenant, key, .. }) = &transition.idempotency {
            engine.remember_key(tenant, key).await;
        }
    };
    futures::join!(remember, announce(engine, transition, at, wait));
}

/// What follows for tasks that the task has submitted, and for the one that has submitted it.
async fn announce_to_relatives(engine: &Engine, transition: &Transition, at: DbTime) {
    // A new task has none of its own yet.
    if !transition.children.is_empty() {
        let told = stream::iter(&transition.children).for_each_concurrent(
            ANNOUNCED_AT_ONCE,
            |child| async move {
                tell(engine, child, at).await;
                if has_messages(child) {
                    publish_briefly(engine, child, at).await;
                }
            },
        );
        Box::pin(told).await;
    }
    places::wake_after(engine, transition).await;
    children::wake_parent(engine, transition).await;
    children::wake_again(engine, transition).await;
}

async fn publish_briefly(engine: &Engine, transition: &Transition, at: DbTime) {
    if engine.stall.lasts(engine.ports.clock.monotonic()) {
        return;
    }
    match best_effort(engine.ports.clock.as_ref(), publish(engine, transition, at)).await {
        Some(published) => after_publishing(engine, transition, published).await,
        None => {
            engine.stall.begins(engine.ports.clock.monotonic());
            tracing::warn!(task = %transition.task_id, "the queue does not answer: hosts look for the task, and the relay publishes its events");
        }
    }
}

async fn tell(engine: &Engine, transition: &Transition, at: DbTime) {
    observe::change(engine, transition, at);
    note_change(engine, transition);
    traces::change(engine, transition);
    if let Some(entry) = transition.audit.iter().find(|entry| is_alert(entry)) {
        alert(engine, transition, &entry.details);
    } else if let Some(row) = comes_to_rest(transition) {
        log_rest(row);
    }
    let rests = transition
        .task
        .as_ref()
        .is_some_and(|task| task.row.status.is_at_rest());
    let signal = if rests {
        Signal::Rests
    } else {
        Signal::Changed
    };
    engine.ports.signals.send(signal(transition.task_id));
    weigh_failure(engine, transition).await;
}

async fn after_publishing(
    engine: &Engine,
    transition: &Transition,
    published: Result<(), QueueError>,
) {
    if let Err(error) = published {
        tracing::warn!(task = %transition.task_id, %error, "publishing failed: hosts look for the task, and the relay publishes its events");
    } else if !transition.events.is_empty() {
        // A transaction for each of them would cost as much as the change itself.
        let published = engine.published.add(transition.change_id);
        Box::pin(clear_outbox_of(engine, published)).await;
    }
}

impl Engine {
    /// Publishes a message for hosts, on its lane.
    pub(crate) async fn publish_work(
        &self,
        queue: &QueueName,
        message: &WorkerMessage,
    ) -> Result<(), QueueError> {
        if self.ports.queue.hands_out_tasks() {
            // No message leaves this machine.
            return self.ports.queue.publish(queue, message).await;
        }
        let queue = &self.lane_of(queue, message.tenant.as_ref()).await;
        if self.ports.store.payload_codec().is_none() {
            return self.publish_in_span(queue, message).await;
        }
        // The broker keeps messages on its disk, and no host needs their outputs.
        let bare = WorkerMessage {
            outputs: serde_json::Map::new(),
            ..message.clone()
        };
        self.publish_in_span(queue, &bare).await
    }
}

/// All at once: together they wait for the queue once.
async fn publish(engine: &Engine, transition: &Transition, at: DbTime) -> Result<(), QueueError> {
    let queue = &engine.ports.queue;
    let work = try_join_all(
        transition
            .work
            .iter()
            .map(|row| engine.publish_work(&row.queue, &row.message)),
    );
    let events = async {
        if transition.events.is_empty() {
            Ok(())
        } else {
            queue.publish_events(at, &transition.events).await
        }
    };
    // Each to its end: what is lost of the one is no reason to lose the other.
    let (work, events) = futures::join!(work, events);
    work.map(drop).and(events)
}

/// Deletes what was published so far from the outbox. The loop of a host calls it every 100 ms.
pub async fn clear_outbox(engine: &Engine) {
    clear_outbox_of(engine, engine.published.take()).await;
}

async fn clear_outbox_of(engine: &Engine, changes: Vec<ChangeId>) {
    if changes.is_empty() {
        return;
    }
    let count = changes.len();
    if let Err(error) = engine
        .ports
        .store
        .outbox(OutboxOp::PublishedOf(changes))
        .await
    {
        tracing::warn!(count, %error, "events stay in the outbox; the relay will publish them again");
    }
}

/// The row of a task that this change brings to rest; `None`: it was there before, or is not.
fn comes_to_rest(transition: &Transition) -> Option<&TaskRow> {
    let row = &transition.task.as_ref()?.row;
    let came = |entry: &AuditEntry| entry.to.is_at_rest() && entry.from != Some(entry.to);
    (row.status.is_at_rest() && transition.audit.iter().any(came)).then_some(row)
}

/// One line for each task, in the log of the process that has brought it to rest. What a step said
/// of its failure is for those who may read tasks.
fn log_rest(row: &TaskRow) {
    let failure = row.failure.as_ref().map(Failure::blocking);
    // As JSON: a value is a client's text.
    let labels = (!row.labels.is_empty()).then(|| serde_json::to_string(&row.labels));
    tracing::info!(
        task = %row.id,
        task_type = row.task_type,
        tenant = %row.tenant.0,
        status = row.status.as_str(),
        trace_id = row.trace_id(),
        step = failure.and_then(|failure| failure.step.as_deref()),
        class = failure.map(|failure| failure.class.as_str()),
        labels = labels.and_then(Result::ok),
        "the task is at rest"
    );
}

/// Said once, where the change is durable: from here on only a person moves the task.
fn alert(engine: &Engine, transition: &Transition, details: &Value) {
    let Some(row) = transition.task.as_ref().map(|write| &write.row) else {
        return;
    };
    let steps = details["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let said = details["error"].as_str().unwrap_or_default();
    let error = match engine.ports.store.payload_codec() {
        None => said,
        Some(_) => details["class"].as_str().unwrap_or_default(),
    };
    tracing::error!(
        severity = "critical",
        task = %row.id,
        task_type = row.task_type,
        tenant = %row.tenant.0,
        trace_id = row.trace_id().unwrap_or_default(),
        steps = steps.collect::<Vec<_>>().join(", "),
        error,
        "compensation failed: what the task has done is not undone, and only an operator can go on; see its /why"
    );
}

impl Engine {
    /// Lets a repetition of a request with this key ask the row first.
    pub(crate) async fn remember_key(&self, tenant: &Tenant, key: &str) {
        let hint = key_hints::hint(tenant, key);
        let ttl = self.settings.idempotency_ttl;
        let remembered = self.ports.hints.remember(&hint, ttl);
        if let Some(Err(error)) = best_effort(self.ports.clock.as_ref(), remembered).await {
            tracing::debug!(%error, "an idempotency key was not remembered; a repetition finds out at its commit");
        }
    }
}
