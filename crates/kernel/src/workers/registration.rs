//! What a process knows of itself for its row in the worker registry: its parts, what they run, and
//! the last pass.

use crate::ports::StoreError;
use crate::record::DbTime;
use crate::workers::queue_window::QueueWindow;
use crate::workers::turns::Turns;
use counterstep_contracts::{QueueName, TaskId};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a part of a process does: one process may have several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// It takes tasks from these queues.
    pub queues: Vec<QueueName>,
    /// Maximum number of tasks at a time.
    pub concurrency: usize,
}

/// What a process knows of itself.
#[derive(Debug, Default)]
pub(crate) struct Registration(Mutex<RegistrationState>);

#[derive(Debug, Default)]
pub(crate) struct RegistrationState {
    pub(crate) parts: BTreeMap<u64, Part>,
    pub(crate) joined: u64,
    pub(crate) running: BTreeMap<TaskId, u32>,
    /// When by this process's timer, and what.
    pub(crate) passed: Option<(Duration, BTreeMap<String, u64>)>,
    /// When the first row of this process was written, by the database's clock.
    pub(crate) started_at: Option<DbTime>,
    /// When the last one was, by the same clock.
    pub(crate) refreshed_at: Option<DbTime>,
    /// Since when closed breakers could not be read; `None`: they were read with the last row.
    pub(crate) closings_from: Option<DbTime>,
    pub(crate) failing: bool,
    pub(crate) database: DatabaseAnswers,
    /// The queues whose last fetch has failed, and with which words.
    pub(crate) fetch_errors: BTreeMap<QueueName, String>,
    /// The turns that run here, and the last ones that have ended.
    pub(crate) turns: Turns,
    /// What came to queues and left them with changes of this process.
    pub(crate) queues: QueueWindow,
}

/// Whether the database answers this process, and since when it does so again.
#[derive(Debug, Default)]
pub(crate) struct DatabaseAnswers {
    is_away: bool,
    /// By this process's timer.
    back_at: Option<Duration>,
}

impl DatabaseAnswers {
    /// It has answered, or not.
    pub(crate) fn note<T>(&mut self, answer: &Result<T, StoreError>, now: Duration) {
        match answer {
            Ok(_) if self.is_away => (self.is_away, self.back_at) = (false, Some(now)),
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => self.is_away = true,
            // The database answers, even where its content cannot be read.
            Ok(_) | Err(StoreError::Corrupt(_) | StoreError::Unsupported(_)) => {}
        }
    }

    /// For how long it has answered again, as far as the last answer shows; `None`: it was never away.
    pub(crate) fn back_for(&self, now: Duration) -> Option<Duration> {
        match self.is_away {
            true => Some(Duration::ZERO),
            false => self.back_at.map(|at| now.saturating_sub(at)),
        }
    }
}

/// As long as it lives, its task is among those that the process runs.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) task: TaskId,
    pub(crate) registration: Arc<Registration>,
}

impl Drop for Runs {
    fn drop(&mut self) {
        let mut known = self.registration.known();
        if let Some(turns) = known.running.get_mut(&self.task) {
            *turns -= 1;
            if *turns == 0 {
                known.running.remove(&self.task);
            }
        }
    }
}

impl Registration {
    pub(crate) fn known(&self) -> MutexGuard<'_, RegistrationState> {
        self.0.lock()
    }

    pub(crate) fn join(&self, part: Part) -> u64 {
        let mut known = self.known();
        known.joined += 1;
        let number = known.joined;
        known.parts.insert(number, part);
        number
    }

    /// Tasks at a time, of all its parts.
    pub(crate) fn concurrency(&self) -> usize {
        self.known()
            .parts
            .values()
            .map(|part| part.concurrency)
            .sum()
    }

    /// Whether others are left.
    pub(crate) fn leave(&self, number: u64) -> bool {
        let mut known = self.known();
        known.parts.remove(&number);
        !known.parts.is_empty()
    }

    /// Whether it writes the row: the oldest part does, for all.
    pub(crate) fn is_oldest(&self, number: u64) -> bool {
        self.known().parts.keys().next() == Some(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseAnswers;
    use crate::ports::StoreError;
    use std::time::Duration;

    #[test]
    fn the_database_is_back_since_the_first_answer_behind_an_outage() {
        let seconds = Duration::from_secs;
        let mut answers = DatabaseAnswers::default();
        let (ok, down) = (Ok(()), || StoreError::Unavailable("refused".to_owned()));
        answers.note(&ok, seconds(1));
        assert_eq!(answers.back_for(seconds(9)), None, "it was never away");
        answers.note::<()>(&Err(StoreError::Corrupt("a row".to_owned())), seconds(9));
        assert_eq!(answers.back_for(seconds(9)), None, "it has answered");
        answers.note::<()>(&Err(down()), seconds(10));
        assert_eq!(answers.back_for(seconds(12)), Some(Duration::ZERO));
        answers.note(&ok, seconds(20));
        answers.note(&ok, seconds(23));
        assert_eq!(answers.back_for(seconds(25)), Some(seconds(5)));
        answers.note::<()>(&Err(down()), seconds(30));
        assert_eq!(
            answers.back_for(seconds(31)),
            Some(Duration::ZERO),
            "away again"
        );
    }
}
