//! What keeps the next step of a task from starting: its limit, and its breaker. Pure; must not read anything.

use super::evidence::BreakerFound;
use super::facts::{Facts, Found};
use super::reason::reason;
use crate::admission::limits::LimitFound;
use crate::breaker::BreakerState;
use crate::operator::moves::{close_breaker, reset_limit, set_limit};
use crate::times::rfc3339;
use counterstep_contracts::WaitReason;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use serde_json::json;
use std::time::Duration;

/// A limit that starts at most one attempt in this time counts as closed by the operator who set it.
const CLOSED: Duration = Duration::from_secs(24 * 3600);

pub(super) fn limit(facts: &Facts<'_>) -> Option<Found> {
    let (step, limit) = facts.around.limit.as_ref()?;
    let task = &facts.record.task;
    let sleeps = facts.sleeps_for(WaitReason::Limit);
    if sleeps && !limit.is_used_up() {
        let what = format!(
            "the limit `{}` of its next step {step} was used up, and is no more",
            limit.of
        );
        return Some(facts.only_due(step, &what));
    }
    if !limit.is_used_up() || !sleeps && !facts.waits_for_a_claim() {
        return None;
    }
    let mut detail = format!("its next step {step} waits for the limit `{}`", limit.of);
    if let Some(most) = limit.at_once {
        detail += &format!(
            ": {} of {most} permits are held, by {} processes",
            limit.held, limit.holders
        );
    }
    if let Some(rate) = limit.rate {
        detail += &format!("; {rate} starts are allowed");
    }
    let closed = limit.set.as_ref().filter(|_| is_closed(limit));
    let code = match closed {
        Some(set) => {
            detail += &format!("; it was set so: {}", set.note);
            WhyCode::LimitClosed
        }
        None => WhyCode::Limit,
    };
    detail += "; it is looked at again within a minute";
    let due = task.due_at.filter(|_| sleeps);
    let found = WhyReason {
        until: limit.next_start.or(due).map(rfc3339),
        steps: vec![step.clone()],
        waiting_for: task.waiting.filter(|_| sleeps),
        ..reason(code, detail)
    };
    let open = match closed {
        Some(_) => reset_limit(&limit.name),
        None => set_limit(
            &limit.name,
            json!({"at_once": limit.at_once, "rate": limit.rate}),
            "sets the limit, from higher numbers than these on, for all processes",
        ),
    };
    Some((found, Some(open)))
}

fn is_closed(limit: &LimitFound) -> bool {
    let rate = limit.rate.filter(|rate| rate.starts > 0);
    rate.is_some_and(|rate| rate.per / rate.starts >= CLOSED)
}

pub(super) fn breaker(facts: &Facts<'_>) -> Option<Found> {
    let task = &facts.record.task;
    let BreakerFound {
        name,
        step,
        state,
        probing,
    } = facts.around.breaker.as_ref()?;
    let sleeps = facts.sleeps_for(WaitReason::Breaker);
    if !sleeps && !facts.waits_for_a_claim() {
        return None;
    }
    let now = facts.record.now;
    let (code, how, left) = match (state, probing) {
        (Some(BreakerState::Open(left)), _) => (WhyCode::Breaker, "is open", *left),
        (Some(BreakerState::HalfOpen), Some(left)) => (
            WhyCode::Breaker,
            "lets one attempt through, to find out",
            *left,
        ),
        // What this process does not know another one may: it is asked again at the task's time.
        (Some(BreakerState::Closed | BreakerState::HalfOpen), _) if sleeps => {
            let what = format!(
                "the circuit breaker `{name}` of its next step {step} held it back, and does no more as this process sees it"
            );
            return Some(facts.only_due(step, &what));
        }
        (None, _) if sleeps => (
            WhyCode::BreakerUnknown,
            "held it back, and the hints do not say how it is now,",
            Duration::ZERO,
        ),
        _ => return None,
    };
    let detail = format!(
        "the circuit breaker `{name}` of its next step {step} {how}, and is asked again as soon as the task is due and claimed"
    );
    let due = task.due_at.filter(|_| sleeps);
    let found = WhyReason {
        until: due.or(Some(now.later(left))).map(rfc3339),
        steps: vec![step.clone()],
        waiting_for: task.waiting.filter(|_| sleeps),
        ..reason(code, detail)
    };
    let close = || close_breaker(name);
    Some((found, (code == WhyCode::Breaker).then(close)))
}
