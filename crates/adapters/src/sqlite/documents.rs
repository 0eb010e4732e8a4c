//! Queries on the table `documents`. Must not read a body.

use super::fault::Fault;
use super::prepared::Prepare;
use super::schema::documents;
use crate::rows::DocumentRow;
use counterstep_kernel::ports::{DocumentChange, DocumentQuery, DocumentWrite, Documents};
use counterstep_steps::guard;
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

const COLUMNS: (
    documents::tenant,
    documents::name,
    documents::rev,
    documents::body,
    documents::due_at,
    documents::seen_at,
) = (
    documents::tenant,
    documents::name,
    documents::rev,
    documents::body,
    documents::due_at,
    documents::seen_at,
);

/// The rows of a query, in its order.
pub(super) fn find(
    connection: &mut SqliteConnection,
    query: &DocumentQuery,
    now: i64,
) -> Result<Documents, Fault> {
    let (DocumentQuery::Named { kind, .. }
    | DocumentQuery::Confirmed { kind, .. }
    | DocumentQuery::Page { kind, .. }
    | DocumentQuery::Due { kind, .. }
    | DocumentQuery::DueOf { kind, .. }
    | DocumentQuery::Latest { kind, .. }) = query;
    let rows = documents::table
        .filter(documents::kind.eq(kind.as_str()))
        .select(COLUMNS)
        .into_boxed();
    let rows: Vec<DocumentRow> = match query {
        DocumentQuery::Named { tenant, names, .. }
        | DocumentQuery::Confirmed { tenant, names, .. } => rows
            .filter(documents::tenant.eq(&tenant.0))
            .filter(documents::name.eq_any(names))
            .order(documents::name)
            .load(connection)?,
        DocumentQuery::Page {
            tenant,
            after,
            limit,
            ..
        } => rows
            .filter(documents::tenant.eq(&tenant.0))
            .filter(documents::name.gt(after.as_deref().unwrap_or_default()))
            .order(documents::name)
            .load_at_most(*limit, connection)?,
        DocumentQuery::Due { after, limit, .. } => {
            let due = rows.filter(documents::due_at.le(now)).order((
                documents::due_at,
                documents::tenant,
                documents::name,
            ));
            let due = match after {
                None => due,
                Some(after) => {
                    let name = documents::tenant
                        .eq(&after.tenant.0)
                        .and(documents::name.gt(&after.name));
                    let behind = documents::tenant.gt(&after.tenant.0).or(name);
                    let same = documents::due_at.eq(after.due.0).and(behind);
                    due.filter(documents::due_at.gt(after.due.0).or(same))
                }
            };
            due.load_at_most(*limit, connection)?
        }
        // By the tenant too, which is the same for all: the order is that of the index.
        DocumentQuery::DueOf { tenant, limit, .. } => rows
            .filter(documents::due_at.le(now))
            .filter(documents::tenant.eq(&tenant.0))
            .order((documents::due_at, documents::tenant, documents::name))
            .load_at_most(*limit, connection)?,
        DocumentQuery::Latest { limit, .. } => rows
            .order((documents::seen_at.desc(), documents::name))
            .load_at_most(*limit, connection)?,
    };
    Ok(Documents {
        now: DbTime(now),
        rows: rows.into_iter().map(DocumentRow::decode).collect(),
    })
}

/// Writes a document that is at the expected revision. Whether it was.
pub(super) fn put(
    connection: &mut SqliteConnection,
    write: &DocumentWrite,
    now: i64,
) -> Result<bool, Fault> {
    let found = documents::table.find((write.kind.as_str(), &write.tenant.0, &write.name));
    let rev: Option<i64> = found
        .select(documents::rev)
        .get_result(connection)
        .optional()?;
    let is_as_read = write
        .expected
        .is_none_or(|expected| expected.0 == rev.unwrap_or(0));
    if !guard!("revision of a document", is_as_read) {
        return Ok(false);
    }
    let exists = rev.is_some();
    match &write.change {
        DocumentChange::Put { body, due_at } => {
            let rev = match rev {
                Some(rev) => rev + 1,
                None => first_revision(connection)?,
            };
            let content = (
                documents::rev.eq(rev),
                documents::body.eq(body),
                documents::due_at.eq(due_at.map(|due| due.0)),
                documents::seen_at.eq(now),
            );
            if exists {
                diesel::update(found).set(content).execute(connection)?;
            } else {
                let key = (
                    documents::kind.eq(write.kind.as_str()),
                    documents::tenant.eq(&write.tenant.0),
                    documents::name.eq(&write.name),
                );
                diesel::insert_into(documents::table)
                    .values((key, content))
                    .execute(connection)?;
            }
        }
        DocumentChange::Delete => return Ok(diesel::delete(found).execute(connection)? > 0),
    }
    Ok(true)
}

/// Any: a document that is made again after it was deleted must not come to a revision that a process has read of the one
/// before it.
fn first_revision(connection: &mut SqliteConnection) -> Result<i64, Fault> {
    let any = sql::<BigInt>("1 + (random() & 4503599627370495)");
    Ok(diesel::select(any).get_result(connection)?)
}
