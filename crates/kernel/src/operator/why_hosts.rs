//! Which processes take a task that waits for one, as they have said of themselves. Reads; decides nothing.

use crate::ports::{KnownType, Workers};
use crate::record::TaskRecord;
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::workers::WorkerState;
use std::time::Duration;

/// How many processes that are alive take such a task, in words; empty where that is unknown. One
/// that has missed a refresh may have been killed: its slots are no free ones.
pub(super) fn takers(record: &TaskRecord, workers: Option<&Workers>) -> String {
    let Some(known) = workers.filter(|known| !known.rows.is_empty()) else {
        return String::new();
    };
    let task = &record.task;
    let of = KnownType {
        name: task.task_type.clone(),
        version: task.version,
        definition: task.definition_hash.clone(),
    };
    let (fresh, silent): (Vec<_>, Vec<_>) = known
        .rows
        .iter()
        .filter(|seen| seen.state(known.now) == WorkerState::Alive && seen.serves(&task.queue, &of))
        .partition(|seen| seen.is_fresh(known.now));
    let free = fresh
        .iter()
        .filter(|seen| seen.row.running_count < seen.row.concurrency)
        .count();
    let mut text = match fresh.len() {
        0 => "; no process that takes it is known to be alive".to_owned(),
        1 if free == 1 => "; 1 process that takes it is alive, with a free slot".to_owned(),
        1 => "; 1 process that takes it is alive, and has no free slot".to_owned(),
        count => {
            format!("; {count} processes that take it are alive, {free} of them with a free slot")
        }
    };
    if let Some(last) = silent
        .iter()
        .map(|seen| known.now.after(seen.seen_at).as_secs())
        .min()
    {
        let ago = format_duration(Duration::from_secs(last));
        text += &match silent.len() {
            1 => format!("; 1 that takes it has missed a refresh and may be gone: seen {ago} ago"),
            count => {
                format!(
                    "; {count} that take it have missed a refresh and may be gone: the last was seen {ago} ago"
                )
            }
        };
    }
    text
}
