//! Whose the objects of attempts are, as the record of a task says it: what a change does to that,
//! what a sweep may take, and what is known of an object that a listing has shown. Must not touch
//! an object.

use crate::change::transition::{AttemptWrite, ObjectsFate};
use crate::context::Execution;
use crate::keys;
use crate::ports::Receive;
use crate::record::{AttemptMark, DbTime, Intention, TaskRecord};
use counterstep_contracts::{Attempt, Direction, Epoch, Outcome, StepNo, TaskId};
use std::time::Duration;

/// Names an attempt of a task.
pub type AttemptKey = (StepNo, Direction, Attempt);

/// Objects that a sweep may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Id of the task. A receive has an id that no task has, or will have.
    pub task: TaskId,
    /// Declared name of its type; `None`: there is no task.
    pub task_type: Option<String>,
    /// The attempt that stored them; `None`: a receive.
    pub of: Option<AttemptKey>,
    /// Where they lie.
    pub prefix: String,
    /// For how long a sweep might have taken them already.
    pub overdue: Duration,
}

/// An attempt as the keys of its objects name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptRef {
    /// Its task.
    pub task: TaskId,
    /// What its objects' keys begin with.
    pub prefix: String,
}

/// What is known of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptState {
    /// Declared name of its task's type; `None`: there is no such task.
    pub task_type: Option<String>,
    /// What the task's record says of it.
    pub intent: IntentState,
}

/// What the record of a task says of an attempt's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentState {
    /// They are an output, and neither undone nor resolved.
    Kept,
    /// They may become an output: the attempt's time has not run out, or it runs under a live lease. Or their
    /// task has a tombstone, and the purge will delete them.
    Live,
    /// No success has kept them in time, or they were released: a sweep may condemn them.
    Overdue(Intent),
    /// A sweep has been there. Whatever lies there was stored later, or left there on purpose.
    Swept,
    /// It names no such attempt.
    Missing,
    /// It cannot be read, and why. Nothing of it is touched, and the other attempts are answered
    /// for.
    Unreadable(String),
}

/// What is known of several attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptStates {
    /// The database's clock before any of it was read.
    pub now: DbTime,
    /// One for each attempt that was asked for, in that order.
    pub of: Vec<AttemptState>,
}

fn which(mark: &AttemptMark) -> AttemptKey {
    (mark.step, mark.direction, mark.attempt)
}

fn find(marks: &mut [AttemptMark], key: AttemptKey) -> Option<&mut AttemptMark> {
    marks.iter_mut().rfind(|mark| which(mark) == key)
}

/// What a write that is committed at `now` makes of the marks of a task.
pub(crate) fn apply(marks: &mut Vec<AttemptMark>, write: &AttemptWrite, now: DbTime) {
    match write {
        AttemptWrite::Start {
            step,
            direction,
            attempt,
            epoch,
            sweep_after,
        } => marks.push(AttemptMark {
            step: *step,
            direction: *direction,
            attempt: *attempt,
            epoch: *epoch,
            runs: true,
            objects: Intention::Open,
            sweep_at: now.later(*sweep_after),
        }),
        AttemptWrite::End {
            step,
            direction,
            attempt,
            outcome,
            kept,
            ..
        } => {
            let key = (*step, *direction, *attempt);
            if find(marks, key).is_none() {
                // An upload: it was received before there was a task.
                marks.push(AttemptMark {
                    step: *step,
                    direction: *direction,
                    attempt: *attempt,
                    epoch: Epoch(0),
                    runs: false,
                    objects: Intention::Open,
                    sweep_at: now,
                });
            }
            let Some(mark) = find(marks, key) else { return };
            mark.runs = false;
            match (outcome, kept) {
                (Outcome::Succeeded, ObjectsFate::Output) => mark.objects = Intention::Kept,
                (Outcome::Succeeded, ObjectsFate::None) => mark.objects = Intention::Swept,
                // What it may have stored stays open to the sweep.
                (Outcome::Succeeded, ObjectsFate::Nothing)
                | (Outcome::Failed | Outcome::InDoubt | Outcome::Cancelled, _) => {}
            }
        }
        AttemptWrite::Keep { step, attempt } => {
            if let Some(mark) = find(marks, (*step, Direction::Forward, *attempt)) {
                mark.objects = Intention::Kept;
            }
        }
        AttemptWrite::Release { step } => {
            for mark in marks
                .iter_mut()
                .filter(|mark| mark.step == *step && mark.objects == Intention::Kept)
            {
                (mark.objects, mark.sweep_at) = (Intention::Open, now);
            }
        }
        AttemptWrite::Condemn {
            step,
            direction,
            attempt,
        } => {
            if let Some(mark) = find(marks, (*step, *direction, *attempt)) {
                mark.objects = Intention::Condemned;
            }
        }
        AttemptWrite::Swept {
            step,
            direction,
            attempt,
        } => {
            if let Some(mark) = find(marks, (*step, *direction, *attempt)) {
                mark.objects = Intention::Swept;
            }
        }
    }
}

