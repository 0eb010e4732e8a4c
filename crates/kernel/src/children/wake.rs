//! A task that has ended wakes the task that has submitted it. A wake is no change: it only makes a
//! sleeping task due, and the host that claims it looks for itself.

use crate::change::transition::Transition;
use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::StoreError;
use counterstep_contracts::{QueueName, StepNo, StepStatus, TaskId, TaskStatus, WorkerMessage};

/// Makes a task due now that sleeps, and tells the hosts of its queue. `false`: it does not sleep.
///
/// # Errors
/// When the store does not answer.
pub async fn wake(engine: &Engine, task: TaskId) -> Result<bool, StoreError> {
    let Some(woken) = engine.ports.store.wake(task).await? else {
        return Ok(false);
    };
    // One that cannot be read is found by polling, and parked.
    let Some(version) = woken.version else {
        return Ok(true);
    };
    let message = WorkerMessage {
        task,
        tenant: None,
        task_type: woken.task_type,
        version,
        rev: woken.rev,
        traceparent: woken.traceparent,
        outputs: serde_json::Map::new(),
    };
    let queue = QueueName(woken.queue);
    let clock = engine.ports.clock.as_ref();
    // A lost one costs time only.
    if let Some(Err(error)) = best_effort(clock, engine.publish_work(&queue, &message)).await {
        tracing::warn!(%task, %error, "publishing failed: hosts look for the task");
    }
    Ok(true)
}

/// After a change that brought a task to an end: wakes its parent.
pub(crate) async fn wake_parent(engine: &Engine, transition: &Transition) {
    let row = transition.task.as_ref().map(|write| &write.row);
    let ended = row.filter(|row| row.status.is_terminal());
    let Some(parent) = ended.and_then(|row| row.parent) else {
        return;
    };
    if let Err(error) = Box::pin(wake(engine, parent.task)).await {
        tracing::warn!(task = %parent.task, child = %transition.task_id, %error, "a task was not woken by the end of one that it has submitted; the reconciler wakes it");
    }
}

/// After a change that put a task to sleep for others: wakes it where more of them had ended by then
/// than were seen. Those that ended before could not wake it.
pub(crate) async fn wake_again(engine: &Engine, transition: &Transition) {
    if transition.children_seen.is_empty() {
        return;
    }
    let task = transition.task_id;
    let again = async {
        if more_ended(engine, task, &transition.children_seen).await? {
            wake(engine, task).await?;
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = Box::pin(again).await {
        tracing::warn!(%task, %error, "it is unknown whether a task has to be woken; the reconciler finds out");
    }
}

/// Whether a task sleeps although a task that it has submitted has ended since it looked last: then
/// it was not woken. Where it could not look, it looks again by itself.
///
/// # Errors
/// When the store does not answer.
pub async fn was_not_woken(engine: &Engine, task: TaskId) -> Result<bool, StoreError> {
    let Some(record) = engine.ports.store.load(task).await? else {
        return Ok(false);
    };
    let step = match record.task.status {
        TaskStatus::Waiting => StepStatus::Waiting,
        TaskStatus::Compensating => StepStatus::Compensating,
        _ => return Ok(false),
    };
    let seen: Vec<_> = record
        .steps
        .iter()
        .filter(|row| row.status == step)
        .filter_map(|row| Some((row.no, row.children.filter(|it| it.missed == 0)?.seen)))
        .collect();
    if record.lease_is_live() || record.due_in().is_zero() || seen.is_empty() {
        return Ok(false);
    }
    more_ended(engine, task, &seen).await
}

async fn more_ended(
    engine: &Engine,
    task: TaskId,
    seen: &[(StepNo, u32)],
) -> Result<bool, StoreError> {
    let counts = engine.ports.store.child_counts(task).await?;
    let more = |&(step, seen): &(StepNo, u32)| {
        let of_step = counts.iter().filter(|count| count.step == step);
        let ended = of_step.filter(|count| count.status.is_terminal());
        ended.map(|count| count.tasks).sum::<u32>() > seen
    };
    Ok(seen.iter().any(more))
}
