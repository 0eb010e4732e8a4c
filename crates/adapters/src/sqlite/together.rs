//! Writes of many callers in one transaction, under load: one COMMIT, and one wait for the disk, for all of them. Each has
//! a savepoint of its own, so what one caller gets is what it would have got alone. Must not know a table.

use super::clock::FileClock;
use super::fault::{Fault, is_busy, may_pass};
use super::pool::{Connections, Durability, Pooled, get};
use super::prepared::Statement;
use crate::gate::{Carry, Gate};
use deadpool::managed::Pool;
use diesel::{RunQueryDsl, SqliteConnection};
use futures::FutureExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// As many as one transaction carries. Other processes on the file wait for its end.
const MOST: usize = 128;

/// Between shared transactions the file is free for this part of their time.
const FREE: u32 = 10;

/// How a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) durability: Durability,
    /// Whether it has a transaction of its own: statements of a user may take long, and a constraint that is looked at
    /// last would refuse its neighbours too.
    pub(super) alone: bool,
}

/// A write of somebody.
trait Ask: Send {
    fn how(&self) -> How;

    /// Runs it in a transaction and keeps what it returns; again, where that one rolled back.
    fn run(&mut self, connection: &mut SqliteConnection, now: i64) -> Result<(), Fault>;

    /// Says what became of it.
    fn tell(self: Box<Self>, written: Result<(), Fault>);
}

struct Asked<T, F> {
    how: How,
    change: F,
    returned: Option<T>,
    tell: oneshot::Sender<Result<T, Fault>>,
}

impl<T: Send, F: Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send> Ask for Asked<T, F> {
    fn how(&self) -> How {
        self.how
    }

    fn run(&mut self, connection: &mut SqliteConnection, now: i64) -> Result<(), Fault> {
        self.returned = Some((self.change)(connection, now)?);
        Ok(())
    }

    fn tell(self: Box<Self>, written: Result<(), Fault>) {
        let Self { returned, tell, .. } = *self;
        let told = written.and_then(|()| returned.ok_or_else(|| Fault::Unknown("it did not run".to_owned())));
        // Nobody may be waiting any more.
        let _ = tell.send(told);
    }
}

struct Waiting {
    number: u64,
    ask: Box<dyn Ask>,
}

/// The one way to write to a file in this process. Cheap to clone.
// One writer: writers wait in line here, in order, instead of polling for SQLite's file lock, which is left for the other
// processes on the file.
#[derive(Clone)]
pub(super) struct Writer {
    gate: Gate<Waiting>,
    numbers: Arc<AtomicU64>,
    wait: Duration,
}

impl Writer {
    /// On a pool of one connection. `wait`: for so long a write waits for its turn.
    pub(super) fn new(connections: Pool<Connections>, clock: Arc<FileClock>, wait: Duration) -> Self {
        let carry: Carry<Waiting> = Box::new(move |waiting| {
            let asks = waiting.into_iter().map(|waiting| waiting.ask).collect();
            carry(connections.clone(), clock.clone(), asks).boxed()
        });
        Self { gate: Gate::new(1, usize::MAX, pick, carry), numbers: Arc::default(), wait }
    }

    /// Writes whole or not at all. The closure gets the one `now` of its transaction.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        how: How,
        change: impl Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (tell, mut told) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let place = self.gate.place(move |waiting| waiting.number == number);
        // Once it is on its way the caller may drop this future: it runs to its end all the same.
        self.gate.wait(Waiting { number, ask: Box::new(Asked { how, change, returned: None, tell }) });
        let answer = match tokio::time::timeout(self.wait, &mut told).await {
            Ok(answer) => answer,
            Err(_) if place.leave() => {
                let text = format!("no turn at the database file within {:?}: it is slow, or locked", self.wait);
                return Err(Fault::Unavailable(text));
            }
            Err(_) => told.await,
        };
        answer.unwrap_or_else(|_| Err(Fault::Unknown("the write did not come to its end".to_owned())))
    }
}

