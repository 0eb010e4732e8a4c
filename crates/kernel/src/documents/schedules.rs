//! Schedules as documents. The due time of a paused one stands in its body alone.

use super::body::{read_body, write_body};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Documents, DuePlace,
    ScheduleQuery, ScheduleRow, Schedules, Store, StoreError,
};
use counterstep_contracts::{Rev, ScheduleOrigin};

const KIND: DocumentKind = DocumentKind::Schedule;

/// Minimum page size of a read of schedules that are due.
const PAGE: u32 = 100;

pub(super) async fn find(store: &Store, query: &ScheduleQuery) -> Result<Schedules, StoreError> {
    let query = match query.clone() {
        ScheduleQuery::Due {
            types,
            declared,
            after,
            limit,
        } => {
            let is_ours = |row: &ScheduleRow| {
                let fires = row.origin == ScheduleOrigin::Api || declared.contains(&row.name);
                fires && types.contains(&row.spec.task_type)
            };
            return due(store, is_ours, after, limit).await;
        }
        ScheduleQuery::Named { tenant, names } => DocumentQuery::Named {
            kind: KIND,
            tenant,
            names,
        },
        ScheduleQuery::Page {
            tenant,
            after,
            limit,
        } => DocumentQuery::Page {
            kind: KIND,
            tenant,
            after,
            limit,
        },
    };
    let documents = store.documents(&query).await?;
    Ok(Schedules {
        now: documents.now,
        rows: documents.rows.into_iter().filter_map(readable).collect(),
        last: None,
    })
}

/// Of a page of all that are due: those of other programs must not fill the places of this one's.
async fn due(
    store: &Store,
    is_ours: impl Fn(&ScheduleRow) -> bool + Send,
    after: Option<DuePlace>,
    limit: u32,
) -> Result<Schedules, StoreError> {
    let limit_of_page = limit.max(PAGE);
    let query = DocumentQuery::Due {
        kind: KIND,
        after,
        limit: limit_of_page,
    };
    let Documents { now, rows: page } = store.documents(&query).await?;
    let is_last = u32::try_from(page.len()).is_ok_and(|read| read < limit_of_page);
    let (mut rows, mut last) = (Vec::new(), None);
    for document in page {
        // Also where it cannot be read: the next page begins behind it.
        last = document.due_place();
        rows.extend(readable(document).filter(&is_ours));
        if u32::try_from(rows.len()).is_ok_and(|found| found >= limit) {
            return Ok(Schedules { now, rows, last });
        }
    }
    Ok(Schedules {
        now,
        rows,
        last: last.filter(|_| !is_last),
    })
}

/// One that a newer program wrote must not stand in the way of the others.
pub(crate) fn readable(document: Document) -> Option<ScheduleRow> {
    let name = document.name.clone();
    read(document)
        .inspect_err(|error| tracing::warn!(schedule = name, %error, "a schedule cannot be read"))
        .ok()
}

fn read(document: Document) -> Result<ScheduleRow, StoreError> {
    Ok(ScheduleRow {
        tenant: document.tenant,
        name: document.name,
        rev: document.rev,
        updated_at: document.seen_at,
        ..read_body(KIND, &document.body)?
    })
}

/// The row as a write over the revision before it.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn write(row: &ScheduleRow) -> Result<DocumentWrite, StoreError> {
    Ok(DocumentWrite {
        kind: KIND,
        tenant: row.tenant.clone(),
        name: row.name.clone(),
        expected: Some(Rev(row.rev.0 - 1)),
        change: DocumentChange::Put {
            body: write_body(KIND, row)?,
            due_at: row.next_due_at.filter(|_| !row.paused),
        },
    })
}
