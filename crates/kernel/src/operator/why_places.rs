//! What a task waits for where it waits for a place among those of its key: which tasks are under way.
//! Reads; must not change a task.

use super::why_reason::reason;
use crate::places::named;
use crate::ports::{First, PlaceQuery, PlaceRow, Store, StoreError};
use crate::record::TaskRecord;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::{TaskId, WaitReason};

/// So many of those that hold a place are named.
const NAMED: usize = 3;

/// Reads the tasks that hold the places of a task's key; nothing where it waits for none.
///
/// # Errors
/// When the store does not answer.
pub async fn places_found(store: &Store, record: &TaskRecord) -> Result<Vec<PlaceRow>, StoreError> {
    let waits = record.task.waiting == Some(WaitReason::Concurrency);
    let Some(key) = record.task.place_key.clone().filter(|_| waits) else {
        return Ok(Vec::new());
    };
    let query = PlaceQuery::Of {
        key,
        first: First::Oldest,
        waiting: 0,
    };
    store.places(&query).await
}

/// What is said of them.
pub(super) fn reason_of(places: &[PlaceRow]) -> WhyReason {
    let key = places.first().map_or("", |row| &row.key);
    let held: Vec<TaskId> = named(places, key, NAMED);
    let named: Vec<String> = held.iter().map(TaskId::to_string).collect();
    let mut detail =
        "it waits for a place: as many tasks of its type or key as may be are under way".to_owned();
    if !named.is_empty() {
        detail.push_str(&format!(", among them {}", named.join(", ")));
    }
    WhyReason {
        tasks: held,
        waiting_for: Some(WaitReason::Concurrency),
        ..reason(WhyCode::Concurrency, detail)
    }
}
