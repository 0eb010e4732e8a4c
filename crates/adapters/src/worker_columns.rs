//! The way of what a process says of itself between the columns of the table `workers` and the kernel's types, the same
//! for every database with tables.

use crate::columns::{Unreadable, count, micros, read_json, write_json};
use counterstep_contracts::QueueName;
use counterstep_contracts::workers::WorkerType;
use counterstep_kernel::ports::{KnownType, Passed, WorkerRow, WorkerSeen};
use counterstep_kernel::record::DbTime;
use std::time::Duration;

/// A row, but for its times.
#[derive(Debug, Clone)]
pub(crate) struct WorkerColumns {
    pub(crate) id: String,
    pub(crate) machine: String,
    pub(crate) program: String,
    pub(crate) queues: String,
    pub(crate) types: String,
    pub(crate) running: String,
    pub(crate) concurrency: i64,
    pub(crate) running_count: i64,
    pub(crate) lost_after: i64,
    pub(crate) passed: Option<String>,
}

/// The times of a row, and the database's now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerTimes {
    pub(crate) now: DbTime,
    pub(crate) passed_at: Option<DbTime>,
    pub(crate) started_at: DbTime,
    pub(crate) seen_at: DbTime,
    pub(crate) stopped_at: Option<DbTime>,
}

impl WorkerColumns {
    /// The columns of a row.
    pub(crate) fn encode(row: &WorkerRow) -> Result<Self, Unreadable> {
        let of = |of: &KnownType| WorkerType {
            name: of.name.clone(),
            version: of.version,
            definition: of.definition.clone(),
        };
        let types: Vec<_> = row.types.iter().map(of).collect();
        Ok(Self {
            id: row.id.clone(),
            machine: row.machine.clone(),
            program: row.program.clone(),
            queues: write_json(&row.queues)?,
            types: write_json(&types)?,
            running: write_json(&row.running)?,
            concurrency: row.concurrency.into(),
            running_count: row.running_count.into(),
            lost_after: micros(row.lost_after),
            passed: row.passed.as_ref().map(|passed| write_json(&passed.counts)).transpose()?,
        })
    }

    /// The row that the columns say.
    pub(crate) fn decode(self, times: WorkerTimes) -> Result<WorkerSeen, Unreadable> {
        let types: Vec<WorkerType> = read_json("workers.types", &self.types)?;
        let passed = match (times.passed_at, &self.passed) {
            (Some(at), Some(counts)) => {
                Some(Passed { ago: times.now.after(at), counts: read_json("workers.passed", counts)? })
            }
            _ => None,
        };
        let of = |of: WorkerType| KnownType { name: of.name, version: of.version, definition: of.definition };
        let row = WorkerRow {
            id: self.id,
            machine: self.machine,
            program: self.program,
            queues: read_json::<Vec<QueueName>>("workers.queues", &self.queues)?,
            types: types.into_iter().map(of).collect(),
            concurrency: count("workers.concurrency", self.concurrency)?,
            running: read_json("workers.running", &self.running)?,
            running_count: count("workers.running_count", self.running_count)?,
            lost_after: Duration::from_micros(u64::try_from(self.lost_after).unwrap_or_default()),
            passed,
        };
        let WorkerTimes { started_at, seen_at, stopped_at, .. } = times;
        Ok(WorkerSeen { row, started_at, seen_at, stopped_at })
    }
}
