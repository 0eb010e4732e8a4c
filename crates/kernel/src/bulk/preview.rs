//! What a bulk operation would do: for which tasks it is, by which causes, what it would undo, and which would be refused.
//! Reads, and changes nothing.

use super::error::BulkError;
use super::operation::BulkSpec;
use super::refused::{CHECKED, refused};
use super::what_if::{MOST_RECORDS, what_if};
use crate::dead_letters::{Counter, MOST_LOOKED_AT, Selection};
use crate::engine::Engine;
use crate::ports::{StoreError, TaskLine};
use counterstep_contracts::bulk::{BulkAction, BulkPreview};
use counterstep_contracts::{TaskId, TaskStatus};
use futures::{StreamExt, TryStreamExt, stream};

/// Maximum number of tasks, and of causes, that a preview names.
const NAMED: usize = 20;

/// Maximum number of tasks whose successors are read at a time.
const SUCCESSORS_AT_ONCE: usize = 64;

/// Which tasks an operation would be for, by which causes, what it would undo, and which tasks would be refused.
///
/// # Errors
/// [`BulkError::Renamed`], and [`StoreError`].
pub async fn preview(engine: &Engine, spec: &BulkSpec) -> Result<BulkPreview, BulkError> {
    let (mut found, tasks) = look(engine, spec).await?;
    if spec.action == BulkAction::RunAgain {
        found.refused = Some(refused(engine, spec, &tasks).await?);
    } else if !tasks.is_empty() {
        found.undo = Some(what_if(engine, spec.action, &tasks).await?);
    }
    Ok(found)
}

/// Counts the tasks that an operation would be for, and names those to look at more closely.
pub(super) async fn look(
    engine: &Engine,
    spec: &BulkSpec,
) -> Result<(BulkPreview, Vec<TaskId>), BulkError> {
    let selection = &spec.selection;
    let (mut count, mut looked_at, mut before) = (0, 0, None);
    let (mut tasks, mut closely) = (Vec::new(), Vec::new());
    let mut already_run_again = (spec.action == BulkAction::RunAgain).then_some(0);
    let mut causes = Counter::default();
    loop {
        let mut page = selection.page(&engine.ports.store, before).await?;
        looked_at += page.looked_at;
        if let Some(already) = &mut already_run_again {
            let all = page.lines.len();
            page.lines = not_run_again(engine, selection, page.lines).await?;
            *already += (all - page.lines.len()) as u64;
        }
        count += page.lines.len() as u64;
        for line in &page.lines {
            if tasks.len() < NAMED {
                tasks.push(line.task);
            }
            if closely.len() < looked_at_closely(spec.action, line.status) {
                closely.push(line.task);
            }
            if line.failure.is_some() || line.status.is_parked() {
                causes.add(line);
            }
        }
        before = page.next;
        if before.is_none() || looked_at >= MOST_LOOKED_AT {
            break;
        }
    }
    let mut causes = causes.view(true).groups;
    let group = selection.group.clone();
    let renamed = |group: &String| !causes.is_empty() && causes.iter().all(|it| it.id != *group);
    if group.as_ref().is_some_and(renamed) {
        let ids: Vec<_> = causes.into_iter().take(NAMED).map(|it| it.id).collect();
        return Err(BulkError::Renamed(ids.join(", ")));
    }
    causes.truncate(NAMED);
    let found = BulkPreview {
        count,
        complete: before.is_none(),
        tasks,
        group,
        filter: None,
        causes,
        undo: None,
        already_run_again,
        refused: None,
    };
    Ok((found, closely))
}

/// Those of which no new task has run again what they were to do, in their order.
async fn not_run_again(
    engine: &Engine,
    selection: &Selection,
    lines: Vec<TaskLine>,
) -> Result<Vec<TaskLine>, StoreError> {
    let store = &engine.ports.store;
    let looks = lines.into_iter().map(|line| async move {
        let successors = store.successors(&selection.tenant, line.task).await?;
        Ok::<_, StoreError>(successors.is_empty().then_some(line))
    });
    let looked: Vec<Option<TaskLine>> = stream::iter(looks)
        .buffered(SUCCESSORS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(looked.into_iter().flatten().collect())
}

/// Maximum number of tasks that are looked at more closely: for what an action does to a task in this state, or
/// whether it would be refused.
const fn looked_at_closely(action: BulkAction, status: TaskStatus) -> usize {
    match action {
        BulkAction::Redrive if status.is_parked() => MOST_RECORDS,
        BulkAction::Cancel => MOST_RECORDS,
        BulkAction::RunAgain => CHECKED,
        BulkAction::Redrive | BulkAction::Resolve => 0,
    }
}
