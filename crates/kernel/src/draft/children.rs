//! What is written down of steps that submit tasks and wait for them. A wait runs no code, so it has
//! no attempts, and neither has its undo: the tasks are undone, each by itself.

use super::{Draft, Note};
use crate::change::transition::{Time, Transition};
use crate::error::StepError;
use crate::record::{ChildrenRow, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent, StepEvent};
use counterstep_contracts::StepStatus;
use serde_json::json;

impl Draft {
    /// The step, which waits, submits these tasks, the first of which is of the place `from`: they are
    /// written with the change.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn submit_children(
        &mut self,
        at: usize,
        from: u32,
        tasks: Vec<Transition>,
    ) -> Result<(), Illegal> {
        if tasks.is_empty() {
            return Ok(());
        }
        let before = self.step(at).children.unwrap_or_default();
        let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        let first: Vec<_> = tasks.iter().take(NAMED).map(|it| it.task_id).collect();
        let mut details = json!({"from": from, "count": count, "tasks": first});
        if before.generation > 0 {
            details["generation"] = before.generation.into();
        }
        self.apply(
            StepEvent::ChildrenSubmitted.at(at),
            Note::default().with(details),
        )?;
        self.step_mut(at).children = Some(ChildrenRow {
            started: before.started.saturating_add(count),
            ..before
        });
        self.children.new.extend(tasks);
        Ok(())
    }

    /// The task is put to sleep in this change while steps wait for tasks. `ended`: how many tasks of each
    /// step have ended; `None`: they could not be read, or did not get the stop request. Those are read again
    /// soon, and wake no task that sleeps until then.
    pub fn children_were_seen(&mut self, ended: &[(usize, Option<u32>)]) {
        for &(at, ended) in ended {
            let before = self.step(at).children.unwrap_or_default();
            let after = match ended {
                Some(seen) => ChildrenRow {
                    seen,
                    missed: 0,
                    ..before
                },
                None => ChildrenRow {
                    missed: before.missed.saturating_add(1),
                    ..before
                },
            };
            if before != after {
                self.step_mut(at).children = Some(after);
            }
        }
        let seen = ended
            .iter()
            .filter_map(|&(at, ended)| Some((self.step(at).no, ended?)));
        self.children.seen = seen.collect();
    }

    /// Tasks of the step could not be told to stop, again and again: a person has to see why.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn children_not_undone(&mut self, at: usize) -> Result<(), Illegal> {
        let before = self.step(at).children.unwrap_or_default();
        let error = StepError::permanent(format_args!(
            "not all tasks that the step has submitted could be told to stop, or be undone, in {} tries: one cannot be \
             read, or is of a version that this program does not have",
            before.missed
        ));
        let note =
            Note::default().with(json!({"error": error.message, "class": error.class.as_str()}));
        self.apply(StepEvent::UndoFailed.at(at), note)?;
        let row = self.step_mut(at);
        row.error = Some((&error).into());
        row.children = Some(ChildrenRow {
            missed: 0,
            ..before
        });
        Ok(())
    }

    /// A person has the task retried: what steps wait for that have not completed has its time anew, and
    /// of their tasks each that ends without completing may be replaced.
    pub(super) fn retry_children(&mut self) {
        for at in self.steps_at(StepStatus::Waiting) {
            let Some(before) = self.step(at).children else {
                continue;
            };
            let row = self.step_mut(at);
            row.due_at = None;
            row.children = Some(ChildrenRow {
                missed: 0,
                generation: before.generation.saturating_add(1),
                ..before
            });
        }
    }

    /// The tasks of the step are being told to stop, or undone.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn start_undo_of_children(&mut self, at: usize) -> Result<(), Illegal> {
        self.pass_waivers(at)?;
        self.apply(StepEvent::UndoStarted.at(at), Note::default())
    }

    /// All tasks of the step have ended, and none of them as completed. `residue`: one of them with
    /// effects that were not undone.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn children_are_undone(&mut self, at: usize, residue: bool) -> Result<(), Illegal> {
        self.apply(StepEvent::UndoSucceeded.at(at), Note::default())?;
        let task = self.task_mut();
        task.recovery_attempts = 0;
        task.residue |= residue;
        Ok(())
    }

    /// The task that has submitted this one is undone: so is this one, although it had completed.
    ///
    /// # Errors
    /// As the judge says.
    pub(crate) fn undo_with_parent(&mut self) -> Result<(), Illegal> {
        let parent = self.record().task.parent.map(|parent| parent.task);
        self.apply(
            LifecycleEvent::ParentUndone,
            Note::default().with(json!({"parent": parent})),
        )?;
        self.task.finished = Time::Clear;
        let task = self.task_mut();
        (task.goal, task.response) = (Some(UndoGoal::Cancelled), None);
        self.undo_or_finish()
    }
}

/// Maximum number of tasks of a submission that the audit lists by their ids: their parent's rows list all.
const NAMED: usize = 20;
