//! Submission in a PostgreSQL transaction of the caller's own: the task is there exactly where the
//! caller's rows are. Must not begin or end a transaction.

use super::{Client, ClientError, Handle, Submit, Way, in_process};
use counterstep_contracts::TaskId;
use counterstep_kernel::client::Prepared;
use counterstep_kernel::ports::{KEY_TAKEN, SqlStatement, StoreError};
use counterstep_steps::DistributedTask;
use std::fmt;

/// A connection on which a transaction of the caller's own is open, to the database of the engine.
///
/// The features `tokio-postgres` and `diesel-async` implement it for the connections of these two
/// crates. Any other driver binds the values of a [`SqlStatement`] itself, which are all texts:
/// `docs/recipes.md` shows it for sqlx.
pub trait SqlConnection: Send {
    /// Executes the statement, and gives how many rows came back.
    ///
    /// # Errors
    /// What the database says; the transaction has to be rolled back then.
    fn execute(
        &mut self,
        statement: &SqlStatement,
    ) -> impl Future<Output = Result<u64, SqlError>> + Send;
}

/// The database did not execute a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The constraint that the server names.
    pub constraint: Option<String>,
    /// Its words.
    pub message: String,
}

/// A task that exists once the caller's transaction is committed.
#[must_use = "the task waits for a host's poll unless `committed` announces it"]
pub struct Uncommitted<T> {
    handle: Handle<T>,
    /// `None`: the task is an earlier one, of a repeated key.
    new: Option<(Box<Prepared>, SqlStatement)>,
}

impl<T> fmt::Debug for Uncommitted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Uncommitted").field(&self.handle).finish()
    }
}

impl Client {
    /// Submits a task in the caller's own transaction on the engine's PostgreSQL: with its rows the
    /// task is committed, or rolled back. The request is checked, and pure steps at the head of the
    /// declaration are run, before the statement.
    ///
    /// After an error the transaction has to be rolled back.
    ///
    /// # Errors
    /// [`ClientError::Refused`] as for [`submit`](Self::submit), and where the client is not one of
    /// an engine on PostgreSQL; [`ClientError::Transaction`].
    pub async fn submit_in<T: DistributedTask>(
        &self,
        connection: &mut impl SqlConnection,
        request: &T::Request,
    ) -> Result<Uncommitted<T>, ClientError> {
        let prepared = self.prepare::<T>(request).await?;
        prepared.execute(connection).await?;
        Ok(prepared)
    }

    /// The same, at most once for a key, as [`submit_once`](Self::submit_once): a key that a
    /// committed request has used gives the task of that one, and executes nothing.
    ///
    /// # Errors
    /// As [`submit_in`](Self::submit_in); [`ClientError::Unavailable`] where another request has
    /// taken the key just now: repeated in a new transaction, it gets an answer.
    pub async fn submit_once_in<T: DistributedTask>(
        &self,
        connection: &mut impl SqlConnection,
        key: &str,
        request: &T::Request,
    ) -> Result<Uncommitted<T>, ClientError> {
        let prepared = self
            .prepare_with::<T>(Submit::new().key(key), request)
            .await?;
        prepared.execute(connection).await?;
        Ok(prepared)
    }

    /// What [`submit_in`](Self::submit_in) does before its statement. For a driver without an
    /// implementation of [`SqlConnection`], and for a transaction that is to be open for as short as
    /// can be.
    ///
    /// # Errors
    /// As [`submit_in`](Self::submit_in).
    pub async fn prepare<T: DistributedTask>(
        &self,
        request: &T::Request,
    ) -> Result<Uncommitted<T>, ClientError> {
        self.prepare_with(Submit::new(), request).await
    }

    /// The same with a key, as [`submit_once_in`](Self::submit_once_in) takes it, or with labels.
    ///
    /// # Errors
    /// As [`submit_once_in`](Self::submit_once_in); a label that is none is refused.
    pub async fn prepare_with<T: DistributedTask>(
        &self,
        how: Submit,
        request: &T::Request,
    ) -> Result<Uncommitted<T>, ClientError> {
        let (options, body) = (how.checked()?, super::body_of(request)?);
        let Way::InProcess(here) = &self.0 else {
            return Err(no_postgres("a client over HTTP has no database"));
        };
        let (task, new) = match here
            .prepare(T::task_type().decl.name, options, body)
            .await?
        {
            in_process::Prepared::Replayed(task) => (task, None),
            in_process::Prepared::New(prepared) => {
                let task = prepared.task_id();
                let statement = match prepared.statement() {
                    Ok(Some(statement)) => Ok(statement),
                    Ok(None) => Err(no_postgres("its engine's store is another one")),
                    Err(error) => Err(unavailable(&error)),
                };
                match statement {
                    Ok(statement) => (task, Some((prepared, statement))),
                    Err(error) => {
                        prepared.give_up().await;
                        return Err(error);
                    }
                }
            }
        };
        Ok(Uncommitted {
            handle: self.handle(task),
            new,
        })
    }
}

