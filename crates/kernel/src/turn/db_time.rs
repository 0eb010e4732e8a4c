//! What time it is by the database, for a turn: read with its rows, and counted on from there by this host's timer. Deadlines
//! and due times are judged by it.

use super::read_at::ReadAt;
use super::turn_loop::Turn;
use crate::record::DbTime;
use counterstep_contracts::Direction;
use std::sync::Arc;
use std::time::Duration;

impl Turn<'_> {
    /// The database's time now, by this host's timer since it was last read.
    pub(super) fn now(&self) -> DbTime {
        self.record
            .now
            .later(self.read_at.until(ReadAt::now(self.engine)))
    }

    /// The limit of an attempt that begins now, cut short where the deadline of the task comes first. Nothing is left of it
    /// where the deadline is over.
    pub(super) fn within_deadline(&self, direction: Direction, limit: Duration) -> Duration {
        match (direction, self.record.task.deadline_at) {
            (Direction::Forward, Some(deadline)) => limit.min(deadline.after(self.now())),
            (Direction::Forward, None) | (Direction::Undo, _) => limit,
        }
    }

    /// Reads the database's time anew where the timer cannot have counted all that has passed. Without an answer the turn goes on
    /// with what it knows: its commit is not answered either.
    pub(super) async fn follow_calendar(&mut self) {
        let read_at = ReadAt::now(self.engine);
        if !self.read_at.is_set_forward(read_at) {
            return;
        }
        let (store, task) = (&self.engine.ports.store, &self.record.task);
        let ttl = self.engine.settings.lease_of(&self.task_type);
        // The time of an SQLite file follows the calendar with a write alone.
        if store.heartbeat(task.id, task.epoch, ttl).await.is_err() {
            return;
        }
        if let Ok(Some(record)) = store.load(task.id).await {
            (Arc::make_mut(&mut self.record).now, self.read_at) = (record.now, read_at);
        }
    }
}
