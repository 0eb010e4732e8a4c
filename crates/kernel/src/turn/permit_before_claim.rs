//! Before a task is claimed: it gets room and the permit of a limit for its next step, or stands in line for them, or is left.

use super::breakers::holds_back;
use super::likely::likely_next;
use super::lock::LOOK_AGAIN;
use super::permits::Permits;
use crate::admission::limits::{DeferredTask, KeyedLimit, LimitKey, LimitPermit, SHORT};
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::record::TaskRecord;
use crate::task::{Registry, TaskType};
use counterstep_contracts::{Host, QueueName, StepDecl, TaskStatus};
use futures::future::{Either, select};
use std::time::Duration;

/// How long a task stands in line for room or for a permit, with a slot but without a lease. Then it is
/// left to other hosts.
const IN_LINE_FOR: Duration = Duration::from_secs(5);

/// The message of a task that was found by polling reaches some process within this time, unless it is lost.
const MESSAGE_COMES_WITHIN: Duration = Duration::from_secs(120);

/// After a wait as short as this, the row is taken as it was read.
const AT_ONCE: Duration = Duration::from_millis(20);

/// A task has what its next step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    AtOnce,
    /// It stood in line: its row may have changed.
    AfterAWait,
}

/// Takes the room and the permit that the next step of a task needs. An error: leave it to others, and look again after this.
/// `is_offered`: by a message, which is redelivered where the task is deferred.
pub(super) async fn ready(
    engine: &Engine,
    task_type: &TaskType,
    host: Host,
    record: &TaskRecord,
    is_offered: bool,
    permits: &Permits,
    shutdown: &CancelToken,
) -> Result<Ready, Duration> {
    let clock = &engine.ports.clock;
    let since = clock.monotonic();
    let mut next = Vec::new();
    for (at, step) in next_steps(&engine.registry, task_type, record) {
        // Claimed, the task sleeps until the breaker is asked again: what it took would lie idle, or be lost.
        if record.steps[at].in_fallback || !holds_back(engine, task_type, at).await {
            next.push((at, step));
        }
    }
    let line = Line {
        engine,
        host,
        record,
        is_offered,
        shutdown,
    };
    let is_heavy = next.iter().any(|(_, step)| step.heavy);
    if is_heavy && permits.reserve(engine, 1) == 0 {
        permits.put_room(line.permit(engine.heavy.limit(), IN_LINE_FOR).await?);
    }
    // The first heavy step gets the room. Another one would have to give its permit back, and a start is lost then.
    let gets_room = next.iter().find(|(_, step)| step.heavy).map(|(at, _)| *at);
    let limited = next
        .iter()
        .filter(|(at, step)| step.host == host && (!step.heavy || gets_room == Some(*at)))
        .find_map(|(at, step)| Some((*at, step.limit?)));
    if let Some((at, limit)) = limited.filter(|(at, _)| !record.steps[*at].in_fallback) {
        let of = KeyedLimit {
            key: &LimitKey::of(&limit, &record.task),
            limit: &limit,
        };
        // Room that waits for a permit is not another step's.
        let at_most = if is_heavy { SHORT } else { IN_LINE_FOR };
        permits.put(at, line.permit(of, at_most).await?);
    }
    Ok(match clock.monotonic().saturating_sub(since) {
        waited if waited <= AT_ONCE => Ready::AtOnce,
        _ => Ready::AfterAWait,
    })
}

/// A task that stands in line before it is claimed.
struct Line<'a> {
    engine: &'a Engine,
    host: Host,
    record: &'a TaskRecord,
    is_offered: bool,
    shutdown: &'a CancelToken,
}

impl Line<'_> {
    /// Waits for a permit, for `at_most`. An error: the task is left, and looked at again after this.
    async fn permit(&self, of: KeyedLimit<'_>, at_most: Duration) -> Result<LimitPermit, Duration> {
        let limits = &self.engine.limits;
        let (task, slots) = (self.record.task.id, self.engine.registration.concurrency());
        let place = limits.stand_in_line(of, task, slots);
        let at_most = match &place {
            Some(_) => at_most,
            None if limits.is_used_up(of.key) || limits.has_deferred(of.key) => {
                return Err(self.defer(of));
            }
            // All places are taken by those that wait for the first exchange.
            None => SHORT,
        };
        let taken = Box::pin(limits.take(of, at_most));
        match select(taken, Box::pin(self.shutdown.cancelled())).await {
            Either::Left((Some(permit), _)) => Ok(permit),
            Either::Left((None, _)) if limits.reserve_again(task, place) => Err(LOOK_AGAIN),
            Either::Left((None, _)) => Err(self.defer(of)),
            Either::Right(_) => Err(LOOK_AGAIN),
        }
    }

    fn defer(&self, of: KeyedLimit<'_>) -> Duration {
        let row = &self.record.task;
        let deferred = DeferredTask {
            task: row.id,
            host: self.host,
            queue: QueueName(row.queue.clone()),
        };
        // The process that received its message is likely to have deferred it.
        let has_message = row.status == TaskStatus::Dispatched
            && self.record.now.after(row.updated_at) < MESSAGE_COMES_WITHIN;
        let deferred = (self.is_offered || !has_message).then_some(deferred);
        self.engine.limits.defer(of, deferred)
    }
}

/// The steps that would start now, where some need room or a permit. Probes may still decide otherwise.
fn next_steps(
    registry: &Registry,
    task_type: &TaskType,
    record: &TaskRecord,
) -> Vec<(usize, &'static StepDecl)> {
    let steps = task_type.decl.steps;
    if !steps.iter().any(|step| step.heavy || step.limit.is_some()) {
        return Vec::new();
    }
    let next = likely_next(registry, task_type, record).into_iter();
    next.map(|at| (at, &steps[at]))
        .filter(|(_, step)| step.heavy || step.limit.is_some())
        .collect()
}
