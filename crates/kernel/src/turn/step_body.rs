//! What runs in an attempt: the author's function, or what the engine does in its place. Decides nothing about what follows.

use crate::builtin::{FileSource, Upload, Work};
use crate::context::StepContext;
use crate::error::{StepError, StepResult};
use crate::scratch::scratch_files_in;
use crate::status::progress;
use crate::task::{Inputs, Run, StepCode, TaskType, output};
use counterstep_contracts::{Direction, StoredFile, StoredFiles, TaskId, UndoDecl};
use serde_json::Value;

/// What cannot be written exactly once is not written at all.
pub(super) fn may_write(
    task_type: &TaskType,
    at: usize,
    task: TaskId,
    direction: Direction,
    output: &Value,
) -> StepResult<()> {
    let refused = |why: &str| {
        Err(StepError::permanent(format_args!(
            "a step that writes to tables {why}"
        )))
    };
    if task_type.decl.steps[at].undo == UndoDecl::Pure {
        return refused("is not pure: take `#[pure]` away, and declare an undo or waive it");
    }
    if direction == Direction::Forward && !scratch_files_in(task, output).is_empty() {
        return refused(
            "makes no scratch file, whose loss would run it again: make two steps of it",
        );
    }
    if direction == Direction::Forward && task_type.steps[at].probe.is_some() {
        return refused("has no probe, which would complete it without them: make two steps of it");
    }
    Ok(())
}

pub(super) async fn forward(
    code: StepCode,
    context: &StepContext,
    inputs: &Inputs,
) -> StepResult<Value> {
    match code.run {
        Run::Custom(run) => run(context, inputs).await,
        Run::BuiltIn(evaluate) => match evaluate(inputs)? {
            // They come as values already, of a length that the request or a service decides.
            Work::Upload(what) => inputs.output(&Box::pin(upload(context, what)).await?),
            Work::Call(call) => inputs.output(&Box::pin(context.carry_out(call)).await?),
            // Decided where the next steps are decided; it never comes to an attempt.
            Work::Wait(_) => Err(StepError::permanent("a step that waits has nothing to run")),
        },
    }
}

pub(super) async fn undo(
    code: StepCode,
    context: &StepContext,
    own: Option<Value>,
    inputs: &Inputs,
) -> StepResult<Value> {
    if let Some(undo) = code.undo {
        undo(context, own, inputs).await?;
    } else {
        // A built-in step: everything that any of its attempts stored, half-done uploads too.
        Box::pin(context.objects().delete_all_of_step()).await?;
    }
    Ok(Value::Null)
}

/// Carries a built-in upload out.
async fn upload(context: &StepContext, upload: Upload) -> StepResult<Value> {
    let mut files = Vec::with_capacity(upload.sources.len());
    let total = upload
        .sources
        .iter()
        .map(|(source, _)| source.size_bytes())
        .sum();
    let mut before = 0;
    for (source, name) in &upload.sources {
        let name = name.as_ref().unwrap_or_else(|| source.name());
        files.push(store_one(context, &upload, source, name, before, total).await?);
        before += source.size_bytes();
    }
    if upload.many {
        return output(&StoredFiles(files));
    }
    output(
        &files
            .pop()
            .ok_or_else(|| StepError::permanent("an upload of one file was given none"))?,
    )
}

async fn store_one(
    context: &StepContext,
    upload: &Upload,
    source: &FileSource,
    name: &counterstep_contracts::FileName,
    before: u64,
    total: u64,
) -> StepResult<StoredFile> {
    let (body, sha256, own_type) = match source {
        FileSource::Scratch(file) => (
            context.read_scratch(file).await?,
            &file.sha256,
            "application/octet-stream",
        ),
        FileSource::Stored(file) => (
            context.objects().read(file).await?,
            &file.sha256,
            file.content_type.as_str(),
        ),
        FileSource::Request(file) => {
            return Err(StepError::permanent(format_args!(
                "`{}` is a file of the request, which is stored while the request arrives: upload it in a built-in \
                 step on the api host that reads nothing but the request",
                file.name
            )));
        }
    };
    let content_type = upload.content_type.as_deref().unwrap_or(own_type);
    let body = progress::counting(body, context.meter(), before, total);
    let stored = context
        .objects()
        .put(&upload.bucket, name, content_type, body)
        .await?;
    if &stored.sha256 != sha256 {
        return Err(StepError::transient(format_args!(
            "`{name}` changed while it was stored: its SHA-256 differs"
        )));
    }
    Ok(stored)
}
