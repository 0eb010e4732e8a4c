//! What a process remembers of its turns: those that run, and the last ones that have ended, each with its failed attempts. In memory
//! alone; the process's row in the worker registry shows it. Decides of no task.

use crate::ports::{EndedTurn, RECENT_TURNS, RunningTurn};
use counterstep_contracts::workers::TurnOutcome;
use counterstep_contracts::{Outcome, TaskId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A turn since its claim.
#[derive(Debug)]
pub(crate) struct TurnNote {
    task: TaskId,
    task_type: &'static str,
    /// By this process's timer.
    claimed_at: Duration,
    attempts: Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// The steps that run, the one that has begun last last.
    running: Vec<&'static str>,
    failed: u32,
}

impl TurnNote {
    /// Of a task of this type that this process claims now.
    pub(crate) fn of(task: TaskId, task_type: &'static str, now: Duration) -> Arc<Self> {
        Arc::new(Self {
            task,
            task_type,
            claimed_at: now,
            attempts: Mutex::default(),
        })
    }

    /// An attempt of this step, or of its undo, begins.
    pub(crate) fn attempt_begins(&self, step: &'static str) {
        self.attempts.lock().running.push(step);
    }

    /// It has ended.
    pub(crate) fn attempt_ended(&self, step: &'static str, outcome: Outcome) {
        let mut attempts = self.attempts.lock();
        if let Some(at) = attempts.running.iter().position(|it| *it == step) {
            attempts.running.remove(at);
        }
        attempts.failed += u32::from(outcome == Outcome::Failed);
    }
}

#[derive(Debug)]
struct Ended {
    task: TaskId,
    task_type: &'static str,
    outcome: TurnOutcome,
    failed: u32,
    took: Duration,
    at: Duration,
}

/// The turns of a process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// A turn that is dropped half-way, as its process ends, leaves its entry behind.
    running: BTreeMap<TaskId, Weak<TurnNote>>,
    /// The last one first; never more than [`RECENT_TURNS`].
    recent: VecDeque<Ended>,
}

impl Turns {
    /// A turn begins.
    pub(crate) fn begin(&mut self, note: &Arc<TurnNote>) {
        self.running.insert(note.task, Arc::downgrade(note));
    }

    /// It has ended.
    pub(crate) fn end(&mut self, note: &TurnNote, outcome: TurnOutcome, now: Duration) {
        self.running.remove(&note.task);
        self.recent.truncate(RECENT_TURNS - 1);
        self.recent.push_front(Ended {
            task: note.task,
            task_type: note.task_type,
            outcome,
            failed: note.attempts.lock().failed,
            took: now.saturating_sub(note.claimed_at),
            at: now,
        });
    }

    /// Those that run, of these tasks.
    pub(crate) fn running(&mut self, of: &[TaskId], now: Duration) -> Vec<RunningTurn> {
        self.running.retain(|_, note| note.strong_count() > 0);
        let notes = of
            .iter()
            .filter_map(|task| self.running.get(task)?.upgrade());
        let turn = |note: Arc<TurnNote>| RunningTurn {
            task: note.task,
            task_type: note.task_type.to_owned(),
            step: note
                .attempts
                .lock()
                .running
                .last()
                .map(|&step| step.to_owned()),
            ago: now.saturating_sub(note.claimed_at),
        };
        notes.map(turn).collect()
    }

    /// The last ones that have ended.
    pub(crate) fn recent(&self, now: Duration) -> Vec<EndedTurn> {
        let turn = |it: &Ended| EndedTurn {
            task: it.task,
            task_type: it.task_type.to_owned(),
            outcome: it.outcome,
            failed_attempts: it.failed,
            took: it.took,
            ago: now.saturating_sub(it.at),
        };
        self.recent.iter().map(turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn task(number: u128) -> TaskId {
        TaskId(Uuid::from_u128(number))
    }

    fn note(number: u128, claimed_at: Duration) -> Arc<TurnNote> {
        TurnNote::of(task(number), "OrderLamp", claimed_at)
    }

    #[test]
    fn a_turn_that_runs_has_the_step_that_has_begun_last_and_is_gone_once_it_ended_or_was_dropped()
    {
        let mut turns = Turns::default();
        let (one, dropped) = (note(1, seconds(10)), note(2, seconds(11)));
        turns.begin(&one);
        turns.begin(&dropped);
        one.attempt_begins("polish");
        one.attempt_begins("charge");
        one.attempt_ended("charge", Outcome::Failed);
        let expected = RunningTurn {
            task: task(1),
            task_type: "OrderLamp".to_owned(),
            step: Some("polish".to_owned()),
            ago: seconds(4),
        };
        let found = turns.running(&[task(1), task(3)], seconds(14));
        assert_eq!(found, [expected]);
        drop(dropped);
        assert_eq!(turns.running(&[task(2)], seconds(14)), []);
        turns.end(&one, TurnOutcome::GivenBack, seconds(15));
        assert_eq!(turns.running(&[task(1)], seconds(15)), []);
        let expected = EndedTurn {
            task: task(1),
            task_type: "OrderLamp".to_owned(),
            outcome: TurnOutcome::GivenBack,
            failed_attempts: 1,
            took: seconds(5),
            ago: seconds(5),
        };
        assert_eq!(turns.recent(seconds(20)), [expected]);
    }

    #[test]
    fn only_what_failed_counts_as_a_failed_attempt() {
        let (mut turns, note) = (Turns::default(), note(1, seconds(0)));
        for outcome in Outcome::ALL {
            note.attempt_begins("polish");
            note.attempt_ended("polish", *outcome);
        }
        turns.end(&note, TurnOutcome::Completed, seconds(1));
        assert_eq!(turns.recent(seconds(1))[0].failed_attempts, 1);
    }

    #[test]
    fn the_last_hundred_turns_are_kept_the_last_one_first() {
        let mut turns = Turns::default();
        for number in 0..250 {
            let note = note(number, seconds(0));
            turns.end(&note, TurnOutcome::Completed, seconds(1));
        }
        let recent = turns.recent(seconds(1));
        let tasks: Vec<_> = recent.iter().map(|it| it.task).collect();
        let last: Vec<_> = (150..250).rev().map(task).collect();
        assert_eq!(tasks, last);
    }
}
