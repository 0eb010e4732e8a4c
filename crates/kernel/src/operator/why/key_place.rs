//! What a task waits for that has no place among those of its key. Pure.

use super::facts::{Facts, Found};
use super::reason::{reason, with_other};
use crate::admission::places::{PlaceFound, PlaceWait, limit_name, named};
use crate::operator::moves::{cancel_first, reconcile, set_limit};
use crate::times::rfc3339;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::{TaskId, WaitReason};
use serde_json::json;

/// Maximum number of tasks named that hold a place.
const NAMED: usize = 3;

/// What keeps it from its place: of one that sleeps for it, and of one that the next claim would put to sleep.
pub(super) fn place(facts: &Facts<'_>) -> Option<Found> {
    let sleeps = facts.sleeps_for(WaitReason::Concurrency);
    if !sleeps && !facts.waits_for_a_claim() {
        return None;
    }
    let Some(found) = &facts.around.place else {
        // Where its key could not be read, its row says as much.
        return sleeps.then(|| (of(facts, WhyCode::Concurrency, FULL.to_owned()), None));
    };
    match &found.wait {
        PlaceWait::Free if sleeps => Some(free(facts)),
        PlaceWait::Free | PlaceWait::Early(_) => None,
        PlaceWait::Full => Some(full(facts, found)),
        PlaceWait::Replacing => {
            let detail = "those that hold a place of its key are being undone to make room for it";
            let held = named(&found.holders, &found.key, NAMED);
            let of = WhyReason {
                tasks: held,
                ..of(facts, WhyCode::Replacing, detail.to_owned())
            };
            Some(with_other(of, facts.around.other.as_deref()))
        }
        PlaceWait::Behind(first) => Some(behind(facts, *first)),
        PlaceWait::Replaced(by) => {
            let detail = format!(
                "a newer task of its key, {by}, takes its place: it is cancelled with its next claim"
            );
            Some((of(facts, WhyCode::Concurrency, detail), None))
        }
    }
}

const FULL: &str = "it waits for a place: as many tasks of its type or key as may be are under way";

fn of(facts: &Facts<'_>, code: WhyCode, detail: String) -> WhyReason {
    let waiting = facts.record.task.waiting;
    WhyReason {
        waiting_for: waiting.filter(|of| *of == WaitReason::Concurrency),
        ..reason(code, detail)
    }
}

fn full(facts: &Facts<'_>, found: &PlaceFound) -> Found {
    let task_type = &facts.record.task.task_type;
    let held: Vec<TaskId> = named(&found.holders, &found.key, NAMED);
    let mut detail = FULL.to_owned();
    if !held.is_empty() {
        let named: Vec<String> = held.iter().map(TaskId::to_string).collect();
        detail += &format!(", among them {}", named.join(", "));
    }
    detail += &format!(
        "; {} of {} places are held, and {} tasks wait before it",
        found.holders.len(),
        found.at_once,
        found.before
    );
    let reason = WhyReason {
        tasks: held,
        ..of(facts, WhyCode::Concurrency, detail)
    };
    let more = set_limit(
        &limit_name(task_type),
        json!({"at_once": found.at_once}),
        "sets how many may be under way, from a higher number than this on",
    );
    (reason, Some(more))
}

/// The wake was lost, or has not come yet.
fn free(facts: &Facts<'_>) -> Found {
    let detail = "there is a place for it, and it sleeps: the process that gave the place back was lost before it could wake it, \
                  or wakes it now; at its due time it looks for itself";
    let reason = WhyReason {
        until: facts.record.task.due_at.map(rfc3339),
        ..of(facts, WhyCode::PlaceFree, detail.to_owned())
    };
    (reason, Some(wakes()))
}

/// The command that wakes a task whose wake message was lost.
pub(super) fn wakes() -> counterstep_contracts::operator::OperatorMove {
    reconcile("wakes it, where the wake was lost with a process")
}

fn behind(facts: &Facts<'_>, first: TaskId) -> Found {
    let detail = format!("there is a place, and an older task of its key comes first: {first}");
    let found = WhyReason {
        tasks: vec![first],
        ..of(facts, WhyCode::PlaceBlocked, detail)
    };
    let (found, can) = with_other(found, facts.around.other.as_deref());
    let can = can.or_else(|| Some(cancel_first(first)));
    (found, can)
}
