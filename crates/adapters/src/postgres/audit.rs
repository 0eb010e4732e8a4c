//! Rows of journals as they lie there, for checking them. Must not make anything of what it reads.

use super::fault::Fault;
use super::statement::{Statement, values};
use crate::rows::{ChainTypes, TipTypes};
use counterstep_kernel::ports::JournalPage;
use uuid::Uuid;

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
pub(super) fn rows(page: &JournalPage) -> Result<Statement<'static, ChainTypes>, Fault> {
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
pub(super) fn chain_tips(page: &JournalPage) -> Result<Statement<'static, TipTypes>, Fault> {
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
