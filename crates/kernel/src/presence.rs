//! What a process says of itself to the others: that it is there, what it can run and what it runs.
//! It fails open: a process whose word does not arrive works on, and no other process takes
//! anything from it for that.

use crate::documents::TypedDocuments;
use crate::engine::Engine;
use crate::ports::{Passed, REFRESH_TAKES, StoreError, WorkerRow, Workers, refreshed_every};
use crate::record::DbTime;
use counterstep_contracts::{QueueName, TaskId};
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, join, select};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many of the running tasks are named.
const NAMED: usize = 100;

/// So long after it was seen last a process is still listed.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// The row of all processes that make one pass and end, whichever machine they run on: a row each
/// would list every run of a day.
const ONE_PASS: &str = "reconciler:once";

/// What a part of a process does: one process may have several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// It takes tasks from these queues.
    pub queues: Vec<QueueName>,
    /// So many at a time.
    pub concurrency: usize,
}

/// What a process knows of itself.
#[derive(Debug, Default)]
pub(crate) struct Presence(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    parts: BTreeMap<u64, Part>,
    joined: u64,
    running: BTreeMap<TaskId, u32>,
    /// When by this process's timer, and what.
    passed: Option<(Duration, BTreeMap<String, u64>)>,
    /// When the first row of this process was written, by the database's clock.
    started_at: Option<DbTime>,
    failing: bool,
}

/// As long as it lives, its task is among those that the process runs.
#[derive(Debug)]
pub(crate) struct Runs {
    task: TaskId,
    presence: Arc<Presence>,
}

impl Drop for Runs {
    fn drop(&mut self) {
        let mut known = self.presence.known();
        if let Some(turns) = known.running.get_mut(&self.task) {
            *turns -= 1;
            if *turns == 0 {
                known.running.remove(&self.task);
            }
        }
    }
}

impl Presence {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, part: Part) -> u64 {
        let mut known = self.known();
        known.joined += 1;
        let number = known.joined;
        known.parts.insert(number, part);
        number
    }

    /// Tasks at a time, of all its parts.
    pub(crate) fn concurrency(&self) -> usize {
        self.known()
            .parts
            .values()
            .map(|part| part.concurrency)
            .sum()
    }

    /// Whether others are left.
    fn leave(&self, number: u64) -> bool {
        let mut known = self.known();
        known.parts.remove(&number);
        !known.parts.is_empty()
    }

    /// The eldest speaks for all.
    fn speaks(&self, number: u64) -> bool {
        self.known().parts.keys().next() == Some(&number)
    }
}

