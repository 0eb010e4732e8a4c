//! The table `task_logs`. Must not read a body.

use super::PostgresStore;
use super::fault::Fault;
use super::statement::{Statement, values};
use crate::rows::{LogRead, LogTypes, each};
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{
    LogRow, LogWrite, Logs, MOST_LOG_BYTES, MOST_LOG_LINES, StoreError,
};
use diesel::sql_types as sql;

fn of(task: TaskId) -> Statement<'static, LogTypes> {
    Statement::of(
        "SELECT epoch, no, lines, bytes, dropped, body FROM task_logs WHERE task = ? ORDER BY epoch, no",
        values![task.0],
    )
}

// A log that is lost with the server's power is lost, and no commit waits for the disk because of it. Of a
// task that is purged meanwhile nothing is written.
fn write(write: &LogWrite) -> Result<Statement<'_, sql::Integer>, Fault> {
    let (task, row) = (write.task.0, &write.row);
    let count = |value: u32| {
        i32::try_from(value).map_err(|error| Fault::Corrupt(format!("task_logs: {error}")))
    };
    let (no, lines, bytes) = (count(row.no)?, count(row.lines)?, count(row.bytes)?);
    let dropped = i64::try_from(row.dropped).unwrap_or(i64::MAX);
    Ok(Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set),
         wanted AS MATERIALIZED (SELECT t.id FROM tasks t, relaxed WHERE relaxed.set IS NOT NULL AND t.id = ?
           AND (SELECT 1 FROM task_logs l WHERE l.task = ? AND l.epoch = ? AND l.no = ?) IS NULL),
         surplus AS MATERIALIZED (SELECT l.* FROM wanted JOIN LATERAL (
             SELECT k.task, k.epoch, k.no, k.lines, k.dropped,
               sum(k.lines) OVER latest - k.lines AS lines_after, sum(k.bytes) OVER latest - k.bytes AS bytes_after
             FROM task_logs k WHERE k.task = wanted.id WINDOW latest AS (ORDER BY k.epoch DESC, k.no DESC)) l ON TRUE
           WHERE l.lines_after + ? >= ? OR l.bytes_after + ? >= ?),
         gone AS (DELETE FROM task_logs l USING surplus s WHERE l.task = s.task AND l.epoch = s.epoch AND l.no = s.no)
         INSERT INTO task_logs (task, epoch, no, lines, bytes, dropped, body)
         SELECT wanted.id, ?, ?, ?, ?, ? + (SELECT coalesce(sum(s.lines + s.dropped), 0)::bigint FROM surplus s), ?
         FROM wanted ON CONFLICT DO NOTHING RETURNING no",
        values![
            task,
            task,
            row.epoch.0,
            no,
            i64::from(row.lines),
            i64::from(MOST_LOG_LINES),
            i64::from(row.bytes),
            i64::from(MOST_LOG_BYTES),
            row.epoch.0,
            no,
            lines,
            bytes,
            dropped,
            row.body.as_str()
        ],
    ))
}

#[async_trait]
impl Logs for PostgresStore {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        let rows = self.database.read(of(task)).await?;
        Ok(each(rows, LogRead::decode)?)
    }

    async fn write_log(&self, row: &LogWrite) -> Result<(), StoreError> {
        self.database.relaxed::<_, i32>(write(row)?).await?;
        Ok(())
    }
}
