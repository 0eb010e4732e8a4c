//! What must hold of any task at any time, as far as its rows alone can show it. The numbers are
//! those of `docs/invariants.md`.

mod changes;
mod undos;

pub use changes::{left_unclaimed, waits_for_hosts};

use counterstep_contracts::{
    Attempt, Direction, Outcome, StepStatus, TaskDecl, TaskId, TaskStatus, UndoDecl,
};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::Store;
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_reconciler::audit::{Damage, Part, Scope};
use counterstep_reconciler::fsck::fsck;
use counterstep_steps::Registry;
use std::collections::BTreeMap;

/// Every broken invariant, as text.
#[must_use]
pub fn broken(decl: &TaskDecl, record: &TaskRecord, history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    audit_is_a_chain(record, history, &mut broken);
    outputs_are_committed_under_the_highest_epoch(history, &mut broken);
    undos::undone_once(decl, record, history, &mut broken);
    completed_is_whole(record, history, &mut broken);
    no_forward_start_after_compensating(history, &mut broken);
    attempts_are_contiguous(history, &mut broken);
    undos::undo_is_in_reverse(decl, record, history, &mut broken);
    changes::outputs_stand(decl, history, &mut broken);
    changes::rows_name_their_change(record, history, &mut broken);
    changes::cancelled_never_completes(record, history, &mut broken);
    changes::losses_are_bounded(decl, record, history, &mut broken);
    broken
}

/// Every broken invariant of these tasks, as text: of each by itself, and of each parent among them
/// with its children.
///
/// # Panics
/// When the store does not answer, or the engine does not know a type.
pub async fn broken_of_all(engine: &Engine, records: &[TaskRecord]) -> Vec<String> {
    let (store, registry) = (&engine.ports.store, &engine.registry);
    let mut broken = Vec::new();
    // A parent behind its children, so that what has happened to one of them is found in its past.
    let mut family = Vec::with_capacity(records.len());
    for record in records.iter().rev() {
        let (row, id) = (&record.task, record.task.id);
        let known = registry.get(&row.task_type, row.version);
        let decl = known.expect("a known type").decl;
        let history = store.history(id).await.expect("the store answers");
        let mut found = self::broken(decl, record, &history);
        found.extend(found_by_fsck(store, registry, id).await);
        let of = |what| format!("{} {id}: {what}", row.task_type);
        broken.extend(found.into_iter().map(of));
        family.push((decl, record, history));
    }
    for (decl, parent, past) in &family {
        for (_, child, childs_past) in &family {
            let step = child.task.parent.filter(|it| it.task == parent.task.id);
            let Some(at) = step.and_then(|it| decl.steps.iter().position(|s| s.no == it.step))
            else {
                continue;
            };
            let found = broken_of_child(decl, parent, past, at, child, childs_past);
            let (of, row) = (&parent.task, &child.task);
            broken.extend(found.into_iter().map(|what| {
                let child = format!(
                    "{} {} of step {}",
                    row.task_type, row.id, decl.steps[at].name
                );
                format!("{} {}, {child}: {what}", of.task_type, of.id)
            }));
        }
    }
    broken
}

/// Every broken invariant of a parent and a task that its step at this position has submitted, as text.
#[must_use]
pub fn broken_of_child(
    decl: &TaskDecl,
    parent: &TaskRecord,
    past: &History,
    at: usize,
    child: &TaskRecord,
    childs_past: &History,
) -> Vec<String> {
    let mut broken = Vec::new();
    children_end_with_their_parent(decl, parent, at, child.task.status, &mut broken);
    undone_after_its_end_with_its_parent(past, childs_past, &mut broken);
    broken
}

