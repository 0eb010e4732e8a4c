//! Queues that people have paused: no host claims a task of one, and what runs goes on. A queue is paused
//! while its document is there. Each process reads them once a second while it takes tasks.

use crate::admission::setting::{Setting, SettingError, SettingOf, setting};
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::engine::time_limits::{best_effort, needed_read};
use crate::ports::{Document, DocumentKind, DocumentQuery, StoreError, TaskCount};
use crate::record::DbTime;
use counterstep_contracts::{Host, QueueName, Tenant};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const KIND: DocumentKind = DocumentKind::Queue;

/// More queues than a program declares.
const MOST: u32 = 1_000;

/// Why a queue is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    by: String,
    note: String,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// Its name.
    pub name: QueueName,
    /// Since when it is paused, and why; `None`: it is not.
    pub paused: Option<Pause>,
    /// Tasks of all tenants that have not ended and were offered on it last, by state.
    pub tasks: Vec<TaskCount>,
}

/// A pause of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when, by the database's clock.
    pub since: DbTime,
    /// Who has paused it.
    pub by: String,
    /// Why.
    pub note: String,
}

impl Engine {
    /// Those of these queues that are not paused, as far as this process knows: it reads them once a
    /// second. Where the database does not answer, what was known holds; before its first answer none is open.
    pub async fn not_paused(&self, queues: &[QueueName]) -> Vec<QueueName> {
        let clock = self.ports.clock.as_ref();
        if let Some(read) = self.paused.read_at(clock.monotonic()) {
            let answer = match self.paused.is_known() {
                true => best_effort(clock, paused(self)).await,
                // Without the first answer nothing is fetched.
                false => Some(needed_read(clock, paused(self)).await),
            };
            match answer {
                Some(Ok(rows)) => {
                    let paused = rows.into_iter().map(|row| QueueName(row.name)).collect();
                    self.paused.learn(read, paused);
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "paused queues could not be read");
                    self.paused.keep(read);
                }
                None => {
                    tracing::warn!("paused queues could not be read in time");
                    self.paused.keep(read);
                }
            }
        }
        let open = self.paused.map(|paused| without(queues, paused));
        open.unwrap_or_default()
    }
}

/// Those of these queues and lanes that are not paused.
fn without(queues: &[QueueName], paused: &BTreeSet<QueueName>) -> Vec<QueueName> {
    let open = queues
        .iter()
        .filter(|queue| !paused.contains(&queue.base()));
    open.cloned().collect()
}

async fn paused(engine: &Engine) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Page {
        kind: KIND,
        tenant: Tenant::default(),
        after: None,
        limit: MOST,
    };
    Ok(engine.ports.store.documents(&query).await?.rows)
}

fn declared(engine: &Engine) -> BTreeSet<QueueName> {
    let hosts = [Host::Worker, Host::Api].into_iter();
    hosts
        .flat_map(|host| engine.registry.queues(host))
        .collect()
}

/// The queues of the task types and those that are paused, by name, and which of them are.
pub(crate) async fn pauses(engine: &Engine) -> Result<BTreeMap<QueueName, bool>, StoreError> {
    let declared = declared(engine).into_iter().map(|name| (name, false));
    let paused = paused(engine).await?.into_iter();
    let paused = paused.map(|row| (QueueName(row.name), true));
    Ok(declared.chain(paused).collect())
}

/// All queues of the task types, and those that are paused or have tasks, by name.
///
/// # Errors
/// When the store does not answer.
pub fn queues(engine: &Engine) -> BoxFuture<'_, Result<Vec<QueueRow>, StoreError>> {
    Box::pin(async move {
        let mut rows: BTreeMap<QueueName, QueueRow> = BTreeMap::new();
        let mut add = |name: &QueueName, pause: Option<Pause>, tasks: Option<TaskCount>| {
            let row = rows.entry(name.clone()).or_insert_with(|| QueueRow {
                name: name.clone(),
                paused: None,
                tasks: Vec::new(),
            });
            row.paused = pause.or_else(|| row.paused.take());
            row.tasks.extend(tasks);
        };
        for name in declared(engine) {
            add(&name, None, None);
        }
        for row in paused(engine).await? {
            let pause = read(&row);
            add(&QueueName(row.name), Some(pause), None);
        }
        for count in engine.ports.store.gauges(&[]).await?.tasks {
            add(&QueueName(count.queue.clone()).base(), None, Some(count));
        }
        Ok(rows.into_values().collect())
    })
}

fn read(row: &Document) -> Pause {
    let (by, note) = match read_document::<Body>(KIND, &row.body) {
        Ok(body) => (body.by, body.note),
        // It is paused whatever stands in it.
        Err(error) => {
            tracing::warn!(queue = row.name, %error, "why a queue is paused cannot be read");
            Default::default()
        }
    };
    Pause {
        since: row.seen_at,
        by,
        note,
    }
}

/// The pause of a queue; `None`: it is not paused.
pub(crate) async fn pause_of(
    engine: &Engine,
    name: &QueueName,
) -> Result<Option<Pause>, StoreError> {
    Ok(setting(engine, SettingOf::Queue, &name.0)
        .await?
        .as_ref()
        .map(read))
}

/// Pauses a queue: no task of it is claimed from a moment later on, in any process.
///
/// # Errors
/// [`SettingError`].
pub fn pause_queue<'a>(
    engine: &'a Engine,
    name: &'a QueueName,
    (actor, note): (&'a str, &'a str),
) -> BoxFuture<'a, Result<(), SettingError>> {
    Box::pin(async move {
        let body = Body {
            by: actor.to_owned(),
            note: note.to_owned(),
        };
        let body = write_document(KIND, &body)?;
        let entry = ("queue_paused", actor, json!({ "note": note }));
        let paused = of_queue(engine, name).write(engine, Some(body), entry);
        paused.await.map(drop)
    })
}

/// Lets hosts claim tasks of a queue again. `false`: it was not paused.
///
/// # Errors
/// [`SettingError`].
pub fn resume_queue<'a>(
    engine: &'a Engine,
    name: &'a QueueName,
    (actor, note): (&'a str, &'a str),
) -> BoxFuture<'a, Result<bool, SettingError>> {
    Box::pin(async move {
        let entry = ("queue_resumed", actor, json!({ "note": note }));
        of_queue(engine, name).write(engine, None, entry).await
    })
}

fn of_queue<'a>(engine: &Engine, name: &'a QueueName) -> Setting<'a> {
    Setting {
        of: SettingOf::Queue,
        name: &name.0,
        is_declared: declared(engine).contains(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_queue_its_lanes_are_paused() {
        let named = |name: &str| QueueName(name.to_owned());
        let queues = [
            "zips",
            "zips.urgent",
            "zips.backlog",
            "videos",
            "videos.urgent",
        ]
        .map(named);
        let paused = BTreeSet::from([named("zips")]);
        assert_eq!(without(&queues, &paused), queues[3..]);
        assert_eq!(without(&queues, &BTreeSet::new()), queues);
    }
}
