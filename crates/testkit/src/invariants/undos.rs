//! Invariants of the way back: what is undone, and in which order.

use counterstep_contracts::{AuditSeq, StepNo, StepStatus, TaskDecl, TaskStatus};
use counterstep_kernel::record::{History, TaskRecord};
use std::collections::BTreeSet;

/// 3: in a failed or cancelled task each step with effects that started has exactly one undo that
/// succeeded.
pub(super) fn undone_once(
    decl: &TaskDecl,
    record: &TaskRecord,
    history: &History,
    broken: &mut Vec<String>,
) {
    let ended = matches!(
        record.task.status,
        TaskStatus::Failed | TaskStatus::Cancelled
    );
    if !ended || record.task.residue {
        return;
    }
    for (step, row) in decl.steps.iter().zip(&record.steps) {
        // A late result that is dropped is named in the state that the step has then.
        let undone = history
            .audit
            .iter()
            .map(|audit| &audit.entry)
            .filter(|entry| {
                entry.step == Some(row.no)
                    && entry.step_to == Some(StepStatus::Compensated)
                    && entry.event != "result_dropped"
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

/// 10: undos go in the reverse order of the steps' first starts; those of a parallel group side by
/// side, and all of them before the group's predecessor.
pub(super) fn undo_is_in_reverse(
    decl: &TaskDecl,
    record: &TaskRecord,
    history: &History,
    broken: &mut Vec<String>,
) {
    let of = |no| decl.steps.iter().find(|step| step.no == no);
    let group = |no| of(no).and_then(|step| step.group);
    // Steps that stand alone are in no group, and so are never beside each other.
    let beside = |no, other| group(no).is_some() && group(no) == group(other);
    // A step whose only attempt has certainly sent nothing has not started: there is nothing to undo.
    let started = |no| {
        record
            .steps
            .iter()
            .any(|row| row.no == no && row.started_seq.is_some())
    };
    let needs = |no| of(no).is_some_and(|step| step.undo.has_effects()) && started(no);
    let mut starts = Vec::new();
    let mut open = BTreeSet::new();
    for entry in history.audit.iter().map(|row| &row.entry) {
        let Some(no) = entry.step else { continue };
        match entry.event.as_str() {
            "step_started" if !starts.contains(&no) => starts.push(no),
            "undo_started" => {
                for other in open.iter().filter(|other| !beside(no, **other)) {
                    broken.push(format!(
                        "10: the undo of step {no} starts while that of step {other} is under way"
                    ));
                }
                let first = starts.iter().position(|start| *start == no);
                let later = starts.iter().skip(first.map_or(0, |at| at + 1));
                for other in later.filter(|other| needs(**other) && !beside(no, **other)) {
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

fn undone_before(history: &History, no: StepNo, seq: AuditSeq) -> bool {
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
