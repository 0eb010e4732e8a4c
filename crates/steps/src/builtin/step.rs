//! What makes a type a built-in step.

use super::work::Work;
use crate::task::ReadRequestFn;
use counterstep_contracts::{UndoDecl, WaitDecl};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A step whose work the engine does.
///
/// Sealed in effect: the engine only knows how to do what a [`Work`] can say.
#[diagnostic::on_unimplemented(
    message = "CS0043: `{Self}` is no built-in step",
    label = "expected `UploadMany`, `UploadOne`, `Sleep`, `AwaitSignal`, `MaybeSignal`, `AwaitTask`, `ForEach`, `EachOutcome`, `Branches` or `HttpCall`",
    note = "a plain `fn` says what the engine is to do; a step with code of its own is an `async fn` that returns \
            `StepResult<Output>`"
)]
pub trait BuiltInStep {
    /// What the step gives to later steps.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Its name for the declaration, where the author does not write it.
    const OUTPUT: &'static str;
    /// What it waits for, where it is one of those that wait.
    const WAITS: Option<WaitDecl> = None;
    /// How it is undone where the declaration says nothing.
    const UNDO: UndoDecl = UndoDecl::BuiltIn;
    /// Whether it may say nothing of an undo, because [`UNDO`](Self::UNDO) holds then.
    const UNDONE_BY_THE_ENGINE: bool = true;
    /// Checks the body of a signal, where it waits for one.
    const READ_SIGNAL: Option<ReadRequestFn> = None;

    /// The work, as data.
    fn into_work(self) -> Work;
}
