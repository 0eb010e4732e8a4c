//! What a task waits for where it waits for tasks that it has submitted: how many of them have ended,
//! and which of them wait for a person. Reads; must not change a task.

use super::evidence::{ChildrenFound, Surroundings};
use super::facts::Found;
use super::key_place::wakes;
use super::reason::{first_move, reason, with_other};
use crate::ports::{ChildCount, ChildLine, ChildQuery, Store, StoreError};
use crate::record::{StepRow, TaskRecord};
use crate::times::rfc3339;
use counterstep_contracts::operator::{WhyCode, WhyReason};
use counterstep_contracts::{StepStatus, TaskId, TaskStatus, WaitReason};

/// Maximum number of tasks that are named.
const NAMED: u32 = 3;

/// Reads them; `None`: the task waits for none.
///
/// # Errors
/// When the store does not answer.
pub async fn children_found(
    store: &Store,
    record: &TaskRecord,
) -> Result<Option<ChildrenFound>, StoreError> {
    let steps = waiting_steps(record);
    if steps.is_empty() {
        return Ok(None);
    }
    let counts = store.child_counts(record.task.id).await?;
    let mut parked = Vec::new();
    for step in steps {
        let room = NAMED.saturating_sub(u32::try_from(parked.len()).unwrap_or(u32::MAX));
        if room == 0 || sum(&counts, step, TaskStatus::is_parked) == 0 {
            continue;
        }
        let all = TaskStatus::ALL.iter().copied();
        let query = ChildQuery {
            parent: record.task.id,
            step: Some(step.no),
            statuses: all.filter(|status| status.is_parked()).collect(),
            after: None,
            limit: room,
        };
        parked.extend(store.children(&query).await?);
    }
    Ok(Some(ChildrenFound { counts, parked }))
}

/// Whether the steps that are being undone are all undone by undoing tasks that they have submitted.
pub(super) fn are_all(record: &TaskRecord) -> bool {
    let is_undone = |row: &&StepRow| row.status == StepStatus::Compensating;
    let waiting = waiting_steps(record).len();
    waiting > 0 && record.steps.iter().filter(is_undone).count() == waiting
}

/// The reason that names them, and what ends the wait; `None`: the task waits for none. Where their states are unknown, the reason names fewer details.
pub(super) fn reason_of(record: &TaskRecord, around: &Surroundings) -> Option<Found> {
    let found = around.children.as_ref();
    let steps = waiting_steps(record);
    if steps.is_empty() {
        return None;
    }
    let undoes = record.task.status == TaskStatus::Compensating;
    let has_ended =
        |status: TaskStatus| status.is_terminal() && !(undoes && status == TaskStatus::Completed);
    let of_step = |row: &&StepRow| {
        let (name, submitted) = (&row.name, started(row));
        let what = if undoes {
            format!("tasks that {name} has submitted are being undone")
        } else {
            format!("{name} waits for tasks that it has submitted")
        };
        let Some(found) = found else { return what };
        let ended = sum(&found.counts, row, has_ended);
        format!("{what}: {ended} of {submitted} have ended")
    };
    let mut detail: Vec<String> = steps.iter().map(of_step).collect();
    let parked = found.map_or(&[][..], |found| &found.parked);
    if let (Some(found), false) = (found, parked.is_empty()) {
        let of_step = |row: &&StepRow| sum(&found.counts, row, TaskStatus::is_parked);
        let count = steps.iter().map(of_step).sum();
        detail.push(decisions(parked, count));
    }
    let all_have = |found: &ChildrenFound| {
        let mut rows = steps.iter();
        rows.all(|row| sum(&found.counts, row, has_ended) >= started(row))
    };
    let is_lost = !undoes && found.is_some_and(all_have);
    if is_lost {
        detail.push("it sleeps all the same: the process that ended the last of them wakes it now, or was lost before it could".to_owned());
    }
    let code = if is_lost {
        WhyCode::WakeLost
    } else {
        WhyCode::Tasks
    };
    let waiting = record.task.waiting;
    let reason = WhyReason {
        steps: steps.iter().map(|row| row.name.clone()).collect(),
        tasks: parked.iter().map(|line| line.task).collect(),
        waiting_for: waiting.filter(|waiting| *waiting == WaitReason::Children),
        ..reason(code, detail.join("; "))
    };
    if is_lost {
        return Some((reason, Some(wakes())));
    }
    let other = around.other.as_deref();
    // What waits for a person is told already.
    if !parked.is_empty() {
        return Some((reason, other.and_then(first_move).cloned()));
    }
    let (mut reason, can) = with_other(reason, other);
    if can.is_none() && reason.until.is_none() {
        // The one that was open has ended since, or is not known: at this time the task looks for itself.
        reason.until = record.task.due_at.map(rfc3339);
    }
    Some((reason, can))
}

/// The task among them to look at: the first for which a person has to decide, else the first that has not ended.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn first_of(
    store: &Store,
    record: &TaskRecord,
    found: &ChildrenFound,
) -> Result<Option<TaskId>, StoreError> {
    if let Some(parked) = found.parked.first() {
        return Ok(Some(parked.task));
    }
    for step in waiting_steps(record) {
        let open = TaskStatus::ALL.iter().copied();
        let query = ChildQuery {
            parent: record.task.id,
            step: Some(step.no),
            statuses: open.filter(|status| !status.is_terminal()).collect(),
            after: None,
            limit: 1,
        };
        if let Some(line) = store.children(&query).await?.first() {
            return Ok(Some(line.task));
        }
    }
    Ok(None)
}

/// `count`: how many there are.
fn decisions(parked: &[ChildLine], count: u32) -> String {
    format!("a person has to decide about {}", named(parked, count))
}

/// Names some tasks, with the count of all.
fn named(some: &[ChildLine], count: u32) -> String {
    let mut named: Vec<String> = some
        .iter()
        .map(|line| format!("{} ({})", line.task, line.status))
        .collect();
    let more = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_sub(some.len());
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// Those of a step that have not ended, as text; `None`: all have.
///
/// # Errors
/// When the store does not answer.
pub(in super::super) async fn open_of(
    store: &Store,
    task: TaskId,
    row: &StepRow,
) -> Result<Option<String>, StoreError> {
    let is_open = |status: TaskStatus| !status.is_terminal();
    let count = sum(&store.child_counts(task).await?, row, is_open);
    if count == 0 {
        return Ok(None);
    }
    let all = TaskStatus::ALL.iter().copied();
    let query = ChildQuery {
        parent: task,
        step: Some(row.no),
        statuses: all.filter(|status| is_open(*status)).collect(),
        after: None,
        limit: NAMED,
    };
    let some = store.children(&query).await?;
    Ok(Some(named(&some, count)))
}

/// The steps that wait for tasks, or that are being undone by undoing tasks.
fn waiting_steps(record: &TaskRecord) -> Vec<&StepRow> {
    let status = match record.task.status {
        status if status.is_at_rest() => return Vec::new(),
        TaskStatus::Compensating => StepStatus::Compensating,
        _ => StepStatus::Waiting,
    };
    let rows = record.steps.iter();
    rows.filter(|row| row.status == status && started(row) > 0)
        .collect()
}

fn started(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.started)
}

/// How many of a step's tasks are in such states.
fn sum(counts: &[ChildCount], row: &StepRow, of: impl Fn(TaskStatus) -> bool) -> u32 {
    let of_step = counts.iter().filter(|count| count.step == row.no);
    of_step
        .filter(|count| of(count.status))
        .map(|count| count.tasks)
        .sum()
}
