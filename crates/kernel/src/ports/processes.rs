//! Where the code of steps runs that have a process of their own: apart from the process that runs the
//! task, which loses nothing with it.

use counterstep_steps::task::{Inputs, TaskType};
use counterstep_steps::{StepContext, StepResult};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// Which function of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodePart {
    /// The step.
    Run,
    /// What runs in its place once it has given up.
    Fallback,
    /// Its undo.
    Undo,
    /// Its probe.
    Probe,
}

/// Code that is to run in a process of its own.
#[derive(Debug)]
pub struct IsolatedCode {
    /// Of this type.
    pub task_type: TaskType,
    /// Of the step at this place of the declaration.
    pub at: usize,
    /// Which function.
    pub part: CodePart,
    /// What it reads.
    pub inputs: Inputs,
    /// For an undo, the output of its step.
    pub own_output: Option<Value>,
    /// What it sees, and what it does through that: what the process does counts as done here.
    pub context: Arc<StepContext>,
}

/// Runs code in processes of its own.
pub trait StepProcesses: Send + Sync + Debug {
    /// Runs it to its end: gives the output of a step, `null` of an undo, what a probe has found. A
    /// process that ends before its code has is a transient error that says how it ended. Dropped, it
    /// ends the process, and all that the process has started, at once.
    fn run(&self, code: IsolatedCode) -> BoxFuture<'static, StepResult<Value>>;
}