impl Engine {
    /// Does the work, and meanwhile says that this process is there.
    pub fn present<'a, T: Send + 'a>(
        &'a self,
        part: Part,
        work: BoxFuture<'a, T>,
    ) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let number = self.presence.join(part);
            let (over, mut ended) = oneshot::channel::<()>();
            let work = async move {
                let done = work.await;
                drop(over);
                done
            };
            let speaking = async {
                self.register(self.as_it_is()).await;
                let pause = refreshed_every(self.settings.lost_after);
                while let Either::Left(_) = select(self.ports.clock.sleep(pause), &mut ended).await
                {
                    if self.presence.speaks(number) {
                        self.register(self.as_it_is()).await;
                    }
                }
            };
            let (done, ()) = join(work, speaking).await;
            // Where others are left, their next word says it. One of this part could arrive after
            // their last, and the process would be listed as alive once more. With what this part
            // served: its row stays for a day.
            let stopped = self.stopped();
            if !self.presence.leave(number) {
                self.register(stopped).await;
            }
            done
        })
    }

    /// Notes what a pass of this reconciler did, and when it was complete by this process's timer;
    /// the next word about this process has it.
    pub fn passed(&self, at: Duration, counts: BTreeMap<String, u64>) {
        self.presence.known().passed = Some((at, counts));
    }

    /// Writes what the only pass of this process did, for those who watch that there are passes.
    pub fn passed_once(&self, counts: BTreeMap<String, u64>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.passed(self.ports.clock.monotonic(), counts);
            self.register(WorkerRow {
                id: ONE_PASS.to_owned(),
                ..self.stopped()
            })
            .await;
        })
    }

    /// Whether the store takes writes: a full disk and a standby answer every question. Writes what
    /// this process says of itself, where it says anything; one that does not is only answered.
    ///
    /// # Errors
    /// When the store does not answer, or cannot be written to.
    pub fn check_store(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            // A task that is nowhere, by the way of every request: lists have connections of their
            // own, which may be busy.
            self.ports.store.load(TaskId(uuid::Uuid::nil())).await?;
            if !self.presence.known().parts.is_empty() {
                self.ports.store.refresh_worker(&self.as_it_is()).await?;
            }
            Ok(())
        })
    }

    /// Plans to forget the processes that were not seen for a day, whether or not they said that
    /// they stop.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn plan_forget(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move { Ok(forgotten(self.ports.store.workers().await?)) })
    }

    /// Forgets processes, where they have not been seen meanwhile. Returns how many.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn forget(&self, ids: Vec<String>) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            if ids.is_empty() {
                return Ok(0);
            }
            self.ports.store.forget_workers(&ids, REMEMBERED).await
        })
    }

    pub(crate) fn runs(&self, task: TaskId) -> Runs {
        *self.presence.known().running.entry(task).or_default() += 1;
        Runs {
            task,
            presence: self.presence.clone(),
        }
    }

    fn as_it_is(&self) -> WorkerRow {
        let known = self.presence.known();
        let queues: BTreeSet<_> = known
            .parts
            .values()
            .flat_map(|part| part.queues.clone())
            .collect();
        let concurrency: usize = known.parts.values().map(|part| part.concurrency).sum();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        WorkerRow {
            id: self.id.to_string(),
            machine: self.settings.machine.clone(),
            program: self.settings.program.clone(),
            queues: queues.into_iter().collect(),
            types: self.registry.known(),
            concurrency: count(concurrency),
            running: known.running.keys().copied().take(NAMED).collect(),
            running_count: count(known.running.len()),
            lost_after: self.settings.lost_after,
            passed: known.passed.clone().map(|(at, counts)| Passed {
                ago: self.ports.clock.monotonic().saturating_sub(at),
                counts,
            }),
            started_at: known.started_at,
            is_stopped: false,
        }
    }

    fn stopped(&self) -> WorkerRow {
        WorkerRow {
            running: Vec::new(),
            running_count: 0,
            is_stopped: true,
            ..self.as_it_is()
        }
    }

    /// Writes the row of this process. Dropped at its time limit: the next write has all of it.
    async fn register(&self, row: WorkerRow) {
        let refresh = Box::pin(self.ports.store.refresh_worker(&row));
        let said = match select(refresh, self.ports.clock.sleep(REFRESH_TAKES)).await {
            Either::Left((said, _)) => said,
            Either::Right(_) => Err(StoreError::Unavailable(format!(
                "no answer within {REFRESH_TAKES:?}"
            ))),
        };
        let failing = {
            let mut known = self.presence.known();
            if let Ok(now) = said {
                known.started_at.get_or_insert(now);
            }
            std::mem::replace(&mut known.failing, said.is_err())
        };
        match said {
            Ok(_) if failing => tracing::info!("worker registration restored"),
            Ok(_) => {}
            // Once; it works on all the same.
            Err(error) if !failing => {
                tracing::warn!(%error, "worker registration failed: this process may be listed as lost");
            }
            Err(error) => tracing::debug!(%error, "worker registration failed again"),
        }
    }
}

fn forgotten(found: Workers) -> Vec<String> {
    let now = found.now;
    found
        .rows
        .into_iter()
        .filter(|seen| now.after(seen.seen_at) >= REMEMBERED)
        .map(|seen| seen.row.id)
        .collect()
}
