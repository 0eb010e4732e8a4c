//! Whose turn it is to list all objects, as documents: one for each interval.

use super::body::{named, read_body, write_body};
use crate::ports::{DocumentChange, DocumentKind, DocumentWrite, Store, StoreError};
use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Listing;

/// Work on the document that holds whose turn it is to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingOp {
    /// Takes the turn where a listing is due or was broken off, and no other process has it.
    Claim {
        /// The interval, from start to start.
        every: Duration,
        /// Who takes it.
        by: String,
        /// How long no other process gets the turn.
        hold: Duration,
    },
    /// Notes how far it has come. The turn may have gone to another process meanwhile.
    Keep {
        /// The interval.
        every: Duration,
        /// Who has it.
        by: String,
        /// Where to go on; `None`: the listing is at its end.
        cursor: Option<String>,
        /// How long from now no other process gets the turn; zero releases it.
        hold: Duration,
    },
}

/// A turn that the caller has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingTurn {
    /// Where to go on; `None`: from the beginning.
    pub cursor: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    /// When the last one was begun, finished or not.
    started_at: DbTime,
    /// How far it has come; empty: it is at its begin, `None`: at its end.
    cursor: Option<String>,
    held_by: String,
    held_until: DbTime,
}

pub(super) async fn work(store: &Store, op: &ListingOp) -> Result<Option<ListingTurn>, StoreError> {
    let (ListingOp::Claim { every, .. } | ListingOp::Keep { every, .. }) = op;
    let name = every.as_micros().to_string();
    let found = store.documents(&named(KIND, &name)).await?;
    let now = found.now;
    let (rev, body) = match found.rows.into_iter().next() {
        Some(document) => (document.rev, Some(read_body::<Body>(KIND, &document.body)?)),
        None => (Rev(0), None),
    };
    let Some(body) = (match op {
        ListingOp::Claim { every, by, hold } => claimed(body, now, *every, by, *hold),
        ListingOp::Keep {
            by, cursor, hold, ..
        } => body.filter(|body| body.held_by == *by).map(|body| Body {
            cursor: cursor.clone(),
            held_until: now.later(*hold),
            ..body
        }),
    }) else {
        return Ok(None);
    };
    let write = DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name,
        // Of several that read the same, one has the turn.
        expected: Some(rev),
        change: DocumentChange::Put {
            body: write_body(KIND, &body)?,
            due_at: None,
        },
    };
    let written = store.put_document(&write).await?;
    Ok(written.map(|_| ListingTurn {
        cursor: body.cursor.filter(|cursor| !cursor.is_empty()),
    }))
}

fn claimed(
    body: Option<Body>,
    now: DbTime,
    every: Duration,
    by: &str,
    hold: Duration,
) -> Option<Body> {
    let (started_at, cursor) = match body {
        None => (now, String::new()),
        Some(body) if body.held_until > now => return None,
        Some(Body {
            started_at,
            cursor: Some(cursor),
            ..
        }) => (started_at, cursor),
        Some(body) if body.started_at.later(every) <= now => (now, String::new()),
        Some(_) => return None,
    };
    Some(Body {
        started_at,
        cursor: Some(cursor),
        held_by: by.to_owned(),
        held_until: now.later(hold),
    })
}
