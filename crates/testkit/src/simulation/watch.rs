//! What must hold at every moment of a run, looked at as it happens. The numbers are those of `docs/invariants.md`.

use super::faults::Trouble;
use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Rev, TaskEvent, TaskId, TaskStatus,
};
use counterstep_kernel::change::transition::{AttemptWrite, LeaseChange, Time, Transition};
use counterstep_kernel::ports::CommitError;
use counterstep_kernel::record::AuditEntry;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A task as its last change has left it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) rev: Rev,
    pub(super) epoch: Epoch,
    pub(super) status: TaskStatus,
    pub(super) change: ChangeId,
}

/// A change whose answer has arrived before that of the change before it.
#[derive(Debug, Clone, Copy)]
struct Early {
    seen: Seen,
    takes: bool,
}

/// What a task is, and what of it was written besides its state.
#[derive(Debug, Clone, Default)]
struct Written {
    task_type: String,
    version: u32,
    /// Steps by their names.
    steps: BTreeMap<String, counterstep_contracts::StepNo>,
    /// Attempts whose start is written.
    started: BTreeSet<(counterstep_contracts::StepNo, Direction, Attempt)>,
    cancelled_at: Option<Duration>,
    /// The last change that is known.
    rev: Rev,
    /// Who holds its lease, and until when by the database's machine. Not where the answers of two changes came the other way round.
    lease: Option<(String, Duration)>,
}

/// Looks on.
#[derive(Debug, Default)]
pub(super) struct Watch {
    has_broken: AtomicBool,
    broken: Mutex<Vec<String>>,
    tasks: Mutex<BTreeMap<TaskId, Seen>>,
    early: Mutex<BTreeMap<(TaskId, Rev), Early>>,
    written: Mutex<BTreeMap<TaskId, Written>>,
    changes: Mutex<BTreeSet<ChangeId>>,
    /// Events until they are published.
    events: Mutex<BTreeSet<(TaskId, AuditSeq)>>,
    /// Tasks of which a message was lost, and that no process has claimed since.
    silent: Mutex<BTreeSet<TaskId>>,
    /// Messages that are kept for a person, and not delivered any more.
    quarantined: Mutex<BTreeSet<u64>>,
    felt: Mutex<BTreeMap<Trouble, u64>>,
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

    /// A fault had a consequence: a call failed or took long, a process had to find out.
    pub(super) fn felt(&self, trouble: Trouble) {
        *self.felt.lock().entry(trouble).or_default() += 1;
    }

    pub(super) fn all_felt(&self) -> BTreeMap<Trouble, u64> {
        self.felt.lock().clone()
    }

    /// Type and version of a task.
    pub(super) fn type_of(&self, task: TaskId) -> Option<(String, u32)> {
        let written = self.written.lock();
        let of = written.get(&task)?;
        Some((of.task_type.clone(), of.version))
    }

    /// When a cancel of it was written.
    pub(super) fn cancelled_at(&self, task: TaskId) -> Option<Duration> {
        self.written.lock().get(&task)?.cancelled_at
    }

    /// Whether the start of an attempt is written. Steps of a task that is not there yet run before it is accepted.
    pub(super) fn has_started(
        &self,
        task: TaskId,
        step: &str,
        part: &str,
        attempt: Attempt,
    ) -> bool {
        let written = self.written.lock();
        let Some(of) = written.get(&task) else {
            return true;
        };
        let direction = match part {
            "undo" => Direction::Undo,
            _ => Direction::Forward,
        };
        let no = of.steps.get(step).copied();
        no.is_some_and(|no| of.started.contains(&(no, direction, attempt)))
    }

    /// Its lease is held under this epoch until then, by the machine of the database.
    pub(super) fn prolonged(&self, task: TaskId, until: Duration) {
        if let Some(of) = self.written.lock().get_mut(&task)
            && let Some((_, held)) = &mut of.lease
        {
            *held = until;
        }
    }

    /// Who holds the lease of a task before its change to this revision, and until when.
    pub(super) fn lease_before(&self, task: TaskId, rev: Rev) -> Option<(String, Duration)> {
        let written = self.written.lock();
        let of = written.get(&task)?;
        of.lease.clone().filter(|_| of.rev.0 + 1 == rev.0)
    }