impl<T: DistributedTask> Uncommitted<T> {
    /// The task's id.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.handle.task_id()
    }

    /// The statement that writes the task, for a driver of the caller's own. It gives one row; none
    /// where it was executed before, so a transaction may be tried again with it. `None`: there is
    /// nothing to execute, since the task is an earlier one.
    #[must_use]
    pub fn statement(&self) -> Option<&SqlStatement> {
        self.new.as_ref().map(|(_, statement)| statement)
    }

    /// Executes [the statement](Self::statement).
    ///
    /// # Errors
    /// [`ClientError::Transaction`], or [`ClientError::Unavailable`] where another request has taken
    /// the key; the transaction has to be rolled back then.
    pub async fn execute(&self, connection: &mut impl SqlConnection) -> Result<(), ClientError> {
        let Some(statement) = self.statement() else {
            return Ok(());
        };
        match connection.execute(statement).await {
            Ok(_) => Ok(()),
            Err(error) if error.constraint.as_deref() == Some(KEY_TAKEN) => {
                Err(ClientError::Unavailable(
                    "another request has taken the key: roll the transaction back, and repeat it"
                        .to_owned(),
                ))
            }
            Err(error) => Err(ClientError::Transaction(error.message)),
        }
    }

    /// To call after the caller's commit: announces the task to the hosts. Where the answer to the
    /// commit was lost, this tells what became of it. Where it is not called, the task is not lost:
    /// a host finds it after some seconds.
    ///
    /// # Errors
    /// [`ClientError::Transaction`], where the task is not in the database: the transaction is not
    /// committed, or was rolled back. [`ClientError::Unavailable`], where the database does not
    /// answer.
    pub async fn committed(&self) -> Result<Handle<T>, ClientError> {
        if let Some((prepared, _)) = &self.new {
            let is_there = prepared.committed().await;
            if !is_there.map_err(|error| unavailable(&error))? {
                return Err(ClientError::Transaction(format!(
                    "task {} is not there: its transaction is not committed",
                    self.task_id()
                )));
            }
        }
        Ok(self.handle.clone())
    }
}

fn no_postgres(why: &str) -> ClientError {
    ClientError::refused(format!(
        "invalid client for a transaction of one's own: {why}; expected `Client::of` an engine on PostgreSQL"
    ))
}

fn unavailable(error: &StoreError) -> ClientError {
    ClientError::Unavailable(error.to_string())
}

#[cfg(feature = "tokio-postgres")]
mod tokio_postgres_connections {
    use super::{SqlConnection, SqlError, SqlStatement};
    use tokio_postgres::types::ToSql;
    use tokio_postgres::{Client, Error, Transaction};

    fn values(statement: &SqlStatement) -> Vec<&(dyn ToSql + Sync)> {
        let each = |param| param as &(dyn ToSql + Sync);
        statement.params.iter().map(each).collect()
    }

    fn failed(error: &Error) -> SqlError {
        let answer = error.as_db_error();
        SqlError {
            constraint: answer.and_then(|it| it.constraint()).map(str::to_owned),
            message: counterstep_steps::error::chain(error),
        }
    }

    macro_rules! connections {
        ($($connection:ty),+) => {
            $(impl SqlConnection for $connection {
                async fn execute(&mut self, statement: &SqlStatement) -> Result<u64, SqlError> {
                    let executed = <$connection>::execute(self, &*statement.sql, &values(statement)).await;
                    executed.map_err(|error| failed(&error))
                }
            })+
        };
    }

    connections!(Client, Transaction<'_>);
}

#[cfg(feature = "diesel-async")]
mod diesel_connections {
    use super::{SqlConnection, SqlError, SqlStatement};
    use counterstep_steps::error::chain;
    use diesel::pg::Pg;
    use diesel::result::Error;
    use diesel::sql_types::{Nullable, Text};
    use diesel_async::{AsyncPgConnection, RunQueryDsl};

    impl SqlConnection for AsyncPgConnection {
        async fn execute(&mut self, statement: &SqlStatement) -> Result<u64, SqlError> {
            let mut query = diesel::sql_query(statement.sql.clone()).into_boxed::<Pg>();
            for param in &statement.params {
                query = query.bind::<Nullable<Text>, _>(param.clone());
            }
            let executed = RunQueryDsl::execute(query, self).await;
            executed
                .map(|rows| u64::try_from(rows).unwrap_or(u64::MAX))
                .map_err(|error| failed(&error))
        }
    }

    fn failed(error: &Error) -> SqlError {
        let constraint = match error {
            Error::DatabaseError(_, answer) => answer.constraint_name().map(str::to_owned),
            _ => None,
        };
        SqlError {
            constraint,
            message: chain(error),
        }
    }
}
