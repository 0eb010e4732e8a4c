//! What is known beside a task's own rows of what may hold it, as values. Must not read anything.

use crate::admission::limits::LimitFound;
use crate::admission::paused_workers::PausedWorkers;
use crate::admission::pauses::Pause;
use crate::admission::places::PlaceFound;
use crate::breaker::BreakerState;
use crate::ports::{ChildCount, ChildLine, REFRESH_TAKES, WorkerSeen, Workers, refreshed_every};
use crate::record::DbTime;
use counterstep_contracts::operator::Why;
use std::time::Duration;

/// What is known beside a task's own rows.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// What processes have reported of themselves; `None`: unknown. The reports show which processes
    /// were there, and decide nothing.
    pub workers: Option<Workers>,
    /// How the tasks stand that it has submitted; `None`: unknown.
    pub children: Option<ChildrenFound>,
    /// How it stands among those of its key, where it has no place and needs one.
    pub place: Option<PlaceFound>,
    /// Why the task stands that it waits for: the first of its children, or the one before it in its line.
    pub other: Option<Box<Why>>,
    /// The pause of its queue.
    pub pause: Option<Pause>,
    /// The pauses of processes.
    pub paused_workers: PausedWorkers,
    /// The limit of its next step, and the step.
    pub limit: Option<(String, LimitFound)>,
    /// The breaker of its next step.
    pub breaker: Option<BreakerFound>,
    /// Until when a reconciler has reserved it, where its lease is over.
    pub reserved_until: Option<DbTime>,
    /// For how long the database has answered this process again; `None`: it was never away.
    pub back_for: Option<Duration>,
}

/// A breaker that a task meets.
#[derive(Debug)]
pub struct BreakerFound {
    /// Key of the breaker.
    pub name: String,
    /// The step that waits for it.
    pub step: String,
    /// As this process sees it. Without a server for hints each process has its own, and of another one's nothing is known. `None`:
    /// the hints do not say.
    pub state: Option<BreakerState>,
    /// Half-open, while another attempt probes: asked again after this.
    pub probing: Option<Duration>,
}

/// For how long after an outage what is known of a process may be older than that.
pub(super) fn still_unknown(around: &Surroundings, seen: &WorkerSeen) -> Option<Duration> {
    let refreshes_within = refreshed_every(seen.row.lost_after) + REFRESH_TAKES;
    let left = refreshes_within.checked_sub(around.back_for?)?;
    (!left.is_zero()).then_some(left)
}

/// How the tasks stand that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildrenFound {
    pub(super) counts: Vec<ChildCount>,
    /// Some of those for which a person has to decide.
    pub(super) parked: Vec<ChildLine>,
}
