//! The first change of a task that runs another one again: the outputs of the steps before the point from which
//! it runs are its own from then on.

use super::{Draft, Note};
use crate::change::transition::{AttemptWrite, ObjectsFate};
use crate::saga::{Illegal, LifecycleEvent, Operator, StepEvent};
use counterstep_contracts::{Attempt, Direction, Outcome};
use serde_json::Value;

/// What a task is that runs another one again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Again {
    /// Why, for the audit: who has it run, of which task, from where.
    pub(crate) details: Value,
    /// The steps before the point from which it runs, in order.
    pub(crate) kept: Vec<KeptStep>,
}

/// A step that the other task had behind it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptStep {
    /// Its position in the declaration.
    pub(crate) at: usize,
    /// Its output; `None`: it was skipped.
    pub(crate) output: Option<Value>,
    /// There are copies of its files, for which a receive stands.
    pub(crate) has_files: bool,
}

impl Draft {
    /// Its task runs another one again.
    pub(crate) fn set_again(&mut self, again: Again) {
        self.again = Some(again);
    }

    pub(super) fn keep_steps(&mut self) -> Result<(), Illegal> {
        let Some(Again { details, kept }) = self.again.take() else {
            return Ok(());
        };
        self.apply(
            LifecycleEvent::Operator(Operator::RunAgain),
            Note::default().with(details),
        )?;
        for step in kept {
            self.keep_step(step)?;
        }
        Ok(())
    }

    fn keep_step(&mut self, step: KeptStep) -> Result<(), Illegal> {
        let KeptStep {
            at,
            output,
            has_files,
        } = step;
        let Some(output) = output else {
            return self.skip_step(at);
        };
        self.step_mut(at).kept = true;
        self.apply(StepEvent::Kept.at(at), Note::default())?;
        self.step_mut(at).output = Some(output);
        if has_files {
            self.attempts.takes_receive = true;
            let attempt = Attempt(1);
            let row = self.step_mut(at);
            row.attempts = attempt;
            let step = row.no;
            // As that of an upload, which has no start in the journal: its files came first.
            self.attempts.push(
                &mut self.record,
                AttemptWrite::End {
                    step,
                    direction: Direction::Forward,
                    attempt,
                    outcome: Outcome::Succeeded,
                    error: None,
                    kept: ObjectsFate::Output,
                },
            );
        }
        Ok(())
    }
}
