//! Redispatch, as a plan and its execution: tasks that were offered and that no host has claimed are
//! offered once more, and the queue is asked for what it has lost. Takes no task from its host.
//!
//! Whether a stream has lost a message cannot be known, and a long queue looks the same. So a task
//! is offered again after a while, and then less and less often; a message too many finds a task
//! that is leased or at rest.

use counterstep_contracts::{Host, QueueName, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::change::{Author, ChangeError};
use counterstep_kernel::dead_letters::quarantine::quarantine;
use counterstep_kernel::draft::Draft;
use counterstep_kernel::ports::{Find, QueueRepair, StoreError, TaskHead, Unclaimed};
use counterstep_kernel::record::TaskRecord;
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::task::Registry;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use std::collections::BTreeSet;
use std::time::Duration;

/// Tasks that are offered again at a time.
const AT_ONCE: usize = 32;

/// Maximum pause until a task that stays unclaimed is offered again, as a multiple of the first pause.
const AT_MOST: u32 = 16;

/// What a redispatch is going to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedispatchPlan {
    /// What the queue lacks, as text.
    pub queue: Vec<String>,
    /// Why the queue cannot be asked. Then nothing is offered again: it could not be delivered
    /// either.
    pub silent: Option<String>,
    /// Tasks that are to be offered again, those that have changed least lately first.
    pub offer: Vec<TaskHead>,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redispatched {
    /// What the queue has again, as text.
    pub queue: Vec<String>,
    /// Offered again.
    pub offered: Vec<TaskId>,
    /// Claimed, or offered by another reconciler, when their turn came.
    pub moved_on: Vec<TaskId>,
    /// Failed, with the reason; they do not stop the others. Without a task: the queue.
    pub failed: Vec<(Option<TaskId>, String)>,
}

/// Whether no host has claimed a task for `after`, as [`Unclaimed`] defines; decided again on a newer state.
#[must_use]
pub fn is_unclaimed(record: &TaskRecord, after: Duration) -> bool {
    let (task, now) = (&record.task, record.now);
    let offered = match task.status {
        TaskStatus::Submitted | TaskStatus::Dispatched => true,
        // A message would bring it to a host of the wrong version once more.
        TaskStatus::Waiting => task.due_at.is_some() && task.waiting != Some(WaitReason::Version),
        TaskStatus::Compensating => true,
        TaskStatus::Running
        | TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => false,
    };
    let waits = matches!(task.status, TaskStatus::Waiting | TaskStatus::Compensating);
    let due = !waits || task.due_at.is_none_or(|due| now.0 >= due.later(after).0);
    let pause = task.due_at.map_or(after, |due| {
        task.updated_at
            .after(due)
            .clamp(after, after.saturating_mul(AT_MOST))
    });
    offered && due && task.lease_owner.is_none() && now.after(task.updated_at) >= pause
}

/// Plans to offer at most `limit` tasks again that were offered at least `after` ago.
///
/// # Errors
/// When the store does not answer.
pub fn plan(
    engine: &Engine,
    after: Duration,
    limit: u32,
) -> BoxFuture<'_, Result<RedispatchPlan, StoreError>> {
    Box::pin(async move {
        let queues = queues(&engine.registry);
        let queue = match engine.ports.queue.repair(&queues, QueueRepair::Look).await {
            Ok(queue) => queue,
            Err(error) => {
                return Ok(RedispatchPlan {
                    silent: Some(error.to_string()),
                    ..RedispatchPlan::default()
                });
            }
        };
        // What reads the tasks themselves has lost none. An offer would only put the task
        // behind younger ones.
        if engine.ports.queue.hands_out_tasks() {
            return Ok(RedispatchPlan {
                queue,
                ..RedispatchPlan::default()
            });
        }
        let known = engine.registry.known();
        // Tasks of a paused queue are not lost. One may stand in a lane that no type has any more.
        let lanes = queues.iter().flat_map(|queue| queue.base().lanes());
        let lanes: BTreeSet<_> = lanes.collect();
        let queues = engine.open_queues(&Vec::from_iter(lanes)).await;
        let which = Unclaimed {
            queues,
            known,
            for_at_least: after,
            at_most: after.saturating_mul(AT_MOST),
        };
        let offer = engine
            .ports
            .store
            .find(&Find::Unclaimed(which), limit)
            .await?;
        Ok(RedispatchPlan {
            queue,
            silent: None,
            offer,
        })
    })
}

/// Executes a plan. Each task is a change of its own; of several reconcilers with the same
/// plan, one offers it. Ends early on `shutdown`.
pub fn run<'a>(
    engine: &'a Engine,
    plan: RedispatchPlan,
    after: Duration,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Redispatched> {
    Box::pin(async move {
        let mut done = Redispatched::default();
        done.failed.extend(plan.silent.map(|why| (None, why)));
        if !plan.queue.is_empty() {
            // First: what is offered next would find no stream.
            match engine
                .ports
                .queue
                .repair(&queues(&engine.registry), QueueRepair::Mend)
                .await
            {
                Ok(mended) => done.queue = mended,
                Err(error) => done.failed.push((None, error.to_string())),
            }
        }
        let offers = plan.offer.into_iter().map(|task| async move {
            // Looked at before each one, and never in the middle of a change.
            if shutdown.is_cancelled() {
                None
            } else {
                Some((task.task, offer(engine, task.task, after).await))
            }
        });
        let mut offers = stream::iter(offers).buffer_unordered(AT_ONCE);
        while let Some(offered) = offers.next().await {
            let Some((task, offered)) = offered else {
                continue;
            };
            match offered {
                Ok(true) => done.offered.push(task),
                Ok(false) => done.moved_on.push(task),
                Err(error) => {
                    tracing::error!(%task, %error, "an unclaimed task could not be offered again");
                    done.failed.push((Some(task), error.to_string()));
                }
            }
        }
        done
    })
}

/// Whether it was.
async fn offer(engine: &Engine, task: TaskId, after: Duration) -> Result<bool, ChangeError> {
    let record = match engine.ports.store.load(task).await {
        Ok(Some(record)) => record,
        // A newer program's task, which a reconciler of that version offers again.
        Ok(None) | Err(StoreError::Unsupported(_)) => return Ok(false),
        Err(StoreError::Corrupt(_)) => {
            // Its log says what became of the task.
            quarantine(engine, task).await?;
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let Some(task_type) = engine.registry.of(&*record.task) else {
        return Ok(false);
    };
    let changed = engine.change(
        Author::anyone(&engine.id),
        &task_type,
        record,
        |draft: &mut Draft| {
            if !is_unclaimed(draft.record(), after) {
                return Ok(false);
            }
            draft.redispatch()?;
            Ok(true)
        },
    );
    let offered = changed.await?.answer;
    if offered {
        tracing::info!(%task, "unclaimed task offered again");
    }
    Ok(offered)
}

/// With the lanes that hosts fetch from.
fn queues(registry: &Registry) -> Vec<QueueName> {
    let all: BTreeSet<_> = [Host::Worker, Host::Api]
        .into_iter()
        .flat_map(|host| registry.queues(host))
        .flat_map(|queue| queue.lanes())
        .filter(|lane| lane.rank() != 0 || registry.has_urgent(&lane.base()))
        .collect();
    all.into_iter().collect()
}
