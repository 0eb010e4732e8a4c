//! A change as its row in the journal. Must not decide what a change does.

use super::FORM;
use super::body::{AttemptBody, Body, Data, EventBody, LeaseBody, StepBody, Which};
use super::fold::{begins, blank, ends, starts};
use super::implied::Implied;
use super::patch::{StepPatch, TaskPatch, shift, unknown_step};
use crate::audit::{self, EntryHash, Facts};
use crate::change::transition::{AttemptWrite, LeaseChange, TaskWrite, Transition, Written};
use crate::digest::hex;
use crate::record::{AuditEntry, StepRow, TaskRecord, TaskRow};
use counterstep_contracts::{
    Attempt, ChangeId, Direction, Epoch, Outcome, Rev, StepNo, TaskStatus,
};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Events whose details say what a client, a step or an operator handed in: they go with the data.
const HANDED_IN: [&str; 4] = [
    "signal_received",
    "step_supplied",
    "step_scratch_lost",
    "quarantined",
];

impl Transition {
    /// With its row in the journal, as caused by `actor`; `before`: the task on which it was
    /// decided, `None` where there was none. To be called last: the row says what the change is by
    /// then.
    pub fn with_journal(mut self, before: Option<&TaskRecord>, actor: &str) -> Self {
        self.journal = write(before, actor, &self);
        self
    }
}

/// The row of a change that `actor` caused; `before`: the task on which it was decided, `None`
/// where there was none. `None` of a change that concerns no task yet: that leaves no row.
#[must_use]
fn write(before: Option<&TaskRecord>, actor: &str, change: &Transition) -> Option<Written> {
    let to = change.task.as_ref()?;
    let mut base = Base::of(before, &to.row);
    let mut body = Body::default();
    let mut data = Data::default();
    for (place, entry) in change.audit.iter().enumerate() {
        body.events.push(base.event(actor, entry, place == 0));
        if HANDED_IN.contains(&entry.event.as_str())
            && !entry.details.is_null()
            && let Some(event) = body.events.last_mut()
        {
            data.details
                .insert(place, std::mem::take(&mut event.details));
        }
    }
    attempts(&mut body, &mut base, change, to.row.epoch);
    body.task = TaskPatch::between(&base.task, &to.row);
    for step in &change.steps {
        let (base, before) = (base.step(step), before_of(before, step));
        let patch = StepPatch::between(base, step);
        let output = before.and_then(|before| before.output.as_ref());
        let signal = before.and_then(|before| before.signal.as_ref());
        let (output_gone, signal_gone) = (
            output.is_some() && step.output.is_none(),
            signal.is_some() && step.signal.is_none(),
        );
        if let Some(new) = step.output.as_ref().filter(|new| output != Some(new)) {
            data.outputs.insert(step.no, new.clone());
        }
        if let Some(new) = step.signal.as_ref().filter(|new| signal != Some(new)) {
            data.signals.insert(step.no, new.clone());
        }
        // A new task's steps are all there, also those of which nothing is to be said but their
        // name.
        if before.is_none() || !patch.is_empty() || output_gone || signal_gone {
            body.steps.push(StepBody {
                no: step.no,
                patch,
                output_gone,
                signal_gone,
            });
        }
    }
    times(&mut body, actor, to);
    match before {
        None => {
            data.request = Some(&to.row.request).filter(|new| !new.is_null()).cloned();
            data.client_key.clone_from(&to.row.client_key);
        }
        Some(before) => {
            let known = before.task.earlier_requests.len();
            let is_changed = to.row.earlier_requests.len() != known;
            data.request = is_changed.then(|| to.row.request.clone());
        }
    }
    let response = before.and_then(|before| before.task.response.as_ref());
    data.response = to.row.response.clone().filter(|new| response != Some(new));
    let tip = before
        .and_then(|before| before.task.audit_seal.clone())
        .unwrap_or_else(|| audit::origin(&change.task_id.to_string()));
    Some(bind(actor, &to.row, change.change_id, tip, body, &data))
}

