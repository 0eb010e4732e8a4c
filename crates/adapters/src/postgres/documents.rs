//! The table `documents`. Must not read a body.

use super::fault::{Fault, name};
use super::statement::{Bind, Clocked, Statement, Str, replicated, values, written};
use crate::rows::DocumentTypes;
use counterstep_contracts::Rev;
use counterstep_kernel::ports::{DocumentChange, DocumentQuery, DocumentWrite};
use diesel::sql_types as sql;

// The clock comes with the rows, so that what is compared with it is what was due by it.
const FIND: &str = "SELECT now(), d.tenant, d.name, d.rev, d.body, d.due_at, d.seen_at FROM (SELECT 1) clock LEFT JOIN LATERAL \
    (SELECT * FROM documents WHERE kind = ? AND ";

/// The rows of a query, in its order.
pub(super) fn find(query: &DocumentQuery) -> Result<Statement<'_, Clocked<DocumentTypes>>, Fault> {
    let (DocumentQuery::Named { kind, .. }
    | DocumentQuery::Confirmed { kind, .. }
    | DocumentQuery::Page { kind, .. }
    | DocumentQuery::Due { kind, .. }
    | DocumentQuery::DueOf { kind, .. }
    | DocumentQuery::Latest { kind, .. }) = query;
    let mut statement = Statement::of(FIND, values![kind.as_str()]);
    match query {
        DocumentQuery::Named { tenant, names, .. }
        | DocumentQuery::Confirmed { tenant, names, .. } => {
            let names = names
                .iter()
                .map(|text| name("documents.name", text))
                .collect::<Result<Vec<Str<'_>>, _>>()?;
            statement.push(
                "tenant = ? AND name = ANY(?)",
                values![name("documents.tenant", &tenant.0)?, names],
            );
            if matches!(query, DocumentQuery::Confirmed { .. }) {
                // Asked once, and only where a row is found.
                statement.push(concat!(" AND (SELECT ", replicated!(), ")"), values![]);
            }
            statement.push(") d ON TRUE ORDER BY d.name", values![]);
        }
        DocumentQuery::Page {
            tenant,
            after,
            limit,
            ..
        } => {
            let after = name("documents.name", after.as_deref().unwrap_or_default())?;
            statement.push(
                "tenant = ? AND name > ? ORDER BY name LIMIT ?) d ON TRUE ORDER BY d.name",
                values![
                    name("documents.tenant", &tenant.0)?,
                    after,
                    i64::from(*limit)
                ],
            );
        }
        DocumentQuery::Due { after, limit, .. } => {
            statement.push("due_at <= now()", values![]);
            if let Some(after) = after {
                let due = Bind::Time(Some(written(after.due)));
                let (tenant, of) = (
                    name("documents.tenant", &after.tenant.0)?,
                    name("documents.name", &after.name)?,
                );
                statement.push(
                    " AND (due_at, tenant, name) > (?, ?, ?)",
                    values![due, tenant, of],
                );
            }
            statement.push(
                " ORDER BY due_at, tenant, name LIMIT ?) d ON TRUE ORDER BY d.due_at, d.tenant, d.name",
                values![i64::from(*limit)],
            );
        }
        DocumentQuery::DueOf { tenant, limit, .. } => statement.push(
            "due_at <= now() AND tenant = ? ORDER BY due_at, tenant, name LIMIT ?) d ON TRUE ORDER BY d.due_at, d.name",
            values![name("documents.tenant", &tenant.0)?, i64::from(*limit)],
        ),
        DocumentQuery::Latest { limit, .. } => statement.push(
            "TRUE ORDER BY seen_at DESC, name LIMIT ?) d ON TRUE ORDER BY d.seen_at DESC, d.name",
            values![i64::from(*limit)],
        ),
    }
    Ok(statement)
}

// A write that need not be durable leaves the disk to later ones. The setting ends with the
// transaction.
const WITH: &str = "WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', \
    CASE WHEN ? THEN current_setting('synchronous_commit') ELSE 'off' END, true) AS set) ";

// The first revision is any: a document that is made again after it was deleted must not come to a revision that a process
// has read of the one before it.
const INSERT: &str = "INSERT INTO documents AS d (kind, tenant, name, rev, body, due_at, seen_at) \
    SELECT ?, ?, ?, 1 + floor(random() * 4503599627370496)::bigint, ?, ?, now() FROM durable WHERE durable.set IS NOT NULL \
    ON CONFLICT (kind, tenant, name) DO ";

const UPDATE: &str =
    "UPDATE SET rev = d.rev + 1, body = excluded.body, due_at = excluded.due_at, seen_at = now() ";

/// Writes a document that is at the expected revision; gives a row with the time where it was.
/// `is_durable`: of the whole transaction.
pub(super) fn put(
    write: &DocumentWrite,
    is_durable: bool,
) -> Result<Statement<'_, sql::Timestamptz>, Fault> {
    let mut statement = Statement::of(WITH, values![is_durable]);
    let (kind, tenant) = (
        write.kind.as_str(),
        name("documents.tenant", &write.tenant.0)?,
    );
    let of = name("documents.name", &write.name)?;
    match (&write.change, write.expected) {
        (DocumentChange::Put { body, due_at }, expected @ (None | Some(Rev(0)))) => {
            let due_at = Bind::Time(due_at.map(written));
            statement.push(INSERT, values![kind, tenant, of, body.as_str(), due_at]);
            statement.push(if expected.is_none() { UPDATE } else { "NOTHING " }, values![]);
        }
        (DocumentChange::Put { body, due_at }, Some(rev)) => statement.push(
            "UPDATE documents SET rev = rev + 1, body = ?, due_at = ?, seen_at = now() FROM durable \
             WHERE durable.set IS NOT NULL AND kind = ? AND tenant = ? AND name = ? AND rev = ? ",
            values![body.as_str(), Bind::Time(due_at.map(written)), kind, tenant, of, rev.0],
        ),
        (DocumentChange::Delete, rev) => statement.push(
            "DELETE FROM documents USING durable \
             WHERE durable.set IS NOT NULL AND kind = ? AND tenant = ? AND name = ? AND rev = coalesce(?, rev) ",
            values![kind, tenant, of, rev.map(|rev| rev.0)],
        ),
    }
    statement.push("RETURNING now()", values![]);
    Ok(statement)
}
