//! The process that holds a task, or held it last: what its lease shows, what has become of it, and which reconciler has reserved
//! the task. The lease alone decides. Pure; must not read anything.

use super::evidence::{Surroundings, still_unknown};
use super::facts::Found;
use super::reason::{lasted, reason, steps};
use crate::operator::moves::reconcile;
use crate::ports::{WorkerSeen, Workers};
use crate::record::{DbTime, TaskRecord};
use crate::times::rfc3339;
use counterstep_contracts::StepStatus;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::workers::WorkerState;
use std::time::Duration;

/// Maximum number of reconcilers that are named.
const NAMED: usize = 3;

pub(super) fn held(record: &TaskRecord, around: &Surroundings) -> Option<Found> {
    let owner = record.task.lease_owner.clone()?;
    let under_way = steps(record, |status| {
        matches!(status, StepStatus::Running | StepStatus::Compensating)
    });
    let named = if under_way.is_empty() {
        "its steps".to_owned()
    } else {
        under_way.join(", ")
    };
    let workers = around.workers.as_ref();
    let seen = workers.and_then(|known| {
        let seen = known.rows.iter().find(|seen| seen.row.id == owner)?;
        Some((known, seen))
    });
    // Right after an outage nothing is known of a process that has not refreshed its row since.
    let unknown_for = seen.and_then(|(known, seen)| {
        let is_old = !seen.row.is_stopped && !seen.is_fresh(known.now);
        is_old.then(|| still_unknown(around, seen))?
    });
    let of = Held {
        owner: &owner,
        named: &named,
        unknown_for,
        kept: seen.and_then(|(_, seen)| Some(seen.row.kept.as_ref()?.results)),
    };
    let (code, mut detail) = of.lease(record, around);
    let known = seen.filter(|_| unknown_for.is_none());
    if let Some((known, seen)) = known {
        detail.push_str(&became_of(known, seen));
    }
    let reserved = around.reserved_until.filter(|_| !record.lease_is_live());
    let found = WhyReason {
        until: reserved.or(record.task.lease_expires_at).map(rfc3339),
        owner_state: known.map(|(known, seen)| seen.state(known.now)),
        owner: Some(owner),
        steps: under_way,
        ..reason(code, detail)
    };
    let pass = reconcile("takes back what was lost with its host");
    Some((found, (code == WhyCode::HostLost).then_some(pass)))
}

/// The owner of a lease, as text.
struct Held<'a> {
    owner: &'a str,
    /// The steps under way.
    named: &'a str,
    /// How long nothing is known of the owner.
    unknown_for: Option<Duration>,
    /// Number of results in its spool.
    kept: Option<u64>,
}

impl Held<'_> {
    fn lease(&self, record: &TaskRecord, around: &Surroundings) -> (WhyCode, String) {
        let Self { owner, named, .. } = self;
        if record.lease_is_live() {
            return (
                WhyCode::Working,
                format!("{owner} works on {named}, and has to prolong its lease until then"),
            );
        }
        if around.reserved_until.is_some() {
            return (
                WhyCode::ReservedForRecovery,
                format!(
                    "the lease of {owner} has run out while it worked on {named}, and a reconciler has reserved the task until then, \
                     to take it back{}; behind that time another one reserves it",
                    reconcilers(around.workers.as_ref())
                ),
            );
        }
        if let Some(kept) = self.kept.filter(|kept| *kept > 0) {
            return (
                WhyCode::CutOff,
                format!(
                    "the lease of {owner} has run out while it worked on {named}, and it keeps {kept} results that it could not give to the \
                     database: within a lease after it reaches the database again it goes on, or a reconciler takes the task back"
                ),
            );
        }
        match self.unknown_for {
            Some(left) => (
                WhyCode::DatabaseWasAway,
                format!(
                    "the lease of {owner} ran out over {named} while the database was away: that process refreshes its row within \
                     {}, or a reconciler takes the task back",
                    format_duration(Duration::from_secs(left.as_secs() + 1))
                ),
            ),
            None => (
                WhyCode::HostLost,
                format!(
                    "the lease of {owner} has run out while it worked on {named}: a reconciler takes the task back, or another host \
                     claims it; is a reconciler running?"
                ),
            ),
        }
    }
}

/// A reservation has no name: those that may have made it.
fn reconcilers(workers: Option<&Workers>) -> String {
    let Some(known) = workers else {
        return String::new();
    };
    let alive = known.rows.iter().filter(|seen| {
        matches!(seen.role(), "reconciler" | "dev")
            && !seen.row.is_stopped
            && seen.is_fresh(known.now)
    });
    let ids: Vec<_> = alive.take(NAMED).map(|seen| &*seen.row.id).collect();
    match ids.len() {
        0 => "; none is known to be alive".to_owned(),
        1 => format!("; {} is alive", ids[0]),
        _ => format!("; {} are alive", ids.join(", ")),
    }
}

fn became_of(known: &Workers, seen: &WorkerSeen) -> String {
    let ago = |at: DbTime| lasted(known.now.after(at));
    let (machine, ago) = (&seen.row.machine, ago(seen.seen_at));
    match seen.state(known.now) {
        WorkerState::Alive if !seen.is_fresh(known.now) => {
            format!("; it has missed a refresh and may be gone: last seen on {machine} {ago} ago")
        }
        WorkerState::Alive => format!("; it is alive on {machine}, seen {ago} ago"),
        WorkerState::Lost => format!("; it is lost: last seen on {machine} {ago} ago"),
        WorkerState::Stopped => format!("; it was stopped on {machine} {ago} ago"),
    }
}