/// The texts of a row, and its link; `tip`: the seal of the row before it.
pub(super) fn bind(
    actor: &str,
    row: &TaskRow,
    change_id: ChangeId,
    tip: EntryHash,
    mut body: Body,
    data: &Data,
) -> Written {
    let data = (*data != Data::default()).then(|| text(data));
    body.data = data.as_ref().map(|data| hex(&Sha256::digest(data)));
    let entries = text(&body);
    let (task, change_id) = (row.id.to_string(), change_id.to_string());
    let facts = Facts {
        task: &task,
        rev: row.rev.0,
        change_id: &change_id,
        epoch: row.epoch.0,
        actor,
        form: FORM.into(),
        entries: &entries,
    };
    let link = audit::link(&tip.0, &facts);
    Written {
        actor: actor.to_owned(),
        form: FORM,
        entries,
        data,
        before: tip,
        link,
        is_encrypted: false,
    }
}

fn before_of<'a>(before: Option<&'a TaskRecord>, step: &StepRow) -> Option<&'a StepRow> {
    before?.steps.iter().find(|before| before.no == step.no)
}

/// Attempts that start or succeed with an event stand there, as long as they keep their order so.
fn attempts(body: &mut Body, base: &mut Base, change: &Transition, epoch: Epoch) {
    let mut from = 0;
    for write in &change.attempts {
        let said = base.attempt(epoch, write);
        let place = (from..change.audit.len()).find(|&at| says(&change.audit[at], write));
        match place {
            Some(place) if body.attempts.is_empty() => {
                let event = &mut body.events[place];
                match said {
                    AttemptBody::Start { sweep_after, .. } => event.sweep_after = Some(sweep_after),
                    AttemptBody::End { kept, .. } => event.kept = Some(kept),
                    _ => {}
                }
                from = place + 1;
            }
            _ => body.attempts.push(said),
        }
    }
}

/// Whether an event implies all that is to be said of an attempt, but for its intent and what
/// becomes of its objects.
fn says(entry: &AuditEntry, write: &AttemptWrite) -> bool {
    let Some(implied) = Implied::by(&entry.event) else {
        return false;
    };
    let of = |step: &StepNo, attempt: &Attempt| {
        (entry.step, entry.attempt) == (Some(*step), Some(*attempt))
    };
    match write {
        AttemptWrite::Start {
            step,
            direction,
            attempt,
            epoch,
            ..
        } => {
            implied.starts
                && of(step, attempt)
                && (implied.direction, entry.epoch) == (*direction, *epoch)
        }
        AttemptWrite::End {
            step,
            direction,
            attempt,
            outcome: Outcome::Succeeded,
            error: None,
            ..
        } => !implied.starts && of(step, attempt) && implied.direction == *direction,
        _ => false,
    }
}

