//! Reads of one kind for many callers in one snapshot, under load: one blocking thread, and one
//! reading of the clock, for all of them. Must not know a table.

use super::fault::Fault;
use super::pool::Database;
use crate::batch::{Batcher, Flush, Limits, NoReply, Queued};
use counterstep_kernel::ports::StoreError;
use diesel::SqliteConnection;
use futures::FutureExt;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of snapshots of tasks at a time: the other readers are for lists and polls.
pub(super) const WIDTH: usize = 2;

/// Loads that are worth a second snapshot beside the one under way.
const FULL: usize = 32;

/// Maximum number of loads that one snapshot serves.
const MOST: usize = 128;

/// Reads one of them.
type Read<Of, Found> = fn(&mut SqliteConnection, i64, &Of) -> Result<Found, Fault>;

struct Load<Of, Found> {
    of: Of,
    reply: oneshot::Sender<Result<Found, StoreError>>,
}

/// Reads from a file. Cheap to clone.
#[derive(Debug)]
pub(super) struct Loads<Of: Send + 'static, Found: Send + 'static> {
    batcher: Batcher<Load<Of, Found>>,
    wait: Duration,
}

// By hand: what is read need not be cloned.
impl<Of: Send + 'static, Found: Send + 'static> Clone for Loads<Of, Found> {
    fn clone(&self) -> Self {
        Self {
            batcher: self.batcher.clone(),
            wait: self.wait,
        }
    }
}

impl<Of: Send + 'static, Found: Clone + Send + 'static> Loads<Of, Found> {
    /// `wait`: how long a load may wait in the queue. `width`: maximum snapshots at a time.
    pub(super) fn new(
        database: Database,
        wait: Duration,
        width: usize,
        read: Read<Of, Found>,
    ) -> Self {
        let pick = |queue: &mut VecDeque<Queued<Load<Of, Found>>>| {
            queue.drain(..queue.len().min(MOST)).collect()
        };
        let flush: Flush<Load<Of, Found>> =
            Box::new(move |loads| load_all(database.clone(), loads, read).boxed());
        Self {
            batcher: Batcher::new(
                Limits {
                    width,
                    full: FULL,
                    wait,
                },
                pick,
                flush,
            ),
            wait,
        }
    }

    pub(super) async fn of(&self, of: Of) -> Result<Found, StoreError> {
        self.batcher
            .submit(|reply| Load { of, reply })
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

async fn load_all<Of: Send + 'static, Found: Clone + Send + 'static>(
    database: Database,
    loads: Vec<Load<Of, Found>>,
    read: Read<Of, Found>,
) {
    let (all, replies): (Vec<_>, Vec<_>) = loads
        .into_iter()
        .filter(|load| !load.reply.is_closed())
        .map(|load| (load.of, load.reply))
        .unzip();
    let read = move |connection: &mut SqliteConnection, now| {
        let one = |of: &Of| read(connection, now, of).map_err(StoreError::from);
        Ok(all.iter().map(one).collect::<Vec<_>>())
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
