//! The port of what steps log: rows of lines beside the task, bounded, and no part of its state.

use super::errors::StoreError;
use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use serde::{Deserialize, Serialize};

/// Maximum number of a task's latest log lines that are kept.
pub const MOST_LOG_LINES: u32 = 200;

/// Maximum bytes of a task's latest log lines that are kept.
pub const MOST_LOG_BYTES: u32 = 64 * 1024;

/// Some lines of a task. Epoch and number name the row, so that it can be written again where an
/// answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRow {
    /// The epoch under which they were logged; 0 before the task was accepted.
    pub epoch: Epoch,
    /// Its number among the rows of this epoch, from 1.
    pub no: u32,
    /// How many lines it has.
    pub lines: u32,
    /// The length of `body` as it was made.
    pub bytes: u32,
    /// Number of lines before these that were dropped.
    pub dropped: u64,
    /// The lines, as JSON.
    pub body: String,
}

/// A row that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogWrite {
    /// Id of the task.
    pub task: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// The row.
    pub row: LogRow,
}

/// The logs of tasks.
#[async_trait]
pub trait Logs {
    /// All rows of a task, by epoch and number.
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError>;

    /// Writes a row, where its task is there and the row is not. The oldest rows go that are not
    /// needed for the latest [`MOST_LOG_LINES`] and the latest [`MOST_LOG_BYTES`]; the new row counts
    /// their lines as dropped. Leaves the task alone, and need not be on the disk when it returns.
    async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError>;
}
