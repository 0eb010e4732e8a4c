//! Invariants of the changes of a task: what they may not take back, what belongs to one of them, and
//! how long the next one may take. Read from the rows alone: the judge that allowed the changes is
//! not asked.

use counterstep_contracts::{AuditSeq, StepNo, StepStatus, TaskDecl, TaskStatus};
use counterstep_kernel::record::{AuditEntry, History, TaskRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Events that give a step its output.
const GIVES_OUTPUT: [&str; 4] = [
    "step_succeeded",
    "step_settled_done",
    "step_supplied",
    "step_kept",
];

/// Events that begin the count of lost hosts anew: the task has made progress, another part of it
/// begins, or an operator has decided.
const COUNTS_ANEW: [&str; 12] = [
    "step_succeeded",
    "step_settled_done",
    "step_settled_not_done",
    "undo_succeeded",
    "parent_undone",
    "lost_too_often",
    "lost_for_good",
    "operator_redrove",
    "operator_undid",
    "operator_retried_undo",
    "operator_resolved",
    "operator_set_recoveries",
];

/// 11: a step has one output, unless its scratch is lost before any reader of it has completed.
pub(super) fn outputs_stand(decl: &TaskDecl, history: &History, broken: &mut Vec<String>) {
    let mut stand: BTreeSet<StepNo> = BTreeSet::new();
    let mut statuses: BTreeMap<StepNo, StepStatus> = BTreeMap::new();
    for entry in entries(history) {
        let Some(no) = entry.step else { continue };
        let event = entry.event.as_str();
        if GIVES_OUTPUT.contains(&event) && !stand.insert(no) {
            broken.push(format!(
                "11: audit entry {} gives step {no} an output, and it has one",
                entry.seq
            ));
        }
        if event == "step_scratch_lost" {
            stand.remove(&no);
            let name = decl.steps.iter().find(|it| it.no == no).map(|it| it.name);
            let has_read = |reader: &StepNo| {
                let of = decl.steps.iter().find(|it| it.no == *reader);
                of.zip(name).is_some_and(|(it, name)| it.reads(name))
            };
            let completed = statuses.iter().filter(|it| *it.1 == StepStatus::Completed);
            for (reader, _) in completed.filter(|it| has_read(it.0)) {
                broken.push(format!(
                    "11: audit entry {} takes the output of step {no}, by which step {reader} has completed",
                    entry.seq
                ));
            }
        }
        statuses.extend(entry.step_to.map(|to| (no, to)));
    }
}

/// 13: each entry and each start of an attempt names a change that was written, the entries in the order
/// of the changes; what starts an attempt is written with it; and the row names a change too.
pub(super) fn rows_name_their_change(
    record: &TaskRecord,
    history: &History,
    broken: &mut Vec<String>,
) {
    let changes = &history.changes;
    let place = |change| changes.iter().position(|(_, written)| *written == change);
    let mut last = 0;
    for row in &history.audit {
        match place(row.change_id) {
            Some(place) if place >= last => last = place,
            Some(_) => broken.push(format!(
                "13: audit entry {} is of a change before that of the entry before it",
                row.seq
            )),
            None => broken.push(format!(
                "13: audit entry {} is of a change that was not written",
                row.seq
            )),
        }
    }
    for attempt in &history.attempts {
        // The attempt that a task running another one again keeps is counted, and did not run.
        let of = |entry: &AuditEntry| {
            let is_its = entry.attempt.is_none_or(|it| it == attempt.attempt);
            entry.step == Some(attempt.step) && is_its
        };
        let mut rows = history.audit.iter();
        if !rows.any(|row| row.change_id == attempt.change_id && of(&row.entry)) {
            broken.push(format!(
                "13: attempt {} of step {} {} starts in a change without an entry of it",
                attempt.attempt, attempt.step, attempt.direction
            ));
        }
    }
    let row = &record.task;
    if !changes.contains(&(row.rev, row.change_id)) {
        broken.push(format!(
            "13: the row names change {} as revision {}",
            row.change_id, row.rev
        ));
    }
}

/// 15: a task whose cancel was accepted does not complete.
pub(super) fn cancelled_never_completes(
    record: &TaskRecord,
    history: &History,
    broken: &mut Vec<String>,
) {
    let row = &record.task;
    let mut past = entries(history).skip_while(|entry| entry.event != "cancel_requested");
    let completes = past.any(|entry| entry.to == TaskStatus::Completed);
    if completes || row.status == TaskStatus::Completed && row.cancel_requested_at.is_some() {
        broken.push("15: it has completed after its cancel was accepted".to_owned());
    }
}

/// 17: no host begins with a task that has lost more consecutive hosts than its type allows.
pub(super) fn losses_are_bounded(
    decl: &TaskDecl,
    record: &TaskRecord,
    history: &History,
    broken: &mut Vec<String>,
) {
    let bound = decl.max_recoveries;
    let (mut lost, mut gave_up) = (0, None);
    for row in &history.audit {
        let entry = &row.entry;
        let event = entry.event.as_str();
        if COUNTS_ANEW.contains(&event) {
            lost = 0;
            gave_up = event.starts_with("lost_").then_some(row.change_id);
        } else if entry.details["lost_by"].is_string() && gave_up != Some(row.change_id) {
            // A take-back that begins the undo names the host behind the event that has counted it.
            lost += 1;
        }
        if lost > bound && matches!(event, "step_started" | "undo_started") {
            broken.push(format!(
                "17: audit entry {} begins after {lost} consecutive host losses; {bound} are allowed",
                entry.seq
            ));
        }
    }
    // The loss that was one too many is counted; a task that has only to stop is claimed all the same.
    let counted = record.task.recovery_attempts;
    if counted > bound + 1 && record.task.cancel_requested_at.is_none() {
        broken.push(format!(
            "17: the row counts {counted} lost hosts; {bound} are allowed"
        ));
    }
}

/// 14: a task that is dispatched is claimed, or dispatched once more, within `longest`. Where it is not, in
/// words. Not of tasks that wait for a slot, a limit or a paused queue, nor while no host runs.
#[must_use]
pub fn left_unclaimed(record: &TaskRecord, history: &History, longest: Duration) -> Vec<String> {
    let left = waits_for_hosts(record, history).filter(|(_, waited)| *waited > longest);
    left.map(|(seq, waited)| {
        format!("14: no host claims it for {waited:?} after audit entry {seq}")
    })
    .collect()
}

/// How long a task waited for a host each time that it was dispatched, and behind which audit entry.
pub fn waits_for_hosts(
    record: &TaskRecord,
    history: &History,
) -> impl Iterator<Item = (AuditSeq, Duration)> {
    let ends = history.audit.iter().skip(1).map(|row| row.at);
    let dispatched = history.audit.iter().zip(ends.chain([record.now]));
    let waits = dispatched
        .filter(|(row, _)| matches!(row.entry.to, TaskStatus::Submitted | TaskStatus::Dispatched));
    waits.map(|(row, until)| (row.entry.seq, until.after(row.at)))
}

fn entries(history: &History) -> impl Iterator<Item = &AuditEntry> {
    history.audit.iter().map(|row| &row.entry)
}
