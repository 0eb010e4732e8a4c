//! The rows of `places` beside the rows of tasks: a task that is counted has one while it is not at rest, with
//! the number of its place.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{LoadFor, PlaceQuery, Store, StoreError};
use counterstep_kernel::record::TaskRow;
use std::collections::HashMap;

/// What is wrong with the places of these tasks. They may go on meanwhile: what differs is read once more.
pub(super) async fn differences(
    store: &Store,
    tasks: &[TaskRow],
) -> Result<Vec<(TaskId, String)>, StoreError> {
    let mut found = Vec::new();
    for row in differing(store, tasks).await? {
        let again = store.records(&[row.id], LoadFor::State).await?;
        let now = again.into_iter().find_map(|(_, record)| record.ok());
        let Some(now) = now.filter(|now| now.task.rev == row.rev) else {
            continue;
        };
        if !differing(store, std::slice::from_ref(&now.task))
            .await?
            .is_empty()
        {
            let expected = expected(&now.task);
            found.push((row.id, format!("its row in `places` is not {expected:?}")));
        }
    }
    Ok(found)
}

/// The key and the number that a task's row in `places` must have; `None`: it has none.
fn expected(row: &TaskRow) -> Option<(&str, Option<u32>)> {
    let key = row.place_key.as_deref()?;
    (!row.status.is_at_rest()).then_some((key, row.place_no))
}

async fn differing<'a>(
    store: &Store,
    tasks: &'a [TaskRow],
) -> Result<Vec<&'a TaskRow>, StoreError> {
    let counted: Vec<&TaskRow> = tasks.iter().filter(|row| row.place_key.is_some()).collect();
    if counted.is_empty() {
        return Ok(Vec::new());
    }
    let ids = counted.iter().map(|row| row.id).collect();
    let places = store.places(&PlaceQuery::Tasks(ids)).await?;
    let places: HashMap<TaskId, _> = places.iter().map(|place| (place.task, place)).collect();
    let differs = |row: &&TaskRow| {
        let place = places.get(&row.id).map(|place| (&*place.key, place.no));
        place != expected(row)
    };
    Ok(counted.into_iter().filter(differs).collect())
}
