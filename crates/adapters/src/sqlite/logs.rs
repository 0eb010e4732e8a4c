//! The table `task_logs`. Must not read a body.

use super::SqliteStore;
use super::fault::Fault;
use super::pool::Durability;
use super::prepared::{Prepare, Statement};
use crate::rows::{LogRead, each};
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{
    LogRow, LogWrite, Logs, MOST_LOG_BYTES, MOST_LOG_LINES, StoreError,
};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

fn of(connection: &mut SqliteConnection, task: TaskId) -> Result<Vec<LogRow>, Fault> {
    let rows = diesel::sql_query(
        "SELECT epoch, no, lines, bytes, dropped, body FROM task_logs WHERE task = ? ORDER BY epoch, no",
    )
    .bind::<Text, _>(task.to_string())
    .prepared()
    .load(connection)?;
    Ok(each(rows, LogRead::decode)?)
}

#[derive(Debug, QueryableByName)]
struct Gone {
    #[diesel(sql_type = BigInt)]
    lines: i64,
}

/// Of a task that is purged meanwhile nothing is written.
fn write(connection: &mut SqliteConnection, write: &LogWrite) -> QueryResult<()> {
    let (task, row) = (write.task.to_string(), &write.row);
    let (epoch, no) = (row.epoch.0, i64::from(row.no));
    let added = Statement {
        text: "INSERT INTO task_logs (task, epoch, no, lines, bytes, dropped, body)
               SELECT id, ?, ?, ?, ?, ?, ? FROM tasks WHERE id = ? ON CONFLICT DO NOTHING",
        values: [
            epoch.into(),
            no.into(),
            i64::from(row.lines).into(),
            i64::from(row.bytes).into(),
            i64::try_from(row.dropped).unwrap_or(i64::MAX).into(),
            (&row.body).into(),
            (&task).into(),
        ],
    };
    if added.execute(connection)? == 0 {
        return Ok(());
    }
    let gone: Vec<Gone> = diesel::sql_query(
        "DELETE FROM task_logs WHERE task = ?1 AND (epoch, no) IN (SELECT epoch, no FROM (
             SELECT epoch, no, sum(lines) OVER latest - lines AS lines_after, sum(bytes) OVER latest - bytes AS bytes_after
             FROM task_logs WHERE task = ?1 WINDOW latest AS (ORDER BY epoch DESC, no DESC))
           WHERE lines_after >= ?2 OR bytes_after >= ?3)
         RETURNING lines + dropped AS lines",
    )
    .bind::<Text, _>(&task)
    .bind::<BigInt, _>(i64::from(MOST_LOG_LINES))
    .bind::<BigInt, _>(i64::from(MOST_LOG_BYTES))
    .prepared()
    .load(connection)?;
    let dropped: i64 = gone.iter().map(|gone| gone.lines).sum();
    if dropped > 0 {
        let counted = Statement {
            text: "UPDATE task_logs SET dropped = dropped + ? WHERE task = ? AND epoch = ? AND no = ?",
            values: [dropped.into(), (&task).into(), epoch.into(), no.into()],
        };
        counted.execute(connection)?;
    }
    Ok(())
}

#[async_trait]
impl Logs for SqliteStore {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        let read = move |connection: &mut SqliteConnection| of(connection, task);
        Ok(self.database.read(read).await?)
    }

    async fn write_log(&self, row: &LogWrite) -> Result<(), StoreError> {
        let row = row.clone();
        let add = move |connection: &mut SqliteConnection, _| Ok(write(connection, &row)?);
        Ok(self.database.write(Durability::Relaxed, add).await?)
    }
}