/// 3 and 5: behind a parent that was undone no child is left that has completed or goes on, where it
/// is undone with the step; behind one that has completed, none that goes on.
fn children_end_with_their_parent(
    decl: &TaskDecl,
    parent: &TaskRecord,
    at: usize,
    child: TaskStatus,
    broken: &mut Vec<String>,
) {
    let status = parent.task.status;
    let undone = matches!(status, TaskStatus::Failed | TaskStatus::Cancelled)
        && !parent.task.residue
        && decl.steps[at].undo == UndoDecl::BuiltIn
        // A person who settled its undo by hand has said that it need not be undone.
        && parent.steps[at].status != StepStatus::Resolved;
    if undone && (child == TaskStatus::Completed || !child.is_terminal()) {
        broken.push(format!("3: the parent is {status}, and the child {child}"));
    }
    if status == TaskStatus::Completed && !child.is_terminal() {
        broken.push(format!("5: the parent is {status}, and the child {child}"));
    }
}

/// 18: a child that had completed is undone only where its parent is.
fn undone_after_its_end_with_its_parent(
    parent: &History,
    child: &History,
    broken: &mut Vec<String>,
) {
    let mut of_child = child.audit.iter().map(|row| &row.entry);
    let had_completed = of_child.any(|entry| {
        entry.from == Some(TaskStatus::Completed) && entry.to != TaskStatus::Completed
    });
    let mut of_parent = parent.audit.iter().map(|row| &row.entry);
    if had_completed && !of_parent.any(|entry| entry.to == TaskStatus::Compensating) {
        broken.push(
            "18: the child was undone after it had completed, and its parent was not".to_owned(),
        );
    }
}

/// 6: what `fsck` finds in a task, as text: its journal is a chain, folds to its row, and the
/// judge allows its events. 11: no row of it has another output in the place of one that was committed.
///
/// # Panics
/// When the store does not answer.
pub async fn found_by_fsck(store: &Store, registry: &Registry, task: TaskId) -> Vec<String> {
    let mut broken = Vec::new();
    let scope = Scope {
        task: Some(task),
        ..Scope::default()
    };
    let checked = fsck(store, registry, None, &scope, &mut |finding| {
        let number = match finding.damage {
            Damage::Illegal(Part::Output) => 11,
            _ => 6,
        };
        broken.push(format!("{number}: {finding}"));
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

#[cfg(test)]
mod tests {
    use super::undone_after_its_end_with_its_parent;
    use counterstep_contracts::TaskStatus::{self, Cancelled, Compensating, Completed, Running};
    use counterstep_contracts::{AuditSeq, Epoch};
    use counterstep_kernel::audit::EntryHash;
    use counterstep_kernel::record::{AuditEntry, AuditRow, History};
    use counterstep_steps::times::DbTime;
    use serde_json::Value;

    fn past(states: &[TaskStatus]) -> History {
        let row = |at: usize| {
            let entry = AuditEntry {
                seq: AuditSeq(at as i64),
                event: "a change".to_owned(),
                from: Some(states[at - 1]),
                to: states[at],
                step: None,
                step_from: None,
                step_to: None,
                attempt: None,
                epoch: Epoch(1),
                actor: "test".to_owned(),
                details: Value::Null,
            };
            AuditRow {
                seq: entry.seq,
                change_id: CHANGE.parse().expect("an id"),
                at: DbTime(0),
                seal: EntryHash(Vec::new()),
                entry,
            }
        };
        History {
            audit: (1..states.len()).map(row).collect(),
            ..History::default()
        }
    }

    const CHANGE: &str = "01a208fe-4b42-7982-94f3-4005e0e926bb";

    #[test]
    fn a_child_that_has_completed_is_undone_with_its_parent_only() {
        let undone = past(&[Running, Completed, Compensating, Cancelled]);
        let failed = past(&[Running, Compensating, Cancelled]);
        let completed = past(&[Running, Completed]);
        for (parent, child, is_broken) in [
            (&completed, &undone, true),
            (&failed, &undone, false),
            (&undone, &undone, false),
            (&completed, &failed, false),
            (&completed, &completed, false),
        ] {
            let mut broken = Vec::new();
            undone_after_its_end_with_its_parent(parent, child, &mut broken);
            assert_eq!(broken.is_empty(), !is_broken, "{broken:?}");
        }
    }
}
