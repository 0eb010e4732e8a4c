//! The connections to one server, and the one way to use them: a statement, its rows, and what came of it. Must not know
//! a table.

use super::fault::{Fault, judge};
use super::options::{OpenError, PostgresOptions, Target};
use super::statement::Statement;
use counterstep_kernel::error::chain;
use deadpool::Runtime;
use deadpool::managed::QueueMode;
use diesel::QueryResult;
use diesel::deserialize::FromSqlRow;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{ConnectionError, ConnectionResult};
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection};
use futures::{FutureExt, TryStreamExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// What we wait beyond the server's own limit: the way there and back.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// The connections to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Database {
    pool: Pool<AsyncPgConnection>,
    limit: Duration,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Database {
    /// A pool without a connection in it yet.
    pub(super) fn new(target: Target, options: &PostgresOptions) -> Result<Self, OpenError> {
        let settings = settings(options);
        let mut config = ManagerConfig::default();
        // A closed connection is known without asking the server. One that dies unnoticed fails its next statement,
        // which every caller has to expect anyway: asking first would cost each commit a second round trip.
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(move |_| {
            let (target, settings) = (target.clone(), settings.clone());
            async move {
                let mut connection = connect(&target).await?;
                connection.batch_execute(&settings).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
                Ok(connection)
            }
            .boxed()
        });
        // The pool keeps a URL for its own way of connecting. It gets none, so that no password lies there.
        let pool = Pool::builder(AsyncDieselConnectionManager::new_with_config("", config))
            .max_size(options.connections.max(1))
            // The last one used is the next one lent: few connections stay warm, with their statements prepared.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(options.wait))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Connection(error.to_string()))?;
        Ok(Self { pool, limit: options.statement_timeout + ON_THE_WAY })
    }

    /// Borrows a connection.
    pub(super) async fn lend(&self) -> Result<Lent, Fault> {
        let object = self.pool.get().await.map_err(|error| Fault::Unavailable(chain(&error)))?;
        Ok(Lent { object: Some(object), limit: self.limit, unusable: AtomicBool::new(false) })
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
        self.rows(statement).await.map_err(Fault::of_a_read)
    }
}

/// A borrowed connection. It goes back to the pool only through [`settle`](Self::settle): whoever drops it in the middle
/// of a statement, because the caller's future was dropped, closes it. Its statement may still be running.
pub(super) struct Lent {
    object: Option<Object<AsyncPgConnection>>,
    limit: Duration,
    unusable: AtomicBool,
}

impl Lent {
    /// All rows of one statement.
    pub(super) async fn rows<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        // To the end of the answer, not just to its first row: the server sends the rows first and commits then.
        let answer = async {
            let rows = AsyncConnectionCore::load(&mut self.connection(), statement).await?;
            rows.try_collect::<Vec<_>>().await
        };
        let rows = self.judged(timeout(self.limit, answer).await).await?;
        let decode = |row| T::build_from_row(row).map_err(|error| Fault::Corrupt(error.to_string()));
        rows.iter().map(decode).collect()
    }

    /// One statement, and how many rows it has changed.
    pub(super) async fn count(&self, query: BoxedSqlQuery<'static, Pg, SqlQuery>) -> Result<usize, Fault> {
        let answer = AsyncConnectionCore::execute_returning_count(&mut self.connection(), query);
        self.judged(timeout(self.limit, answer).await).await
    }

    /// It is not to go back to the pool: it may be within a transaction.
    pub(super) fn close_later(&self) {
        self.unusable.store(true, Ordering::Relaxed);
    }

    /// Some commands without an answer.
    pub(super) async fn run(&self, commands: &str) -> Result<(), Fault> {
        self.judged(timeout(self.limit, self.connection().batch_execute(commands)).await).await
    }

    async fn judged<T>(&self, answer: Result<QueryResult<T>, Elapsed>) -> Result<T, Fault> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(match judge(&error) {
                Some(fault) => fault,
                None if self.lives().await => Fault::Unavailable(error.to_string()),
                None => Fault::Lost(error.to_string()),
            }),
            Err(_) => Err(Fault::Lost(format!("no answer within {:?}", self.limit))),
        }
    }

    /// Gives the connection back, unless it is unknown what it is doing.
    pub(super) fn settle<T>(mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if !matches!(result, Err(Fault::Lost(_))) && !self.unusable.load(Ordering::Relaxed) {
            drop(self.object.take());
        }
        result
    }

    /// Whether the server still answers on this connection after it has refused a statement.
    async fn lives(&self) -> bool {
        matches!(timeout(self.limit, self.connection().batch_execute("")).await, Ok(Ok(())))
    }

    fn connection(&self) -> &AsyncPgConnection {
        self.object.as_ref().expect("taken out only by `settle` and `drop`, which end the loan")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

/// A connection with TLS or without.
pub(super) async fn connect(target: &Target) -> ConnectionResult<AsyncPgConnection> {
    let failed = |error: tokio_postgres::Error| ConnectionError::BadConnection(chain(&error));
    match &target.tls {
        Some(tls) => {
            let (client, connection) = target.config.connect(tls.clone()).await.map_err(failed)?;
            AsyncPgConnection::try_from_client_and_connection(client, connection).await
        }
        None => {
            let (client, connection) = target.config.connect(tokio_postgres::NoTls).await.map_err(failed)?;
            AsyncPgConnection::try_from_client_and_connection(client, connection).await
        }
    }
}

/// What each connection of the pool is set to.
// One plan for all values of a statement, and only plans that walk an index from the keys at hand: every statement of
// ours has such a plan, and it is the right one at any size. Left to choose, the server would plan the arrays of a commit
// anew with each call, and on an empty table it would choose to read the whole of it and keep that plan while it grows.
fn settings(options: &PostgresOptions) -> String {
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; SET enable_hashjoin = off; \
         SET enable_mergejoin = off; SET enable_bitmapscan = off",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.idle_in_transaction_timeout.as_millis(),
    )
}
