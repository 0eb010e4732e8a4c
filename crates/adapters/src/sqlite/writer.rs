//! Writes of many callers in one transaction, under load: one COMMIT, and one wait for the disk,
//! for all of them. Each has a savepoint of its own, so what one caller gets is what it would have
//! got alone. Must not know a table.

use super::clock::FileClock;
use super::fault::{Fault, is_busy, may_pass};
use super::file_use::{FileUse, wait_for};
use super::pool::{Connections, Durability, Pooled, get};
use super::prepared::Statement;
use crate::batch::{Batcher, Flush, Limits, NoReply, Queued};
use crate::blocking_calls::BlockingCalls;
use deadpool::managed::Pool;
use diesel::{RunQueryDsl, SqliteConnection};
use futures::FutureExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Maximum number of writes of one transaction. Other processes on the file wait for its end.
const MOST: usize = 128;

/// The pause after a shared transaction is its duration divided by this: other processes get the file.
const FREE: u32 = 10;

/// How a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) durability: Durability,
    /// Whether it has a transaction of its own: statements of a user may take long, and a
    /// constraint that is looked at last would refuse its neighbours too.
    pub(super) alone: bool,
}

impl How {
    pub(super) const fn shared(durability: Durability) -> Self {
        Self {
            durability,
            alone: false,
        }
    }

    pub(super) const fn alone(durability: Durability) -> Self {
        Self {
            durability,
            alone: true,
        }
    }
}

/// A write in the queue, whatever it returns.
trait Write: Send {
    fn how(&self) -> How;

    /// Runs it in a transaction and keeps what it returns; again, where that one rolled back.
    fn run(&mut self, connection: &mut SqliteConnection, now: i64) -> Result<(), Fault>;

    /// Replies to the caller.
    fn reply(self: Box<Self>, written: Result<(), Fault>);
}

struct Change<T, F> {
    how: How,
    change: F,
    returned: Option<T>,
    reply: oneshot::Sender<Result<T, Fault>>,
}

impl<T: Send, F: Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send> Write for Change<T, F> {
    fn how(&self) -> How {
        self.how
    }

    fn run(&mut self, connection: &mut SqliteConnection, now: i64) -> Result<(), Fault> {
        self.returned = Some((self.change)(connection, now)?);
        Ok(())
    }

    fn reply(self: Box<Self>, written: Result<(), Fault>) {
        let Self {
            returned, reply, ..
        } = *self;
        let answer = written
            .and_then(|()| returned.ok_or_else(|| Fault::Unknown("it did not run".to_owned())));
        // An error: the caller is gone.
        let _ = reply.send(answer);
    }
}

type Request = Box<dyn Write>;

/// The one way to write to a file in this process. Cheap to clone.
// One writer: writes wait in this queue, in order, instead of polling for SQLite's file lock, which
// is left for the other processes on the file.
#[derive(Clone)]
pub(super) struct Writer {
    batcher: Batcher<Request>,
    connections: Pool<Connections>,
    wait: Duration,
    blocking: BlockingCalls,
}

impl Writer {
    /// On a pool of one connection. `wait`: how long a write may wait in the queue.
    pub(super) fn new(
        connections: Pool<Connections>,
        clock: Arc<FileClock>,
        wait: Duration,
        blocking: BlockingCalls,
    ) -> Self {
        let at = Arc::new(Place {
            connections: connections.clone(),
            clock,
            blocking,
        });
        let flush: Flush<Request> = Box::new(move |writes| flush(at.clone(), writes).boxed());
        Self {
            batcher: Batcher::new(
                Limits {
                    width: 1,
                    full: usize::MAX,
                    wait,
                },
                pick,
                flush,
            ),
            connections,
            wait,
            blocking,
        }
    }

    /// Opens its connection.
    pub(super) async fn connect(&self) -> Result<(), String> {
        get(&self.connections).await.map(drop)
    }

    /// Between two writes, as [`Pooled::empty_log`] does.
    pub(super) async fn empty_log(&self) -> Result<(bool, bool), Fault> {
        let connection = get(&self.connections).await;
        let mut connection = connection.map_err(Fault::Unavailable)?;
        let emptied = self.blocking.run(move || connection.empty_log());
        emptied
            .await
            .map_err(|error| Fault::Unavailable(error.to_string()))?
    }

    /// Writes whole or not at all. The closure gets the one `now` of its transaction. Once that has
    /// begun, the caller may drop this future: the write runs to its end all the same.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        how: How,
        change: impl Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let request = |reply| -> Request {
            Box::new(Change {
                how,
                change,
                returned: None,
                reply,
            })
        };
        self.batcher.submit(request).await.unwrap_or_else(|error| {
            Err(match error {
                NoReply::TimedOut => {
                    let text = format!(
                        "no turn at the database file within {:?}: it is slow, or locked",
                        self.wait
                    );
                    Fault::Unavailable(text)
                }
                NoReply::Dropped => Fault::Unknown("the write did not come to its end".to_owned()),
            })
        })
    }
}

