//! How the tasks stand that the steps of a task have submitted. Reads; must not change a task.

use crate::engine::Engine;
use crate::plan::{Children, Facts};
use crate::ports::{ChildLine, ChildQuery, StoreError};
use crate::record::{StepRow, TaskRecord};
use counterstep_contracts::{StepStatus, TaskDecl, TaskStatus};
use counterstep_steps::{ChildFailure, ChildOutcome};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

/// The outcomes of so few tasks are read without being asked for.
const FEW: u32 = 16;

/// Tasks that are read at a time.
const AT_ONCE: usize = 16;

/// Tasks of a page.
pub(super) const PAGE: u32 = 500;

/// How a task ends that does not complete.
const NOT_COMPLETED: [TaskStatus; 3] = [
    TaskStatus::Failed,
    TaskStatus::Cancelled,
    TaskStatus::Resolved,
];

/// Finds out how the tasks stand that steps wait for, or that are undone with them. `outcomes_of`:
/// a step of which it is to be read how each task has ended.
pub(crate) async fn look(
    engine: &Engine,
    decl: &TaskDecl,
    record: &TaskRecord,
    outcomes_of: Option<usize>,
    facts: &mut Facts,
) {
    let wanted = if record.task.status == TaskStatus::Compensating {
        StepStatus::Compensating
    } else {
        StepStatus::Waiting
    };
    let is_wanted = |at: &usize| {
        let row = &record.steps[*at];
        decl.steps[*at].has_children() && row.status == wanted && started(row) > 0
    };
    let steps: Vec<usize> = (0..record.steps.len().min(decl.steps.len()))
        .filter(is_wanted)
        .collect();
    if steps.is_empty() {
        return;
    }
    let task = record.task.id;
    let counts = match engine.ports.store.child_counts(task).await {
        Ok(counts) => counts,
        Err(error) => {
            tracing::warn!(%task, %error, "the tasks that it has submitted could not be counted");
            facts.unseen_children.extend(steps);
            return;
        }
    };
    for at in steps {
        let row = &record.steps[at];
        let mut children = Children::default();
        for count in counts.iter().filter(|count| count.step == row.no) {
            children.residue |= count.residue;
            match count.status {
                TaskStatus::Completed => children.completed += count.tasks,
                status if status.is_terminal() => children.failed += count.tasks,
                _ => {}
            }
        }
        let all_ended = children.ended() == started(row);
        let reads_outcomes = wanted == StepStatus::Waiting
            && all_ended
            && (started(row) <= FEW || outcomes_of == Some(at));
        let read = async {
            if children.failed > 0 && wanted == StepStatus::Waiting {
                children.failure = failure(engine, record, row).await?;
            }
            if reads_outcomes {
                children.outcomes = Some(outcomes(engine, record, row).await?);
            }
            Ok::<_, StoreError>(children)
        };
        match read.await {
            Ok(children) => {
                facts.children.insert(at, children);
            }
            Err(error) => {
                tracing::warn!(%task, step = row.name, %error, "the tasks of a step could not be read");
                facts.unseen_children.insert(at);
            }
        }
    }
}

fn started(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.started)
}

/// The first of a step's tasks that has not completed.
async fn failure(
    engine: &Engine,
    record: &TaskRecord,
    row: &StepRow,
) -> Result<Option<ChildFailure>, StoreError> {
    let query = ChildQuery {
        parent: record.task.id,
        step: Some(row.no),
        statuses: NOT_COMPLETED.to_vec(),
        after: None,
        limit: 1,
    };
    let lines = engine.ports.store.children(&query).await?;
    Ok(lines.into_iter().next().map(failure_of))
}

fn failure_of(line: ChildLine) -> ChildFailure {
    let (class, message) = line
        .failure
        .map(|failure| (failure.class, failure.message))
        .unzip();
    ChildFailure {
        task: line.task,
        status: line.status,
        class,
        message,
    }
}

/// How each of a step's tasks has ended, in order.
async fn outcomes(
    engine: &Engine,
    record: &TaskRecord,
    row: &StepRow,
) -> Result<Vec<ChildOutcome<Value>>, StoreError> {
    let mut outcomes = Vec::new();
    let mut query = ChildQuery {
        parent: record.task.id,
        step: Some(row.no),
        statuses: Vec::new(),
        after: None,
        limit: PAGE,
    };
    loop {
        let lines = engine.ports.store.children(&query).await?;
        let Some(last) = lines.last() else {
            return Ok(outcomes);
        };
        query.after = Some((last.step, last.no));
        let page: Vec<_> = stream::iter(lines)
            .map(|line| outcome(engine, line))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        outcomes.extend(page);
    }
}

async fn outcome(engine: &Engine, line: ChildLine) -> Result<ChildOutcome<Value>, StoreError> {
    if line.status != TaskStatus::Completed {
        return Ok(ChildOutcome::Failed(failure_of(line)));
    }
    let record = engine.ports.store.load(line.task).await?;
    let response = record.and_then(|record| record.task.response);
    Ok(response.map_or_else(
        || {
            let message = "it completed, and its response was erased".to_owned();
            ChildOutcome::Failed(ChildFailure {
                task: line.task,
                status: line.status,
                class: None,
                message: Some(message),
            })
        },
        ChildOutcome::Completed,
    ))
}
