//! What sweeps ask: tasks to look at.

use super::statement::{Statement, interval, values};
use super::{PostgresStore, receives, retention};
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{
    EndedTask, PurgeOp, ReceiveOp, Receives, StoreError, SweepOp, Upkeep,
};
use diesel::sql_types as sql;
use std::time::Duration;
use uuid::Uuid;

/// Tasks that a sweep is to look at, the longest due first.
fn due(limit: u32) -> Statement<'static, sql::Uuid> {
    Statement::of(
        "SELECT id FROM tasks WHERE sweep_at <= now() ORDER BY sweep_at LIMIT ?",
        values![i64::from(limit)],
    )
}

/// Moves the time of tasks for a sweep, where they have one. Leaves their revision alone.
fn put_off(tasks: &[TaskId], by: Duration) -> Statement<'static, sql::Uuid> {
    let mut ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    ids.sort_unstable();
    Statement::of(
        "WITH asked AS MATERIALIZED (
           SELECT id FROM tasks WHERE id = ANY(?) AND sweep_at IS NOT NULL ORDER BY id FOR UPDATE SKIP LOCKED)
         UPDATE tasks t SET sweep_at = now() + ? FROM asked WHERE t.id = asked.id RETURNING t.id",
        values![ids, interval(by)],
    )
}

#[async_trait]
impl Upkeep for PostgresStore {
    async fn sweeps(&self, op: &SweepOp) -> Result<Vec<TaskId>, StoreError> {
        let ids: Vec<Uuid> = match op {
            SweepOp::Due { limit } => self.database.read(due(*limit)).await?,
            SweepOp::PutOff { tasks, by } => self.database.rows(put_off(tasks, *by)).await?,
        };
        Ok(ids.into_iter().map(TaskId).collect())
    }

    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        let rows: Vec<receives::ReceiveRead> = match op {
            ReceiveOp::Overdue { .. } | ReceiveOp::Of(_) => {
                self.database.read(receives::work(op)).await?
            }
            ReceiveOp::Condemn(_) | ReceiveOp::Swept(_) => {
                self.database.rows(receives::work(op)).await?
            }
        };
        Ok(receives::decode(rows))
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        let rows: Vec<retention::EndedTaskRead> = match op {
            PurgeOp::Ended {
                task_type,
                status,
                before,
                after,
                limit,
            } => {
                self.database
                    .read(retention::ended(
                        task_type, *status, *before, *after, *limit,
                    )?)
                    .await?
            }
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
        Ok(rows.into_iter().map(retention::decode).collect())
    }
}
