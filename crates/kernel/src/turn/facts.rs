//! What a turn gathers before a decision: lost scratch files, circuit breakers, limits, and what it knows
//! itself. All I/O of a decision is here; `plan` decides.

use super::ask_gates::{Asked, ask};
use super::likely::Done;
use super::permits::Permits;
use crate::children;
use crate::engine::Engine;
use crate::plan::Facts;
use crate::record::{DbTime, StepRow, TaskRecord, TaskRow};
use crate::scratch::scratch_files_in;
use crate::task::TaskType;
use counterstep_contracts::{Host, StepStatus, TaskStatus};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A task that a decision is made about.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnTask<'a> {
    pub(super) engine: &'a Engine,
    pub(super) task_type: TaskType,
    pub(super) host: Host,
    pub(super) record: &'a TaskRecord,
    /// The database's time.
    pub(super) now: DbTime,
    pub(super) done: Done<'a>,
    /// Step whose children's outcomes must be read.
    pub(super) outcomes_of: Option<usize>,
}

/// All that a decision of a turn needs beyond the rows.
#[derive(Debug)]
pub(super) struct TurnPlan<'a> {
    pub(super) engine: &'a Engine,
    pub(super) task_type: TaskType,
    pub(super) host: Host,
    pub(super) facts: Facts,
    /// What breakers and limits have answered.
    pub(super) asked: Asked,
    /// What the turn has for its next steps.
    pub(super) permits: Permits,
}

impl<'a> TurnPlan<'a> {
    /// `facts`: what the turn knows itself.
    pub(super) async fn gather(
        engine: &'a Engine,
        task: TurnTask<'_>,
        mut facts: Facts,
        permits: Permits,
    ) -> Self {
        let goes_forward = task.record.task.status != TaskStatus::Compensating;
        let mut asked = Asked::default();
        // Otherwise no attempt of a step starts.
        if goes_forward && !facts.stopping {
            facts.lost_scratch = lost_scratch(task).await;
            asked = ask(task, &facts.lost_scratch, &permits).await;
            facts.held_back = std::mem::take(&mut asked.held_back);
        }
        // Going forward, too: a decision may turn the task round.
        facts.delayed_undos = delayed_undos(task);
        let decl = task.task_type.decl;
        children::look(engine, decl, task.record, task.outcomes_of, &mut facts).await;
        Self {
            engine,
            task_type: task.task_type,
            host: task.host,
            facts,
            asked,
            permits,
        }
    }
}

/// Undos between two attempts or two tries of their probe, and how long each still waits.
fn delayed_undos(task: TurnTask<'_>) -> BTreeMap<usize, Duration> {
    let waits = |(at, row): (usize, &StepRow)| {
        let between = match row.status {
            StepStatus::Compensating => !row.attempt_open,
            StepStatus::InDoubt => row.probe.is_some(),
            _ => false,
        };
        let left = row.due_at.filter(|_| between)?.after(task.now);
        (!left.is_zero()).then_some((at, left))
    };
    task.record
        .steps
        .iter()
        .enumerate()
        .filter_map(waits)
        .collect()
}

async fn lost_scratch(task: TurnTask<'_>) -> BTreeSet<usize> {
    let mut lost = BTreeSet::new();
    let id = task.record.task.id;
    for (at, row) in task.record.steps.iter().enumerate() {
        // What the step has just made is here.
        if row.status != StepStatus::Completed || task.done.is_some_and(|(done, _)| done == at) {
            continue;
        }
        let Some(output) = &row.output else {
            continue;
        };
        for file in scratch_files_in(id, output) {
            // A disk that cannot be asked counts as one that has lost it: running the step again is
            // always safe.
            let located = task.engine.ports.scratch.locate(id, &file);
            if !matches!(located.await, Ok(Some(_))) {
                lost.insert(at);
            }
        }
    }
    lost
}

/// A task as its claim will find it: what a lost host ran is in doubt then, and may start again.
pub(super) fn as_taken_over(record: &TaskRecord) -> Cow<'_, TaskRecord> {
    let is_lost = |row: &StepRow| row.attempt_open && row.status == StepStatus::Running;
    if !record.steps.iter().any(is_lost) {
        return Cow::Borrowed(record);
    }
    let mut record = record.clone();
    for row in record.steps.iter_mut().filter(|row| is_lost(row)) {
        row.status = StepStatus::InDoubt;
    }
    Cow::Owned(record)
}

/// How long a task that may be claimed has been waiting for that, however often it was offered
/// meanwhile.
pub(super) fn ready_for(record: &TaskRecord) -> Duration {
    let row = &record.task;
    record.now.after(ready_since(row))
}

pub(super) fn ready_since(row: &TaskRow) -> DbTime {
    let since = row.due_at.unwrap_or(row.updated_at);
    row.lease_expires_at.map_or(since, |lease| lease.max(since))
}