fn times(body: &mut Body, actor: &str, to: &TaskWrite) {
    body.lease = match &to.lease {
        LeaseChange::Keep => None,
        LeaseChange::Release => Some(None),
        LeaseChange::Take { owner, ttl } => Some(Some(LeaseBody {
            owner: (owner != actor).then(|| owner.clone()),
            ttl: micros(*ttl),
        })),
    };
    body.due = shift(to.due);
    body.deadline = shift(to.deadline);
    body.cancel_requested = shift(to.cancel_requested);
    body.finished = shift(to.finished);
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// JSON of what has text keys only: it cannot fail.
fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What the task is once events and attempts were applied, as [`Fold`](super::Fold) applies them:
/// what it is besides has to be said. Without the values that clients and steps handed in.
struct Base {
    is_new: bool,
    epoch: Epoch,
    task: TaskRow,
    steps: Vec<StepRow>,
}

impl Base {
    fn of(before: Option<&TaskRecord>, to: &TaskRow) -> Self {
        let Some(before) = before else {
            return Self {
                is_new: true,
                epoch: to.epoch,
                task: TaskRow {
                    rev: Rev(0),
                    ..blank(to.id)
                },
                steps: Vec::new(),
            };
        };
        let from = &before.task;
        let task = TaskRow {
            tenant: from.tenant.clone(),
            task_type: from.task_type.clone(),
            version: from.version,
            definition_hash: from.definition_hash.clone(),
            traceparent: from.traceparent.clone(),
            status: from.status,
            waiting: from.waiting,
            host: from.host,
            queue: from.queue.clone(),
            goal: from.goal,
            recovery_attempts: from.recovery_attempts,
            audit_seq: from.audit_seq,
            failure: from.failure.clone(),
            residue: from.residue,
            settled: from.settled,
            parent: from.parent,
            webhook: from.webhook.clone(),
            place_key: from.place_key.clone(),
            place_no: from.place_no,
            rev: from.rev,
            ..blank(to.id)
        };
        let light = |step: &StepRow| StepRow {
            name: step.name.clone(),
            error: step.error.clone(),
            output: None,
            signal: None,
            ..*step
        };
        Self {
            is_new: false,
            epoch: to.epoch,
            task,
            steps: before.steps.iter().map(light).collect(),
        }
    }

    fn step(&mut self, step: &StepRow) -> &mut StepRow {
        let place = match self.steps.binary_search_by_key(&step.no, |step| step.no) {
            Ok(place) => place,
            Err(place) => {
                self.steps.insert(place, unknown_step(step.no));
                place
            }
        };
        &mut self.steps[place]
    }

    /// The first event of a row says where it begins, so that a check sees a task that was changed
    /// in between.
    fn event(&mut self, actor: &str, entry: &AuditEntry, first: bool) -> EventBody {
        let before = (!self.is_new || self.task.audit_seq.0 != 0).then_some(self.task.status);
        let seq = self.task.audit_seq.next();
        let to: TaskStatus = entry.to;
        let mut body = EventBody {
            event: entry.event.clone(),
            seq: (first || entry.seq != seq).then_some(entry.seq),
            from: (first || entry.from != before).then_some(entry.from),
            to: (to != self.task.status).then_some(to),
            step: entry.step,
            step_from: None,
            step_to: None,
            attempt: None,
            sweep_after: None,
            kept: None,
            epoch: (entry.epoch != self.epoch).then_some(entry.epoch),
            actor: (entry.actor != actor).then(|| entry.actor.clone()),
            details: entry.details.clone(),
        };
        (self.task.audit_seq, self.task.status) = (entry.seq, to);
        let implied = entry.step.zip(Implied::by(&entry.event));
        let attempt = implied.map(|(no, implied)| implied.attempt(self.step(&unknown_step(no))));
        body.attempt = (entry.attempt != attempt).then_some(entry.attempt);
        body.step_to =
            (entry.step_to != implied.map(|(_, implied)| implied.to)).then_some(entry.step_to);
        let step_before = entry.step.zip(entry.step_to).map(|(no, to)| {
            let step = self.step(&unknown_step(no));
            begins(step, &entry.event, entry.seq);
            std::mem::replace(&mut step.status, to)
        });
        body.step_from = (entry.step_from != step_before).then_some(entry.step_from);
        body
    }

    fn attempt(&mut self, row: Epoch, write: &AttemptWrite) -> AttemptBody {
        match write {
            AttemptWrite::Start {
                step,
                direction,
                attempt,
                epoch,
                sweep_after,
            } => {
                starts(self.step(&unknown_step(*step)), *direction, *attempt);
                AttemptBody::Start {
                    which: Which {
                        step: *step,
                        attempt: *attempt,
                        direction: *direction,
                    },
                    sweep_after: micros(*sweep_after),
                    epoch: (*epoch != row).then_some(*epoch),
                }
            }
            AttemptWrite::End {
                step,
                direction,
                attempt,
                outcome,
                error,
                kept,
            } => {
                let which = Which {
                    step: *step,
                    attempt: *attempt,
                    direction: *direction,
                };
                let known = self.step(&unknown_step(*step));
                if known.last_attempt(*direction) < *attempt {
                    // An upload: it was received before there was a journal.
                    starts(known, *direction, *attempt);
                }
                ends(known, error.clone());
                AttemptBody::End {
                    which,
                    outcome: *outcome,
                    error: error.clone(),
                    kept: *kept,
                }
            }
            AttemptWrite::Keep { step, attempt } => AttemptBody::Keep(Which {
                step: *step,
                attempt: *attempt,
                direction: Direction::Forward,
            }),
            AttemptWrite::Release { step } => AttemptBody::Release { step: *step },
            AttemptWrite::Condemn {
                step,
                direction,
                attempt,
            } => AttemptBody::Condemn(Which {
                step: *step,
                attempt: *attempt,
                direction: *direction,
            }),
            AttemptWrite::Swept {
                step,
                direction,
                attempt,
            } => AttemptBody::Swept(Which {
                step: *step,
                attempt: *attempt,
                direction: *direction,
            }),
        }
    }
}
