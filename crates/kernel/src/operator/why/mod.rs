//! What a task is waiting for, from its rows, from what this program knows, and from what processes
//! have said of themselves. Says only what they show, and never nothing: that no process has claimed it stands there only where
//! nothing else does.

mod broker_faults;
pub(super) mod children;
mod evidence;
mod facts;
mod gather;
mod key_place;
mod lease_owner;
mod reason;
mod reasons_in_order;
mod step_gates;

mod takers;
mod unreadable;

pub use children::children_found;
pub use evidence::{BreakerFound, ChildrenFound, Surroundings};
pub use gather::surroundings;
pub use unreadable::why_unreadable;

use self::facts::{Facts, Found};
use self::lease_owner::held;
use self::reason::{lasted, reason, steps};
use self::takers::takers;
use crate::dead_letters::group_of;
use crate::operator::moves::moves;
use crate::ports::KnownType;
use crate::record::{DbTime, Failure, StepRow, TaskRecord};
use crate::task::Registry;
use crate::times::rfc3339;
use counterstep_contracts::operator::{OperatorMove, Why, WhyCode, WhyReason};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{QueueName, StepStatus, TaskStatus, WaitReason};
use std::time::Duration;

/// A task that nothing holds is claimed within this time; one that is not is no longer just waiting for its turn.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// Why a task is where it is.
#[must_use]
pub fn why(registry: &Registry, record: &TaskRecord) -> Why {
    why_among(registry, record, &Surroundings::default())
}

