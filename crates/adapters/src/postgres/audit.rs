//! Rows of journals as they lie there, for checking them. Must not make anything of what it reads.

use super::fault::Fault;
use super::statement::{Statement, time, values};
use counterstep_kernel::ports::{ChainRow, ChainTip, JournalPage};
use diesel::pg::data_types::PgTimestamp;
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

type SomeText = sql::Nullable<sql::Text>;
type SomeBytes = sql::Nullable<sql::Binary>;

/// The columns of a row, and of its task's row.
pub(super) type ChainRowTypes = (
    (
        sql::Uuid,
        sql::BigInt,
        sql::Timestamptz,
        sql::Uuid,
        sql::BigInt,
        sql::Text,
        sql::Integer,
    ),
    (sql::Text, SomeText, SomeBytes, SomeBytes),
    (SomeText, sql::Nullable<sql::BigInt>, SomeBytes),
);

/// A row, column by column.
pub(super) type ChainRowRead = (Named, Said, (Option<String>, Option<i64>, Option<Vec<u8>>));

#[derive(Debug, Queryable)]
pub(super) struct Named {
    task: Uuid,
    rev: i64,
    at: PgTimestamp,
    change_id: Uuid,
    epoch: i64,
    actor: String,
    form: i32,
}

#[derive(Debug, Queryable)]
pub(super) struct Said {
    entries: String,
    data: Option<String>,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

fn id(text: &str) -> Result<Uuid, Fault> {
    Uuid::try_parse(text)
        .map_err(|error| Fault::Corrupt(format!("`{text}` is no task's id: {error}")))
}

macro_rules! rows {
    ($condition:literal) => {
        concat!(
            "SELECT j.task, j.rev, j.at, j.change_id, j.epoch, j.actor, j.form, j.entries, j.data, j.link, j.seal,
                t.status, t.rev, t.audit_seal
             FROM journal j LEFT JOIN tasks t ON t.id = j.task WHERE ",
            $condition,
            " ORDER BY j.task, j.rev LIMIT ?"
        )
    };
}

/// A page of rows, each with its task's row of the same moment.
pub(super) fn rows(page: &JournalPage) -> Result<Statement<'static, ChainRowTypes>, Fault> {
    let (after, rev) = match &page.after {
        Some((task, rev)) => (id(task)?, *rev),
        None => (Uuid::nil(), i64::MIN),
    };
    let limit = i64::from(page.limit);
    Ok(match &page.task {
        None => Statement::of(
            rows!("(j.task, j.rev) > (?, ?)"),
            values![after, rev, limit],
        ),
        Some(task) => Statement::of(
            rows!("j.task = ? AND j.rev > ?"),
            values![id(task)?, rev, limit],
        ),
    })
}

/// What [`rows`] has read.
pub(super) fn decode((named, said, (status, rev, seal)): ChainRowRead) -> ChainRow {
    let task = named.task.as_hyphenated().to_string();
    let tip = status.zip(rev).map(|(status, rev)| ChainTip {
        task: task.clone(),
        status,
        rev,
        seal: seal.unwrap_or_default(),
        has_rows: true,
    });
    ChainRow {
        rev: named.rev,
        at: time(named.at),
        change_id: named.change_id.as_hyphenated().to_string(),
        epoch: named.epoch,
        actor: named.actor,
        form: named.form.into(),
        entries: said.entries,
        data: said.data,
        link: said.link.unwrap_or_default(),
        seal: said.seal.unwrap_or_default(),
        tip,
        task,
    }
}

/// The columns of a chain tip.
pub(super) type ChainTipTypes = (sql::Uuid, sql::Text, sql::BigInt, SomeBytes, sql::Bool);

/// A chain tip, column by column.
pub(super) type ChainTipRead = (Uuid, String, i64, Option<Vec<u8>>, bool);

// Of an `EXISTS` the server may make a table of all its rows first.
macro_rules! chain_tips {
    ($condition:literal) => {
        concat!(
            "SELECT id, status, rev, audit_seal,
                (SELECT TRUE FROM journal WHERE journal.task = tasks.id LIMIT 1) IS NOT NULL
             FROM tasks WHERE ",
            $condition,
            " ORDER BY id LIMIT ?"
        )
    };
}

/// A page of what tasks' rows say of their journal.
pub(super) fn chain_tips(page: &JournalPage) -> Result<Statement<'static, ChainTipTypes>, Fault> {
    let after = page
        .after
        .as_ref()
        .map_or(Ok(Uuid::nil()), |(task, _)| id(task))?;
    let limit = i64::from(page.limit);
    Ok(match &page.task {
        None => Statement::of(chain_tips!("id > ?"), values![after, limit]),
        Some(task) => Statement::of(
            chain_tips!("id = ? AND id > ?"),
            values![id(task)?, after, limit],
        ),
    })
}

/// What [`chain_tips`] has read.
pub(super) fn decode_chain_tip((task, status, rev, seal, has_rows): ChainTipRead) -> ChainTip {
    ChainTip {
        task: task.as_hyphenated().to_string(),
        status,
        rev,
        seal: seal.unwrap_or_default(),
        has_rows,
    }
}
