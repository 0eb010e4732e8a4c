//! What the events and the attempts of a row do to the task that is read back. Applies what they
//! record; must not ask the judge.

use super::{Fold, JournalRow, begins, ends, starts};
use crate::change::intents;
use crate::change::transition::AttemptWrite;
use crate::context::Execution;
use crate::journal::body::{EventBody, Which};
use crate::journal::implied::Implied;
use crate::journal::{IMPLIES, LABELS, PARENT_UNDONE, SUBMITTED};
use crate::record::{AttemptRow, AuditEntry, AuditRow};
use counterstep_contracts::{AuditSeq, Epoch, Labels, Outcome, Rev};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

impl Fold {
    /// Returns what it says of an attempt.
    pub(super) fn event(
        &mut self,
        row: &JournalRow,
        event: EventBody,
        handed_in: Option<Value>,
    ) -> Option<AttemptWrite> {
        let task = &mut self.record.task;
        let seq = event.seq.unwrap_or(task.audit_seq.next());
        let before = (row.rev != Rev(1) || task.audit_seq != AuditSeq(0)).then_some(task.status);
        let to = event.to.unwrap_or(task.status);
        (task.audit_seq, task.status) = (seq, to);
        if event.event == SUBMITTED
            && let Some(labels) = event.details.get(LABELS)
        {
            task.labels = Labels::deserialize(labels).unwrap_or_default();
        }
        if event.event == PARENT_UNDONE {
            task.response = None;
        }
        let implied = event
            .step
            .zip(Implied::by(&event.event))
            .filter(|_| row.form >= IMPLIES);
        let attempt = event
            .attempt
            .unwrap_or_else(|| implied.map(|(no, implied)| implied.attempt(self.step(no))));
        let step_to = event
            .step_to
            .unwrap_or(implied.map(|(_, implied)| implied.to));
        let step_before = event.step.zip(step_to).map(|(no, to)| {
            let step = self.step(no);
            begins(step, &event.event, seq);
            std::mem::replace(&mut step.status, to)
        });
        let epoch = event.epoch.unwrap_or(row.epoch);
        let write = implied.zip(attempt).and_then(
            |(
                (
                    step,
                    Implied {
                        direction, starts, ..
                    },
                ),
                attempt,
            )| {
                if starts {
                    let sweep_after = Duration::from_micros(event.sweep_after?);
                    return Some(AttemptWrite::Start {
                        step,
                        direction,
                        attempt,
                        epoch,
                        sweep_after,
                    });
                }
                let (outcome, error, kept) = (Outcome::Succeeded, None, event.kept?);
                Some(AttemptWrite::End {
                    step,
                    direction,
                    attempt,
                    outcome,
                    error,
                    kept,
                })
            },
        );
        let Some(past) = &mut self.past else {
            return write;
        };
        past.audit.push(AuditRow {
            seq,
            change_id: row.change_id,
            at: row.at,
            seal: row.seal.clone(),
            entry: AuditEntry {
                seq,
                event: event.event,
                from: event.from.unwrap_or(before),
                to,
                step: event.step,
                step_from: event.step_from.unwrap_or(step_before),
                step_to,
                attempt,
                epoch,
                actor: event.actor.unwrap_or_else(|| row.actor.clone()),
                details: handed_in.unwrap_or(event.details),
            },
        });
        write
    }

    pub(super) fn attempt(&mut self, row: &JournalRow, write: AttemptWrite) {
        intents::apply(&mut self.record.marks, &write, row.at);
        match write {
            AttemptWrite::Start {
                step,
                direction,
                attempt,
                epoch,
                ..
            } => {
                self.start(
                    row,
                    Which {
                        step,
                        attempt,
                        direction,
                    },
                    epoch,
                );
            }
            AttemptWrite::End {
                step,
                direction,
                attempt,
                outcome,
                error,
                ..
            } => {
                let which = Which {
                    step,
                    attempt,
                    direction,
                };
                if self.find(which).is_none() {
                    // An upload: it was received before there was a journal.
                    self.start(row, which, Epoch(0));
                }
                ends(self.step(step), error.clone());
                let Some(found) = self.find(which) else {
                    return;
                };
                (found.outcome, found.error, found.ended_at) = (Some(outcome), error, Some(row.at));
            }
            AttemptWrite::Keep { .. }
            | AttemptWrite::Release { .. }
            | AttemptWrite::Condemn { .. }
            | AttemptWrite::Swept { .. } => {}
        }
    }

    fn start(&mut self, row: &JournalRow, which: Which, epoch: Epoch) {
        let Which {
            step,
            attempt,
            direction,
        } = which;
        starts(self.step(step), direction, attempt);
        let name = self.step(step).name.clone();
        let (tenant, task) = (self.record.task.tenant.clone(), self.record.task.id);
        let prefix = Execution {
            tenant,
            task,
            step: name,
            direction,
            attempt,
            epoch,
        }
        .prefix();
        self.attempts.push(AttemptRow {
            step,
            direction,
            attempt,
            epoch,
            prefix,
            outcome: None,
            error: None,
            started_at: row.at,
            ended_at: None,
            change_id: row.change_id,
        });
    }

    fn find(&mut self, which: Which) -> Option<&mut AttemptRow> {
        let Which {
            step,
            attempt,
            direction,
        } = which;
        let is = |row: &&mut AttemptRow| {
            (row.step, row.direction, row.attempt) == (step, direction, attempt)
        };
        self.attempts.iter_mut().rfind(is)
    }
}