/// The same, with what is known beside its rows.
#[must_use]
pub fn why_among(registry: &Registry, record: &TaskRecord, around: &Surroundings) -> Why {
    let task = &record.task;
    let mut found = match task.status {
        // No decision about it is taken here where its type is not known.
        status if status.is_parked() => {
            let mut found = vec![(parked(record), None)];
            found.extend(unknown_type(registry, record));
            found
        }
        status if status.is_terminal() => {
            vec![(reason(WhyCode::Ended, ended(record)), None)]
        }
        _ => standing(registry, record, around),
    };
    found.extend(deadline(record, &found).map(|reason| (reason, None)));
    let of_reason = |(reason, can): &Found| {
        let can = can.clone()?;
        let ends = Some(reason.code);
        Some(OperatorMove { ends, ..can })
    };
    let first: Vec<OperatorMove> = found.iter().filter_map(of_reason).collect();
    let of_task = moves(registry, record).into_iter();
    // What ends a reason stands with it.
    let of_task = of_task.filter(|can| first.iter().all(|it| it.path != can.path));
    let operator_can = first.iter().cloned().chain(of_task).collect();
    Why {
        task_id: task.id,
        status: task.status,
        parent: task.parent.map(Into::into),
        because: found.into_iter().map(|(reason, _)| reason).collect(),
        operator_can,
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

/// All that an active task waits for, first what would hold it even if nothing else did.
fn standing(registry: &Registry, record: &TaskRecord, around: &Surroundings) -> Vec<Found> {
    let task = &record.task;
    let facts = Facts::of(registry, record, around);
    let mut found: Vec<Found> = Vec::new();
    found.extend(held(record, around));
    found.extend(unknown_type(registry, record));
    let rows = reasons_in_order::found(&facts);
    let is_held = !rows.is_empty();
    found.extend(rows);
    let for_children = children::reason_of(record, around);
    let for_children = for_children.filter(|_| !facts.is_woken());
    let left = record.due_in();
    found.extend(match task.status {
        // Then they are all that it waits for.
        TaskStatus::Waiting if for_children.is_some() && !facts.waits_for_a_claim() => None,
        // Its rows say it.
        TaskStatus::Waiting if is_held && facts.waits_for_a_claim() => None,
        TaskStatus::Waiting if is_held && facts.sleeps_for_a_row() => None,
        TaskStatus::Waiting if facts.waits_for_a_claim() => Some(unclaimed(&facts)),
        TaskStatus::Waiting => Some((waiting(record), None)),
        TaskStatus::Submitted | TaskStatus::Dispatched if is_held => None,
        TaskStatus::Submitted | TaskStatus::Dispatched => Some(unclaimed(&facts)),
        TaskStatus::Compensating if task.lease_owner.is_some() => None,
        TaskStatus::Compensating if left.is_zero() => (!is_held).then(|| unclaimed(&facts)),
        TaskStatus::Compensating if children::are_all(record) => None,
        TaskStatus::Compensating => Some((undo_due(record), None)),
        _ => None,
    });
    found.extend(for_children);
    // Behind what has to end first: a step that runs, or the undo.
    let cancelled = task.cancel_requested_at;
    found.extend(cancelled.map(|at| (cancel(record, at), None)));
    found.extend(reasons_in_order::beside_it(&facts));
    found
}

/// What comes before the first reason is over.
fn deadline(record: &TaskRecord, found: &[Found]) -> Option<WhyReason> {
    let task = &record.task;
    let goes_forward = !task.status.is_at_rest() && task.status != TaskStatus::Compensating;
    let at = task.deadline_at.filter(|_| goes_forward)?;
    let until = rfc3339(at);
    let (first, _) = found.first()?;
    // Times are written alike, so that they are ordered as their texts are.
    let is_before = first.until.as_ref().is_none_or(|first| *first > until);
    let left = at.after(record.now);
    (is_before && !left.is_zero()).then(|| WhyReason {
        until: Some(until),
        ..reason(
            WhyCode::Deadline,
            format!(
                "its deadline comes in {}, whatever it waits for: then it is undone",
                format_duration(Duration::from_secs(left.as_secs() + 1))
            ),
        )
    })
}

fn undo_due(record: &TaskRecord) -> WhyReason {
    let errors = errors_of(record, |status| status == StepStatus::Compensating);
    let what = || format!("the next attempt of an undo is due then{errors}");
    WhyReason {
        steps: steps(record, |status| status == StepStatus::Compensating),
        ..due(record, &probed_again(record).unwrap_or_else(what))
    }
}

/// How the last attempts of such steps have ended, as text.
fn errors_of(record: &TaskRecord, of: impl Fn(StepStatus) -> bool) -> String {
    let rows = record.steps.iter().filter(|row| of(row.status));
    let said = rows.filter_map(|row| {
        let error = row.error.as_ref()?;
        let attempt = match row.status {
            StepStatus::Compensating => row.undo_attempts,
            _ => row.attempts,
        };
        Some(format!("{}, attempt {attempt}: {error}", row.name))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return String::new();
    }
    format!(" ({})", said.join("; "))
}

fn cancel(record: &TaskRecord, at: DbTime) -> WhyReason {
    let detail = format!("a cancel was accepted {} ago", lasted(record.now.after(at)));
    reason(WhyCode::CancelRequested, detail)
}

fn unknown_type(registry: &Registry, record: &TaskRecord) -> Option<Found> {
    let is_known = registry.of(&*record.task).is_some();
    (!is_known).then(|| (version(registry, record), None))
}

fn version(registry: &Registry, record: &TaskRecord) -> WhyReason {
    let task = &record.task;
    let of_type = |known: &&KnownType| known.name == task.task_type;
    let known = registry.known();
    let known: Vec<_> = known.iter().filter(of_type).collect();
    let named: Vec<String> = known
        .iter()
        .map(|known| format!("version {} ({})", known.version, known.definition))
        .collect();
    let here = if named.is_empty() {
        "does not know the type at all".to_owned()
    } else {
        format!("knows {}", named.join(", "))
    };
    let is_known = known.iter().any(|known| known.version == task.version);
    let (code, what) = match is_known {
        true => (
            WhyCode::Definition,
            "a host has to run that definition still: deploy the program with it, or make the changed one a new version",
        ),
        false => (WhyCode::Version, "a host has to run that program still"),
    };
    let detail = format!(
        "it was submitted under {} version {} ({}), and this server {here}: {what}",
        task.task_type, task.version, task.definition_hash
    );
    reason(code, detail)
}

fn waiting(record: &TaskRecord) -> WhyReason {
    let task = &record.task;
    let waiting = steps(record, |status| status == StepStatus::Waiting);
    let named = waiting.join(", ");
    let mut found = match task.waiting {
        Some(WaitReason::Retry) => {
            let errors = errors_of(record, |status| status == StepStatus::Waiting);
            let attempt = || format!("the next attempt of {named} is due then{errors}");
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

/// Nothing is known that keeps it from being claimed.
fn unclaimed(facts: &Facts<'_>) -> Found {
    let (record, around) = (facts.record, facts.around);
    let task = &record.task;
    let queue = facts.queue();
    let ready = task
        .due_at
        .map_or(task.updated_at, |due| due.max(task.updated_at));
    let since = record.now.after(ready);
    let hosts = format!("{} host", task.host);
    let is_late = since >= LONG;
    let is_backlog = QueueName(task.queue.clone()) == queue.backlog();
    let (code, detail) = if is_late {
        let detail = format!(
            "it was offered on queue `{}` {} ago and no {hosts} has claimed it: is one running that serves this queue \
             and knows {} version {}, and has it a free slot? Its message may be lost, or another process hold its lock for up to a third \
             of a lease, which is stored nowhere: polling finds it, and a reconciler offers it anew",
            queue,
            lasted(since),
            task.task_type,
            task.version
        );
        (WhyCode::Unclaimed, detail)
    } else if task.status == TaskStatus::Submitted {
        let detail = format!(
            "it was accepted and is not offered on queue `{queue}` yet: polling finds it, or a reconciler offers it"
        );
        (WhyCode::Unannounced, detail)
    } else if is_backlog {
        let detail = format!(
            "it was offered in the lane `{}`, for its low priority or since many tasks of its tenant wait: of four tasks at least one comes from there",
            task.queue
        );
        (WhyCode::Backlog, detail)
    } else {
        let detail =
            format!("it was offered on queue `{queue}` and waits for a free slot of a {hosts}");
        (WhyCode::Unclaimed, detail)
    };
    let detail = detail + &takers(record, around);
    let from = if is_late { record.now } else { ready };
    let found = WhyReason {
        queue: Some(queue.0),
        until: Some(rfc3339(from.later(LONG))),
        ..reason(code, detail)
    };
    (found, None)
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
    let time = lasted(record.now.after(task.updated_at));
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
            format!("it has waited for a person for {time}: an undo gave up: {what}"),
        )
    } else {
        let failed = steps(record, |status| {
            matches!(status, StepStatus::Failed | StepStatus::InDoubt)
        });
        (
            failed,
            format!("it has waited for a person for {time}: it gave up{failure}"),
        )
    };
    WhyReason {
        steps: concerned,
        ..reason(WhyCode::Parked, detail)
    }
}
