//! The end of a task for a newer one of its key.

use crate::change::{Author, ChangeError};
use crate::engine::Engine;
use crate::ports::Signal;
use crate::record::Failure;
use counterstep_contracts::cause::FailureClass;
use counterstep_contracts::{Direction, TaskId, TaskStatus};
use serde_json::json;

/// Asks a task to cancel, since this newer one takes its place. One that has ended meanwhile, is asked already, or
/// cannot be read is left alone: the newer one must not wait for it to be repaired.
///
/// # Errors
/// As any change of a task.
pub(crate) async fn give_way(engine: &Engine, task: TaskId, by: TaskId) -> Result<(), ChangeError> {
    let record = match engine.ports.store.load(task).await {
        Err(error) if !error.may_pass() => {
            tracing::warn!(%task, %by, %error, "a task that cannot be read holds its place until it is parked");
            return Ok(());
        }
        record => record?,
    };
    let Some(record) = record else {
        return Ok(());
    };
    let Some(task_type) = engine.registry.of(&*record.task) else {
        tracing::warn!(%task, %by, "a task of another version is left to end by itself, and holds its place until then");
        return Ok(());
    };
    let actor = format!("task {by}");
    let changed = engine.change(Author::anyone(&actor), &task_type, record, |draft| {
        let goes_forward = matches!(
            draft.status(),
            TaskStatus::Submitted
                | TaskStatus::Dispatched
                | TaskStatus::Waiting
                | TaskStatus::Running
        );
        if !goes_forward || draft.is_cancel_requested() {
            return Ok(false);
        }
        let stopping = draft.cancel(None)?;
        draft.add_detail("replaced_by", json!(by));
        draft.task_mut().failure = Some(Failure {
            class: FailureClass::Replaced.as_str().to_owned(),
            message: format!(
                "task {by}, which was submitted later with the same key, has its place"
            ),
            side: Some(Direction::Forward),
            ..Failure::default()
        });
        Ok(stopping)
    });
    if changed.await?.answer {
        engine.ports.signals.send(Signal::CancelRequested(task));
    }
    Ok(())
}
