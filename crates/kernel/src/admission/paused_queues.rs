//! Queues that people have paused: no host claims a task of one, and what runs goes on. A queue is paused
//! while its document is there.

use crate::admission::pauses::{self, Pause};
use crate::admission::setting::{Setting, SettingError, SettingOf, setting};
use crate::engine::Engine;
use crate::ports::{Document, DocumentKind, StoreError, TaskCount};
use crate::status::queue_rates::{QueueRates, rates_of};
use counterstep_contracts::{Host, QueueName};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Queue;

/// A queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueRow {
    /// Its name.
    pub name: QueueName,
    /// Since when it is paused, and why; `None`: it is not.
    pub paused: Option<Pause>,
    /// Tasks of all tenants that have not ended and were offered on it last, by state.
    pub tasks: Vec<TaskCount>,
    /// How long the one that waits for the longest time has waited to be claimed; `None`: none waits.
    pub oldest: Option<Duration>,
    /// What comes and goes.
    pub rates: QueueRates,
}

impl QueueRow {
    /// Without tasks, and not paused.
    #[must_use]
    pub fn empty(name: QueueName) -> Self {
        Self {
            name,
            paused: None,
            tasks: Vec::new(),
            oldest: None,
            rates: QueueRates::default(),
        }
    }

    /// Tasks that wait to be claimed.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let waiting = self.tasks.iter().filter(|it| it.status.is_unclaimed());
        waiting.map(|it| it.count).sum()
    }
}

/// The documents of those that are paused, by name.
pub(super) async fn paused_queues(engine: &Engine) -> Result<Vec<Document>, StoreError> {
    pauses::all(engine, KIND).await
}

/// Those that are paused, by name, each with its pause.
///
/// # Errors
/// When the store does not answer.
pub fn all_paused(engine: &Engine) -> BoxFuture<'_, Result<Vec<(QueueName, Pause)>, StoreError>> {
    Box::pin(async move {
        let rows = paused_queues(engine).await?.into_iter();
        let named = |row: Document| (QueueName(row.name.clone()), pauses::read(KIND, &row));
        Ok(rows.map(named).collect())
    })
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
    let paused = paused_queues(engine).await?.into_iter();
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
            let row = rows
                .entry(name.clone())
                .or_insert_with(|| QueueRow::empty(name.clone()));
            row.paused = pause.or_else(|| row.paused.take());
            row.tasks.extend(tasks);
        };
        for name in declared(engine) {
            add(&name, None, None);
        }
        for row in paused_queues(engine).await? {
            let pause = pauses::read(KIND, &row);
            add(&QueueName(row.name), Some(pause), None);
        }
        let gauges = engine.ports.store.gauges(&[]).await?;
        for count in gauges.tasks {
            add(&QueueName(count.queue.clone()).base(), None, Some(count));
        }
        let rates = rates_of(&engine.ports.store.workers().await?);
        for (name, row) in &mut rows {
            row.oldest = gauges.oldest_unclaimed.get(name).copied();
            row.rates = rates.get(name).copied().unwrap_or_default();
        }
        Ok(rows.into_values().collect())
    })
}

/// The pause of a queue; `None`: it is not paused.
pub(crate) async fn pause_of(
    engine: &Engine,
    name: &QueueName,
) -> Result<Option<Pause>, StoreError> {
    Ok(setting(engine, SettingOf::Queue, &name.0)
        .await?
        .map(|row| pauses::read(KIND, &row)))
}

/// Pauses a queue: no task of it is claimed from a moment later on, in any process.
///
/// # Errors
/// [`SettingError`].
pub fn pause_queue<'a>(
    engine: &'a Engine,
    name: &'a QueueName,
    actor: &'a str,
    note: &'a str,
) -> BoxFuture<'a, Result<(), SettingError>> {
    Box::pin(async move {
        pauses::pause(engine, of_queue(engine, name), "queue_paused", actor, note).await
    })
}

/// Lets hosts claim tasks of a queue again. `false`: it was not paused.
///
/// # Errors
/// [`SettingError`].
pub fn resume_queue<'a>(
    engine: &'a Engine,
    name: &'a QueueName,
    actor: &'a str,
    note: &'a str,
) -> BoxFuture<'a, Result<bool, SettingError>> {
    Box::pin(async move {
        pauses::resume(engine, of_queue(engine, name), "queue_resumed", actor, note).await
    })
}

fn of_queue<'a>(engine: &Engine, name: &'a QueueName) -> Setting<'a> {
    Setting {
        of: SettingOf::Queue,
        name: &name.0,
        is_declared: declared(engine).contains(name),
    }
}
