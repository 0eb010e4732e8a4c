//! Messages that do not reach the processes that could run a task: what those report of their broker. Such a task is held up until
//! polling finds it. Pure; must not read anything.

use super::facts::{Facts, Found};
use super::reason::reason;
use crate::host::UNCLAIMED_FOR;
use crate::operator::moves::doctor;
use crate::ports::{FetchError, WorkerSeen};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;

/// Maximum number of processes that are named, each with its error.
const NAMED: usize = 3;

/// A process that could run the task, and what keeps its message away.
type Report<'a> = (&'a WorkerSeen, &'a FetchError);

/// The consumer of its queue is missing or forbidden.
pub(super) fn consumer(facts: &Facts<'_>) -> Option<Found> {
    let reports = reports(facts)?;
    let denied: Vec<_> = reports
        .into_iter()
        .filter_map(|(seen, error)| Some((seen, error, error.consumer.as_ref()?)))
        .collect();
    let (first, error, consumer) = denied.first()?;
    let detail = format!(
        "{} may not use the consumer `{}` of queue `{}`: it is missing or forbidden, and the user of {} may not publish to `{}`; {}",
        count(denied.len()),
        consumer.name,
        error.queue,
        first.row.id,
        consumer.subject,
        polled()
    );
    let found = WhyReason {
        queue: Some(facts.queue().0),
        ..reason(WhyCode::Consumer, detail)
    };
    let lists = "lists the lines that nats/accounts.conf lacks; `deploy render` writes them";
    Some((found, Some(doctor(Some(facts.record.task.host), lists))))
}

/// Their fetches fail as a whole.
pub(super) fn broker(facts: &Facts<'_>) -> Option<Found> {
    let mut reports = reports(facts)?;
    reports.retain(|(_, error)| error.consumer.is_none());
    let named = reports.iter().take(NAMED);
    let named: Vec<_> = named
        .map(|(seen, error)| format!("{}: {}", seen.row.id, error.message))
        .collect();
    if named.is_empty() {
        return None;
    }
    let queue = facts.queue();
    let detail = format!(
        "{} cannot fetch from queue `{queue}`: look at NATS ({}); {}",
        count(reports.len()),
        named.join("; "),
        polled()
    );
    let found = WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::Broker, detail)
    };
    let checks = "checks whether NATS answers, and what it lacks";
    Some((found, Some(doctor(None, checks))))
}

fn count(reports: usize) -> String {
    match reports {
        1 => "1 process that takes it".to_owned(),
        count => format!("{count} processes that take it"),
    }
}

fn polled() -> String {
    format!(
        "polling finds the task meanwhile, about {} after it was offered",
        format_duration(UNCLAIMED_FOR)
    )
}

/// Of all processes that could run it now, or where none can, of all that take it; `None`: one of them gets its message, or it
/// waits for none.
fn reports<'a>(facts: &Facts<'a>) -> Option<Vec<Report<'a>>> {
    let status = facts.record.task.status;
    if !matches!(status, TaskStatus::Submitted | TaskStatus::Dispatched) {
        return None;
    }
    let takers = &facts.takers.fresh;
    let is_free = |seen: &&&WorkerSeen| facts.obstacle(seen).is_none();
    let free: Vec<_> = takers.iter().filter(is_free).copied().collect();
    let could = if free.is_empty() { takers } else { &free };
    let report = |seen: &&'a WorkerSeen| Some((*seen, error_of(facts, seen)?));
    could.iter().map(report).collect()
}

fn error_of<'a>(facts: &Facts<'_>, seen: &'a WorkerSeen) -> Option<&'a FetchError> {
    let (lane, queue) = (&facts.record.task.queue, facts.queue());
    let errors = &seen.row.fetch_errors;
    let of_lane = |error: &&FetchError| error.consumer.is_some() && error.queue.0 == *lane;
    let of_all = |error: &&FetchError| error.consumer.is_none() && error.queue == queue;
    let denied = errors.iter().find(of_lane);
    denied.or_else(|| errors.iter().find(of_all))
}
