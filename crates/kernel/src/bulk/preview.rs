//! What a bulk operation would do: for which tasks it is, by which causes, and what it would undo. Reads, and changes nothing.

use super::admin::BulkError;
use crate::dead_letters::{Counter, MOST_LOOKED_AT, Selection};
use crate::engine::Engine;
use crate::operator::undo_plan;
use crate::ports::StoreError;
use counterstep_contracts::bulk::{BulkAction, BulkPreview, BulkUndo, UndoneStep};
use counterstep_contracts::{StepNo, TaskId, TaskStatus};
use std::collections::BTreeMap;

/// Maximum number of tasks, and of causes, that a preview names.
const NAMED: usize = 20;

/// Maximum number of tasks that a preview reads for what would be undone, and how many of them at a time.
const UNDONE: usize = 1_000;
const UNDONE_AT_ONCE: usize = 100;

/// Which tasks an operation would be for, by which causes, and what it would undo.
///
/// # Errors
/// [`BulkError::Renamed`], and [`StoreError`].
pub async fn preview(
    engine: &Engine,
    action: BulkAction,
    selection: &Selection,
) -> Result<BulkPreview, BulkError> {
    let (mut count, mut looked_at, mut before) = (0, 0, None);
    let (mut tasks, mut undone) = (Vec::new(), Vec::new());
    let mut causes = Counter::default();
    loop {
        let page = selection.page(&engine.ports.store, before).await?;
        looked_at += page.looked_at;
        count += page.lines.len() as u64;
        for line in &page.lines {
            if tasks.len() < NAMED {
                tasks.push(line.task);
            }
            if undone.len() < UNDONE && undoes(action, line.status) {
                undone.push(line.task);
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
    let undo = if undone.is_empty() {
        None
    } else {
        Some(undo_of(engine, &undone).await?)
    };
    Ok(BulkPreview {
        count,
        complete: before.is_none(),
        tasks,
        group,
        filter: None,
        causes,
        undo,
    })
}

/// Whether an action undoes what a task in this state has done.
const fn undoes(action: BulkAction, status: TaskStatus) -> bool {
    match action {
        BulkAction::Redrive => matches!(status, TaskStatus::CompensationFailed),
        BulkAction::Cancel => true,
        BulkAction::Resolve | BulkAction::RunAgain => false,
    }
}

/// What would be undone of these tasks, by step. Those that this program does not know are left out.
async fn undo_of(engine: &Engine, tasks: &[TaskId]) -> Result<BulkUndo, StoreError> {
    let mut undo = BulkUndo::default();
    let mut steps: BTreeMap<(String, StepNo), (String, u64)> = BTreeMap::new();
    for page in tasks.chunks(UNDONE_AT_ONCE) {
        for (_, record) in engine.ports.store.records(page).await? {
            let Ok(record) = record else { continue };
            let Some(task_type) = engine.registry.of(&*record.task) else {
                continue;
            };
            undo.tasks += 1;
            let stages = undo_plan(&task_type, &record).stages;
            for step in stages.into_iter().flat_map(|stage| stage.steps) {
                let key = (record.task.task_type.clone(), step.no);
                steps.entry(key).or_insert((step.step, 0)).1 += 1;
            }
        }
    }
    let view = |((task_type, _), (step, tasks))| UndoneStep {
        task_type,
        step,
        tasks,
    };
    undo.steps = steps.into_iter().map(view).collect();
    Ok(undo)
}
