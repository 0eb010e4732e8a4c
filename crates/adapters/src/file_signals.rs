//! Signals for several processes on one database file: what this process sends, and the cancels
//! that others accepted, looked for in the file. A cancel that is overlooked here is told by the
//! next heartbeat; this is only sooner.

use crate::sqlite::Database;
use crate::sqlite::prepared::Prepare;
use crate::system::LocalSignals;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Signal, Signals};
use diesel::prelude::*;
use diesel::sql_types::Text;
use futures::stream::BoxStream;
use std::time::Duration;

/// How often the file is looked at: a few microseconds each, over the tasks that are being worked
/// on.
const PAUSE: Duration = Duration::from_millis(200);

/// Signals within this process, and cancels from all processes on one file.
#[derive(Debug, Clone)]
pub struct FileSignals(LocalSignals);

impl FileSignals {
    /// Looks at the file until the last clone is dropped. Needs a Tokio runtime.
    #[must_use]
    pub fn of(database: Database) -> Self {
        let local = LocalSignals::new();
        let listeners = local.downgrade();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PAUSE).await;
                let cancelled = match database.read(|connection| Ok(cancelled(connection)?)).await {
                    Ok(cancelled) => cancelled,
                    Err(fault) => {
                        tracing::debug!(
                            ?fault,
                            "looking for cancels failed; the heartbeats tell them"
                        );
                        continue;
                    }
                };
                let Some(local) = listeners.upgrade() else {
                    return;
                };
                // Sent again each time until the task has stopped: a new listener receives it too.
                for task in cancelled
                    .iter()
                    .filter_map(|found| found.id.parse::<TaskId>().ok())
                {
                    local.send(Signal::CancelRequested(task));
                }
            }
        });
        Self(local)
    }
}

impl Signals for FileSignals {
    fn send(&self, signal: Signal) {
        self.0.send(signal);
    }

    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()> {
        self.0.cancels_of(task)
    }

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        self.0.subscribe()
    }
}

#[derive(QueryableByName)]
struct CancelledRow {
    #[diesel(sql_type = Text)]
    id: String,
}

/// Running tasks with an accepted cancel, along the index of the leases.
fn cancelled(connection: &mut SqliteConnection) -> QueryResult<Vec<CancelledRow>> {
    diesel::sql_query(
        "SELECT id FROM tasks INDEXED BY tasks_leased
         WHERE lease_owner IS NOT NULL AND cancel_requested_at IS NOT NULL AND status = 'running'",
    )
    .prepared()
    .load(connection)
}