/// The first one, and those behind it that may share its transaction.
fn pick(queue: &mut VecDeque<Queued<Request>>) -> Vec<Queued<Request>> {
    let shared = queue
        .iter()
        .take(MOST)
        .take_while(|queued| !queued.request.how().alone)
        .count();
    queue.drain(..shared.max(1).min(queue.len())).collect()
}

/// Where the writes of a batch go.
struct Place {
    connections: Pool<Connections>,
    clock: Arc<FileClock>,
    blocking: BlockingCalls,
}

async fn flush(at: Arc<Place>, writes: Vec<Request>) {
    let mut left = VecDeque::from(write(&at, writes).await.left);
    while let Some(one) = left.pop_front() {
        if let Some(text) = write(&at, vec![one]).await.busy {
            return fail_all(left, || Fault::Unavailable(text.clone()));
        }
    }
}

/// What is left to do after a transaction.
#[derive(Default)]
struct Rest {
    /// Writes of which nothing was written, and which should go alone.
    left: Vec<Request>,
    /// What SQLite said where another process has the file: each of the others would wait for it in
    /// vain.
    busy: Option<String>,
}

async fn write(at: &Arc<Place>, writes: Vec<Request>) -> Rest {
    let mut connection = match get(&at.connections).await {
        Ok(connection) => connection,
        Err(error) => {
            fail_all(writes, || Fault::Unavailable(error.clone()));
            return Rest::default();
        }
    };
    let place = at.clone();
    // The connection goes back to the pool when the closure ends, without a transaction on it. A
    // closure that panics drops its writes, and their callers get `NoReply::Dropped`.
    at.blocking
        .run(move || write_all(&mut connection, &place, writes))
        .await
        .unwrap_or_default()
}

fn write_all(connection: &mut Pooled, at: &Place, mut writes: Vec<Request>) -> Rest {
    let began = Instant::now();
    let is_shared = writes.len() > 1;
    let mut busy = None;
    match transact(connection, &at.clock, &mut writes) {
        Ok(written) => {
            for (write, written) in writes.into_iter().zip(written) {
                write.reply(written);
            }
        }
        Err(fault) if writes.len() == 1 => {
            if let Fault::Sql(error) = &fault
                && is_busy(error)
            {
                busy = Some(error.to_string());
            }
            fail_one(writes.pop(), fault);
        }
        Err(Fault::Unknown(text)) => fail_all(writes, || Fault::Unknown(text.clone())),
        // Each of them would wait for the lock without success.
        Err(Fault::Sql(error)) if is_busy(&error) => {
            fail_all(writes, || Fault::Unavailable(error.to_string()))
        }
        Err(_) => return Rest { left: writes, busy },
    }
    // Another process on the file looks for the lock every now and then, and is to find it free.
    if is_shared && at.blocking == BlockingCalls::Threads {
        std::thread::sleep(began.elapsed() / FREE);
    }
    Rest {
        left: Vec::new(),
        busy,
    }
}

fn fail_one(write: Option<Request>, fault: Fault) {
    if let Some(write) = write {
        write.reply(Err(fault));
    }
}

fn fail_all(writes: impl IntoIterator<Item = Request>, fault: impl Fn() -> Fault) {
    for write in writes {
        write.reply(Err(fault()));
    }
}

/// What became of each, once all of it is committed. An error: all of it rolled back, unless it is
/// `Unknown`.
fn transact(
    connection: &mut Pooled,
    clock: &FileClock,
    writes: &mut [Request],
) -> Result<Vec<Result<(), Fault>>, Fault> {
    let turn = connection.file_use.as_deref().and_then(FileUse::turn);
    let _turn = wait_for(turn.as_deref());
    clock.follow(&mut connection.diesel)?;
    let is_full = writes
        .iter()
        .any(|write| write.how().durability == Durability::Full);
    let durability = if is_full {
        Durability::Full
    } else {
        Durability::Relaxed
    };
    connection.write(durability, |connection| {
        let now = clock.write(connection)?;
        if let [write] = writes {
            write.run(connection, now)?;
            return Ok(vec![Ok(())]);
        }
        let mut written = Vec::with_capacity(writes.len());
        for write in writes {
            execute(connection, "SAVEPOINT one")?;
            let one = write.run(connection, now);
            match one {
                // A full disk and the like: SQLite may have rolled back more than the savepoint.
                Err(Fault::Sql(error)) if may_pass(&error) => return Err(error.into()),
                Err(_) => execute(connection, "ROLLBACK TO one")?,
                Ok(()) => {}
            }
            execute(connection, "RELEASE one")?;
            written.push(one);
        }
        Ok(written)
    })
}

// Diesel's own savepoints are parsed anew each time.
fn execute(connection: &mut SqliteConnection, text: &'static str) -> Result<(), Fault> {
    Statement { text, values: [] }.execute(connection)?;
    Ok(())
}
