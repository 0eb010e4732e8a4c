//! What must hold at every moment of a run, looked at as it happens. The numbers are those of `docs/invariants.md`.

use counterstep_contracts::{Attempt, Epoch, Rev, TaskId, TaskStatus};
use counterstep_kernel::change::transition::{LeaseChange, Transition};
use counterstep_kernel::ports::{CodeLabel, CommitError};
use counterstep_kernel::record::AuditEntry;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// A task as its last change has left it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) rev: Rev,
    pub(super) epoch: Epoch,
    pub(super) status: TaskStatus,
}

/// A change whose answer has arrived before that of the change before it.
#[derive(Debug, Clone, Copy)]
struct Early {
    seen: Seen,
    takes: bool,
}

type Execution = (TaskId, String, &'static str, Attempt);

/// Looks on.
#[derive(Debug, Default)]
pub(super) struct Watch {
    has_broken: AtomicBool,
    broken: Mutex<Vec<String>>,
    tasks: Mutex<BTreeMap<TaskId, Seen>>,
    early: Mutex<BTreeMap<(TaskId, Rev), Early>>,
    begun: Mutex<BTreeSet<Execution>>,
    stored: Mutex<BTreeSet<String>>,
    points: Mutex<BTreeMap<String, u64>>,
}

impl Watch {
    /// An invariant does not hold.
    pub(super) fn fails(&self, what: String) {
        let mut broken = self.broken.lock();
        if !broken.contains(&what) {
            broken.push(what);
        }
        self.has_broken.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_broken(&self) -> bool {
        self.has_broken.load(Ordering::Relaxed)
    }

    pub(super) fn broken(&self) -> Vec<String> {
        self.broken.lock().clone()
    }

    /// A point that runs are to reach now and then.
    pub(super) fn reached(&self, point: &str) {
        *self.points.lock().entry(point.to_owned()).or_default() += 1;
    }

    pub(super) fn points(&self) -> BTreeMap<String, u64> {
        self.points.lock().clone()
    }

    /// A change is written.
    pub(super) fn committed(&self, change: &Transition) {
        for entry in &change.audit {
            self.reached(&entry.event);
        }
        let Some(write) = &change.task else { return };
        let (id, row) = (change.task_id, &write.row);
        let next = Early {
            seen: Seen {
                rev: row.rev,
                epoch: row.epoch,
                status: row.status,
            },
            takes: matches!(write.lease, LeaseChange::Take { .. }),
        };
        let mut tasks = self.tasks.lock();
        let mut early = self.early.lock();
        let is_new = tasks.get(&id).is_none_or(|before| before.rev < row.rev);
        early.insert((id, row.rev), next);
        loop {
            let before = tasks.get(&id).copied();
            let rev = before.map_or(Rev(1), |before| Rev(before.rev.0 + 1));
            let Some(Early { seen, takes }) = early.remove(&(id, rev)) else {
                if before.is_some_and(|before| row.rev <= before.rev) && !is_new {
                    self.fails(format!(
                        "1: revision {} of task {id} was written twice",
                        row.rev
                    ));
                }
                return;
            };
            if let Some(before) = before {
                if seen.epoch < before.epoch {
                    self.fails(format!(
                        "1: task {id} was at epoch {}, and epoch {} was written at revision {rev}",
                        before.epoch, seen.epoch
                    ));
                }
                if takes && seen.epoch.0 != before.epoch.0 + 1 {
                    self.fails(format!(
                        "1: task {id} was claimed at epoch {}, from epoch {}",
                        seen.epoch, before.epoch
                    ));
                }
            }
            tasks.insert(id, seen);
        }
    }

    /// All tasks of the run, as they are.
    pub(super) fn tasks(&self) -> BTreeMap<TaskId, Seen> {
        self.tasks.lock().clone()
    }

    /// Code of a step begins.
    pub(super) fn began(&self, label: &CodeLabel, process: &str) {
        let key = (label.task, label.step.clone(), label.part, label.attempt);
        if label.part != "probe" && !self.begun.lock().insert(key) {
            let CodeLabel {
                task,
                step,
                part,
                attempt,
            } = label;
            self.fails(format!(
                "8: {part} of step {step} of task {task}, attempt {attempt}, is executed a second time, by {process}"
            ));
        }
    }

    /// An object is stored. Epoch and attempt stand in the key of each that a step stores: none is ever stored twice.
    pub(super) fn stored(&self, key: &str, process: &str) {
        if !self.stored.lock().insert(key.to_owned()) && !key.starts_with("archive/") {
            self.fails(format!(
                "11: {process} stores the object {key}, which was stored before"
            ));
        }
    }
}

/// A change, as a line of the trace.
pub(super) fn line_of(change: &Transition, error: Option<&CommitError>) -> String {
    let event = |entry: &AuditEntry| match entry.step {
        Some(step) => format!("{} {step}", entry.event),
        None => entry.event.clone(),
    };
    let events: Vec<_> = change.audit.iter().map(event).collect();
    let task = change.task_id;
    let what = match (&change.task, events.is_empty()) {
        (Some(write), false) => format!(
            "{task} at revision {} is {}: {}",
            write.row.rev,
            write.row.status,
            events.join(", ")
        ),
        (Some(write), true) => format!("{task} at revision {}", write.row.rev),
        (None, _) => format!("the request of {task}"),
    };
    match error {
        None => format!("writes {what}"),
        Some(error) => format!("does not write {what}: {error}"),
    }
}
