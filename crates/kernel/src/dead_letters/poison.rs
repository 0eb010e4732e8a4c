//! Poison messages: those that no host can read, or that contradict their task. What is kept of them is bounded
//! here, whatever queue they came from. Each is a document, for a person to look at.

use crate::audit::admin_audit::AdminChange;
use crate::digest::hex;
use crate::documents::{Edit, busy, delete, edit, read_document, write_document};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut, Store,
    StoreError,
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

/// Maximum bytes that are kept of a poisonous message.
pub const POISON_KEPT: usize = 64 * 1024;

/// Maximum number of messages of a queue that are kept; a document counts those that are not.
const KEPT: u32 = 1_000;

/// Begins the name of that document; a message's own is a number in hexadecimal digits.
const COUNT: &str = "queue-";

/// Maximum tries on a revision conflict.
const TRIES: u32 = 200;

/// Maximum number of messages that are listed.
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
/// and then never delivered again: left in the queue, it would be redelivered indefinitely.
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

/// The body of the document that counts those of a queue.
#[derive(Debug, Serialize, Deserialize)]
struct Count {
    queue: String,
    /// Messages that are there.
    kept: u32,
    /// Messages that came when there were as many as are kept.
    not_kept: u64,
    /// Why the last one of these is not acted on.
    reason: String,
}

impl Count {
    fn name(queue: &str) -> String {
        format!("{COUNT}{}", short_hash(queue))
    }

    fn write(&self, expected: Rev) -> Result<DocumentWrite, StoreError> {
        Ok(put(
            Self::name(&self.queue),
            expected,
            write_document(KIND, self)?,
        ))
    }
}

/// A name may have any signs.
fn short_hash(name: &str) -> String {
    hex(&Sha256::digest(name)[..16])
}

fn put(name: String, expected: Rev, body: String) -> DocumentWrite {
    DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name,
        expected: Some(expected),
        change: DocumentChange::Put { body, due_at: None },
    }
}

async fn find(store: &Store, names: Vec<String>) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names,
    };
    Ok(store.documents(&query).await?.rows)
}

/// Keeps a message, or counts it where its queue has as many as are kept; durable when it returns. One document for each source: a
/// repetition is success and changes nothing.
///
/// # Errors
/// [`StoreError`].
pub async fn keep(store: &Store, queue: &QueueName, poison: &Poison) -> Result<(), StoreError> {
    let (name, count) = (short_hash(&poison.source), Count::name(&queue.0));
    for _ in 0..TRIES {
        let found = find(store, vec![name.clone(), count.clone()]).await?;
        if found.iter().any(|document| document.name == name) {
            return Ok(());
        }
        let (mut count, rev) = match found.first() {
            Some(document) => (read_document(KIND, &document.body)?, document.rev),
            None => (
                Count {
                    queue: queue.0.clone(),
                    kept: 0,
                    not_kept: 0,
                    reason: String::new(),
                },
                Rev(0),
            ),
        };
        let mut writes = Vec::new();
        if count.kept < KEPT {
            count.kept += 1;
            let body = Body {
                queue: queue.0.clone(),
                source: poison.source.clone(),
                subject: poison.subject.clone(),
                reason: poison.reason.clone(),
                size_bytes: poison.size_bytes,
                payload: STANDARD.encode(&poison.payload),
            };
            let body = write_document(KIND, &body)?;
            writes.push(put(name.clone(), Rev(0), body));
        } else {
            count.not_kept += 1;
            count.reason.clone_from(&poison.reason);
        }
        writes.push(count.write(rev)?);
        if let DocumentsPut::Written(_) = store.put(&writes).await? {
            return Ok(());
        }
    }
    Err(busy(KIND))
}

/// The messages that were kept last, the last first, and for each queue that had too many one that counts the others. One that cannot be read is left out and logged.
///
/// # Errors
/// [`StoreError`].
pub async fn list(store: &Store) -> Result<Vec<PoisonView>, StoreError> {
    let query = DocumentQuery::Latest {
        kind: KIND,
        limit: LISTED,
    };
    let found = store.documents(&query).await?.rows;
    let views = found.into_iter().filter_map(|document| {
        let read = view(&document);
        let log = |error: &StoreError| tracing::error!(poison = document.name, %error, "a poison message cannot be read");
        read.inspect_err(log).ok().flatten()
    });
    Ok(views.collect())
}

/// `None`: it counts none.
fn view(document: &Document) -> Result<Option<PoisonView>, StoreError> {
    let (id, at) = (document.name.clone(), rfc3339(document.seen_at));
    if id.starts_with(COUNT) {
        let count: Count = read_document(KIND, &document.body)?;
        let reason = format!(
            "{} more messages were not kept, since the queue had {KEPT}; the last one: {}",
            count.not_kept, count.reason
        );
        let view = PoisonView {
            id,
            queue: count.queue,
            subject: String::new(),
            source: String::new(),
            reason,
            payload: String::new(),
            size_bytes: 0,
            at,
        };
        return Ok(Some(view).filter(|_| count.not_kept > 0));
    }
    let body: Body = read_document(KIND, &document.body)?;
    let payload = STANDARD.decode(&body.payload).map_err(|error| {
        StoreError::Corrupt(format!("documents.body of a poison message: {error}"))
    })?;
    Ok(Some(PoisonView {
        id,
        queue: body.queue,
        subject: body.subject,
        source: body.source,
        reason: body.reason,
        payload: String::from_utf8_lossy(&payload).into_owned(),
        size_bytes: body.size_bytes,
        at,
    }))
}

/// Deletes one that a person has looked at: its queue has room for another one. Of the document that counts others, the count.
/// `false`: there is none of this id.
///
/// # Errors
/// [`StoreError`].
pub async fn remove(store: &Store, id: &str, actor: &str) -> Result<bool, StoreError> {
    let tenant = Tenant::default();
    // The queue of a message never changes. A message that cannot be read belongs to no queue that counts it.
    let Some(document) = find(store, vec![id.to_owned()]).await?.pop() else {
        return Ok(false);
    };
    let queue = read_document(KIND, &document.body).map(|body: Body| body.queue);
    let counts = queue.map(|queue| Count::name(&queue)).unwrap_or_default();
    let names = [id, &counts];
    let removed = edit(store, KIND, &tenant, &names, |found| {
        let is_there = |name: &str| found.rows.iter().find(|document| document.name == name);
        let Some(document) = is_there(id) else {
            return Ok(Edit::keep(false));
        };
        let edit = if id.starts_with(COUNT) {
            let mut count: Count = read_document(KIND, &document.body)?;
            if count.not_kept == 0 {
                return Ok(Edit::keep(false));
            }
            count.not_kept = 0;
            Edit::write(count.write(document.rev)?, true)
        } else {
            let counts = is_there(&counts).map(|counts| {
                let mut count: Count = read_document(KIND, &counts.body)?;
                // An older program has kept some that it did not count.
                count.kept = count.kept.saturating_sub(1);
                count.write(counts.rev)
            });
            let gone = delete(KIND, tenant.clone(), id.to_owned(), document.rev);
            Edit::write(gone, true).along(counts.transpose()?)
        };
        Ok::<_, StoreError>(edit.audited(AdminChange {
            event: "poison_removed",
            actor: actor.to_owned(),
            tenant: tenant.clone(),
            name: id.to_owned(),
            details: json!({}),
        }))
    });
    removed.await?.ok_or_else(|| busy(KIND))
}
