//! The tasks of a step are told to stop, and undone where the step is. Each is changed by itself, and
//! as often as it takes: what was done before is found done.

use super::look::PAGE;
use crate::change::{Author, ChangeError};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::ports::{ChildQuery, Signal, StoreError};
use crate::record::{StepRow, TaskRecord};
use crate::saga::Illegal;
use counterstep_contracts::{TaskId, TaskStatus};
use futures::{StreamExt, stream};

/// Maximum number of tasks that get the stop request at a time.
const AT_ONCE: usize = 8;

/// How far it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Those that have not ended stop.
    Running,
    /// Those that have completed are undone, too.
    All,
}

/// Tells the tasks of a step to stop. `false`: not all could be told.
pub(crate) async fn stop(engine: &Engine, record: &TaskRecord, row: &StepRow, how: Stop) -> bool {
    match tell(engine, record, row, how).await {
        Ok(all_told) => all_told,
        Err(error) => {
            tracing::warn!(task = %record.task.id, step = row.name, %error, "the tasks of a step could not be listed to be stopped");
            false
        }
    }
}

async fn tell(
    engine: &Engine,
    record: &TaskRecord,
    row: &StepRow,
    how: Stop,
) -> Result<bool, StoreError> {
    let mut statuses = vec![
        TaskStatus::Submitted,
        TaskStatus::Dispatched,
        TaskStatus::Running,
        TaskStatus::Waiting,
    ];
    statuses.extend((how == Stop::All).then_some(TaskStatus::Completed));
    let parent = record.task.id;
    let mut query = ChildQuery {
        parent,
        step: Some(row.no),
        statuses,
        after: None,
        limit: PAGE,
    };
    let mut tasks = Vec::new();
    loop {
        let lines = engine.ports.store.children(&query).await?;
        let Some(last) = lines.last() else { break };
        query.after = Some((last.step, last.no));
        tasks.extend(lines.iter().map(|line| line.task));
    }
    // The latest first; each is undone by itself, beside the others.
    let told = stream::iter(tasks.into_iter().rev())
        .map(|task| tell_one(engine, parent, task, how))
        .buffer_unordered(AT_ONCE);
    // One that cannot be told keeps no other from being told.
    let all_told = told.fold(true, |all, is_told| async move { all && is_told });
    Ok(all_told.await)
}

async fn tell_one(engine: &Engine, parent: TaskId, task: TaskId, how: Stop) -> bool {
    match change(engine, parent, task, how).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%parent, %task, %error, "a task could not be told to stop with its parent");
            false
        }
    }
}

async fn change(
    engine: &Engine,
    parent: TaskId,
    task: TaskId,
    how: Stop,
) -> Result<(), ChangeError> {
    let Some(record) = engine.ports.store.load(task).await? else {
        return Ok(());
    };
    let Some(task_type) = engine.registry.of(&*record.task) else {
        // Of another version of the program: a cancel asks nothing of its code, but what follows
        // from it does.
        let why = "this program does not know its type in this version".to_owned();
        return Err(StoreError::Unavailable(why).into());
    };
    let actor = format!("task {parent}");
    let changed = engine
        .change(Author::anyone(&actor), &task_type, record, |draft| {
            stop_one(draft, how)
        })
        .await?;
    if changed.answer {
        engine.ports.signals.send(Signal::CancelRequested(task));
    }
    Ok(())
}

/// Whether its host has to be told.
pub(crate) fn stop_one(draft: &mut Draft, how: Stop) -> Result<bool, Illegal> {
    match draft.status() {
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => {
            if draft.is_cancel_requested() {
                Ok(draft.status() == TaskStatus::Running)
            } else {
                draft.cancel(None)
            }
        }
        TaskStatus::Completed if how == Stop::All => draft.undo_with_parent().map(|()| false),
        // It is undone already, has ended, or a person has to decide.
        TaskStatus::Completed
        | TaskStatus::Compensating
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Ok(false),
    }
}
