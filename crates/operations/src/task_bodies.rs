//! Rows as the bodies that clients see. Owns what of a row is shown; changes nothing and reads
//! nothing else.

use counterstep_contracts::cause::Cause;
use counterstep_contracts::children::{StepChildren, place_of};
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::http::{
    AttemptView, AuditEvent, AuditTrail, AuditView, BlockView, ChangeEvent, ChildSummary,
    FailureView, Progress, ProgressEvent, StepView, TaskSummary,
};
use counterstep_contracts::http::{StepProgress, TaskView};
use counterstep_contracts::operator::DeadLetter;
use counterstep_contracts::run_again::PredecessorView;
use counterstep_contracts::{
    AttemptProgress, ChangeId, StepNo, StepStatus, TaskId, TaskProgress, TaskStatus,
};
use counterstep_kernel::ports::{ChildCount, ChildLine, TaskLine};
use counterstep_kernel::record::{AttemptRow, AuditRow, Failure, History, StepRow, TaskRecord};
use counterstep_steps::builtin::LONGEST_WAIT;
use counterstep_steps::times::rfc3339;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// A task, what its running attempts have said of their progress, and how the tasks stand that it
/// has submitted.
#[must_use]
pub fn task(
    record: TaskRecord,
    mut said: BTreeMap<String, AttemptProgress>,
    children: &[ChildCount],
    successors: Vec<TaskId>,
) -> TaskView {
    let predecessor = record.task.labels.predecessor();
    let predecessor = predecessor.map(|(task_id, from)| PredecessorView {
        task_id,
        from: from.map(str::to_owned),
    });
    let of_step = |step: &StepRow| step_children(step, children);
    let children = record.steps.iter().filter_map(of_step).collect();
    let TaskRecord {
        task,
        steps,
        marks: _,
        payload_key: _,
        now,
    } = record;
    let is_done =
        |status: StepStatus| matches!(status, StepStatus::Completed | StepStatus::Skipped);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let trace_id = task.trace_id().map(str::to_owned);
    // One that was offered twice keeps a time there, too, which is that of redispatch.
    let waits = matches!(task.status, TaskStatus::Waiting | TaskStatus::Compensating);
    TaskView {
        task_id: task.id,
        task_type: task.task_type,
        version: task.version,
        status: task.status,
        labels: task.labels,
        waiting_for: task.waiting,
        // One that waits whenever something comes has a due time that is no news.
        due_at: task
            .due_at
            .filter(|due| waits && due.after(now) < LONGEST_WAIT / 2)
            .map(rfc3339),
        cancel_requested: task.cancel_requested_at.is_some(),
        residue: task.residue,
        settled: task.settled,
        revision: task.rev.0,
        created_at: rfc3339(task.created_at),
        updated_at: rfc3339(task.updated_at),
        finished_at: task.finished_at.map(rfc3339),
        recovery_attempts: task.recovery_attempts,
        progress: Progress {
            done: count(steps.iter().filter(|step| is_done(step.status)).count()),
            total: count(steps.len()),
        },
        steps: steps
            .into_iter()
            .map(|step| {
                let progress = said.remove(&step.name).map(step_progress);
                step_view(step, progress)
            })
            .collect(),
        parent: task.parent.map(Into::into),
        predecessor,
        successors,
        children,
        trace_id,
        response: task.response,
        failure: task.failure.map(failure),
    }
}

fn step_children(step: &StepRow, counts: &[ChildCount]) -> Option<StepChildren> {
    let of_step = counts.iter().filter(|count| count.step == step.no);
    let by_status: BTreeMap<_, _> = of_step.map(|count| (count.status, count.tasks)).collect();
    (!by_status.is_empty()).then(|| StepChildren {
        step: step.name.clone(),
        by_status,
    })
}

fn step_progress(said: AttemptProgress) -> StepProgress {
    StepProgress {
        percent: said.percent(),
        done: said.done,
        total: said.total,
        message: said.message,
        at: said.at,
    }
}

/// A task that has changed, as an event of the stream of many tasks.
#[must_use]
pub fn change_event(line: TaskLine) -> ChangeEvent {
    ChangeEvent {
        revision: line.rev.0,
        task: summary(line),
    }
}

/// A line of a list.
#[must_use]
pub fn summary(line: TaskLine) -> TaskSummary {
    TaskSummary {
        task_id: line.task,
        task_type: line.task_type,
        status: line.status,
        labels: line.labels,
        created_at: rfc3339(line.created_at),
        updated_at: rfc3339(line.updated_at),
        finished_at: line.finished_at.map(rfc3339),
    }
}

/// A line of the list of the tasks that a task has submitted.
#[must_use]
pub fn child(parent: &TaskRecord, line: ChildLine) -> ChildSummary {
    ChildSummary {
        task_id: line.task,
        task_type: line.task_type,
        step: step_name(&parent.steps, line.step),
        place: place_of(line.no),
        status: line.status,
        failure: line.failure.map(failure),
    }
}

