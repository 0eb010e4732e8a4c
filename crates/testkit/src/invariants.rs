//! What must hold of any task at any time, as far as its rows alone can show it. The numbers are
//! those of `docs/invariants.md`.

use counterstep_contracts::{
    Attempt, Direction, Outcome, StepStatus, TaskDecl, TaskId, TaskStatus,
};
use counterstep_kernel::ports::Store;
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_reconciler::audit::Scope;
use counterstep_reconciler::fsck::fsck;
use counterstep_steps::Registry;
use std::collections::{BTreeMap, BTreeSet};

/// Every broken invariant, in words.
#[must_use]
pub fn broken(decl: &TaskDecl, record: &TaskRecord, history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    audit_is_a_chain(record, history, &mut broken);
    outputs_are_committed_under_the_highest_epoch(history, &mut broken);
    undone_once(decl, record, history, &mut broken);
    completed_is_whole(record, history, &mut broken);
    no_forward_start_after_compensating(history, &mut broken);
    attempts_are_contiguous(history, &mut broken);
    undo_is_in_reverse(decl, history, &mut broken);
    broken
}

/// 6: what `fsck` finds in a task, in words: its journal is a chain, folds to its row, and the
/// judge allows its events.
///
/// # Panics
/// When the store does not answer.
pub async fn found_by_fsck(store: &dyn Store, registry: &Registry, task: TaskId) -> Vec<String> {
    let mut broken = Vec::new();
    let scope = Scope {
        task: Some(task),
        ..Scope::default()
    };
    let checked = fsck(store, registry, None, &scope, &mut |finding| {
        broken.push(format!("6: {finding}"))
    })
    .await;
    checked.expect("the store answers");
    broken
}

/// 6: gapless, each `to` the next `from`, and the last one is the row's.
fn audit_is_a_chain(record: &TaskRecord, history: &History, broken: &mut Vec<String>) {
    let mut before: Option<TaskStatus> = None;
    for (at, row) in history.audit.iter().enumerate() {
        if row.seq.0 != at as i64 + 1 {
            broken.push(format!(
                "6: audit entry {} stands at place {}",
                row.seq,
                at + 1
            ));
        }
        if row.entry.from != before {
            broken.push(format!(
                "6: audit entry {} does not follow the one before it",
                row.seq
            ));
        }
        before = Some(row.entry.to);
    }
    if before != Some(record.task.status) {
        broken.push(format!(
            "6: the row says {}, the audit {before:?}",
            record.task.status
        ));
    }
    let mut steps: BTreeMap<_, StepStatus> = BTreeMap::new();
    for entry in history.audit.iter().map(|row| &row.entry) {
        let (Some(no), Some(from), Some(to)) = (entry.step, entry.step_from, entry.step_to) else {
            continue;
        };
        let was = steps.insert(no, to).unwrap_or(StepStatus::Pending);
        if was != from {
            broken.push(format!(
                "6: audit entry {} says step {no} was {from}; it was {was}",
                entry.seq
            ));
        }
    }
    for row in &record.steps {
        let folded = steps.get(&row.no).copied().unwrap_or(StepStatus::Pending);
        if folded != row.status {
            broken.push(format!(
                "6: step {} is {}, and its audit folds to {folded}",
                row.name, row.status
            ));
        }
    }
}

/// 1: no output committed under an epoch that was not the highest at that point.
fn outputs_are_committed_under_the_highest_epoch(history: &History, broken: &mut Vec<String>) {
    let mut highest = 0;
    for entry in history.audit.iter().map(|row| &row.entry) {
        if entry.epoch.0 < highest {
            broken.push(format!(
                "1: audit entry {} was written under an older epoch",
                entry.seq
            ));
        }
        highest = highest.max(entry.epoch.0);
    }
}

/// 3: in a failed or cancelled task each step with effects that started has exactly one undo that
/// succeeded.
fn undone_once(decl: &TaskDecl, record: &TaskRecord, history: &History, broken: &mut Vec<String>) {
    let ended = matches!(
        record.task.status,
        TaskStatus::Failed | TaskStatus::Cancelled
    );
    if !ended || record.task.residue {
        return;
    }
    for (step, row) in decl.steps.iter().zip(&record.steps) {
        let undone = history.audit.iter().filter(|audit| {
            audit.entry.step == Some(row.no) && audit.entry.step_to == Some(StepStatus::Compensated)
        });
        // A person who settled its undo by hand has said that it need not be undone.
        let settled = row.status == StepStatus::Resolved;
        let expected =
            usize::from(step.undo.has_effects() && row.started_seq.is_some() && !settled);
        let count = undone.count();
        if count != expected {
            broken.push(format!(
                "3: step {} was undone {count} times instead of {expected}",
                row.name
            ));
        }
    }
}

