//! What is written in one transaction with a change, but not by its statement: the schedule that
//! fires it, the tasks that its step submits, and the statements of steps for tables that are the user's own; and documents that
//! are written together. The one place with a
//! transaction of several statements. Must not know what they are for.

use super::children;
use super::commit;
use super::documents;
use super::fault::Fault;
use super::pool::Lent;
use super::statement::{time, written};
use super::table_rights;
use super::tasks;
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{CommitError, Committed, DocumentWrite, DocumentsPut};
use counterstep_steps::times::DbTime;
use counterstep_steps::{Sql, SqlRefused, SqlValue};
use diesel::pg::Pg;
use diesel::pg::data_types::PgTimestamp;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{BigInt, Binary, Bool, Double, Nullable, Text, Timestamptz, Uuid};
use std::time::Duration;

/// What the connection is set to for our statements does not suit those of others, but that it has no parallel workers: a
/// commit is short.
const SERVERS_CHOICE: &str = "SET LOCAL plan_cache_mode = auto; SET LOCAL enable_seqscan = on; \
    SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_bitmapscan = on";

/// Writes the change and its statements, or nothing and says why.
pub(super) async fn write(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    lock: Duration,
) -> Result<Committed, Fault> {
    commit::look(lent, guard, transition).await?;
    begin(lent).await?;
    // The guard first: under it no other transaction changes the task, and a fenced worker touches
    // no other table.
    let written = commit::send(lent, guard, transition, lock).await;
    let now = match &written {
        Ok(rows) => rows.first().map(|(now, _)| time(*now)),
        Err(_) => None,
    };
    let Some(now) = now else {
        // Nothing was committed, whatever became of the connection.
        let written = written.map_err(Fault::of_a_read);
        end(lent).await?;
        return commit::judge(lent, guard, transition, written).await;
    };
    if let Err(fault) = write_beside(lent, transition, lock).await {
        end(lent).await?;
        return Err(fault);
    }
    for sql in &transition.sql {
        if let Err(fault) = execute(lent, sql).await {
            end(lent).await?;
            return Err(match fault {
                Fault::Forbidden(text) => forbidden(lent, sql, text).await,
                other => other,
            });
        }
    }
    match lent.run("COMMIT").await {
        Ok(()) => Ok(Committed { now }),
        // A constraint that is looked at last, or a trigger. The server lives and has taken
        // everything back.
        Err(Fault::Violated { text, .. } | Fault::Corrupt(text)) => Err(refused(text, false)),
        Err(Fault::Forbidden(text)) if !transition.sql.is_empty() => Err(refused(text, false)),
        Err(Fault::Unavailable(text) | Fault::Locked(text)) if !transition.sql.is_empty() => {
            Err(refused(text, true))
        }
        Err(fault) => Err(fault),
    }
}

/// Writes documents, all or none.
pub(super) async fn put_documents(
    lent: &Lent,
    writes: &[DocumentWrite],
    is_durable: bool,
) -> Result<DocumentsPut, Fault> {
    begin(lent).await?;
    let mut now = DbTime(0);
    for (place, write) in writes.iter().enumerate() {
        let put = async { lent.rows(documents::put(write, is_durable)?).await };
        let put: Result<Vec<PgTimestamp>, Fault> = put.await;
        match put.as_deref() {
            Ok([at, ..]) => now = time(*at),
            Ok([]) => {
                end(lent).await?;
                return Ok(DocumentsPut::Refused(place));
            }
            Err(_) => {
                end(lent).await?;
                put.map_err(Fault::of_a_read)?;
            }
        }
    }
    lent.run("COMMIT").await?;
    Ok(DocumentsPut::Written(now))
}

async fn begin(lent: &Lent) -> Result<(), Fault> {
    lent.run("BEGIN").await.map_err(|fault| {
        // The server may carry it out late: the next user of the connection would then write into
        // that transaction.
        lent.close_later();
        fault.of_a_read()
    })
}

/// Takes everything back. A connection on which that is not possible is of no use to anybody: it is
/// closed, and the server takes it back.
async fn end(lent: &Lent) -> Result<(), Fault> {
    lent.run("ROLLBACK").await.map_err(|fault| {
        lent.close_later();
        fault.of_a_read()
    })
}

