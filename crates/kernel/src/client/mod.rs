//! What clients ask of the engine: submit, cancel, look. Each is a change of the task, or a look at it.

mod abandoned;
mod batch;
mod cancel;
mod idempotency;
mod inline_steps;
mod intake;
mod prepared;
pub mod request_edit;
mod run_again;
mod signal;
mod submission;
mod texts;
mod upload_session;

pub(crate) use abandoned::{AbandonedKeys, free_keys};
pub use batch::{BatchItem, submit_all};
pub(crate) use cancel::cancel_for;
pub use cancel::{Cancelled, Refusal, accept_cancel, cancel};
pub use intake::take;
pub use prepared::{Preparation, Prepared, prepare};
pub(crate) use run_again::is_erased;
#[cfg(test)]
pub(crate) use run_again::steps_behind;
pub(crate) use run_again::would_run_again;
pub use run_again::{AgainError, CannotKeep, RunAgain, again_request, again_type, run_again};
pub use signal::{SignalRefusal, accept_signal, signal};
pub use submission::{Submission, SubmitError, Submitted, TooManyAtOnce};
pub use upload_session::{Firing, UploadSession};

use crate::builtin::{FileSource, Upload, Work};
use crate::engine::Engine;
use crate::error::StepError;
use crate::task::{REQUEST, Run, TaskType, guarded};
use counterstep_contracts::Host;
use serde_json::Value;
use std::collections::BTreeMap;

/// The upload steps that a request carries out itself: the built-in steps on the api host at the
/// head of the declaration that read nothing but the request. Later ones run like any step.
///
/// # Errors
/// As the step's function says.
pub(crate) fn request_uploads(
    engine: &Engine,
    task_type: &TaskType,
    request: &Value,
) -> Result<Vec<(usize, Upload)>, StepError> {
    let inputs = engine.inputs(request.clone(), BTreeMap::new());
    let mut uploads = Vec::new();
    for (at, (decl, code)) in task_type.decl.steps.iter().zip(task_type.steps).enumerate() {
        let Run::BuiltIn(evaluate) = code.run else {
            break;
        };
        if decl.host != Host::Api
            || decl.waits.is_some()
            || decl.when.is_some()
            || decl.inputs.iter().any(|input| input.source != REQUEST)
        {
            break;
        }
        let Work::Upload(upload) = guarded(decl.name, || evaluate(&inputs))? else {
            break;
        };
        if !upload
            .sources
            .iter()
            .all(|(source, _)| matches!(source, FileSource::Request(_)))
        {
            break;
        }
        uploads.push((at, upload));
    }
    Ok(uploads)
}
