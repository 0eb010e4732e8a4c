//! The audit of what is changed beside tasks: schedules, switches of task types, API keys, limits, breakers, queues, bulk
//! operations. One chain for the installation, of the same links as those of tasks: an entry is written in the
//! transaction of the change, and names who caused it. Must not hold payloads.

use crate::audit::{ContentHash, Facts, link, origin};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut, Store,
    StoreError,
};
use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const KIND: DocumentKind = DocumentKind::Audit;

/// What stands for the task in links.
const CHAIN: &str = "administration";

/// The document that knows the last entry, so that a tail that is cut off is missed.
const TIP: &str = "tip";

/// Form of the entries.
const FORM: i64 = 1;

/// Maximum tries on a revision conflict.
const TRIES: u32 = 200;

/// The stable names of all changes: a test of the API makes each of them.
pub const ADMIN_EVENTS: [&str; 24] = [
    "breaker_closed",
    "bulk_paused",
    "bulk_resumed",
    "bulk_started",
    "bulk_stopped",
    "document_erased",
    "key_made",
    "key_revoked",
    "limit_reset",
    "limit_set",
    "poison_removed",
    "queue_paused",
    "queue_resumed",
    "schedule_declared",
    "schedule_deleted",
    "schedule_paused",
    "schedule_resumed",
    "schedule_set",
    "type_disabled",
    "type_enabled",
    "view_deleted",
    "view_set",
    "workers_paused",
    "workers_resumed",
];

/// What is changed.
#[derive(Debug, Clone)]
pub(crate) struct AdminChange {
    /// Its stable name, one of [`ADMIN_EVENTS`].
    pub(crate) event: &'static str,
    /// Who causes it.
    pub(crate) actor: String,
    /// Tenant that owns it.
    pub(crate) tenant: Tenant,
    /// What: the name of a schedule, a saved view, a task type, a limit, a breaker, a queue or a machine, the id of a key or a bulk operation.
    pub(crate) name: String,
    /// More, by event; no payload.
    pub(crate) details: Value,
}

/// What an entry says besides who caused it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdminSays {
    /// When it was decided, by the database's clock.
    pub at: DbTime,
    /// Its stable name.
    pub event: String,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// What was changed.
    pub name: String,
    /// More, by event.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

/// An entry as it lies in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminEntry {
    /// Its place, from 1, without gaps.
    pub no: u64,
    /// Actor that caused it.
    pub actor: String,
    /// What happened, as the JSON of an [`AdminSays`].
    pub entries: String,
    /// Binds it to the entries before it.
    pub link: ContentHash,
}

impl AdminEntry {
    /// What it says; `None`: that cannot be read.
    #[must_use]
    pub fn says(&self) -> Option<AdminSays> {
        serde_json::from_str(&self.entries).ok()
    }

    /// The link that it has to have behind an entry with the link `before`; `None`: it is the first.
    #[must_use]
    pub fn bound_to(&self, before: Option<&ContentHash>) -> ContentHash {
        let first = origin(CHAIN);
        let before = before.map_or(&first.0, |before| &before.0);
        let facts = Facts {
            task: CHAIN,
            rev: i64::try_from(self.no).unwrap_or(i64::MAX),
            change_id: "",
            epoch: 0,
            actor: &self.actor,
            form: FORM,
            entries: &self.entries,
        };
        link(before, &facts)
    }
}

/// The end of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminTip {
    /// The number of the last entry; 0: there is none.
    pub no: u64,
    /// Its link; `None`: there is none, or it cannot be read.
    pub link: Option<ContentHash>,
    rev: Rev,
    now: DbTime,
}

#[derive(Serialize, Deserialize)]
struct EntryBody {
    actor: String,
    entries: String,
    link: String,
}

#[derive(Serialize, Deserialize)]
struct TipBody {
    no: u64,
    link: String,
}

fn name(no: u64) -> String {
    format!("{no:020}")
}

fn hash(text: &str) -> Option<ContentHash> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect::<Option<_>>().map(ContentHash)
}