/// Whether a write would keep objects that a sweep has condemned.
pub(crate) fn keeps_condemned(marks: &[AttemptMark], write: &AttemptWrite) -> bool {
    let (key, received) = match write {
        // An upload, which was received before there was a task, has no mark yet.
        AttemptWrite::End {
            step,
            direction,
            attempt,
            outcome: Outcome::Succeeded,
            ..
        } => ((*step, *direction, *attempt), true),
        AttemptWrite::Keep { step, attempt } => ((*step, Direction::Forward, *attempt), false),
        _ => return false,
    };
    match marks.iter().rfind(|mark| which(mark) == key) {
        Some(mark) => matches!(mark.objects, Intention::Condemned | Intention::Swept),
        None => !received,
    }
}

/// When a sweep is to look at a task, lease apart; `None`: there is nothing for it.
#[must_use]
pub fn sweep_at(marks: &[AttemptMark]) -> Option<DbTime> {
    let may_go =
        |mark: &&AttemptMark| matches!(mark.objects, Intention::Open | Intention::Condemned);
    marks.iter().filter(may_go).map(|mark| mark.sweep_at).min()
}

/// Whether a sweep may take what an attempt has stored: its time is over, and it does not run under
/// a live lease of its own epoch.
fn is_overdue(record: &TaskRecord, mark: &AttemptMark) -> bool {
    let alive = mark.runs && mark.epoch == record.task.epoch && record.lease_is_live();
    match mark.objects {
        Intention::Open => mark.sweep_at <= record.now && !alive,
        Intention::Condemned => true,
        Intention::Kept | Intention::Swept => false,
    }
}

fn execution(record: &TaskRecord, mark: &AttemptMark) -> Option<Execution> {
    let step = record.steps.iter().find(|step| step.no == mark.step)?;
    Some(Execution {
        tenant: record.task.tenant.clone(),
        task: record.task.id,
        step: step.name.clone(),
        direction: mark.direction,
        attempt: mark.attempt,
        epoch: mark.epoch,
    })
}

fn intent(record: &TaskRecord, mark: &AttemptMark) -> Option<Intent> {
    Some(Intent {
        task: record.task.id,
        task_type: Some(record.task.task_type.clone()),
        of: Some(which(mark)),
        prefix: execution(record, mark)?.prefix(),
        overdue: record.now.after(mark.sweep_at),
    })
}

/// What a sweep may take of a task.
#[must_use]
pub fn overdue(record: &TaskRecord) -> Vec<Intent> {
    let marks = record.marks.iter().filter(|mark| is_overdue(record, mark));
    marks.filter_map(|mark| intent(record, mark)).collect()
}

/// What the record says of the attempt that stored an object; `prefix`: what the keys of its objects
/// begin with.
#[must_use]
pub fn standing(record: &TaskRecord, prefix: &str) -> IntentState {
    let is_it = |mark: &&AttemptMark| {
        execution(record, mark).is_some_and(|execution| execution.prefix() == prefix)
    };
    let Some(mark) = record.marks.iter().find(is_it) else {
        return IntentState::Missing;
    };
    match mark.objects {
        Intention::Kept => IntentState::Kept,
        Intention::Swept => IntentState::Swept,
        Intention::Open | Intention::Condemned if is_overdue(record, mark) => {
            intent(record, mark).map_or(IntentState::Live, IntentState::Overdue)
        }
        Intention::Open | Intention::Condemned => IntentState::Live,
    }
}

/// The files of a receive, if a sweep may take them at `now`, by the database's clock.
#[must_use]
pub fn overdue_receive(receive: &Receive, now: DbTime) -> Option<Intent> {
    (receive.sweep_at <= now).then(|| Intent {
        task: receive.task,
        task_type: None,
        of: None,
        prefix: keys::task_prefix(&receive.tenant, receive.task),
        overdue: now.after(receive.sweep_at),
    })
}

/// What makes condemned, of these attempts, those that a sweep may take; nothing for those that are
/// already, and for a task that has ended, where none can succeed any more. Returns those that are
/// condemned once it is written, and what to write.
#[must_use]
pub fn condemn(record: &TaskRecord, asked: &[AttemptKey]) -> (Vec<AttemptKey>, Vec<AttemptWrite>) {
    let has_ended = record.task.status.is_terminal();
    let marks = record
        .marks
        .iter()
        .filter(|mark| asked.contains(&which(mark)) && is_overdue(record, mark));
    let open = marks
        .clone()
        .filter(|mark| mark.objects == Intention::Open && !has_ended);
    let write = |&AttemptMark {
                     step,
                     direction,
                     attempt,
                     ..
                 }: &AttemptMark| AttemptWrite::Condemn {
        step,
        direction,
        attempt,
    };
    (marks.map(which).collect(), open.map(write).collect())
}

/// What makes swept, of these attempts, those that are condemned, or were left by a task that has
/// ended. Returns those that are swept once it is written, and what to write.
#[must_use]
pub fn swept(record: &TaskRecord, asked: &[AttemptKey]) -> (Vec<AttemptKey>, Vec<AttemptWrite>) {
    let has_ended = record.task.status.is_terminal();
    let may_go = |mark: &&AttemptMark| {
        mark.objects == Intention::Condemned || (has_ended && is_overdue(record, mark))
    };
    let marks = record
        .marks
        .iter()
        .filter(|mark| asked.contains(&which(mark)))
        .filter(may_go);
    let write = |&AttemptMark {
                     step,
                     direction,
                     attempt,
                     ..
                 }: &AttemptMark| AttemptWrite::Swept {
        step,
        direction,
        attempt,
    };
    (
        marks.clone().map(which).collect(),
        marks.map(write).collect(),
    )
}
