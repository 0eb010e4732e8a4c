//! A task type as the engine sees it: a declaration (data) and its code (function pointers), both
//! written by `#[distributed_task]`. Knows nothing of states or rows.

use super::inputs::{Inputs, REQUEST};
use super::request::{ReadOutputFn, ReadRequestFn};
use crate::builtin::{BuiltInStep, UploadMany, UploadOne, Work};
use crate::context::StepContext;
use crate::error::{CaughtPanic, StepError, StepResult, UndoResult};
use crate::state::StateParameter;
use counterstep_contracts::{Host, TaskDecl};
use futures::future::BoxFuture;
use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Implemented by `#[distributed_task]` for the type it is written on.
pub trait DistributedTask: Send + Sync + 'static {
    /// What a client sends.
    type Request: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What a client gets once the task has completed.
    type Response: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Its declared name.
    const NAME: &'static str;

    /// Declaration and code.
    fn task_type() -> TaskType;
}

/// The code of a custom step.
pub type RunFn = for<'a> fn(&'a StepContext, &'a Inputs) -> BoxFuture<'a, StepResult<Value>>;
/// The evaluation of a built-in step.
pub type BuiltInFn = fn(&Inputs) -> StepResult<Work>;
/// The code of an undo. `None`: the step started and its output is unknown.
pub type UndoFn =
    for<'a> fn(&'a StepContext, Option<Value>, &'a Inputs) -> BoxFuture<'a, UndoResult>;
/// The condition of a step.
pub type WhenFn = fn(&Inputs) -> StepResult<bool>;
/// The code of a probe.
pub type ProbeFn =
    for<'a> fn(&'a StepContext, &'a Inputs) -> BoxFuture<'a, StepResult<Probe<Value>>>;
/// Makes the response of the outputs.
pub type RespondFn = fn(&Inputs) -> StepResult<Value>;
/// Makes labels of the request: names and values.
pub type LabelsFn = fn(&Inputs) -> StepResult<Vec<(&'static str, String)>>;
/// Makes the key of the request by which tasks are counted together.
pub type KeyFn = fn(&Inputs) -> StepResult<String>;
/// Makes the JSON schema of a type, with those that it refers to in the generator.
pub type SchemaFn = fn(&mut SchemaGenerator) -> Schema;
/// What a probe found out about a step whose last attempt is in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe<Out> {
    /// It took effect, and this is its output. Going forward the step is completed with it; an undo
    /// gets it.
    Done(Out),
    /// It did not take effect, and nothing of it is left. Going forward the step runs again; there
    /// is nothing to undo.
    NothingHappened,
    /// It cannot be told. The step runs again, or is undone without its output: as without a probe.
    Unknown,
}

/// What a step runs.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// The author's function.
    Custom(RunFn),
    /// The engine, after this says what.
    BuiltIn(BuiltInFn),
}

/// A step's code. Row `n` belongs to row `n` of the declaration's steps.
#[derive(Debug, Clone, Copy)]
pub struct StepCode {
    /// Forward.
    pub run: Run,
    /// Backward, where the author wrote it; a built-in step has its own otherwise.
    pub undo: Option<UndoFn>,
    /// Whether to run at all.
    pub when: Option<WhenFn>,
    /// In place of a run that gave up.
    pub fallback: Option<RunFn>,
    /// Checks the body of the signal that it waits for.
    pub signal: Option<ReadRequestFn>,
    /// Finds out how far an attempt in doubt came, where the author wrote it.
    pub probe: Option<ProbeFn>,
    /// Checks an output that a person supplies, and gives it its canonical form.
    pub read_output: ReadOutputFn,
    /// The schema of its output, where the type has one.
    pub output_schema: Option<SchemaFn>,
}

/// A task type: declaration and code.
#[derive(Debug, Clone, Copy)]
pub struct TaskType {
    /// The declaration.
    pub decl: &'static TaskDecl,
    /// The code, row by row.
    pub steps: &'static [StepCode],
    /// Makes the response.
    pub respond: RespondFn,
    /// Checks a request.
    pub read_request: ReadRequestFn,
    /// Makes its labels, where it declares some.
    pub labels: Option<LabelsFn>,
    /// Makes its key, where it declares one.
    pub key: Option<KeyFn>,
    /// The schema of its request, where the type has one.
    pub request_schema: Option<SchemaFn>,
    /// The schema of its response, where the type has one.
    pub response_schema: Option<SchemaFn>,
    /// What its code takes of the program.
    pub states: &'static [StateParameter],
}

impl TaskType {
    /// Whether its tasks begin with an upload that their request carries out.
    #[must_use]
    pub fn begins_with_uploads(&self) -> bool {
        let (Some(decl), Some(code)) = (self.decl.steps.first(), self.steps.first()) else {
            return false;
        };
        let uploads = [UploadMany::OUTPUT, UploadOne::OUTPUT].contains(&decl.output)
            && matches!(code.run, Run::BuiltIn(_));
        uploads && decl.host == Host::Api && decl.inputs.iter().all(|input| input.source == REQUEST)
    }
}

/// Calls code of a declaration that is not awaited (a condition, a response, a built-in step's
/// function) with a net under panics: one of them must not take a decision, or a request, with it.
///
/// # Errors
/// Those of the code; [`ErrorClass::Panicked`](crate::ErrorClass::Panicked) where it panicked.
pub fn guarded<T>(what: &str, call: impl FnOnce() -> StepResult<T>) -> StepResult<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(StepError::panicked(what, CaughtPanic::of(panic.as_ref()))))
}
