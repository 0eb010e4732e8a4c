//! The connections to one server, and the one way to use them: a statement, its rows, and what came
//! of it. Who gives a statement up gives no connection free: the server works on, and a new connection for each would be one more
//! there than the pool may have. Must not know a table.

use super::connection::Connection;
use super::fault::Fault;
use super::options::{OpenError, PostgresOptions, Target};
use super::servers::NotOpened;
use super::statement::Statement;
use counterstep_steps::error::chain;
use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, QueueMode, RecycleError, RecycleResult};
use diesel::deserialize::FromSqlRow;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long after its last use a connection counts as open without a check.
const WARM: Duration = Duration::from_secs(5);

/// Extra time beyond the server's own timeout, for the network.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// One connection in so many, where there are as many, is for reads and for what waits for no standby: writes that do may take
/// all others.
const TO_READ: usize = 4;

/// Some connections to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Database {
    pool: Pool<Connections>,
    /// For those that writes may take that wait for a standby.
    writes: Arc<Semaphore>,
    wait: Duration,
    limit: Duration,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// How connections are made, and which go back to their pool.
struct Connections(Target);

impl Manager for Connections {
    type Type = Connection;
    type Error = NotOpened;

    async fn create(&self) -> Result<Connection, NotOpened> {
        // In a box: it is rare, and its future is larger than that of any statement.
        Box::pin(Connection::open(&self.0)).await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<NotOpened> {
        // A closed connection is known without asking the server. One that dies unnoticed fails its
        // next statement, which every caller has to expect anyway: asking first would cost each
        // commit a second round trip.
        if connection.is_closed() {
            Err(RecycleError::message("it is closed"))
        } else {
            Ok(())
        }
    }
}

impl Database {
    /// A pool of at most `connections`; none is opened yet.
    pub(super) fn new(
        target: Target,
        options: &PostgresOptions,
        connections: usize,
    ) -> Result<Self, OpenError> {
        let connections = connections.max(1);
        let pool = Pool::builder(Connections(target))
            .max_size(connections)
            // The last one used is the next one lent: few connections stay warm, with their
            // statements prepared.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(options.wait))
            .recycle_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Connection(error.to_string()))?;
        Ok(Self {
            pool,
            writes: Arc::new(Semaphore::new(connections - connections / TO_READ)),
            wait: options.wait,
            limit: options.statement_timeout + ON_THE_WAY,
        })
    }

    /// How many connections there may be.
    pub(super) fn connections(&self) -> usize {
        self.pool.status().max_size
    }

    /// Borrows a connection for a write.
    pub(super) async fn lend(&self) -> Result<Lent, Fault> {
        let place = match timeout(self.wait, self.writes.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) | Err(_) => {
                return Err(Fault::Unavailable(format!(
                    "no connection for a write within {:?}: the server works on others",
                    self.wait
                )));
            }
        };
        let place = Some(place);
        self.lend_for(Work::Write { _place: place }).await
    }

    async fn lend_for(&self, work: Work) -> Result<Lent, Fault> {
        let object = self
            .pool
            .get()
            .await
            .map_err(|error| Fault::Unavailable(chain(&error)))?;
        Ok(Lent {
            object: Some((object, work)),
            limit: self.limit,
            unusable: AtomicBool::new(false),
        })
    }

    /// All rows of one statement, which is a transaction of its own.
    pub(super) async fn rows<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        let lent = self.lend().await?;
        let rows = lent.rows(statement).await;
        lent.settle(rows)
    }

    /// As [`rows`](Self::rows), of a write that waits for no disk and no standby: it is served beside those that do.
    pub(super) async fn relaxed<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        let lent = self.lend_for(Work::Write { _place: None }).await?;
        let rows = lent.rows(statement).await;
        lent.settle(rows)
    }

    /// As [`rows`](Self::rows), of a statement that writes nothing: then nothing is unknown either.
    pub(super) async fn read<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        self.read_in(None, statement).await
    }

    /// As [`read`](Self::read), of a statement whose end waits for the standby as that of a commit does.
    pub(super) async fn confirmed<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        self.rows(statement).await.map_err(Fault::of_a_read)
    }

    /// As [`read`](Self::read), in a place that is taken until the server has done with the statement, also where the caller gives it up
    /// before.
    pub(super) async fn read_in<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        place: Option<OwnedSemaphorePermit>,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        let lent = self.lend_for(Work::Read { _place: place }).await?;
        let rows = lent.rows(statement).await;
        lent.settle(rows).map_err(Fault::of_a_read)
    }
}

