//! Rows of a journal, read back: the task, its steps, its attempts, its past. Applies what the rows
//! record; must not ask the judge.

mod events;
mod texts;

use super::FORM;
use super::body::{Body, Data, LeaseBody, StepBody};
use super::patch::{shifted, unknown_step};
use crate::audit::{ContentHash, EntryHash};
use crate::change::intents;
use crate::record::{
    AttemptRow, AuditRow, DbTime, History, StepFailure, StepRow, TaskRecord, TaskRow,
};
use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, Rev, StepNo, StepStatus, TaskId,
    TaskStatus, Tenant,
};
use serde_json::Value;
use std::time::Duration;
pub(crate) use texts::is_digest_of;
use texts::read;
use uuid::Uuid;

/// A row of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    /// Its place, from 1, without gaps: the revision that the change made.
    pub rev: Rev,
    /// The task's epoch after the change.
    pub epoch: Epoch,
    /// When, by the database's clock.
    pub at: DbTime,
    /// The change.
    pub change_id: ChangeId,
    /// Actor that caused it.
    pub actor: String,
    /// The form of the two texts.
    pub form: i16,
    /// What happened, as JSON.
    pub entries: String,
    /// What was handed in, as JSON; `None`: nothing, or it was erased.
    pub data: Option<String>,
    /// Binds the row to all rows before it.
    pub link: ContentHash,
    /// Binds its time too.
    pub seal: EntryHash,
}

/// A journal could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A newer program wrote it: to be left alone.
    #[error(
        "row {rev} of the journal has form {form}; expected at most {FORM}: a newer program wrote it"
    )]
    Newer {
        /// Position in the journal of the task.
        rev: Rev,
        /// Its form.
        form: i16,
    },
    /// A row is missing.
    #[error("row {expected} of the journal is missing; the next one is {found}")]
    Gap {
        /// The place that is empty.
        expected: Rev,
        /// The place of the row that was read instead.
        found: Rev,
    },
    /// A row says nothing that can be understood.
    #[error("row {rev} of the journal cannot be read: `{text}` {why}")]
    Broken {
        /// Position in the journal of the task.
        rev: Rev,
        /// Which of its two texts: `entries` or `data`.
        text: &'static str,
        /// Why, without what it holds.
        why: String,
    },
}

/// What is asked for besides the state.
#[derive(Debug, Clone, PartialEq, Default)]
struct Past {
    audit: Vec<AuditRow>,
    changes: Vec<(Rev, ChangeId)>,
    /// Steps that had an output which a row has taken or replaced.
    replaced: Vec<StepNo>,
}

/// A journal on the way to being read: rows go in, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    record: TaskRecord,
    attempts: Vec<AttemptRow>,
    past: Option<Past>,
    holds_digests: bool,
}

impl Fold {
    /// Of a task without rows, for its state only.
    #[must_use]
    pub fn new(task: TaskId) -> Self {
        let record = TaskRecord {
            task: Box::new(blank(task)),
            steps: Vec::new(),
            marks: Vec::new(),
            payload_key: None,
            now: DbTime(0),
        };
        Self {
            record,
            attempts: Vec::new(),
            past: None,
            holds_digests: false,
        }
    }

    /// The same, for those who run it: the data of each row are held against the digest in its entries, and are missed where they
    /// are gone.
    #[must_use]
    pub fn holding_digests(task: TaskId) -> Self {
        Self {
            holds_digests: true,
            ..Self::new(task)
        }
    }

    /// The same, for its past too.
    #[must_use]
    pub fn with_history(task: TaskId) -> Self {
        Self {
            past: Some(Past::default()),
            ..Self::new(task)
        }
    }

    /// Applies the next row.
    ///
    /// # Errors
    /// [`JournalError`]; the fold is of no use then.
    pub fn push(&mut self, row: &JournalRow) -> Result<(), JournalError> {
        let expected = self.record.task.rev.next();
        if row.form > FORM {
            return Err(JournalError::Newer {
                rev: row.rev,
                form: row.form,
            });
        }
        if row.rev != expected {
            return Err(JournalError::Gap {
                expected,
                found: row.rev,
            });
        }
        let body: Body = read(row, "entries", &row.entries)?;
        let data = self.data(row, &body)?;
        self.apply(row, body, data);
        Ok(())
    }

