//! What sweeps ask beyond the tasks themselves.

use super::statement::clocked;
use super::{PostgresStore, receives, retention};
use crate::rows::{EndedRow, ReceiveRow, each};
use async_trait::async_trait;
use counterstep_kernel::ports::{EndedTask, PurgeOp, ReceiveOp, Receives, StoreError, Upkeep};

#[async_trait]
impl Upkeep for PostgresStore {
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        let rows = match op {
            ReceiveOp::Overdue { .. } | ReceiveOp::Of(_) => {
                self.database.read(receives::work(op)).await?
            }
            ReceiveOp::Condemn(_) | ReceiveOp::Swept(_) => {
                self.database.rows(receives::work(op)).await?
            }
        };
        let (now, rows) = clocked(rows);
        let rows = each(rows, ReceiveRow::decode)?;
        Ok(Receives { now, rows })
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        let rows = match op {
            PurgeOp::OldestTombstones { limit } => {
                self.database.read(retention::tombstones(*limit)).await?
            }
            PurgeOp::TombstonesOf(tasks) => {
                self.database.read(retention::tombstones_of(tasks)).await?
            }
            PurgeOp::Purge(tasks) => self.database.rows(retention::purge(tasks)).await?,
            PurgeOp::Forget(tasks) if tasks.is_empty() => return Ok(Vec::new()),
            PurgeOp::Forget(tasks) => self.database.rows(retention::forget(tasks)).await?,
        };
        Ok(each(rows, EndedRow::decode)?)
    }
}