fn body<T: DeserializeOwned>(document: &Document) -> Result<T, StoreError> {
    serde_json::from_str(&document.body).map_err(|error| {
        StoreError::Corrupt(format!(
            "documents.body of `{}`, an audit: {error}",
            document.name
        ))
    })
}

/// The end of the chain, as the database has it.
///
/// # Errors
/// [`StoreError`].
pub async fn tip(store: &Store) -> Result<AdminTip, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names: vec![TIP.to_owned()],
    };
    let found = store.documents(&query).await?;
    let now = found.now;
    let Some(document) = found.rows.first() else {
        return Ok(AdminTip {
            no: 0,
            link: None,
            rev: Rev(0),
            now,
        });
    };
    let TipBody { no, link } = body(document)?;
    Ok(AdminTip {
        no,
        link: hash(&link),
        rev: document.rev,
        now,
    })
}

/// A page of entries behind this number, in order. Of a damaged one an entry that is bound to nothing.
///
/// # Errors
/// [`StoreError`].
pub async fn page(store: &Store, after: u64, limit: u32) -> Result<Vec<AdminEntry>, StoreError> {
    let query = DocumentQuery::Page {
        kind: KIND,
        tenant: Tenant::default(),
        after: Some(name(after)),
        limit,
    };
    let found = store.documents(&query).await?;
    let entry = |document: &Document| {
        let no = document.name.parse().ok()?;
        // Another name stands behind all numbers, and would lead back to one.
        if document.name != name(no) {
            return None;
        }
        let none = |_| EntryBody {
            actor: String::new(),
            entries: String::new(),
            link: String::new(),
        };
        let EntryBody {
            actor,
            entries,
            link,
        } = body(document).unwrap_or_else(none);
        Some(AdminEntry {
            no,
            actor,
            entries,
            link: hash(&link).unwrap_or(ContentHash(Vec::new())),
        })
    };
    // The tip comes behind all numbers.
    Ok(found.rows.iter().filter_map(entry).collect())
}

/// Writes a document together with the entry of its change. `false`: it is not at the expected revision,
/// and nothing was written.
pub(crate) async fn put(
    store: &Store,
    write: DocumentWrite,
    change: AdminChange,
) -> Result<bool, StoreError> {
    put_all(store, vec![write], change).await
}

/// The same for several documents: all are written, or none.
pub(crate) async fn put_all(
    store: &Store,
    mut writes: Vec<DocumentWrite>,
    change: AdminChange,
) -> Result<bool, StoreError> {
    debug_assert!(ADMIN_EVENTS.contains(&change.event), "{}", change.event);
    let of_change = writes.len();
    let audit = |name: String, expected, body: String| DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name,
        expected: Some(expected),
        change: DocumentChange::Put { body, due_at: None },
    };
    for _ in 0..TRIES {
        let tip = tip(store).await?;
        let says = AdminSays {
            at: tip.now,
            event: change.event.to_owned(),
            tenant: change.tenant.clone(),
            name: change.name.clone(),
            details: change.details.clone(),
        };
        let mut entry = AdminEntry {
            no: tip.no + 1,
            actor: change.actor.clone(),
            entries: text(&says),
            link: ContentHash(Vec::new()),
        };
        entry.link = entry.bound_to(tip.link.as_ref());
        let link = entry.link.to_string();
        let (no, of_entry) = (
            entry.no,
            EntryBody {
                actor: entry.actor,
                entries: entry.entries,
                link: link.clone(),
            },
        );
        writes.truncate(of_change);
        writes.push(audit(name(no), Rev(0), text(&of_entry)));
        writes.push(audit(TIP.to_owned(), tip.rev, text(&TipBody { no, link })));
        match store.put(&writes).await? {
            DocumentsPut::Written(_) => return Ok(true),
            DocumentsPut::Refused(place) if place < of_change => return Ok(false),
            DocumentsPut::Refused(_) => {}
        }
    }
    Err(StoreError::Unavailable(
        "the audit of changes was modified concurrently".to_owned(),
    ))
}

/// JSON of what has text keys only: it cannot fail.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
