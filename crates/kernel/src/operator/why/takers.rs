//! Which processes take a task that waits for one, as they have said of themselves. Reads; decides nothing.

use super::evidence::{Surroundings, still_unknown};
use super::reason::lasted;
use crate::ports::{KnownType, WorkerSeen, Workers};
use crate::record::{TaskRecord, TaskRow};
use counterstep_contracts::QueueName;
use counterstep_contracts::workers::WorkerState;
use std::time::Duration;

/// The processes that take a task. One that has missed a refresh may have been killed: its slots are no
/// free ones.
pub(super) struct Takers<'a> {
    workers: Option<&'a Workers>,
    /// Whether anything is known of processes.
    pub(super) is_known: bool,
    pub(super) fresh: Vec<&'a WorkerSeen>,
    /// They have missed a refresh, or are lost.
    pub(super) silent: Vec<&'a WorkerSeen>,
    /// They were stopped; the last one first.
    pub(super) stopped: Vec<&'a WorkerSeen>,
}

impl<'a> Takers<'a> {
    pub(super) fn of(record: &TaskRecord, workers: Option<&'a Workers>) -> Self {
        let task = &record.task;
        let of = KnownType {
            name: task.task_type.clone(),
            version: task.version,
            definition: task.definition_hash.clone(),
        };
        let workers = workers.filter(|known| !known.rows.is_empty());
        let rows = workers.map_or(&[][..], |known| &known.rows);
        let (stopped, running): (Vec<_>, Vec<_>) = rows
            .iter()
            .filter(|seen| seen.serves(&task.queue, &of))
            .partition(|seen| seen.row.is_stopped);
        let (fresh, silent) = running
            .into_iter()
            .partition(|seen| workers.is_some_and(|known| seen.is_fresh(known.now)));
        Self {
            workers,
            is_known: workers.is_some(),
            fresh,
            silent,
            stopped,
        }
    }

    /// In whole seconds.
    pub(super) fn age(&self, seen: &WorkerSeen) -> Duration {
        let age = self.workers.map(|known| known.now.after(seen.seen_at));
        Duration::from_secs(age.unwrap_or_default().as_secs())
    }

    /// The process that comes nearest to taking it, and what it lacks.
    pub(super) fn nearest(&self, task: &TaskRow) -> String {
        let Some(known) = self.workers else {
            return String::new();
        };
        let queue = QueueName(task.queue.clone()).base();
        let fits = |seen: &&WorkerSeen| {
            let row = &seen.row;
            let of_name = || row.types.iter().filter(|of| of.name == task.task_type);
            let has_version = of_name().any(|of| of.version == task.version);
            let exact = of_name()
                .any(|of| of.version == task.version && of.definition == task.definition_hash);
            let depth = [of_name().next().is_some(), has_version, exact];
            (depth, row.queues.contains(&queue))
        };
        let alive = known.rows.iter();
        let alive = alive.filter(|seen| {
            seen.state(known.now) == WorkerState::Alive && !seen.row.queues.is_empty()
        });
        let Some(nearest) = alive.max_by_key(fits) else {
            return "; no process that runs takes tasks of any queue".to_owned();
        };
        let ([has_name, has_version, exact], serves) = fits(&nearest);
        let lacks = match (has_name, has_version, exact) {
            (false, ..) => "does not know the type",
            (true, false, _) => "knows other versions of it",
            (true, true, false) => "knows that version in another definition",
            (true, true, true) => "does not serve the queue",
        };
        let also = match serves || exact {
            true => "",
            false => ", and does not serve the queue",
        };
        format!("; {} {lacks}{also}", nearest.row.id)
    }
}

/// How many processes that are alive take such a task, as text; empty where that is unknown. One that has had no time for a
/// refresh since an outage of the database is left out.
pub(super) fn takers(record: &TaskRecord, around: &Surroundings) -> String {
    let mut takers = Takers::of(record, around.workers.as_ref());
    let is_known = |seen: &&WorkerSeen| still_unknown(around, seen).is_none();
    takers.silent.retain(is_known);
    if !takers.is_known {
        return String::new();
    }
    let fresh = &takers.fresh;
    let is_paused = |seen: &WorkerSeen| around.paused_workers.of(seen).is_some();
    let paused = fresh.iter().filter(|seen| is_paused(seen)).count();
    let free = fresh
        .iter()
        .filter(|seen| !is_paused(seen) && seen.row.running_count < seen.row.concurrency)
        .count();
    let mut text = match fresh.len() {
        0 => "; no process that takes it is known to be alive".to_owned(),
        1 if free == 1 => "; 1 process that takes it is alive, with a free slot".to_owned(),
        1 if paused == 1 => "; 1 process that takes it is alive, and is paused".to_owned(),
        1 => "; 1 process that takes it is alive, and has no free slot".to_owned(),
        count => {
            format!("; {count} processes that take it are alive, {free} of them with a free slot")
        }
    };
    if paused > 0 && fresh.len() > 1 {
        text += &format!(", {paused} of them paused");
    }
    if let Some(last) = takers.silent.iter().map(|seen| takers.age(seen)).min() {
        let ago = lasted(last);
        let now = takers.workers.map(|known| known.now);
        let mut silent = takers.silent.iter();
        let all_lost =
            silent.all(|seen| now.is_some_and(|now| seen.state(now) == WorkerState::Lost));
        text += &match takers.silent.len() {
            1 if all_lost => format!("; 1 that takes it is lost: seen {ago} ago"),
            count if all_lost => {
                format!("; {count} that take it are lost: the last was seen {ago} ago")
            }
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