/// What a connection is lent for, and the places that are taken until the server has done with it.
enum Work {
    /// Statements that write nothing.
    Read {
        _place: Option<OwnedSemaphorePermit>,
    },
    /// Others.
    Write {
        _place: Option<OwnedSemaphorePermit>,
    },
}

/// A borrowed connection. It goes back to the pool only through [`settle`](Self::settle). After a drop in the middle of a statement,
/// because the caller's future was dropped or has waited too long, it keeps its place in the pool until the server has answered, or
/// the connection has ended: its statement may still be running, for as long as a standby is away.
pub(super) struct Lent {
    object: Option<(Object<Connections>, Work)>,
    limit: Duration,
    unusable: AtomicBool,
}

impl Lent {
    /// All rows of one statement.
    pub(super) async fn rows<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        self.in_time(self.connection().rows(statement)).await
    }

    /// One statement, and how many rows it has changed.
    pub(super) async fn count(
        &self,
        query: BoxedSqlQuery<'static, Pg, SqlQuery>,
    ) -> Result<usize, Fault> {
        self.in_time(self.connection().count(query)).await
    }

    /// It is not to go back to the pool: it may be within a transaction.
    pub(super) fn close_later(&self) {
        self.unusable.store(true, Ordering::Relaxed);
    }

    /// Some commands without an answer.
    pub(super) async fn run(&self, commands: &str) -> Result<(), Fault> {
        self.in_time(self.connection().run(commands)).await
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let late = |_| Fault::Lost(format!("no answer within {:?}", self.limit));
        timeout(self.limit, answer).await.map_err(late)?
    }

    /// Gives the connection back, unless it is unknown what it is doing.
    pub(super) fn settle<T>(mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if !matches!(result, Err(Fault::Lost(_))) && !self.unusable.load(Ordering::Relaxed) {
            drop(self.object.take());
        }
        result
    }

    fn connection(&self) -> &Connection {
        let lent = self.object.as_ref();
        &lent
            .expect("taken out only by `settle` and `drop`, which end the loan")
            .0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some((object, work)) = self.object.take() else {
            return;
        };
        // Where a firewall has forgotten this connection, it has forgotten those that were idle for
        // as long: the caller's next try must not get one of them.
        if let Some(pool) = Object::pool(&object) {
            pool.retain(|_, used| used.last_used() < WARM);
        }
        match Handle::try_current() {
            Ok(runtime) if !object.is_closed() => {
                drop(runtime.spawn(until_answered(object, work, self.limit)));
            }
            _ => drop(Object::take(object)),
        }
    }
}

/// Waits until the server has answered what was given up. It has nothing to send meanwhile that a dead machine would have to
/// acknowledge: so something is sent, which closes a connection to one.
async fn until_answered(object: Object<Connections>, work: Work, limit: Duration) {
    // Answers come in the order of the statements.
    let answer = object.run("");
    let is_done = match work {
        Work::Read { .. } => matches!(timeout(limit, answer).await, Ok(Ok(()))),
        // However long that takes. And it may be within a transaction.
        Work::Write { .. } => {
            let _ = answer.await;
            false
        }
    };
    match is_done {
        true => drop(object),
        false => drop(Object::take(object)),
    }
    drop(work);
}