    /// Who holds the lease of a task, and until when.
    pub(super) fn lease_of(&self, task: TaskId) -> Option<(String, Duration)> {
        self.written.lock().get(&task)?.lease.clone()
    }

    /// The tasks whose lease any process has.
    pub(super) fn all_leases(&self) -> Vec<TaskId> {
        let written = self.written.lock();
        let held = written.iter().filter(|(_, it)| it.lease.is_some());
        held.map(|(task, _)| *task).collect()
    }

    /// The tasks whose lease this process has.
    pub(super) fn leased_by(&self, owner: &str) -> Vec<TaskId> {
        let written = self.written.lock();
        let of = written
            .iter()
            .filter(|(_, it)| it.lease.as_ref().is_some_and(|lease| lease.0 == owner));
        of.map(|(task, _)| *task).collect()
    }

    /// Where the author of a change finds it.
    pub(super) fn found(&self, task: TaskId, change: ChangeId) -> &'static str {
        let is_last = self.epoch_and_change(task).is_some_and(|it| it.1 == change);
        match is_last {
            true => "unknown found in row",
            false if self.changes.lock().contains(&change) => "unknown found in history",
            false => "unknown not written",
        }
    }

    pub(super) fn epoch_and_change(&self, task: TaskId) -> Option<(Epoch, ChangeId)> {
        let tasks = self.tasks.lock();
        tasks.get(&task).map(|seen| (seen.epoch, seen.change))
    }

    pub(super) fn message_is_lost(&self, task: TaskId) {
        self.silent.lock().insert(task);
    }

    pub(super) fn quarantined(&self, message: u64) {
        self.quarantined.lock().insert(message);
    }

    /// How many messages are kept for a person.
    pub(super) fn all_quarantined(&self) -> usize {
        self.quarantined.lock().len()
    }

    /// An event is published.
    pub(super) fn published(&self, event: &TaskEvent) {
        self.events.lock().remove(&(event.task, event.seq));
    }

    /// Events that were not published.
    pub(super) fn unpublished(&self) -> usize {
        self.events.lock().len()
    }

    fn note_written(&self, change: &Transition, at: Duration, machine: Duration) {
        let mut written = self.written.lock();
        let of = written.entry(change.task_id).or_default();
        for step in &change.steps {
            of.steps.insert(step.name.clone(), step.no);
        }
        for attempt in &change.attempts {
            if let AttemptWrite::Start {
                step,
                direction,
                attempt,
                ..
            } = attempt
            {
                of.started.insert((*step, *direction, *attempt));
            }
        }
        let Some(write) = &change.task else { return };
        of.task_type.clone_from(&write.row.task_type);
        of.version = write.row.version;
        if matches!(write.cancel_requested, Time::In(_)) {
            of.cancelled_at.get_or_insert(at);
        }
        let claims = matches!(write.lease, LeaseChange::Take { .. });
        if claims && self.silent.lock().remove(&change.task_id) {
            self.felt(Trouble::QueueLoses);
            self.reached("found without its message");
        }
        let is_next = write.row.rev.0 == of.rev.0 + 1;
        of.rev = of.rev.max(write.row.rev);
        match &write.lease {
            LeaseChange::Keep if is_next => {}
            LeaseChange::Take { owner, ttl } if is_next => {
                of.lease = Some((owner.clone(), machine + *ttl));
            }
            LeaseChange::Keep | LeaseChange::Take { .. } | LeaseChange::Release => of.lease = None,
        }
    }

    /// A change is written, at this time of the world and of the database's machine.
    pub(super) fn committed(&self, change: &Transition, at: Duration, machine: Duration) {
        self.changes.lock().insert(change.change_id);
        if change.task.is_some() {
            self.note_written(change, at, machine);
        }
        let events = change.events.iter().map(|event| (event.task, event.seq));
        self.events.lock().extend(events);
        for child in &change.children {
            self.committed(child, at, machine);
        }
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
                change: change.change_id,
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