/// A line of the list of parked tasks.
#[must_use]
pub fn dead_letter(line: TaskLine) -> DeadLetter {
    DeadLetter {
        task_id: line.task,
        task_type: line.task_type,
        version: line.version,
        status: line.status,
        labels: line.labels,
        created_at: rfc3339(line.created_at),
        updated_at: rfc3339(line.updated_at),
        cause: cause(line.failure.as_ref()),
        failure: line.failure.map(failure),
    }
}

/// What blocks a parked task.
fn cause(failure: Option<&Failure>) -> Cause {
    failure
        .map(Failure::blocking)
        .map(Failure::cause)
        .unwrap_or_default()
}

/// A parked task with all that there is to know of it.
pub(crate) fn parked(record: TaskRecord, group: String, history: History) -> DeadLetterView {
    let trace_id = record.task.trace_id().map(str::to_owned);
    let attempts = attempts(&record.steps, &history);
    let TaskRecord { task, steps, .. } = record;
    DeadLetterView {
        letter: DeadLetter {
            task_id: task.id,
            task_type: task.task_type,
            version: task.version,
            status: task.status,
            labels: task.labels,
            created_at: rfc3339(task.created_at),
            updated_at: rfc3339(task.updated_at),
            cause: cause(task.failure.as_ref()),
            failure: task.failure.map(failure),
        },
        group,
        trace_id,
        worker: attempts.last().and_then(|last| last.worker.clone()),
        request: task.request,
        earlier_requests: task.earlier_requests,
        steps: steps
            .into_iter()
            .map(|step| step_view(step, None))
            .collect(),
        attempts,
    }
}

fn step_view(step: StepRow, progress: Option<StepProgress>) -> StepView {
    StepView {
        no: step.no,
        progress,
        name: step.name,
        status: step.status,
        attempts: step.attempts,
        undo_attempts: step.undo_attempts,
        error: step.error.as_ref().map(ToString::to_string),
    }
}

fn failure(failure: Failure) -> FailureView {
    FailureView {
        step: failure.step,
        class: failure.class,
        message: failure.message,
        blocked_by: failure.blocked_by.map(|by| BlockView {
            step: by.step,
            class: by.class,
            message: by.message,
        }),
    }
}

/// Details of an audit entry without the backtrace, which names paths and code of this
/// installation. It stays in the row.
fn for_clients(mut details: Value) -> Value {
    if let Some(details) = details.as_object_mut() {
        details.remove("backtrace");
    }
    details
}

/// The name of a step, or its number where the rows have none of it.
fn step_name(steps: &[StepRow], no: StepNo) -> String {
    let step = steps.iter().find(|step| step.no == no);
    step.map_or_else(|| no.to_string(), |step| step.name.clone())
}

fn entry(steps: &[StepRow], row: AuditRow) -> AuditView {
    AuditView {
        seq: row.seq,
        change_id: row.change_id,
        at: rfc3339(row.at),
        event: row.entry.event,
        from: row.entry.from,
        to: row.entry.to,
        step: row.entry.step.map(|no| step_name(steps, no)),
        step_from: row.entry.step_from,
        step_to: row.entry.step_to,
        attempt: row.entry.attempt,
        epoch: row.entry.epoch,
        actor: row.entry.actor,
        details: for_clients(row.entry.details),
    }
}

/// An audit entry as an event of the task's stream.
#[must_use]
pub fn audit_event(steps: &[StepRow], row: AuditRow) -> AuditEvent {
    AuditEvent {
        status: row.entry.to,
        entry: entry(steps, row),
    }
}

/// What running steps say, as an event of the task's stream.
#[must_use]
pub fn progress_event(said: TaskProgress) -> ProgressEvent {
    let steps = said.steps.into_iter();
    ProgressEvent {
        steps: steps
            .map(|(step, said)| (step, step_progress(said)))
            .collect(),
    }
}

/// A task's past.
pub(crate) fn trail(record: &TaskRecord, history: History) -> AuditTrail {
    let steps = &record.steps;
    let attempts = attempts(steps, &history);
    AuditTrail {
        task_id: record.task.id,
        entries: history
            .audit
            .into_iter()
            .map(|row| entry(steps, row))
            .collect(),
        attempts,
    }
}

/// The attempts, each with the process whose change has started it.
fn attempts(steps: &[StepRow], history: &History) -> Vec<AttemptView> {
    let audit = history.audit.iter();
    let actors: HashMap<ChangeId, &str> = audit
        .map(|row| (row.change_id, &*row.entry.actor))
        .collect();
    let attempt = |row: &AttemptRow| AttemptView {
        step: step_name(steps, row.step),
        direction: row.direction,
        attempt: row.attempt,
        epoch: row.epoch,
        worker: actors.get(&row.change_id).map(|&actor| actor.to_owned()),
        outcome: row.outcome,
        error: row.error.as_ref().map(ToString::to_string),
        started_at: rfc3339(row.started_at),
        ended_at: row.ended_at.map(rfc3339),
    };
    history.attempts.iter().map(attempt).collect()
}
