//! What metrics count of changes of tasks, of answers to requests and of attempts. Must not decide anything.

use crate::change::transition::Transition;
use crate::engine::Engine;
use crate::ports::{Observation, SubmissionOutcome};
use crate::record::DbTime;
use crate::task::TaskType;
use counterstep_contracts::{Direction, Outcome, TaskStatus};
use std::time::Duration;

impl Engine {
    /// Counts an observation of this process.
    pub fn observe(&self, observation: Observation<'_>) {
        self.recorder.record(observation);
    }

    /// Counts a client's request by its answer. For those that take requests: what only they refuse is
    /// counted too. One that is accepted is counted by the change that makes its task.
    pub fn observe_answer(&self, task_type: &TaskType, outcome: SubmissionOutcome) {
        if outcome != SubmissionOutcome::Accepted {
            let task_type = task_type.decl.name;
            self.observe(Observation::Submission { task_type, outcome });
        }
    }
}

/// Of a change that was committed at `at`.
pub(crate) fn change(engine: &Engine, transition: &Transition, at: DbTime) {
    let Some(write) = &transition.task else {
        return;
    };
    let (row, mut is_new) = (&write.row, false);
    let task_type = row.task_type.as_str();
    for entry in &transition.audit {
        if entry.from.is_none() {
            is_new = true;
            let outcome = SubmissionOutcome::Accepted;
            engine.observe(Observation::Submission { task_type, outcome });
        }
        if entry.from == Some(entry.to) {
            continue;
        }
        if entry.to == TaskStatus::Compensating {
            engine.observe(Observation::Undo { task_type });
        } else if entry.to.is_at_rest() {
            engine.observe(Observation::Rest {
                task_type,
                status: entry.to,
                labels: &row.labels,
                // The row of a new task has no times before it is written.
                after: if is_new {
                    Duration::ZERO
                } else {
                    at.after(row.created_at)
                },
            });
        }
    }
}

/// Of an attempt that has ended, with an error or without, perhaps in doubt.
pub(crate) fn attempt(
    engine: &Engine,
    task_type: &TaskType,
    at: usize,
    direction: Direction,
    outcome: Outcome,
    took: Duration,
) {
    engine.observe(Observation::Attempt {
        task_type: task_type.decl.name,
        step: task_type.decl.steps[at].name,
        direction,
        outcome,
        took,
    });
}
