//! What sweeps ask beyond the tasks themselves: receives, and the removal of tasks.

use super::SqliteStore;
use super::deleted::LogSince;
use super::pool::{Durability, OpenError};
use super::{receives, retention};
use async_trait::async_trait;
use counterstep_kernel::ports::{EndedTask, PurgeOp, ReceiveOp, Receives, StoreError, Upkeep};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;

impl SqliteStore {
    /// Writes the file anew, without what was deleted by programs that did not overwrite it. Takes as long as a copy of it, and
    /// as much room meanwhile; others cannot write until it is done.
    ///
    /// # Errors
    /// [`OpenError`]; the file stays as it is then.
    pub async fn vacuum(&self) -> Result<(), OpenError> {
        self.database.vacuum().await
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        let durability = match op {
            ReceiveOp::Overdue { .. } | ReceiveOp::Of(_) => None,
            // On the disk before anything is deleted: else a submission could take, after a power
            // cut, what is gone.
            ReceiveOp::Condemn(_) => Some(Durability::Full),
            // One that is lost in a power cut means that a sweep finds nothing to delete.
            ReceiveOp::Swept(_) => Some(Durability::Relaxed),
        };
        let op = op.clone();
        let work = move |connection: &mut SqliteConnection, now| {
            Ok(Receives {
                now: DbTime(now),
                rows: receives::work(connection, &op, now)?,
            })
        };
        Ok(match durability {
            None => self.database.read_at(work).await?,
            Some(durability) => self.database.write(durability, work).await?,
        })
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        let op = op.clone();
        Ok(match op {
            PurgeOp::OldestTombstones { limit } => {
                self.database
                    .read(move |connection| retention::tombstones(connection, limit))
                    .await?
            }
            PurgeOp::TombstonesOf(tasks) => {
                self.database
                    .read(move |connection| retention::tombstones_of(connection, &tasks))
                    .await?
            }
            PurgeOp::Purge(tasks) => {
                let purge = move |connection: &mut SqliteConnection, now| {
                    let mut purged = Vec::with_capacity(tasks.len());
                    for task in &tasks {
                        if retention::purge(connection, task, now)? {
                            purged.push(task.clone());
                        }
                    }
                    if !purged.is_empty() {
                        LogSince::begin(connection, now)?;
                    }
                    Ok(purged)
                };
                // On the disk before any object is deleted.
                let purged = self.database.write(Durability::Full, purge).await?;
                if !purged.is_empty() {
                    self.database.has_deleted();
                }
                purged
            }
            PurgeOp::Forget(tasks) => {
                if !tasks.is_empty() {
                    let forget = move |connection: &mut SqliteConnection, _| {
                        for task in &tasks {
                            retention::forget(connection, *task)?;
                        }
                        Ok(())
                    };
                    self.database.write(Durability::Relaxed, forget).await?;
                }
                self.database.empty_log().await;
                Vec::new()
            }
        })
    }
}
