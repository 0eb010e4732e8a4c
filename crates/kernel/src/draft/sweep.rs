//! What sweeps cause: a change that says whose objects are, and nothing else. It needs no
//! declaration, so that a task whose type this process does not know is swept too.

use crate::change::intents;
use crate::change::transition::{AttemptWrite, Guard, TaskWrite, Transition};
use crate::record::TaskRecord;
use counterstep_contracts::ChangeId;

/// The change of a task as it was read, and the guard for it; `attempts`: what
/// [`condemn`](intents::condemn) or [`swept`](intents::swept) found, `actor`: who stands in the audit.
pub fn sweep(
    record: &TaskRecord,
    attempts: Vec<AttemptWrite>,
    change_id: ChangeId,
    actor: &str,
) -> (Guard, Transition) {
    let mut marks = record.marks.clone();
    for write in &attempts {
        intents::apply(&mut marks, write, record.now);
    }
    let mut row = record.task.clone();
    (row.rev, row.change_id) = (row.rev.next(), change_id);
    row.sweep_at = if row.lease_owner.is_some() {
        None
    } else {
        intents::sweep_at(&marks)
    };
    let write = TaskWrite::new(row);
    let transition = Transition {
        task: Some(write),
        attempts,
        ..Transition::new(change_id, record.task.id)
    };
    (
        Guard::Free {
            rev: record.task.rev,
        },
        transition.with_journal(Some(record), actor),
    )
}