async fn write_beside(lent: &Lent, transition: &Transition, lock: Duration) -> Result<(), Fault> {
    if let Some(write) = transition.task.as_ref().filter(|write| write.writes_labels) {
        let relabel = tasks::relabel(&write.row)?;
        let _: Vec<uuid::Uuid> = lent.rows(relabel).await.map_err(Fault::of_a_read)?;
    }
    if let Some(write) = &transition.document {
        let moved: Vec<PgTimestamp> = lent
            .rows(documents::put(write, true)?)
            .await
            .map_err(Fault::of_a_read)?;
        if moved.is_empty() {
            return Err(CommitError::Moved.into());
        }
    }
    if let Some(write) = &transition.alert {
        let put = async { lent.rows(documents::put(write, true)?).await };
        // One of its name may be there, and stays.
        let _: Vec<PgTimestamp> = put.await.map_err(Fault::of_a_read)?;
    }
    if !transition.children.is_empty() {
        let children: Vec<&Transition> = transition.children.iter().collect();
        commit::write_new(lent, &children, lock)
            .await
            .map_err(Fault::of_a_read)?;
        lent.rows::<_, uuid::Uuid>(children::insert(&transition.children))
            .await
            .map_err(Fault::of_a_read)?;
    }
    if transition.sql.is_empty() {
        return Ok(());
    }
    lent.run(SERVERS_CHOICE).await.map_err(Fault::of_a_read)
}

async fn execute(lent: &Lent, sql: &Sql) -> Result<(), Fault> {
    sql.look().map_err(CommitError::Sql)?;
    let words = |text: String| format!("`{}`: {text}", sql.text());
    let changed = lent.count(query(sql)).await.map_err(|fault| match fault {
        Fault::Violated { text, .. } | Fault::Corrupt(text) => refused(words(text), false),
        Fault::Forbidden(text) => Fault::Forbidden(words(text)),
        // The server lives. A lock that was held too long, a deadlock, a table that is not
        // there: it does not tell us which in a way that holds in every language, and the retry
        // policy bounds what comes of it.
        Fault::Unavailable(text) | Fault::Locked(text) => refused(words(text), true),
        Fault::Lost(text) => Fault::Unavailable(text),
        other @ (Fault::Refused(_) | Fault::Newer(_)) => other,
    })?;
    Ok(sql.check(changed as u64).map_err(CommitError::Sql)?)
}

/// A right stays missing until it is granted: the attempt fails permanently, with the grant in
/// its text. The transaction is over, so the server can be asked for it.
async fn forbidden(lent: &Lent, sql: &Sql, text: String) -> Fault {
    let used = table_rights::used_by(sql.text());
    let missing = match table_rights::missing(&used, &[]) {
        Ok(statement) => lent.rows(statement).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let grants = table_rights::grants(&missing);
    if grants.is_empty() {
        return refused(text, false);
    }
    let grants = grants.join(", ");
    refused(
        format!(
            "{text}; missing: {grants}: declare the table with `.table(..)`, and run the rendered postgres/roles.sql"
        ),
        false,
    )
}

fn refused(text: String, may_pass: bool) -> Fault {
    CommitError::Sql(SqlRefused { text, may_pass }).into()
}

fn query(sql: &Sql) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
    sql.values().iter().cloned().fold(
        diesel::sql_query(sql.text()).into_boxed(),
        |query, value| match value {
            SqlValue::Bool(value) => query.bind::<Nullable<Bool>, _>(value),
            SqlValue::Int(value) => query.bind::<Nullable<BigInt>, _>(value),
            SqlValue::Float(value) => query.bind::<Nullable<Double>, _>(value),
            SqlValue::Text(value) => query.bind::<Nullable<Text>, _>(value),
            SqlValue::Bytes(value) => query.bind::<Nullable<Binary>, _>(value),
            SqlValue::Uuid(value) => query.bind::<Nullable<Uuid>, _>(value),
            SqlValue::Time(value) => query.bind::<Nullable<Timestamptz>, _>(value.map(written)),
            // `look` has refused it.
            SqlValue::OutOfRange(_) => query,
        },
    )
}
