//! Pauses of queues and of the processes of a machine: a document each, which stands until a person takes it back. Each process reads
//! those that concern it once a second while it takes tasks. What is paused stands in `paused_queues` and `paused_workers`.

use crate::admission::known_pauses::KnownPauses;
use crate::admission::paused_queues::paused_queues;
use crate::admission::paused_workers::is_paused_here;
use crate::admission::setting::{Setting, SettingError};
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::engine::time_limits::{best_effort, needed_read};
use crate::ports::{Document, DocumentKind, DocumentQuery, StoreError};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::queue::PauseView;
use counterstep_contracts::{QueueName, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// More than a program declares of queues, and an installation has of machines.
const MOST: u32 = 1_000;

/// Why it is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    by: String,
    note: String,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when, by the database's clock.
    pub since: DbTime,
    /// Who has paused it.
    pub by: String,
    /// Why.
    pub note: String,
}

impl Pause {
    /// Why, without the name that its author gave: what a tenant is told.
    pub(crate) fn reason(&self) -> &str {
        match self.note.rsplit_once(" (by ") {
            Some((reason, name)) if name.ends_with(')') => reason,
            _ => &self.note,
        }
    }

    /// As people see it.
    #[must_use]
    pub fn view(&self) -> PauseView {
        PauseView {
            since: rfc3339(self.since),
            by: self.by.clone(),
            note: self.note.clone(),
        }
    }
}

impl Engine {
    /// Those of these queues that this process may take tasks from, as far as it knows: it reads the pauses once a
    /// second. Where the process itself is paused, there is none. Where the database does not answer, what was known
    /// holds; before its first answer there is none.
    pub async fn not_paused(&self, queues: &[QueueName]) -> Vec<QueueName> {
        self.refresh_pauses().await;
        let open = self.pauses.map(|pauses| pauses.open_here(queues));
        open.unwrap_or_default()
    }

    /// Those of these queues that are not paused for all processes, in the same way.
    pub async fn open_queues(&self, queues: &[QueueName]) -> Vec<QueueName> {
        self.refresh_pauses().await;
        let open = self.pauses.map(|pauses| pauses.open(queues));
        open.unwrap_or_default()
    }

    /// Reads them where what is known is a second old.
    async fn refresh_pauses(&self) {
        let clock = self.ports.clock.as_ref();
        if let Some(read) = self.pauses.read_at(clock.monotonic()) {
            let answer = match self.pauses.is_known() {
                true => best_effort(clock, pauses(self)).await,
                // Without the first answer nothing is fetched.
                false => Some(needed_read(clock, pauses(self)).await),
            };
            match answer {
                Some(Ok(pauses)) => self.pauses.learn(read, pauses),
                Some(Err(error)) => {
                    tracing::warn!(%error, "pauses could not be read");
                    self.pauses.keep(read);
                }
                None => {
                    tracing::warn!("pauses could not be read in time");
                    self.pauses.keep(read);
                }
            }
        }
    }
}

async fn pauses(engine: &Engine) -> Result<KnownPauses, StoreError> {
    let queues = paused_queues(engine).await?.into_iter();
    Ok(KnownPauses {
        queues: queues.map(|row| QueueName(row.name)).collect(),
        is_here: is_paused_here(engine).await?,
    })
}

/// All pauses of a kind, by name.
pub(super) async fn all(engine: &Engine, kind: DocumentKind) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Page {
        kind,
        tenant: Tenant::default(),
        after: None,
        limit: MOST,
    };
    Ok(engine.ports.store.documents(&query).await?.rows)
}

/// What stands in the document of a pause.
pub(super) fn read(kind: DocumentKind, row: &Document) -> Pause {
    let (by, note) = match read_document::<Body>(kind, &row.body) {
        Ok(body) => (body.by, body.note),
        // It is paused whatever stands in it.
        Err(error) => {
            tracing::warn!(name = row.name, %error, "why something is paused cannot be read");
            Default::default()
        }
    };
    Pause {
        since: row.seen_at,
        by,
        note,
    }
}

/// Pauses it, with the entry of that in the audit.
pub(super) async fn pause(
    engine: &Engine,
    of: Setting<'_>,
    event: &'static str,
    actor: &str,
    note: &str,
) -> Result<(), SettingError> {
    let body = Body {
        by: actor.to_owned(),
        note: note.to_owned(),
    };
    let body = write_document(of.of.kind(), &body)?;
    of.write(engine, Some(body), event, actor, details(note))
        .await
        .map(drop)
}

/// Takes its pause back. `false`: it was not paused.
pub(super) async fn resume(
    engine: &Engine,
    of: Setting<'_>,
    event: &'static str,
    actor: &str,
    note: &str,
) -> Result<bool, SettingError> {
    of.write(engine, None, event, actor, details(note)).await
}

fn details(note: &str) -> Value {
    json!({ "note": note })
}
