//! Tasks below a case: one step that takes effect, and one behind it that may give up.

use super::moves::ChildMove;
use super::small::{Broken, HOUR, committed, new_task};
use crate::children::stop_one;
use crate::draft::{Decision, Draft};
use crate::error::StepError;
use crate::plan::failure_of;
use crate::record::{DbTime, TaskRecord};
use crate::saga::Illegal;
use counterstep_contracts::{
    OnExhausted, ParentRef, Settled, SettledAs, StepStatus, TaskDecl, TaskStatus,
};
use counterstep_steps::{ChildFailure, ChildOutcome};
use serde_json::Value;
use std::time::Duration;

pub(super) use crate::children::Stop;

/// A task that a step has submitted.
#[derive(Debug)]
pub(super) struct Child {
    decl: &'static TaskDecl,
    /// The position of the step that has submitted it.
    pub(super) of: usize,
    pub(super) record: TaskRecord,
    /// What it did stands.
    pub(super) has_acted: bool,
}

impl Child {
    pub(super) fn submitted(
        decl: &'static TaskDecl,
        of: usize,
        parent: ParentRef,
        now: DbTime,
    ) -> Result<Self, Broken> {
        let new = new_task(u128::from(parent.no) + 100, 0, Some(parent));
        let mut draft = Draft::of_submission(decl, new, "case");
        draft.submit(Vec::new(), |_| Value::Null)?;
        let mut record = committed(&draft);
        record.now = now;
        Ok(Self {
            decl,
            of,
            record,
            has_acted: false,
        })
    }

    pub(super) fn status(&self) -> TaskStatus {
        self.record.task.status
    }

    /// Its number among those of the step.
    pub(super) fn no(&self) -> u32 {
        self.record.task.parent.map_or(0, |parent| parent.no)
    }

    /// How it has ended.
    pub(super) fn outcome(&self) -> ChildOutcome<Value> {
        if self.status() == TaskStatus::Completed {
            return ChildOutcome::Completed(Value::Null);
        }
        ChildOutcome::Failed(ChildFailure {
            task: self.record.task.id,
            status: self.status(),
            class: None,
            message: None,
        })
    }

    /// The moves that are possible now; first those that need no operator.
    pub(super) fn moves(&self) -> &'static [ChildMove] {
        use ChildMove::{Begins, Completes, Fails, Parks, Settled, UndoFails, Undoes};
        match self.status() {
            TaskStatus::Running if self.record.task.cancel_requested_at.is_some() => &[Undoes],
            TaskStatus::Running => &[Completes, Fails, Parks],
            TaskStatus::Dispatched => &[Begins, Completes, Fails, Parks],
            TaskStatus::Compensating => &[Undoes, UndoFails],
            TaskStatus::DeadLettered | TaskStatus::CompensationFailed => &[
                Undoes,
                Settled(SettledAs::Done),
                Settled(SettledAs::Undone),
                Settled(SettledAs::Skipped),
            ],
            _ => &[],
        }
    }

    /// It is told to stop, or is undone.
    pub(super) fn stop(&mut self, how: Stop) -> Result<(), Broken> {
        self.change(|draft| stop_one(draft, how).map(drop))
    }

    pub(super) fn goes(&mut self, goes: ChildMove) -> Result<(), Broken> {
        if self.status() == TaskStatus::Dispatched {
            self.change(|draft| {
                draft.claim("child", HOUR)?;
                draft.start_step(0, Duration::ZERO).map(drop)
            })?;
        }
        match goes {
            ChildMove::Begins => Ok(()),
            ChildMove::Completes => {
                self.has_acted = true;
                self.change(|draft| {
                    succeeds(draft, 0)?;
                    draft.start_step(1, Duration::ZERO)?;
                    succeeds(draft, 1)?;
                    draft.complete(Value::Null)
                })
            }
            ChildMove::Fails => self.change(|draft| {
                let error = StepError::permanent("fails");
                draft.step_failed(0, &error)?;
                draft.give_up(failure_of("a", &error), OnExhausted::Compensate)?;
                undo(draft)
            }),
            ChildMove::Parks => {
                self.has_acted = true;
                self.change(|draft| {
                    succeeds(draft, 0)?;
                    draft.start_step(1, Duration::ZERO)?;
                    let error = StepError::permanent("fails");
                    draft.step_failed(1, &error)?;
                    draft.give_up(failure_of("b", &error), OnExhausted::DeadLetter)
                })
            }
            ChildMove::Undoes => {
                self.change(turn)?;
                self.has_acted = false;
                self.change(undo)
            }
            ChildMove::UndoFails => self.change(|draft| {
                draft.claim("child", HOUR)?;
                draft.start_undo(0, Duration::ZERO)?;
                draft.undo_failed(0, &StepError::permanent("fails"))?;
                draft.finish_undo()
            }),
            ChildMove::Settled(settled) => self.settled(settled),
        }
    }

    fn settled(&mut self, settled: SettledAs) -> Result<(), Broken> {
        // Of an undo that gave up, it was the undo that was done.
        let is_undo = self.status() == TaskStatus::CompensationFailed;
        let undone = settled == SettledAs::Undone || is_undo && settled == SettledAs::Done;
        self.has_acted &= !undone;
        self.change(|draft| {
            let settled = Settled {
                settled,
                task: None,
            };
            draft.resolve_task(settled, &decision())
        })
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut Draft) -> Result<(), Illegal>,
    ) -> Result<(), Broken> {
        let mut draft = Draft::new(self.decl, self.record.clone(), "child");
        change(&mut draft)?;
        self.record = committed(&draft);
        Ok(())
    }
}

/// Why a person decides.
pub(super) fn decision() -> Decision {
    Decision {
        note: "test".to_owned(),
        bulk: None,
    }
}

fn succeeds(draft: &mut Draft, at: usize) -> Result<(), Illegal> {
    draft.step_succeeded(at, Value::Null, false)
}

/// Brings the task to where its undo begins.
fn turn(draft: &mut Draft) -> Result<(), Illegal> {
    match draft.status() {
        TaskStatus::Running => {
            draft.step_failed(0, &StepError::cancelled())?;
            draft.stop()
        }
        TaskStatus::DeadLettered => draft.undo_parked(&decision()),
        TaskStatus::CompensationFailed => draft.retry_undo(&decision()),
        _ => Ok(()),
    }
}

fn undo(draft: &mut Draft) -> Result<(), Illegal> {
    if draft.status() != TaskStatus::Compensating {
        return Ok(());
    }
    if draft.step(0).status != StepStatus::Compensated {
        draft.start_undo(0, Duration::ZERO)?;
        draft.undo_succeeded(0, false)?;
    }
    draft.finish_undo()
}
