//! The way of a process to the database: slow, refused, or with its answer lost.

use super::faults::Trouble::{self, StoreDone, StoreLater, StoreNotDone, StoreRefuses, StoreSlow};
use super::link::Link;
use super::world::By;
use crate::through::Around;
use async_trait::async_trait;
use counterstep_contracts::{Epoch, Rev, TaskId};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    CommitError, Committed, DocumentQuery, DocumentWrite, DocumentsPut, Heartbeat, LoadFor,
    LoadedTask, Storage, StoreError,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Around the calls of a process.
#[derive(Debug)]
pub(super) struct StoreLink(pub(super) Arc<Link>);

const READS: [Trouble; 2] = [StoreRefuses, StoreSlow];
const WRITES: [Trouble; 3] = [StoreRefuses, StoreDone, StoreSlow];
const COMMITS: [Trouble; 5] = [StoreRefuses, StoreDone, StoreNotDone, StoreLater, StoreSlow];

/// Calls that change something beside tasks.
const CHANGES: [&str; 7] = [
    "put",
    "heartbeat",
    "touch",
    "outbox",
    "receives",
    "purge",
    "write_log",
];

fn away() -> StoreError {
    StoreError::Unavailable("no answer (simulated)".to_owned())
}

impl StoreLink {
    /// Waits during an outage of the database, for as long as a call may take.
    async fn outage(&self) -> Result<(), StoreError> {
        let Some(ends_in) = self.0.world.outage() else {
            return Ok(());
        };
        let limit = Duration::from_secs(10);
        sleep(ends_in.min(limit)).await;
        self.0.feels(Trouble::Outage);
        if ends_in > limit {
            return Err(away());
        }
        Ok(())
    }
}

/// At which revision a document is; 0: there is none.
async fn revision(store: &dyn Storage, of: &DocumentWrite) -> Result<Rev, StoreError> {
    let query = DocumentQuery::Named {
        kind: of.kind,
        tenant: of.tenant.clone(),
        names: vec![of.name.clone()],
    };
    let found = store.documents(&query).await?;
    Ok(found.rows.first().map_or(Rev(0), |row| row.rev))
}

#[async_trait]
impl Around for StoreLink {
    async fn call<T: Send>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let link = &self.0;
        let troubles: &[Trouble] = if CHANGES.contains(&name) {
            &WRITES
        } else {
            &READS
        };
        let struck = link.next(name, troubles).await;
        self.outage().await?;
        let answer = match struck {
            None => call.await,
            Some((StoreSlow, mut choice)) => {
                link.waits(&mut choice, 1, 2_000).await;
                link.feels(StoreSlow);
                call.await
            }
            Some((StoreDone, mut choice)) => {
                let _ = call.await;
                link.waits(&mut choice, 1, 10_000).await;
                link.feels(StoreDone);
                Err(StoreError::Unknown(
                    "its answer was lost (simulated)".to_owned(),
                ))
            }
            Some((trouble, mut choice)) => {
                link.waits(&mut choice, 0, 10_000).await;
                link.feels(trouble);
                Err(away())
            }
        };
        if link.is_closed() {
            std::future::pending().await
        }
        match &answer {
            Ok(_) => link
                .world
                .trace
                .mark(link.world.now(), (&link.process, name)),
            Err(error) => link.note((name, false), || format!("{name}: {error}")),
        }
        answer
    }

    async fn load(
        &self,
        store: &dyn Storage,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        for task in tasks {
            self.0.looks_at(*task);
        }
        let read = self.call("load", store.load(tasks, purpose)).await;
        if read.is_ok() {
            tasks.iter().for_each(|task| self.0.has_read(*task));
        }
        read
    }

    async fn heartbeat(
        &self,
        store: &dyn Storage,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        let world = &self.0.world;
        let beat = async {
            let (machine, before) = (world.machine.timer(), world.watch.epoch_and_change(task));
            let answer = store.heartbeat(task, epoch, ttl).await;
            match &answer {
                Ok(Heartbeat::Held { .. }) => {
                    if let Some((current, _)) = before.filter(|(current, _)| *current > epoch) {
                        world.watch.fails(format!(
                            "1: a heartbeat under epoch {epoch} prolongs the lease of task {task}, which is at epoch {current}"
                        ));
                    }
                    world.watch.prolonged(task, machine + ttl);
                }
                Ok(Heartbeat::Lost) => world.watch.reached("heartbeat of a lost lease"),
                Err(_) => {}
            }
            answer
        };
        self.call("heartbeat", beat).await
    }

    /// Nothing is written between the look and the write: both are done where this is polled.
    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        let link = &self.0;
        let put = async {
            let mut decided = Vec::new();
            for write in writes {
                if let Some(expected) = write.expected {
                    decided.push((write, expected, revision(store, write).await?));
                }
            }
            let answer = store.put(writes).await;
            let is_written = matches!(answer, Ok(DocumentsPut::Written(_)));
            for (write, expected, rev) in decided {
                let of = format!("the document `{}` ({})", write.name, write.kind.as_str());
                if is_written {
                    link.note(("document", &write.name), || {
                        format!("changes {of} at revision {rev}")
                    });
                    if rev != expected {
                        link.world.watch.fails(format!(
                            "23: {} changes {of} as decided on revision {expected}, and it was at {rev}",
                            link.process
                        ));
                    }
                } else if rev != expected {
                    link.world.watch.reached("document changed meanwhile");
                }
            }
            answer
        };
        self.call("put", put).await
    }

    async fn commit(
        &self,
        _: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let (link, world) = (&self.0, &self.0.world);
        for change in changes {
            link.looks_at(change.task_id);
        }
        let asked = world.now();
        let struck = link.next("commit", &COMMITS).await;
        self.outage().await?;
        let by = || By {
            process: link.process.clone(),
            storage: link.storage.clone(),
        };
        let unknown = || {
            for change in changes.iter().filter(|it| it.task.is_some()) {
                link.knows_nothing_of(change);
            }
            StoreError::Unknown("its answer was lost (simulated)".to_owned())
        };
        let answer = match struck {
            None => world.commit(by(), guard, changes).await,
            Some((StoreSlow, mut choice)) => {
                let before = choice.chance(500);
                if before {
                    link.waits(&mut choice, 1, 5_000).await;
                }
                let answer = world.commit(by(), guard, changes).await;
                if !before {
                    link.waits(&mut choice, 1, 5_000).await;
                }
                link.feels(StoreSlow);
                answer
            }
            Some((StoreRefuses, mut choice)) => {
                link.waits(&mut choice, 0, 10_000).await;
                link.feels(StoreRefuses);
                Err(away().into())
            }
            Some((StoreDone, mut choice)) => {
                let written = world.commit(by(), guard, changes).await;
                link.waits(&mut choice, 1, 10_000).await;
                link.feels(StoreDone);
                match written {
                    Ok(_) => Err(unknown().into()),
                    // What is refused is not written, and its caller may know.
                    refused => refused,
                }
            }
            Some((trouble, mut choice)) => {
                if trouble == StoreLater {
                    let after = choice.within(1, 30_000);
                    world.commit_later(by(), guard, changes.to_vec(), after);
                }
                link.waits(&mut choice, 1, 10_000).await;
                link.feels(trouble);
                Err(unknown().into())
            }
        };
        let tasks = changes.iter().map(|change| change.task_id);
        let now = world.now();
        world.executions.answered(&link.process, tasks, asked, now);
        if link.is_closed() {
            std::future::pending().await
        }
        answer
    }
}
