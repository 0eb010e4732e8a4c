//! The connections to one server, and the one way to use them: a statement, its rows, and what came
//! of it. Must not know a table.

use super::connection::Connection;
use super::fault::Fault;
use super::options::{OpenError, PostgresOptions, Target};
use super::statement::Statement;
use counterstep_steps::error::chain;
use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, QueueMode, RecycleError, RecycleResult};
use diesel::deserialize::FromSqlRow;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// How long after its last use a connection counts as open without a check.
const WARM: Duration = Duration::from_secs(5);

/// Extra time beyond the server's own timeout, for the network.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// Some connections to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Database {
    pool: Pool<Connections>,
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
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Connection, tokio_postgres::Error> {
        // In a box: it is rare, and its future is larger than that of any statement.
        Box::pin(Connection::open(&self.0)).await
    }

    async fn recycle(
        &self,
        connection: &mut Connection,
        _: &Metrics,
    ) -> RecycleResult<tokio_postgres::Error> {
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
        let pool = Pool::builder(Connections(target))
            .max_size(connections.max(1))
            // The last one used is the next one lent: few connections stay warm, with their
            // statements prepared.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(options.wait))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Connection(error.to_string()))?;
        Ok(Self {
            pool,
            limit: options.statement_timeout + ON_THE_WAY,
        })
    }

    /// How many connections there may be.
    pub(super) fn connections(&self) -> usize {
        self.pool.status().max_size
    }

    /// Borrows a connection.
    pub(super) async fn lend(&self) -> Result<Lent, Fault> {
        let object = self
            .pool
            .get()
            .await
            .map_err(|error| Fault::Unavailable(chain(&error)))?;
        Ok(Lent {
            object: Some(object),
            limit: self.limit,
            unusable: AtomicBool::new(false),
            reads: None,
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

    /// As [`rows`](Self::rows), of a statement that writes nothing: then nothing is unknown either.
    pub(super) async fn read<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        self.read_in(None, statement).await
    }

    /// The same, in a place that is taken until the server has done with the statement, also where the caller gives it up
    /// before.
    pub(super) async fn read_in<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        place: Option<OwnedSemaphorePermit>,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        let mut lent = self.lend().await?;
        lent.reads = Some(Read { place });
        let rows = lent.rows(statement).await;
        lent.settle(rows).map_err(Fault::of_a_read)
    }
}

/// A statement that writes nothing is under way.
struct Read {
    place: Option<OwnedSemaphorePermit>,
}

/// A borrowed connection. It goes back to the pool only through [`settle`](Self::settle): a drop in
/// the middle of a statement, because the caller's future was dropped, closes it. Its statement may
/// still be running. Only after a read that was given up it goes back once the server has answered: else a slow server
/// would have to open a connection for each.
pub(super) struct Lent {
    object: Option<Object<Connections>>,
    limit: Duration,
    unusable: AtomicBool,
    reads: Option<Read>,
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
        self.reads = None;
        result
    }

    fn connection(&self) -> &Connection {
        self.object
            .as_ref()
            .expect("taken out only by `settle` and `drop`, which end the loan")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else {
            return;
        };
        // Where a firewall has forgotten this connection, it has forgotten those that were idle for
        // as long: the caller's next try must not get one of them.
        if let Some(pool) = Object::pool(&object) {
            pool.retain(|_, used| used.last_used() < WARM);
        }
        let (read, runtime) = (self.reads.take(), Handle::try_current());
        match (read, runtime) {
            (Some(read), Ok(runtime)) if !object.is_closed() => {
                let ending = until_answered(object, read, self.limit);
                drop(runtime.spawn(ending));
            }
            _ => drop(Object::take(object)),
        }
    }
}

/// Waits until the server has answered a read that was given up.
async fn until_answered(object: Object<Connections>, read: Read, limit: Duration) {
    // Answers come in the order of the statements.
    let answered = timeout(limit, object.run("")).await;
    match answered {
        Ok(Ok(())) => drop(object),
        Ok(Err(_)) | Err(_) => drop(Object::take(object)),
    }
    drop(read.place);
}
