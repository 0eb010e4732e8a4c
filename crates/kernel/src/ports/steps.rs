//! Where the code of task authors runs: apart from the engine, which goes on whatever that code
//! does to its thread.

use counterstep_contracts::{Attempt, TaskId};
use futures::future::BoxFuture;
use std::fmt::{self, Debug, Display};

/// Which code of a task's author this is, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLabel {
    /// Id of the task.
    pub task: TaskId,
    /// Name of the step.
    pub step: String,
    /// What of that step: `run`, `undo` or `probe`.
    pub part: &'static str,
    /// The attempt that it is, or that a probe asks about.
    pub attempt: Attempt,
}

impl Display for CodeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of step `{}` of task {}",
            self.part, self.step, self.task
        )
    }
}

/// Runs the code of steps, undos and probes.
pub trait StepRunner: Send + Sync + Debug {
    /// Starts `code`. The returned future ends when `code` has ended and is dropped; it has to be
    /// polled for `code` to go on where the runner has no threads of its own. Dropped, it drops
    /// `code`, at the next point where that waits.
    fn start(&self, label: CodeLabel, code: BoxFuture<'static, ()>) -> BoxFuture<'static, ()>;
}

/// Runs the code inside the turn that asks for it, on the turn's thread: for tests with one thread
/// and a time of their own. Code that blocks its thread blocks the engine here.
#[derive(Debug, Clone, Copy, Default)]
pub struct InTheTurn;

impl StepRunner for InTheTurn {
    fn start(&self, _: CodeLabel, code: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        code
    }
}
