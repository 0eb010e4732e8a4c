//! How the tasks stand that the steps of a task have submitted. Reads; must not change a task.

use crate::engine::Engine;
use crate::plan::{Children, Facts};
use crate::ports::{ChildCount, ChildLine, ChildQuery, StoreError};
use crate::record::{StepRow, TaskRecord};
use counterstep_contracts::children::{generation_of, place_of};
use counterstep_contracts::{StepNo, StepStatus, TaskDecl, TaskId, TaskStatus};
use counterstep_steps::{ChildFailure, ChildOutcome};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of tasks whose outcomes are read without being asked for.
const FEW: u32 = 16;

/// Tasks that are read at a time.
const AT_ONCE: usize = 16;

/// Maximum number of tasks per page.
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
            steps
                .into_iter()
                .for_each(|at| note_unseen(facts, at, &error));
            return;
        }
    };
    for at in steps {
        let look = Look {
            engine,
            record,
            row: &record.steps[at],
            undoes: wanted == StepStatus::Compensating,
        };
        let read = look.children(&counts).await;
        let mut children = match read {
            Ok(children) => children,
            Err(error) => {
                look.warns(&error);
                note_unseen(facts, at, &error);
                continue;
            }
        };
        let started = started(look.row);
        let all_ended = !look.undoes && children.ended() == started;
        if all_ended && (started <= FEW || outcomes_of == Some(at)) {
            match look.outcomes().await {
                Ok(outcomes) => children.outcomes = Some(outcomes),
                // What is known of them without may be enough for the step to fail.
                Err(error) => {
                    look.warns(&error);
                    note_unseen(facts, at, &error);
                }
            }
        }
        facts.children.insert(at, children);
    }
}

fn note_unseen(facts: &mut Facts, at: usize, error: &StoreError) {
    facts.unseen_children.insert(at);
    if !error.may_pass() {
        facts.unreadable_children.insert(at, error.to_string());
    }
}

fn started(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.started)
}

/// A look at the tasks of one step.
struct Look<'a> {
    engine: &'a Engine,
    record: &'a TaskRecord,
    row: &'a StepRow,
    /// They are undone with it.
    undoes: bool,
}

impl Look<'_> {
    fn warns(&self, error: &StoreError) {
        let (task, step) = (self.record.task.id, &self.row.name);
        tracing::warn!(%task, step, %error, "the tasks of a step could not be read");
    }

    /// How they stand.
    async fn children(&self, counts: &[ChildCount]) -> Result<Children, StoreError> {
        let generation = self.row.children.map_or(0, |children| children.generation);
        if self.undoes || generation == 0 {
            let mut children = counted(counts, self.row.no);
            if children.failed > 0 && !self.undoes {
                children.failure = self.first_failure().await?;
            }
            return Ok(children);
        }
        let lines = self.lines().await?;
        let all = lines.iter().map(|line| (line.no, line.status));
        let mut children = Children::of_places(all, generation);
        if children.failed > 0 {
            let failed = |line: &ChildLine| {
                generation_of(line.no) == generation && NOT_COMPLETED.contains(&line.status)
            };
            children.failure = lines.into_iter().find(failed).map(failure_of);
        }
        Ok(children)
    }

    fn query(&self) -> ChildQuery {
        ChildQuery {
            parent: self.record.task.id,
            step: Some(self.row.no),
            statuses: Vec::new(),
            after: None,
            limit: PAGE,
        }
    }

    /// The first of the step's tasks that has not completed.
    async fn first_failure(&self) -> Result<Option<ChildFailure>, StoreError> {
        let query = ChildQuery {
            statuses: NOT_COMPLETED.to_vec(),
            limit: 1,
            ..self.query()
        };
        let lines = self.engine.ports.store.children(&query).await?;
        Ok(lines.into_iter().next().map(failure_of))
    }

    /// All of them, by number.
    async fn lines(&self) -> Result<Vec<ChildLine>, StoreError> {
        let (mut all, mut query) = (Vec::new(), self.query());
        loop {
            let lines = self.engine.ports.store.children(&query).await?;
            let Some(last) = lines.last() else {
                return Ok(all);
            };
            query.after = Some((last.step, last.no));
            all.extend(lines);
        }
    }

    /// How the task of each place has ended, in order.
    async fn outcomes(&self) -> Result<Vec<ChildOutcome<Value>>, StoreError> {
        // The latest of a place comes last.
        let lines = self.lines().await?.into_iter();
        let latest: BTreeMap<u32, ChildLine> =
            lines.map(|line| (place_of(line.no), line)).collect();
        stream::iter(latest.into_values())
            .map(|line| outcome(self.engine, line))
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }
}

/// How those of a step stand of which none was replaced, or each counts.
fn counted(counts: &[ChildCount], step: StepNo) -> Children {
    let mut children = Children::default();
    for count in counts.iter().filter(|count| count.step == step) {
        children.residue |= count.residue;
        children.places += count.tasks;
        match count.status {
            TaskStatus::Completed => children.completed += count.tasks,
            status if status.is_terminal() => children.failed += count.tasks,
            _ => {}
        }
    }
    children
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

async fn outcome(engine: &Engine, line: ChildLine) -> Result<ChildOutcome<Value>, StoreError> {
    if line.status != TaskStatus::Completed {
        return Ok(ChildOutcome::Failed(failure_of(line)));
    }
    let loaded = engine.ports.store.load(line.task).await;
    let record = loaded.map_err(|error| of_task(line.task, error))?;
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

/// Names the task that cannot be read.
fn of_task(task: TaskId, error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt(what) => StoreError::Corrupt(format!("of task {task}: {what}")),
        StoreError::Unsupported(what) => StoreError::Unsupported(format!("of task {task}: {what}")),
        StoreError::Unavailable(_) | StoreError::Unknown(_) => error,
    }
}