    /// Applies what can be applied of a damaged row, to show a damaged task. A step that was running and
    /// whose outcome is missing is in doubt, unless a later row has its outcome.
    ///
    /// # Errors
    /// What is wrong with the row; the fold can go on.
    pub fn push_damaged(&mut self, row: &JournalRow) -> Result<(), JournalError> {
        let Err(error) = self.push(row) else {
            return Ok(());
        };
        match &error {
            JournalError::Broken { text: "data", .. } => {
                if let Ok(body) = read(row, "entries", &row.entries) {
                    self.apply(row, body, Data::default());
                }
                return Err(error);
            }
            JournalError::Gap { .. } => {
                self.doubt();
                self.record.task.rev = Rev(row.rev.0 - 1);
                if self.push_damaged(row).is_ok() {
                    return Err(error);
                }
            }
            JournalError::Broken { .. } | JournalError::Newer { .. } => self.doubt(),
        }
        self.goes_on_from(row);
        Err(error)
    }

    fn goes_on_from(&mut self, row: &JournalRow) {
        let task = &mut self.record.task;
        (task.rev, task.epoch, task.change_id, task.updated_at) =
            (row.rev, row.epoch, row.change_id, row.at);
        task.audit_seal = Some(row.seal.clone());
        if let Some(past) = &mut self.past {
            past.changes.push((row.rev, row.change_id));
        }
    }

    fn doubt(&mut self) {
        for step in &mut self.record.steps {
            if step.status == StepStatus::Running {
                step.status = StepStatus::InDoubt;
            }
        }
    }

    /// The audit entries since the last call, which are let go of; none where the fold was not asked
    /// for its past.
    #[must_use]
    pub fn take_audit(&mut self) -> Vec<AuditRow> {
        self.past
            .as_mut()
            .map(|past| std::mem::take(&mut past.audit))
            .unwrap_or_default()
    }

    /// Steps that had an output, and whose rows since the last call have taken it or have another one; none
    /// where the fold was not asked for its past.
    #[must_use]
    pub fn take_replaced_outputs(&mut self) -> Vec<StepNo> {
        self.past
            .as_mut()
            .map(|past| std::mem::take(&mut past.replaced))
            .unwrap_or_default()
    }

    /// Lets go of what no later row needs: what clients and steps handed in, errors, attempts. For a
    /// reader of audit entries that keeps the fold for as long as the task goes on.
    pub(crate) fn shed(&mut self) {
        self.attempts = Vec::new();
        if let Some(past) = &mut self.past {
            past.changes = Vec::new();
        }
        let TaskRecord {
            task, steps, marks, ..
        } = &mut self.record;
        *marks = Vec::new();
        (task.request, task.response) = (Value::Null, None);
        task.earlier_requests = Vec::new();
        (task.client_key, task.failure) = (None, None);
        for step in steps {
            (step.output, step.signal, step.error) = (None, None, None);
        }
    }

    /// The task as the rows so far have it, its lease as the last claim has it: heartbeats leave no
    /// row.
    #[must_use]
    pub const fn record(&self) -> &TaskRecord {
        &self.record
    }

