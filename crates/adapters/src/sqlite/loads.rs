//! Loads of many callers in one snapshot, under load: one blocking thread, and one reading of the
//! clock, for all of them. Must not know a table.

use super::fault::Care;
use super::pool::Database;
use super::read_task;
use crate::batch::{Batcher, Flush, Limits, NoReply, Queued};
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::record::TaskRecord;
use diesel::SqliteConnection;
use futures::FutureExt;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::oneshot;

/// Snapshots at a time, at most: the other readers are for lists and polls.
const WIDTH: usize = 2;

/// So many loads are worth a snapshot beside the one under way.
const FULL: usize = 32;

/// As many loads as one snapshot serves.
const MOST: usize = 128;

struct Load {
    task: TaskId,
    reply: oneshot::Sender<Result<Option<TaskRecord>, StoreError>>,
}

/// Loads the tasks of a file. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Loads {
    batcher: Batcher<Load>,
    wait: Duration,
}

impl Loads {
    /// `wait`: for so long a load waits for its turn.
    pub(super) fn new(database: Database, wait: Duration) -> Self {
        let pick =
            |queue: &mut VecDeque<Queued<Load>>| queue.drain(..queue.len().min(MOST)).collect();
        let flush: Flush<Load> = Box::new(move |loads| load_all(database.clone(), loads).boxed());
        Self {
            batcher: Batcher::new(
                Limits {
                    width: WIDTH,
                    full: FULL,
                    wait,
                },
                pick,
                flush,
            ),
            wait,
        }
    }

    pub(super) async fn load(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        self.batcher
            .submit(|reply| Load { task, reply })
            .await
            .unwrap_or_else(|error| {
                Err(StoreError::Unavailable(match error {
                    NoReply::TimedOut => format!(
                        "no turn at the database file within {:?}: it is slow",
                        self.wait
                    ),
                    NoReply::Dropped => "the load did not come to its end".to_owned(),
                }))
            })
    }
}

async fn load_all(database: Database, loads: Vec<Load>) {
    let (tasks, replies): (Vec<_>, Vec<_>) = loads
        .into_iter()
        .filter(|load| !load.reply.is_closed())
        .map(|load| (load.task, load.reply))
        .unzip();
    let read = move |connection: &mut SqliteConnection, now| {
        let one = |task: &TaskId| {
            read_task(connection, now, *task, &mut Care::Strict).map_err(StoreError::from)
        };
        Ok(tasks.iter().map(one).collect::<Vec<_>>())
    };
    let count = replies.len();
    let found = database.read_at(read).await.unwrap_or_else(|fault| {
        let error = StoreError::from(fault);
        vec![Err(error); count]
    });
    for (reply, found) in replies.into_iter().zip(found) {
        // An error: the caller is gone.
        let _ = reply.send(found);
    }
}
