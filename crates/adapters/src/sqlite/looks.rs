//! Loads of many callers in one snapshot, under load: one way to a thread that may block, and one look at the clock, for
//! all of them. Must not know a table.

use super::fault::Care;
use super::pool::Database;
use super::read_task;
use crate::gate::{Carry, Gate};
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::record::TaskRecord;
use diesel::SqliteConnection;
use futures::FutureExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Snapshots at a time, at most: the other readers are for lists and polls.
const WIDTH: usize = 2;

/// So many are worth a snapshot beside the one under way.
const FULL: usize = 32;

/// As many as one snapshot serves.
const MOST: usize = 128;

/// Who has waited for so long does not wait for the snapshot under way any longer.
const LONG: Duration = Duration::from_millis(50);

struct Look {
    number: u64,
    task: TaskId,
    tell: oneshot::Sender<Result<Option<TaskRecord>, StoreError>>,
}

/// The way to load a task. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Looks {
    gate: Gate<Look>,
    numbers: Arc<AtomicU64>,
    wait: Duration,
}

impl Looks {
    /// `wait`: for so long a load waits for its turn.
    pub(super) fn new(database: Database, wait: Duration) -> Self {
        let pick = |line: &mut VecDeque<Look>| line.drain(..line.len().min(MOST)).collect();
        let carry: Carry<Look> = Box::new(move |looks| carry(database.clone(), looks).boxed());
        Self { gate: Gate::new(WIDTH, FULL, pick, carry), numbers: Arc::default(), wait }
    }

    pub(super) async fn load(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        let (tell, mut told) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let place = self.gate.place(move |look| look.number == number);
        self.gate.wait(Look { number, task, tell });
        let answer = match timeout(LONG, &mut told).await {
            Ok(answer) => answer,
            Err(_) => {
                self.gate.hurry();
                match timeout(self.wait, &mut told).await {
                    Ok(answer) => answer,
                    Err(_) if place.leave() => {
                        let text = format!("no turn at the database file within {:?}: it is slow", self.wait);
                        return Err(StoreError::Unavailable(text));
                    }
                    Err(_) => told.await,
                }
            }
        };
        answer.unwrap_or_else(|_| Err(StoreError::Unavailable("the load did not come to its end".to_owned())))
    }
}

async fn carry(database: Database, looks: Vec<Look>) {
    // Who has gone away in the line is not looked for.
    let (tasks, tells): (Vec<_>, Vec<_>) =
        looks.into_iter().filter(|look| !look.tell.is_closed()).map(|look| (look.task, look.tell)).unzip();
    let read = move |connection: &mut SqliteConnection, now| {
        let one = |task: &TaskId| read_task(connection, now, *task, &mut Care::Strict).map_err(StoreError::from);
        Ok(tasks.iter().map(one).collect::<Vec<_>>())
    };
    match database.read_at(read).await {
        Ok(found) => {
            for (tell, found) in tells.into_iter().zip(found) {
                // Nobody may be waiting any more.
                let _ = tell.send(found);
            }
        }
        Err(fault) => {
            let error = StoreError::from(fault);
            for tell in tells {
                let _ = tell.send(Err(error.clone()));
            }
        }
    }
}