    /// The attempts so far, in the order of their start.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptRow] {
        &self.attempts
    }

    /// The task as [`record`](Self::record) has it, seen at `now`.
    #[must_use]
    pub fn into_record(mut self, now: DbTime) -> TaskRecord {
        self.record.now = now;
        self.record
    }

    /// The past; without audit entries and changes where the fold was not asked for them.
    #[must_use]
    pub fn into_history(self) -> History {
        let Past { audit, changes, .. } = self.past.unwrap_or_default();
        History {
            audit,
            attempts: self.attempts,
            changes,
        }
    }

    fn apply(&mut self, row: &JournalRow, body: Body, mut data: Data) {
        let Body {
            events,
            attempts,
            task: patch,
            steps,
            lease,
            due,
            deadline,
            cancel_requested,
            finished,
            key,
            ..
        } = body;
        if key.is_some() {
            self.record.payload_key = key;
        }
        let is_quiet = events.is_empty();
        let mut writes = Vec::with_capacity(events.len() + attempts.len());
        for (place, event) in events.into_iter().enumerate() {
            let details = data.details.remove(&place);
            writes.extend(self.event(row, event, details));
        }
        writes.extend(attempts.into_iter().map(|attempt| attempt.write(row.epoch)));
        let task = &mut self.record.task;
        // The task's tenant is part of every prefix.
        patch.apply(task);
        let was_updated = task.updated_at;
        self.goes_on_from(row);
        let task = &mut self.record.task;
        if is_quiet {
            task.updated_at = was_updated;
        }
        if row.rev == Rev(1) {
            task.created_at = row.at;
        }
        task.due_at = shifted(task.due_at, due, row.at);
        task.deadline_at = shifted(task.deadline_at, deadline, row.at);
        task.cancel_requested_at =
            task.cancel_requested_at
                .or(shifted(None, cancel_requested, row.at));
        task.finished_at = shifted(task.finished_at, finished, row.at);
        if let Some(lease) = lease {
            let (owner, until) = match lease {
                Some(LeaseBody { owner, ttl }) => {
                    let owner = owner.unwrap_or_else(|| row.actor.clone());
                    (Some(owner), Some(row.at.later(Duration::from_micros(ttl))))
                }
                None => (None, None),
            };
            (task.lease_owner, task.lease_expires_at) = (owner, until);
        }
        if let Some(request) = data.request {
            let before = std::mem::replace(&mut task.request, request);
            // A later row has one where an operator has changed it.
            if row.rev != Rev(1) {
                task.earlier_requests.push(before);
            }
        }
        if data.client_key.is_some() {
            task.client_key = data.client_key;
        }
        if data.response.is_some() {
            task.response = data.response;
        }
        // The names of steps are part of prefixes too, and an attempt that starts implies fields of
        // its step.
        for step in &steps {
            let place = self.place(step.no);
            if let Some(name) = &step.patch.name {
                self.record.steps[place].name.clone_from(name);
            }
        }
        for write in writes {
            self.attempt(row, write);
        }
        let task = &mut self.record.task;
        task.sweep_at = if task.lease_owner.is_some() {
            None
        } else {
            intents::sweep_at(&self.record.marks)
        };
        for StepBody {
            no,
            patch,
            output_gone,
            signal_gone,
        } in steps
        {
            let step = self.step(no);
            patch.apply(step);
            if signal_gone {
                step.signal = None;
            }
            if output_gone {
                self.give_output(no, None);
            }
        }
        for (no, output) in data.outputs {
            self.give_output(no, Some(output));
        }
        for (no, signal) in data.signals {
            self.step(no).signal = Some(signal);
        }
    }

    fn give_output(&mut self, no: StepNo, output: Option<Value>) {
        let before = std::mem::replace(&mut self.step(no).output, output);
        if let Some(past) = self.past.as_mut().filter(|_| before.is_some()) {
            past.replaced.push(no);
        }
    }

    fn place(&mut self, no: StepNo) -> usize {
        let steps = &mut self.record.steps;
        match steps.binary_search_by_key(&no, |step| step.no) {
            Ok(place) => place,
            Err(place) => {
                steps.insert(place, unknown_step(no));
                place
            }
        }
    }

    fn step(&mut self, no: StepNo) -> &mut StepRow {
        let place = self.place(no);
        &mut self.record.steps[place]
    }
}

/// The row of a task before its first change. Fields of a first change that are these are not
/// written.
pub(super) fn blank(task: TaskId) -> TaskRow {
    TaskRow {
        id: task,
        tenant: Tenant::default(),
        task_type: String::new(),
        version: 1,
        definition_hash: String::new(),
        status: TaskStatus::Submitted,
        waiting: None,
        host: Host::Worker,
        queue: String::new(),
        rev: Rev(0),
        epoch: Epoch(0),
        lease_owner: None,
        lease_expires_at: None,
        due_at: None,
        deadline_at: None,
        cancel_requested_at: None,
        goal: None,
        recovery_attempts: 0,
        audit_seq: AuditSeq(0),
        audit_seal: None,
        request: Value::Null,
        client_key: None,
        response: None,
        failure: None,
        residue: false,
        settled: None,
        earlier_requests: Vec::new(),
        traceparent: None,
        labels: Labels::new(),
        parent: None,
        webhook: None,
        place_key: None,
        place_no: None,
        created_at: DbTime(0),
        updated_at: DbTime(0),
        finished_at: None,
        sweep_at: None,
        change_id: ChangeId(Uuid::nil()),
    }
}

/// What an event implies of its step besides the state.
pub(super) fn begins(step: &mut StepRow, event: &str, seq: AuditSeq) {
    if event == "step_started" {
        step.started_seq.get_or_insert(seq);
    }
}

/// What the start of an attempt implies of its step.
pub(super) const fn starts(step: &mut StepRow, direction: Direction, attempt: Attempt) {
    match direction {
        Direction::Forward => step.attempts = attempt,
        Direction::Undo => step.undo_attempts = attempt,
    }
    step.attempt_open = true;
}

/// What the end of an attempt implies of its step.
pub(super) fn ends(step: &mut StepRow, error: Option<StepFailure>) {
    step.attempt_open = false;
    step.error = error;
}