/// The first one, and those behind it that may share its transaction.
fn pick(line: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let shared = line.iter().take(MOST).take_while(|waiting| !waiting.ask.how().alone).count();
    line.drain(..shared.max(1).min(line.len())).collect()
}

async fn carry(connections: Pool<Connections>, clock: Arc<FileClock>, asks: Vec<Box<dyn Ask>>) {
    let mut left = VecDeque::from(write(&connections, &clock, asks).await.left);
    while let Some(ask) = left.pop_front() {
        if let Some(text) = write(&connections, &clock, vec![ask]).await.busy {
            return tell_all(left, || Fault::Unavailable(text.clone()));
        }
    }
}

/// What is left to do after a transaction.
#[derive(Default)]
struct Rest {
    /// Of whom nothing was written, and who should go alone.
    left: Vec<Box<dyn Ask>>,
    /// What SQLite said where another process has the file: each of the others would wait for it in vain.
    busy: Option<String>,
}

async fn write(connections: &Pool<Connections>, clock: &Arc<FileClock>, asks: Vec<Box<dyn Ask>>) -> Rest {
    let mut connection = match get(connections).await {
        Ok(connection) => connection,
        Err(error) => {
            tell_all(asks, || Fault::Unavailable(error.clone()));
            return Rest::default();
        }
    };
    let clock = clock.clone();
    // The connection goes back to the pool when the closure ends, without a transaction on it. Whoever waits for a
    // closure that panicked hears that nobody will tell.
    spawn_blocking(move || write_all(&mut connection, &clock, asks)).await.unwrap_or_default()
}

fn write_all(connection: &mut Pooled, clock: &FileClock, mut asks: Vec<Box<dyn Ask>>) -> Rest {
    let began = Instant::now();
    let is_shared = asks.len() > 1;
    let mut busy = None;
    match transact(connection, clock, &mut asks) {
        Ok(written) => {
            for (ask, written) in asks.into_iter().zip(written) {
                ask.tell(written);
            }
        }
        Err(fault) if asks.len() == 1 => {
            if let Fault::Sql(error) = &fault
                && is_busy(error)
            {
                busy = Some(error.to_string());
            }
            tell_one(asks.pop(), fault);
        }
        Err(Fault::Unknown(text)) => tell_all(asks, || Fault::Unknown(text.clone())),
        // Each of them would wait for the lock in vain.
        Err(Fault::Sql(error)) if is_busy(&error) => tell_all(asks, || Fault::Unavailable(error.to_string())),
        Err(_) => return Rest { left: asks, busy },
    }
    // Another process on the file looks for the lock every now and then, and is to find it free.
    if is_shared {
        std::thread::sleep(began.elapsed() / FREE);
    }
    Rest { left: Vec::new(), busy }
}

fn tell_one(ask: Option<Box<dyn Ask>>, fault: Fault) {
    if let Some(ask) = ask {
        ask.tell(Err(fault));
    }
}

fn tell_all(asks: impl IntoIterator<Item = Box<dyn Ask>>, fault: impl Fn() -> Fault) {
    for ask in asks {
        ask.tell(Err(fault()));
    }
}

/// What became of each, once all of it is committed. An error: all of it rolled back, unless it is `Unknown`.
fn transact(
    connection: &mut Pooled,
    clock: &FileClock,
    asks: &mut [Box<dyn Ask>],
) -> Result<Vec<Result<(), Fault>>, Fault> {
    clock.follow(&mut connection.diesel)?;
    let is_full = asks.iter().any(|ask| ask.how().durability == Durability::Full);
    let durability = if is_full { Durability::Full } else { Durability::Relaxed };
    connection.write(durability, |connection| {
        let now = clock.write(connection)?;
        if let [ask] = asks {
            ask.run(connection, now)?;
            return Ok(vec![Ok(())]);
        }
        let mut written = Vec::with_capacity(asks.len());
        for ask in asks {
            execute(connection, "SAVEPOINT one")?;
            let one = ask.run(connection, now);
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
