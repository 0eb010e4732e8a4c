//! One connection to the server: how it is made, and how a statement travels over it. Must not know
//! a table, nor set anything for the rest of its session: behind a pooler the session belongs to
//! others, too.
//!
//! The driver is used without diesel's own connection: that one sets its session up with `SET` and
//! names every statement that it prepares, and behind a pooler in transaction mode neither reaches
//! the server that runs the next statement.

use super::fault::{Fault, judge};
use super::options::{Target, no_answer};
use super::row::{Bytes, PgRow};
use super::servers::{NotOpened, Servers};
use super::statement::Statement;
use counterstep_steps::error::chain;
use diesel::deserialize::FromSqlRow;
use diesel::pg::{Pg, PgMetadataLookup, PgQueryBuilder, PgTypeMetadata};
use diesel::query_builder::bind_collector::RawBytesBindCollector;
use diesel::query_builder::{QueryBuilder, QueryFragment};
use futures::future::select;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

/// Where the server waits for its standby.
const WAIT_FOR_STANDBY: &str = "SyncRepWaitForLSN";

/// A connection. Dropped, it closes at once, also in the middle of a statement.
pub(super) struct Connection {
    client: Client,
    /// By their text; `None`: nothing is prepared, and each statement travels whole.
    prepared: Option<Mutex<HashMap<String, tokio_postgres::Statement>>>,
    /// The server did not wait for its standby to the end.
    unreplicated: Arc<AtomicBool>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Left to itself the driver would wait for the answer of a server that may never give one.
        self.driver.abort();
    }
}

/// A statement as it travels.
struct Message {
    text: String,
    values: Vec<(Bytes, Type)>,
}

impl Connection {
    /// A connection to the server that takes writes, in the time that a new one may take.
    pub(super) async fn open(target: &Target) -> Result<Self, NotOpened> {
        let until = Instant::now() + target.connect_timeout;
        let one = |(delay, at, config)| async move {
            tokio::time::sleep(delay).await;
            // The driver's own limit ends with the connection of the socket: a server may take it and say nothing.
            let opened = timeout_at(until, Self::open_at(target, at, config)).await;
            match opened {
                Ok(opened) => (at, opened.map_err(|error| chain(&error))),
                Err(_) => (at, Err(no_answer(target.connect_timeout))),
            }
        };
        let mut tries: FuturesUnordered<_> = target.servers.in_turn().map(one).collect();
        let mut errors = Vec::new();
        while let Some((at, opened)) = tries.next().await {
            match opened {
                Ok(connection) => return Ok(connection),
                Err(why) => errors.push((at, why)),
            }
        }
        Err(target.servers.not_opened(errors))
    }