/// 5: all steps that were not skipped completed, and no undo ran.
fn completed_is_whole(record: &TaskRecord, history: &History, broken: &mut Vec<String>) {
    if record.task.status != TaskStatus::Completed {
        return;
    }
    for row in &record.steps {
        if !matches!(row.status, StepStatus::Completed | StepStatus::Skipped) {
            broken.push(format!(
                "5: the task is completed and step {} is {}",
                row.name, row.status
            ));
        }
    }
    if history
        .attempts
        .iter()
        .any(|attempt| attempt.direction == Direction::Undo)
    {
        broken.push("5: the task is completed and an undo ran".to_owned());
    }
}

/// 7: no forward attempt starts once the task is being undone.
fn no_forward_start_after_compensating(history: &History, broken: &mut Vec<String>) {
    let mut undoing = false;
    for entry in history.audit.iter().map(|row| &row.entry) {
        undoing |= entry.to == TaskStatus::Compensating;
        if undoing && entry.event == "step_started" {
            broken.push(format!(
                "7: audit entry {} starts a step of a task that is being undone",
                entry.seq
            ));
        }
    }
}

/// 9: attempts are numbered from 1 without gaps, in each direction.
fn attempts_are_contiguous(history: &History, broken: &mut Vec<String>) {
    let mut last: BTreeMap<_, Attempt> = BTreeMap::new();
    let mut attempts = history.attempts.clone();
    attempts.sort_by_key(|attempt| (attempt.step, attempt.direction, attempt.attempt));
    for attempt in attempts {
        let before = last
            .insert((attempt.step, attempt.direction), attempt.attempt)
            .unwrap_or_default();
        if attempt.attempt != before.next() {
            broken.push(format!(
                "9: step {} {} has attempt {} after {before}",
                attempt.step, attempt.direction, attempt.attempt
            ));
        }
    }
}

/// 10: undos go in the reverse order of the steps' first starts; those of a parallel group side by
/// side, and all of them before the group's predecessor.
fn undo_is_in_reverse(decl: &TaskDecl, history: &History, broken: &mut Vec<String>) {
    let group = |no| {
        decl.steps
            .iter()
            .find(|step| step.no == no)
            .and_then(|step| step.group)
    };
    let mut starts = Vec::new();
    let mut open = BTreeSet::new();
    for entry in history.audit.iter().map(|row| &row.entry) {
        let Some(no) = entry.step else { continue };
        match entry.event.as_str() {
            "step_started" if !starts.contains(&no) => starts.push(no),
            "undo_started" => {
                let place = |of| starts.iter().position(|no| *no == of);
                for other in &open {
                    if group(*other).is_none() || group(*other) != group(no) {
                        broken
                            .push(format!("10: the undo of step {no} starts while that of step {other} is under way"));
                    }
                }
                let later = starts
                    .iter()
                    .filter(|other| place(**other) > place(no) && group(**other) != group(no));
                let needs = |of: counterstep_contracts::StepNo| {
                    decl.steps
                        .iter()
                        .any(|step| step.no == of && step.undo.has_effects())
                };
                for other in later.filter(|other| needs(**other)) {
                    if !undone_before(history, *other, entry.seq) {
                        broken.push(format!(
                            "10: the undo of step {no} starts before that of step {other} has ended"
                        ));
                    }
                }
                open.insert(no);
            }
            "undo_succeeded" | "undo_retries" | "undo_failed" | "undo_in_doubt" => {
                open.remove(&no);
            }
            _ => {}
        }
    }
}

fn undone_before(
    history: &History,
    no: counterstep_contracts::StepNo,
    seq: counterstep_contracts::AuditSeq,
) -> bool {
    history
        .audit
        .iter()
        .map(|row| &row.entry)
        .take_while(|entry| entry.seq < seq)
        .any(|entry| {
            entry.step == Some(no)
                && matches!(
                    entry.step_to,
                    Some(
                        StepStatus::Compensated
                            | StepStatus::CompensationFailed
                            | StepStatus::Resolved
                    )
                )
        })
}

/// Attempts that succeeded, by step and direction.
#[must_use]
pub fn successes(history: &History, direction: Direction) -> usize {
    history
        .attempts
        .iter()
        .filter(|attempt| {
            attempt.direction == direction && attempt.outcome == Some(Outcome::Succeeded)
        })
        .count()
}
