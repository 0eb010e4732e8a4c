//! Poison messages: those that no host can read, or that contradict their task. What is kept of them is bounded
//! here, whatever queue they came from. Each is a document, for a person to look at.

use crate::admin_audit::{self, AdminChange};
use crate::digest::hex;
use crate::documents::{delete, read_document, write_document};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Store, StoreError,
};
use crate::times::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use counterstep_contracts::dead_letter::PoisonView;
use counterstep_contracts::{QueueName, Rev, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

const KIND: DocumentKind = DocumentKind::Poison;

/// How much of a poisonous message is kept, in bytes.
pub const POISON_KEPT: usize = 64 * 1024;

/// Messages that are listed.
const LISTED: u32 = 200;

/// A message as its queue has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageSource {
    /// Names the message in its queue: the same for each redelivery, another one for every other
    /// message.
    pub name: String,
    /// The subject, or the place, that it was found under.
    pub subject: String,
    /// Its bytes, all of them.
    pub payload: Bytes,
}

impl MessageSource {
    /// The message as poison.
    #[must_use]
    pub fn poison(&self, reason: String) -> Poison {
        Poison::new(
            self.name.clone(),
            self.subject.clone(),
            &self.payload,
            reason,
        )
    }
}

/// A message that this program cannot read, or that contradicts the row of its task. It is kept
/// and then never delivered again: left in the queue, it would be redelivered without end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// Names the message in its queue: the same for each redelivery, another one for every other
    /// message.
    pub source: String,
    /// The subject, or the place, that it was found under.
    pub subject: String,
    /// The beginning of its bytes, at most [`POISON_KEPT`].
    pub payload: Bytes,
    /// How many there were.
    pub size_bytes: u64,
    /// Why it is not acted on.
    pub reason: String,
}

impl Poison {
    /// Of a message's bytes, all of them.
    #[must_use]
    pub fn new(source: String, subject: String, payload: &Bytes, reason: String) -> Self {
        let kept = payload.slice(..payload.len().min(POISON_KEPT));
        Self {
            source,
            subject,
            payload: kept,
            size_bytes: payload.len() as u64,
            reason,
        }
    }
}

/// The body of its document.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    queue: String,
    source: String,
    subject: String,
    reason: String,
    size_bytes: u64,
    /// As Base64.
    payload: String,
}

/// Keeps a message; durable when it returns. One document for each source: a repetition is success and
/// changes nothing.
///
/// # Errors
/// [`StoreError`].
pub async fn keep(store: &dyn Store, queue: &QueueName, poison: &Poison) -> Result<(), StoreError> {
    let body = Body {
        queue: queue.0.clone(),
        source: poison.source.clone(),
        subject: poison.subject.clone(),
        reason: poison.reason.clone(),
        size_bytes: poison.size_bytes,
        payload: STANDARD.encode(&poison.payload),
    };
    let write = DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        // A source may have any signs.
        name: hex(&Sha256::digest(&poison.source)[..16]),
        expected: Some(Rev(0)),
        change: DocumentChange::Put {
            body: write_document(KIND, &body)?,
            due_at: None,
        },
    };
    store.put_document(&write).await.map(drop)
}

/// The messages that were kept last, the last first. One that cannot be read is left out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn list(store: &dyn Store) -> Result<Vec<PoisonView>, StoreError> {
    let query = DocumentQuery::Latest {
        kind: KIND,
        limit: LISTED,
    };
    let found = store.documents(&query).await?.rows;
    let views = found.into_iter().filter_map(|document| {
        let read = view(&document);
        let log = |error: &StoreError| tracing::error!(poison = document.name, %error, "a poison message cannot be read");
        read.inspect_err(log).ok()
    });
    Ok(views.collect())
}

fn view(document: &Document) -> Result<PoisonView, StoreError> {
    let body: Body = read_document(KIND, &document.body)?;
    let payload = STANDARD.decode(&body.payload).map_err(|error| {
        StoreError::Corrupt(format!("documents.body of a poison message: {error}"))
    })?;
    Ok(PoisonView {
        id: document.name.clone(),
        queue: body.queue,
        subject: body.subject,
        source: body.source,
        reason: body.reason,
        payload: String::from_utf8_lossy(&payload).into_owned(),
        size_bytes: body.size_bytes,
        at: rfc3339(document.seen_at),
    })
}

/// Deletes one that a person has looked at. `false`: there is none of this id.
///
/// # Errors
/// [`StoreError`].
pub async fn remove(store: &dyn Store, id: &str, actor: &str) -> Result<bool, StoreError> {
    let tenant = Tenant::default();
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: tenant.clone(),
        names: vec![id.to_owned()],
    };
    let found = store.documents(&query).await?.rows;
    let Some(document) = found.into_iter().next() else {
        return Ok(false);
    };
    let change = AdminChange {
        event: "poison_removed",
        actor,
        tenant: &tenant,
        name: id,
        details: json!({}),
    };
    let gone = delete(KIND, tenant.clone(), document.name, document.rev);
    admin_audit::put(store, gone, change).await
}