    /// A connection with TLS or without.
    async fn open_at(
        target: &Target,
        at: usize,
        config: &Config,
    ) -> Result<Self, tokio_postgres::Error> {
        let unreplicated = Arc::<AtomicBool>::default();
        let (noted, servers) = (unreplicated.clone(), target.servers.clone());
        // Before its driver starts, which ends once another one is in use.
        let (client, driver) = match &target.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                servers.uses(at);
                (client, tokio::spawn(drive(connection, noted, servers, at)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                servers.uses(at);
                (client, tokio::spawn(drive(connection, noted, servers, at)))
            }
        };
        let prepared = target.prepares.then(Mutex::default);
        Ok(Self {
            client,
            prepared,
            unreplicated,
            driver: driver.abort_handle(),
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// All rows of one statement.
    pub(super) async fn rows<Row, T: FromSqlRow<Row, Pg>>(
        &self,
        statement: Statement<'_, Row>,
    ) -> Result<Vec<T>, Fault> {
        let rows = self.load(message(&statement)?).await?;
        let decode =
            |row| T::build_from_row(&PgRow(row)).map_err(|error| Fault::Corrupt(error.to_string()));
        rows.into_iter().map(decode).collect()
    }

    async fn load(
        &self,
        Message { text, values }: Message,
    ) -> Result<Vec<tokio_postgres::Row>, Fault> {
        // To the end of the answer, not just to its first row: the server sends the rows first and
        // commits then.
        let rows = match &self.prepared {
            Some(prepared) => {
                let known = || prepared.lock();
                let found = known().get(&text).cloned();
                let statement = match found {
                    Some(statement) => statement,
                    None => {
                        let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
                        let made = self
                            .client
                            .prepare_typed(&text, &types)
                            .await
                            .map_err(|error| judge(&error))?;
                        known().insert(text, made.clone());
                        made
                    }
                };
                self.client
                    .query_raw(&statement, values.into_iter().map(|(bytes, _)| bytes))
                    .await
            }
            None => self.client.query_typed_raw(&text, values).await,
        };
        let rows = rows
            .map_err(|error| judge(&error))?
            .try_collect()
            .await
            .map_err(|error| judge(&error))?;
        self.replicated(rows)
    }

    /// The answer to a statement, if what it wrote was replicated as far as the server is set to. The warning comes before
    /// the end of the answer.
    fn replicated<T>(&self, answer: T) -> Result<T, Fault> {
        match self.unreplicated.swap(false, Ordering::SeqCst) {
            false => Ok(answer),
            true => Err(Fault::Lost(
                "the server ended its wait for the standby: written, and perhaps not replicated"
                    .to_owned(),
            )),
        }
    }

    /// One statement that is not of this adapter and is not kept prepared, and how many rows it has
    /// changed.
    pub(super) fn count<'s, Q: QueryFragment<Pg>>(
        &'s self,
        query: Q,
    ) -> impl Future<Output = Result<usize, Fault>> + use<'s, Q> {
        // Before the first wait: such a query cannot be shared between threads.
        let message = message(&query);
        async move {
            let Message { text, values } = message?;
            let rows = self
                .client
                .query_typed_raw(&text, values)
                .await
                .map_err(|error| judge(&error))?;
            let mut rows = pin!(rows);
            while rows
                .try_next()
                .await
                .map_err(|error| judge(&error))?
                .is_some()
            {}
            Ok(usize::try_from(rows.rows_affected().unwrap_or_default()).unwrap_or(usize::MAX))
        }
    }

    /// Some commands without an answer.
    pub(super) async fn run(&self, commands: &str) -> Result<(), Fault> {
        self.client
            .batch_execute(commands)
            .await
            .map_err(|error| judge(&error))?;
        self.replicated(())
    }
}

/// Carries statements and answers, and notes warnings, until the connection ends, or another server is in use than this one.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    unreplicated: Arc<AtomicBool>,
    servers: Servers,
    at: usize,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let messages = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && is_unreplicated(&notice)
            {
                unreplicated.store(true, Ordering::SeqCst);
            }
        }
    };
    select(pin!(messages), pin!(servers.left(at))).await;
}

/// Whether a commit was answered although the standby may not have it: an administrator has cancelled the wait.
// The text depends on the server's language. Its code is that of any warning, such as one that a trigger of the user's raises
// at the end of the same transaction: so the place in the server's source decides, and a warning without one counts.
fn is_unreplicated(notice: &DbError) -> bool {
    notice.parsed_severity() == Some(Severity::Warning)
        && notice
            .routine()
            .is_none_or(|routine| routine == WAIT_FOR_STANDBY)
}

/// No statement of ours has a value of a type that is not built in.
struct BuiltIn;

impl PgMetadataLookup for BuiltIn {
    fn lookup_type(&mut self, _: &str, _: Option<&str>) -> PgTypeMetadata {
        PgTypeMetadata::new(0, 0)
    }
}

fn message(query: &impl QueryFragment<Pg>) -> Result<Message, Fault> {
    let corrupt = |error: diesel::result::Error| Fault::Corrupt(error.to_string());
    let mut text = PgQueryBuilder::default();
    query.to_sql(&mut text, &Pg).map_err(corrupt)?;
    let mut binds = RawBytesBindCollector::<Pg>::new();
    query
        .collect_binds(&mut binds, &mut BuiltIn, &Pg)
        .map_err(corrupt)?;
    let of = |metadata: PgTypeMetadata| {
        let found = metadata.oid().ok().and_then(Type::from_oid);
        found.ok_or_else(|| Fault::Corrupt("a value of a type that is not built in".to_owned()))
    };
    let values = binds
        .metadata
        .into_iter()
        .zip(binds.binds)
        .map(|(metadata, bytes)| Ok((Bytes(bytes), of(metadata)?)));
    Ok(Message {
        text: text.finish(),
        values: values.collect::<Result<_, Fault>>()?,
    })
}
