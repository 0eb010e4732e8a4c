//! Recovery of tasks whose host was lost, as a plan and its execution. Only a lease that has run
//! out says "lost", never the age of anything.

use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_kernel::change::queue_wait::QueueWait;
use counterstep_kernel::change::{Author, ChangeError};
use counterstep_kernel::dead_letters::quarantine::{Quarantine, quarantine};
use counterstep_kernel::host::lost_hosts::earlier_losses;
use counterstep_kernel::ports::{Find, Lost, LostOf, Observation, StoreError, TaskHead};
use counterstep_kernel::record::load::fits;
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::guard;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use std::time::Duration;

/// Tasks that a reconciler reserves at a time.
const RESERVED_AT_ONCE: usize = 128;

/// How long they stay reserved: far longer than it needs for them, and short enough to wait for when it dies.
const RESERVED_FOR: Duration = Duration::from_secs(15);

/// Tasks that it takes back at a time: a store may write such changes together.
const AT_ONCE: usize = 32;

/// Maximum number of lost tasks of others that a pass names.
const NAMED: u32 = 100;

/// What a sweep is going to do with a task whose lease has run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recover {
    /// Take it back and offer it again, or undo it where it was lost too often.
    TakeBack(TaskId),
    /// Leave it: this process does not know its type, another one may.
    UnknownType(TaskHead),
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Taken back.
    pub taken_back: Vec<TaskId>,
    /// Not lost any more when their turn came.
    pub moved_on: Vec<TaskId>,
    /// Left to processes that know their type.
    pub unknown: Vec<TaskId>,
    /// Cannot be read: parked for a person.
    pub quarantined: Vec<TaskId>,
    /// Failed, with the reason; they do not stop the others.
    pub failed: Vec<(TaskId, String)>,
}

/// Plans the recovery of at most `limit` lost tasks, of those that `which` asks for: the oldest
/// first, and behind them those of types that this process does not know, which are left alone.
///
/// # Errors
/// When the store does not answer.
pub fn plan(
    engine: &Engine,
    which: Lost,
    limit: u32,
) -> BoxFuture<'_, Result<Vec<Recover>, StoreError>> {
    Box::pin(async move {
        let own = Lost {
            of: LostOf::These(engine.known_lost().0),
            ..which.clone()
        };
        let others = Lost {
            of: LostOf::Others(engine.registry.known()),
            ..which
        };
        let store = &engine.ports.store;
        let own = store.find(&Find::Lost(own), limit).await?;
        let others = store.find(&Find::Lost(others), limit.min(NAMED)).await?;
        let own = own.into_iter().map(|task| Recover::TakeBack(task.task));
        Ok(own
            .chain(others.into_iter().map(Recover::UnknownType))
            .collect())
    })
}

/// Until when it is known whether tasks with a lease that has run out are lost; `None`: there are none of which it is not.
///
/// # Errors
/// When the store does not answer.
pub fn undecided<'a>(
    engine: &'a Engine,
    which: &'a Lost,
) -> BoxFuture<'a, Result<Option<Duration>, StoreError>> {
    Box::pin(async move {
        let (_, not_yet) = engine.known_lost();
        let Some(left) = not_yet.iter().map(|(_, left)| *left).max() else {
            return Ok(None);
        };
        let those = Lost {
            of: LostOf::These(not_yet.into_iter().map(|(of, _)| of).collect()),
            ..which.clone()
        };
        let found = engine.ports.store.find(&Find::Lost(those), 1).await?;
        Ok((!found.is_empty()).then_some(left))
    })
}

/// Executes a plan, until `shutdown`: the tasks that are reserved by then are still taken back. Each
/// task is a change of its own; of several reconcilers with the same plan, each takes back others.
pub fn run<'a>(
    engine: &'a Engine,
    plan: Vec<Recover>,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Recovered> {
    Box::pin(async move {
        let mut done = Recovered::default();
        let mut lost = Vec::with_capacity(plan.len());
        for step in plan {
            match step {
                Recover::UnknownType(task) => done.unknown.push(task.task),
                Recover::TakeBack(task) => lost.push(task),
            }
        }
        for some in lost.chunks(RESERVED_AT_ONCE) {
            if shutdown.is_cancelled() {
                break;
            }
            let reserved = match engine.ports.store.reserve(some, RESERVED_FOR).await {
                Ok(reserved) => reserved,
                Err(error) => {
                    tracing::error!(%error, "lost tasks could not be reserved");
                    done.failed
                        .extend(some.iter().map(|task| (*task, error.to_string())));
                    continue;
                }
            };
            done.moved_on
                .extend(some.iter().filter(|task| !reserved.contains(task)));
            let mut taken = stream::iter(reserved)
                .map(|task| async move { (task, take_back(engine, task).await) });
            let mut taken = taken.by_ref().buffer_unordered(AT_ONCE);
            while let Some((task, taken)) = taken.next().await {
                match taken {
                    Ok(TakeBack::Taken) => done.taken_back.push(task),
                    Ok(TakeBack::MovedOn) => done.moved_on.push(task),
                    Ok(TakeBack::Unknown) => done.unknown.push(task),
                    Ok(TakeBack::Quarantined) => done.quarantined.push(task),
                    Err(error) => {
                        tracing::error!(%task, %error, "a lost task could not be taken back");
                        done.failed.push((task, error.to_string()));
                    }
                }
            }
        }
        done
    })
}

/// What became of a take-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakeBack {
    Taken,
    MovedOn,
    Unknown,
    Quarantined,
}

async fn take_back(engine: &Engine, task: TaskId) -> Result<TakeBack, ChangeError> {
    let record = match engine.ports.store.load(task).await {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(TakeBack::MovedOn),
        Err(StoreError::Corrupt(_)) => return park(engine, task).await,
        Err(StoreError::Unsupported(_)) => return Ok(TakeBack::Unknown),
        Err(error) => return Err(error.into()),
    };
    // Its definition may be another one than that of the type known here.
    let Some(task_type) = engine.registry.of(&*record.task) else {
        return Ok(TakeBack::Unknown);
    };
    if !fits(&task_type, &record) {
        return park(engine, task).await;
    }
    let losses = earlier_losses(&engine.ports.store, &task_type, &record).await;
    let sweep = Author {
        announce: Some(QueueWait::Brief),
        ..Author::anyone(&engine.id)
    };
    let changed = engine.change(sweep, &task_type, record, |draft| {
        // Its owner is alive again, or another sweep has taken it back.
        if !guard!("lease that ran out", draft.record().lease_has_expired()) {
            return Ok(TakeBack::MovedOn);
        }
        draft.set_earlier_losses(&losses);
        draft.take_back()?;
        Ok(TakeBack::Taken)
    });
    let taken = changed.await?.answer;
    if taken == TakeBack::Taken {
        engine.observe(Observation::Recovery {
            task_type: task_type.decl.name,
        });
        tracing::info!(%task, "took a task back from a lost host");
    }
    Ok(taken)
}

async fn park(engine: &Engine, task: TaskId) -> Result<TakeBack, ChangeError> {
    Ok(match quarantine(engine, task).await? {
        Quarantine::Parked(_) => TakeBack::Quarantined,
        Quarantine::MovedOn => TakeBack::MovedOn,
        Quarantine::Unknown => TakeBack::Unknown,
    })
}
