//! What a task is waiting for, from its rows, from what this program knows, and from what processes
//! have said of themselves. Says only what they show.

use super::why_around::Surroundings;
use super::why_children;
use super::why_held::held;
use super::why_hosts::takers;
use super::why_moves::moves;
use super::why_places;
use super::why_reason::{reason, steps};
use super::why_rows;
use crate::dead_letters::group_of;
use crate::record::{DbTime, Failure, StepRow, TaskRecord};
use crate::task::Registry;
use crate::times::rfc3339;
use counterstep_contracts::operator::{Why, WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{QueueName, StepStatus, TaskStatus, WaitReason};
use std::time::Duration;

/// A task that no host has claimed for so long is not just waiting for its turn.
const LONG: Duration = Duration::from_secs(30);

/// Why a task is where it is.
#[must_use]
pub fn why(registry: &Registry, record: &TaskRecord) -> Why {
    why_among(registry, record, &Surroundings::default())
}

/// The same, with what is known beside its rows.
#[must_use]
pub fn why_among(registry: &Registry, record: &TaskRecord, around: &Surroundings) -> Why {
    let Surroundings {
        children, places, ..
    } = around;
    let task = &record.task;
    let mut because = Vec::new();
    let knows = registry.of(task).is_some();
    if !task.status.is_at_rest() {
        because.extend(task.cancel_requested_at.map(|at| cancel(record, at)));
        because.extend(held(record, around));
        if !knows {
            because.push(version(registry, record));
        }
    }
    let found = match task.status.is_at_rest() {
        true => Vec::new(),
        false => why_rows::found(&why_rows::Facts::of(registry, record, around)),
    };
    let holds_up = |(reason, _): &why_rows::Found| reason.code != WhyCode::LostCounts;
    let (holding, beside): (Vec<_>, Vec<_>) = found.into_iter().partition(holds_up);
    let is_held = !holding.is_empty();
    let (reasons, mut first): (Vec<_>, Vec<_>) = holding.into_iter().unzip();
    because.extend(reasons);
    let for_children = why_children::reason_of(record, children.as_ref());
    match task.status {
        // Then they are all that it waits for.
        TaskStatus::Waiting
            if task.waiting == Some(WaitReason::Children) && for_children.is_some() => {}
        TaskStatus::Waiting if task.waiting == Some(WaitReason::Concurrency) => {
            because.push(why_places::reason_of(places));
        }
        // Its rows say it.
        TaskStatus::Waiting
            if is_held
                && (record.due_in().is_zero() && task.due_at.is_some()
                    || matches!(task.waiting, Some(WaitReason::Breaker | WaitReason::Limit))) => {}
        TaskStatus::Waiting => because.push(waiting(record)),
        TaskStatus::Submitted | TaskStatus::Dispatched if is_held => {}
        TaskStatus::Submitted | TaskStatus::Dispatched => because.push(unclaimed(record, around)),
        TaskStatus::Compensating if task.lease_owner.is_none() => {
            if record.due_in().is_zero() {
                if !is_held {
                    because.push(unclaimed(record, around));
                }
            } else if !why_children::are_all(record) {
                let probed = probed_again(record);
                let what =
                    probed.unwrap_or_else(|| "the next attempt of an undo is due then".to_owned());
                because.push(due(record, &what));
            }
        }
        TaskStatus::CompensationFailed | TaskStatus::DeadLettered => because.push(parked(record)),
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => {
            because.push(reason(WhyCode::Ended, ended(record)));
        }
        TaskStatus::Running | TaskStatus::Compensating => {}
    }
    because.extend(for_children);
    for (reason, can) in beside {
        because.push(reason);
        first.push(can);
    }
    Why {
        task_id: task.id,
        status: task.status,
        parent: task.parent.map(Into::into),
        because,
        operator_can: first
            .into_iter()
            .flatten()
            .chain(moves(registry, record))
            .collect(),
        group: task
            .status
            .is_parked()
            .then(|| group_of(&task.task_type, task.failure.as_ref())),
        cause: task.status.is_parked().then(|| {
            let failure = task.failure.as_ref().map(Failure::blocking);
            failure.map(Failure::cause).unwrap_or_default()
        }),
    }
}

/// Whole seconds: the rest is of no use to a person.
fn age(record: &TaskRecord, since: DbTime) -> Duration {
    Duration::from_secs(record.now.after(since).as_secs())
}

fn cancel(record: &TaskRecord, at: DbTime) -> WhyReason {
    let detail = format!(
        "a cancel was accepted {} ago",
        format_duration(age(record, at))
    );
    reason(WhyCode::CancelRequested, detail)
}

fn version(registry: &Registry, record: &TaskRecord) -> WhyReason {
    let task = &record.task;
    let known: Vec<String> = registry
        .known()
        .iter()
        .filter(|known| known.name == task.task_type)
        .map(|known| format!("version {} ({})", known.version, known.definition))
        .collect();
    let here = if known.is_empty() {
        "does not know the type at all".to_owned()
    } else {
        format!("knows {}", known.join(", "))
    };
    let detail = format!(
        "it was submitted under {} version {} ({}), and this server {here}: a host has to run that program still",
        task.task_type, task.version, task.definition_hash
    );
    reason(WhyCode::Version, detail)
}

fn waiting(record: &TaskRecord) -> WhyReason {
    let task = &record.task;
    let waiting = steps(record, |status| status == StepStatus::Waiting);
    let named = waiting.join(", ");
    let mut found = match task.waiting {
        Some(WaitReason::Retry) => {
            let attempt = || format!("the next attempt of {named} is due then");
            due(record, &probed_again(record).unwrap_or_else(attempt))
        }
        // Of types that this program does not know: their rows are not read.
        Some(WaitReason::Breaker) => WhyReason {
            code: WhyCode::Breaker,
            ..due(record, "a circuit breaker is open, and is asked again then")
        },
        Some(WaitReason::Limit) => WhyReason {
            code: WhyCode::Limit,
            ..due(
                record,
                "other tasks use up the limit of its next step, and it is asked again then",
            )
        },
        Some(WaitReason::Timer) => due(record, "a timer step waits until then"),
        Some(WaitReason::Signal) => WhyReason {
            until: task.due_at.map(rfc3339),
            ..reason(WhyCode::Outside, format!("{named} waits for its signal"))
        },
        Some(WaitReason::Children) => reason(
            WhyCode::Tasks,
            format!("{named} waits for tasks that it has submitted"),
        ),
        Some(WaitReason::Version) => reason(
            WhyCode::Outside,
            format!(
                "it waits for a host that knows {} version {} in the definition {}",
                task.task_type, task.version, task.definition_hash
            ),
        ),
        Some(WaitReason::Debounce) => due(
            record,
            "it starts when no other task of its key has been submitted until then",
        ),
        Some(WaitReason::Concurrency) | None => due(record, "it is due then"),
    };
    found.steps = waiting;
    found.waiting_for = task.waiting;
    found
}

/// What a task waits for that has steps in doubt whose probes have failed.
fn probed_again(record: &TaskRecord) -> Option<String> {
    let asks = record.steps.iter().filter(|row| {
        row.status == StepStatus::InDoubt && row.probe.is_some_and(|probe| !probe.gave_up)
    });
    let failed = |row: &StepRow| {
        let error = row
            .error
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        format!("{} ({error})", row.name)
    };
    let named: Vec<String> = asks.map(failed).collect();
    (!named.is_empty()).then(|| {
        format!(
            "the probe that finds out whether it happened is tried again then, of {}",
            named.join(", ")
        )
    })
}

fn due(record: &TaskRecord, what: &str) -> WhyReason {
    let left = record.due_in();
    let detail = if left.is_zero() {
        format!("{what}, which has passed: it is claimed as soon as a host has a free slot")
    } else {
        format!(
            "{what}, in {}",
            format_duration(Duration::from_secs(left.as_secs() + 1))
        )
    };
    WhyReason {
        until: record.task.due_at.map(rfc3339),
        ..reason(WhyCode::Due, detail)
    }
}

fn unclaimed(record: &TaskRecord, around: &Surroundings) -> WhyReason {
    let task = &record.task;
    let queue = QueueName(task.queue.clone()).base();
    let since = age(record, task.updated_at);
    let hosts = format!("{} host", task.host);
    let detail = if since >= LONG {
        format!(
            "it was offered on queue `{}` {} ago and no {hosts} has claimed it: is one running that serves this queue \
             and knows {} version {}, and has it a free slot?",
            queue,
            format_duration(since),
            task.task_type,
            task.version
        )
    } else {
        format!(
            "it was offered on queue `{}` and waits for a free slot of a {hosts}",
            queue
        )
    };
    let detail = detail + &takers(record, around);
    WhyReason {
        queue: Some(queue.0),
        ..reason(WhyCode::Unclaimed, detail)
    }
}

fn ended(record: &TaskRecord) -> String {
    let mut text = format!("it has ended as {}", record.task.status);
    if let Some(failure) = &record.task.failure {
        let (class, message) = (&failure.class, &failure.message);
        text += &match &failure.step {
            Some(step) => format!(": {step} ({class}): {message}"),
            None => format!(" ({class}): {message}"),
        };
    }
    text
}

fn parked(record: &TaskRecord) -> WhyReason {
    let task = &record.task;
    let failure = task
        .failure
        .as_ref()
        .map_or_else(String::new, |failure| format!(" ({})", failure.message));
    let since = format_duration(age(record, task.updated_at));
    let (concerned, detail) = if task.status == TaskStatus::CompensationFailed {
        let failed = steps(record, |status| status == StepStatus::CompensationFailed);
        let errors: Vec<String> = record
            .steps
            .iter()
            .filter(|row| row.status == StepStatus::CompensationFailed)
            .map(|row| {
                format!(
                    "{}: {}",
                    row.name,
                    row.error
                        .as_ref()
                        .map_or_else(|| "no error is known".to_owned(), ToString::to_string)
                )
            })
            .collect();
        let what = if errors.is_empty() {
            format!("its undo cannot go on{failure}")
        } else {
            errors.join("; ")
        };
        (
            failed,
            format!("for a person, since {since}: an undo gave up: {what}"),
        )
    } else {
        let failed = steps(record, |status| {
            matches!(status, StepStatus::Failed | StepStatus::InDoubt)
        });
        (
            failed,
            format!("for a person, since {since}: it gave up{failure}"),
        )
    };
    WhyReason {
        steps: concerned,
        ..reason(WhyCode::Parked, detail)
    }
}
