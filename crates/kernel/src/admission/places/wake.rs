//! A place that is free again is for the next task that sleeps for one.

use super::ask::look;
use super::decide::to_wake;
use super::{Allowed, allowed, type_of};
use crate::change::transition::{PlaceWrite, Transition};
use crate::children;
use crate::engine::Engine;
use crate::ports::{PlaceCount, StoreError};
use counterstep_contracts::{Beyond, ConcurrencyDecl, TaskId};

/// After a change that gave a place back: wakes those that it is for.
pub(crate) async fn wake_after(engine: &Engine, transition: &Transition) {
    let Some(PlaceWrite::Leave { key, .. }) = &transition.place else {
        return;
    };
    Box::pin(wake_sleepers(engine, key)).await;
}

/// Wakes the tasks of a key that sleep though there is a place for them.
pub(super) async fn wake_sleepers(engine: &Engine, key: &str) {
    let woken = async {
        for task in sleepers(engine, key).await? {
            children::wake(engine, task).await?;
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = woken.await {
        tracing::warn!(%key, %error, "the next task of a key was not woken; the reconciler wakes it");
    }
}

/// The tasks of a key that sleep though there is a place for them.
async fn sleepers(engine: &Engine, key: &str) -> Result<Vec<TaskId>, StoreError> {
    let task_type = type_of(key);
    if engine.registry.newest(task_type).is_none() {
        return Ok(Vec::new());
    }
    // Where the type counts its tasks no more, nothing keeps them.
    let free = Allowed {
        at_once: ConcurrencyDecl::MOST,
        beyond: Beyond::Wait,
        debounce: None,
    };
    let allowed = allowed(engine, task_type).await.unwrap_or(free);
    let rows = engine.ports.store.places(&look(key, allowed)).await?;
    Ok(to_wake(&rows, allowed.at_once))
}

/// At most about `limit` tasks of all keys that sleep though there is a place for them.
///
/// # Errors
/// When the store does not answer.
pub async fn not_woken(engine: &Engine, limit: u32) -> Result<Vec<TaskId>, StoreError> {
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let page = engine
            .ports
            .store
            .place_counts(after.as_deref(), PAGE)
            .await?;
        let is_last = page.len() < PAGE as usize;
        after = page.last().map(|count| count.key.clone());
        for count in page {
            if has_room(engine, &count).await {
                tasks.extend(sleepers(engine, &count.key).await?);
            }
            if tasks.len() >= limit as usize {
                return Ok(tasks);
            }
        }
        if is_last {
            return Ok(tasks);
        }
    }
}

/// Counts of one read.
const PAGE: u32 = 1_000;

async fn has_room(engine: &Engine, count: &PlaceCount) -> bool {
    if count.asleep == 0 {
        return false;
    }
    let task_type = type_of(&count.key);
    if engine.registry.newest(task_type).is_none() {
        return false;
    }
    let allowed = allowed(engine, task_type).await;
    allowed.is_none_or(|allowed| count.held < allowed.at_once)
}
