//! What keeps a task from being claimed, or its next step from starting: one row a reason, in the order in which a task meets
//! them. A row names its evidence, and the move that ends it. Pure; must not read anything.

use super::broker_faults::{broker, consumer};
use super::evidence::still_unknown;
use super::facts::{Facts, Found};
use super::key_place::place;
use super::reason::{lasted, reason};
use super::step_gates::{breaker, limit};
use super::takers::takers;
use crate::operator::moves::{resume_queue, resume_workers};
use crate::times::rfc3339;
use counterstep_contracts::Host;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use std::time::Duration;

/// In the order in which a task meets them. A further reason is a further row.
const ROWS: &[fn(&Facts<'_>) -> Option<Found>] = &[
    queue_paused,
    database_was_away,
    no_host,
    hosts_silent,
    workers_paused,
    jammed,
    no_slot,
    beside,
    place,
    breaker,
    heavy,
    limit,
    // Behind those that polling does not get around.
    consumer,
    broker,
];

/// What holds a task up.
pub(super) fn found(facts: &Facts<'_>) -> Vec<Found> {
    ROWS.iter().filter_map(|row| row(facts)).collect()
}

/// What holds it up no further.
pub(super) fn beside_it(facts: &Facts<'_>) -> Option<Found> {
    lost_counts(facts)
}

fn queue_paused(facts: &Facts<'_>) -> Option<Found> {
    let pause = facts.around.pause.as_ref()?;
    let (queue, now) = (facts.queue(), facts.record.now);
    if !facts.waits_for_a_claim() {
        return None;
    }
    let since = lasted(now.after(pause.since));
    let detail = format!(
        "its queue `{queue}` has been paused for {since}: {}; a few seconds after it is resumed it is claimed",
        pause.reason()
    );
    let resume = resume_queue(&queue.0);
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::QueuePaused, detail)
    };
    Some((found, Some(resume)))
}

fn database_was_away(facts: &Facts<'_>) -> Option<Found> {
    if !facts.waits_for_a_claim() || !facts.takers.fresh.is_empty() {
        return None;
    }
    let silent = facts.takers.silent.iter();
    let left = silent.filter_map(|seen| still_unknown(facts.around, seen));
    let left = left.max()?;
    let detail = format!(
        "the database was away, and what is known of the processes that take it is older than that: they refresh their rows within {}",
        format_duration(Duration::from_secs(left.as_secs() + 1))
    );
    let found = WhyReason {
        until: Some(rfc3339(facts.record.now.later(left))),
        ..reason(WhyCode::DatabaseWasAway, detail)
    };
    Some((found, None))
}

fn no_host(facts: &Facts<'_>) -> Option<Found> {
    let takers = &facts.takers;
    let is_known = takers.is_known && takers.fresh.is_empty() && takers.silent.is_empty();
    if !is_known || !facts.waits_for_a_claim() {
        return None;
    }
    let (task, queue) = (&facts.record.task, facts.queue());
    let needs = format!(
        "none serves queue `{queue}` and knows {} version {} in the definition {}",
        task.task_type, task.version, task.definition_hash
    );
    let (code, detail) = match takers.stopped.first() {
        _ if task.host == Host::Api => (
            WhyCode::OtherHostKind,
            format!(
                "its next step runs in processes of the API, and no such process that takes it is known to be alive: {needs}{}",
                takers.nearest(task)
            ),
        ),
        Some(last) => (
            WhyCode::Stopping,
            format!(
                "no process that takes it is known to be alive: those that took it were stopped, {} last, {} ago; {needs}",
                last.row.id,
                lasted(takers.age(last))
            ),
        ),
        None => (
            WhyCode::NoHost,
            format!(
                "no process that takes it is known to be alive: {needs}{}",
                takers.nearest(task)
            ),
        ),
    };
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(code, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn hosts_silent(facts: &Facts<'_>) -> Option<Found> {
    let takers_of = &facts.takers;
    let is_silent = takers_of.fresh.is_empty() && !takers_of.silent.is_empty();
    if !is_silent || !facts.waits_for_a_claim() || database_was_away(facts).is_some() {
        return None;
    }
    let queue = facts.queue();
    let detail = format!(
        "it was offered on queue `{queue}`{}",
        takers(facts.record, facts.around)
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::HostsSilent, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn workers_paused(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::WorkersPaused)?;
    let (first, pause) = seen
        .iter()
        .find_map(|seen| Some((*seen, facts.around.paused_workers.of(seen)?)))?;
    let since = facts.record.now.after(pause.since);
    let detail = format!(
        "{} are paused; those of the role {} on {} have been for {}: {}",
        facts.of_takers(&seen),
        first.role(),
        first.row.machine,
        lasted(since),
        pause.reason()
    );
    let resume = resume_workers(&first.row.machine, first.role());
    Some((reason(WhyCode::WorkersPaused, detail), Some(resume)))
}

fn jammed(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Jammed)?;
    let ids: Vec<_> = seen.iter().take(3).map(|seen| &*seen.row.id).collect();
    let detail = format!(
        "abandoned code blocks as many threads as there are slots in {}: {} has to be restarted",
        facts.of_takers(&seen),
        ids.join(", ")
    );
    Some((
        reason(WhyCode::Jammed, detail),
        Some(facts.another_worker()),
    ))
}

fn beside(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Beside)?;
    let most = seen
        .iter()
        .filter_map(|seen| facts.most_tasks(seen.row.concurrency));
    let detail = format!(
        "{} consecutive hosts were lost with it, so that it runs among at most {} tasks, and {} run more: one of them makes room within \
         about 30 s, beside abandoned code within 180 s",
        facts.losses(),
        most.max().unwrap_or(1),
        facts.of_takers(&seen)
    );
    Some((reason(WhyCode::Beside, detail), Some(facts.recount())))
}

fn no_slot(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::NoSlot)?;
    let slots: u32 = seen.iter().map(|seen| seen.row.concurrency).sum();
    let queue = facts.queue();
    let detail = format!(
        "it waits on queue `{queue}` for a slot: all {slots} are taken in {}",
        facts.of_takers(&seen)
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::NoSlot, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn heavy(facts: &Facts<'_>) -> Option<Found> {
    let seen = facts.blocked_by(WhyCode::Heavy)?;
    let all: u32 = seen.iter().map(|seen| seen.row.heavy).sum();
    let steps = facts.task_type.map(|it| it.decl.steps)?;
    let names = facts.names_of(|at| steps[*at].heavy);
    let detail = format!(
        "its next step {} is heavy, and all {all} heavy steps that may run side by side do in {}: raise `heavy` there, or start another",
        names.join(", "),
        facts.of_takers(&seen)
    );
    let found = WhyReason {
        steps: names,
        ..reason(WhyCode::Heavy, detail)
    };
    Some((found, Some(facts.another_worker())))
}

fn lost_counts(facts: &Facts<'_>) -> Option<Found> {
    let allowed = facts.task_type?.decl.max_recoveries;
    let losses = facts.losses();
    if losses == 0 || losses < allowed {
        return None;
    }
    let detail = format!(
        "{losses} consecutive hosts were lost with it, and its type allows {allowed}: one more ends its recovery"
    );
    Some((reason(WhyCode::LostCounts, detail), Some(facts.recount())))
}
