//! How fast an operation goes, and where it pauses by itself: after its sample, at a number of failures, and while a breaker of its
//! next tasks is open. Must not decide on a task.

use super::outcome::{Chosen, Outcome};
use crate::admission::breakers::breakers_of_all;
use crate::engine::Engine;
use crate::ports::{LoadFor, Store, StoreError};
use crate::record::DbTime;
use counterstep_contracts::pace::{Pace, PausedFor};
use counterstep_contracts::workers::BreakerStanding;
use counterstep_contracts::{TaskId, TaskStatus, WaitReason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long after its time a slice may begin without that the ones after it are later, too.
const LATE: Duration = Duration::from_secs(2);

/// How long an operation waits before it looks again at tasks that are under way.
const LOOKS_AGAIN: Duration = Duration::from_secs(2);

/// The same at a breaker that is open.
const BREAKER: Duration = Duration::from_secs(5);

/// How many tasks may be under way for each failure that there may be, and bounds of that.
const UNDER_WAY: u32 = 4;
const UNDER_WAY_BOUNDS: (u32, u32) = (20, 500);

/// A task on which the operation was carried out, and of which it is not known yet how it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Watched {
    task: TaskId,
    /// It is to go on, and not to be undone.
    #[serde(default)]
    forward: bool,
}

/// Where an operation stands at its pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pacing {
    /// What was asked for, which the operation says.
    #[serde(skip)]
    pub(super) pace: Pace,
    /// Tasks of the sample that are left; `None`: there is none, or a person has let it go on.
    sample_left: Option<u32>,
    /// When the next slice may begin.
    #[serde(default)]
    next_at: Option<DbTime>,
    /// Tasks that have gone wrong since it was started or resumed.
    pub(super) failures: u32,
    #[serde(default)]
    watched: Vec<Watched>,
    #[serde(default)]
    pub(super) waits_for: Option<String>,
}

impl Pacing {
    pub(super) const fn new(pace: Pace) -> Self {
        Self {
            pace,
            sample_left: pace.sample,
            next_at: None,
            failures: 0,
            watched: Vec::new(),
            waits_for: None,
        }
    }

    /// Maximum number of tasks of the next slice.
    pub(super) fn slice(&self) -> usize {
        // Those of two seconds: it is begun late by about one.
        let by_rate = self.pace.per_minute.map(|rate| (rate / 30).max(1));
        let by_failures = self.room();
        let all = [by_rate, self.sample_left, by_failures];
        let most = all.into_iter().flatten().min();
        most.map_or(usize::MAX, |most| most as usize)
    }

    /// How many more tasks may be under way.
    fn room(&self) -> Option<u32> {
        let (least, most) = UNDER_WAY_BOUNDS;
        let may = self.pace.max_failures?.saturating_mul(UNDER_WAY);
        let watched = u32::try_from(self.watched.len()).unwrap_or(u32::MAX);
        Some(may.clamp(least, most).saturating_sub(watched))
    }

    /// A slice of this many tasks begins now.
    pub(super) fn begin(&mut self, tasks: usize, now: DbTime) {
        self.waits_for = None;
        if self.pace.per_minute.is_none() {
            self.next_at = None;
            return;
        }
        let on_time = self.next_at.filter(|next| next.later(LATE) >= now);
        self.next_at = Some(on_time.unwrap_or(now).later(self.lasts(tasks)));
    }

    /// How long so many tasks take at its rate.
    fn lasts(&self, tasks: usize) -> Duration {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        let rate = self.pace.per_minute.filter(|rate| *rate > 0);
        rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs(60).saturating_mul(tasks) / rate
        })
    }

    /// When the next slice may begin.
    pub(super) fn next(&self, now: DbTime) -> DbTime {
        self.next_at.map_or(now, |next| next.max(now))
    }

    /// Counts what became of the tasks of a slice, and of those above them.
    pub(super) fn count(&mut self, slice: usize, outcomes: &[(Chosen, Outcome)]) {
        let cost = outcomes.len().saturating_sub(slice);
        self.next_at = self.next_at.map(|next| next.later(self.lasts(cost)));
        if outcomes.iter().all(|(_, it)| it.undecided().is_some()) {
            // Another process is to try at once.
            self.next_at = None;
        }
        for (chosen, outcome) in outcomes {
            let goes_on = match outcome {
                Outcome::Done { new_task } => new_task.unwrap_or(chosen.task),
                Outcome::Failed(_) => {
                    self.failures = self.failures.saturating_add(1);
                    self.sample_left = self.sample_left.map(|left| left.saturating_sub(1));
                    continue;
                }
                Outcome::Skipped
                | Outcome::AlreadyRunAgain
                | Outcome::Counted
                | Outcome::Undecided(_) => continue,
            };
            self.sample_left = self.sample_left.map(|left| left.saturating_sub(1));
            if self.pace.max_failures.is_some() {
                self.watched.push(Watched {
                    task: goes_on,
                    forward: chosen.forward,
                });
            }
        }
    }

    /// Why it pauses now.
    pub(super) fn pauses_for(&self) -> Option<PausedFor> {
        if self
            .pace
            .max_failures
            .is_some_and(|most| self.failures >= most)
        {
            return Some(PausedFor::Failures);
        }
        (self.sample_left == Some(0)).then_some(PausedFor::Sample)
    }

    /// A person lets it go on. How those end that were decided on before is theirs to see.
    pub(super) fn resume(&mut self) {
        self.failures = 0;
        self.watched.clear();
        if self.sample_left == Some(0) {
            self.sample_left = None;
        }
    }

    /// Looks at the tasks that are under way, and counts those that have gone wrong.
    pub(super) async fn look(&mut self, engine: &Engine) -> Result<(), StoreError> {
        if self.watched.is_empty() {
            return Ok(());
        }
        let store = &engine.ports.store;
        let tasks: Vec<TaskId> = self.watched.iter().map(|it| it.task).collect();
        let lines = store.lines(&tasks).await?;
        let status = |task| lines.iter().find(|it| it.task == task).map(|it| it.status);
        let waiting = tasks.iter().copied();
        let waiting: Vec<TaskId> = waiting
            .filter(|task| status(*task) == Some(TaskStatus::Waiting))
            .collect();
        let have_passed = passed(store, &waiting).await?;
        let mut failures = 0;
        self.watched.retain(|watched| {
            let Some(status) = status(watched.task) else {
                return false;
            };
            let failed = status.is_parked() || (watched.forward && status == TaskStatus::Failed);
            failures += u32::from(failed);
            !failed && !status.is_terminal() && !have_passed.contains(&watched.task)
        });
        self.failures = self.failures.saturating_add(failures);
        Ok(())
    }

    /// When it looks again, where as many tasks are under way as may be.
    pub(super) fn waits_for_tasks(&mut self, now: DbTime) -> Option<DbTime> {
        if self.room() != Some(0) {
            return None;
        }
        let tasks = self.watched.len();
        self.waits_for = Some(format!("{tasks} of its tasks, which are under way"));
        Some(now.later(LOOKS_AGAIN))
    }

    /// When it looks again, where this breaker is open.
    pub(super) fn waits_for_breaker(&mut self, name: &str, now: DbTime) -> DbTime {
        self.waits_for = Some(format!("the circuit breaker `{name}`, which is open"));
        now.later(BREAKER)
    }

    /// The slice that begins is one task, to see whether a breaker closes by it: others are not begun for a moment, also without a rate.
    pub(super) fn waits_for_it(&mut self, now: DbTime) {
        let next = self.next_at.unwrap_or(now);
        self.next_at = Some(next.max(now.later(LOOKS_AGAIN)));
    }
}

/// Those of these tasks that wait for what may take days: they have done what they had failed at. Others wait for a retry, or a turn.
async fn passed(store: &Store, waiting: &[TaskId]) -> Result<BTreeSet<TaskId>, StoreError> {
    if waiting.is_empty() {
        return Ok(BTreeSet::new());
    }
    let records = store.records(waiting, LoadFor::State).await?;
    let passed = records.into_iter().filter(|(_, record)| {
        let record = record.as_ref();
        record.is_ok_and(|record| {
            matches!(
                record.task.waiting,
                Some(WaitReason::Timer | WaitReason::Signal | WaitReason::Children)
            )
        })
    });
    Ok(passed.map(|(task, _)| task).collect())
}

/// How the breakers of the steps of some types stand, taken together.
pub(super) enum Breakers {
    Closed,
    /// One lets a single attempt through, to see what comes of it.
    HalfOpen,
    /// This one lets none through.
    Open(String),
}

/// How those of the steps of these types stand.
pub(super) async fn breakers(
    engine: &Engine,
    types: &BTreeSet<String>,
) -> Result<Breakers, StoreError> {
    let known = engine.registry.iter();
    let known = known.filter(|it| types.contains(it.decl.name));
    let steps = known.flat_map(|it| it.decl.steps.iter().map(|step| (it.decl.name, step)));
    let keys = steps.filter_map(|(name, step)| {
        let policy = engine.settings.policies.breaker_of(step)?;
        Some(policy.key_of(name, step.name))
    });
    let keys: BTreeSet<String> = keys.collect();
    if keys.is_empty() {
        return Ok(Breakers::Closed);
    }
    let all = breakers_of_all(engine).await?;
    let all = all.into_iter().filter(|it| keys.contains(&it.name));
    let mut found = Breakers::Closed;
    for it in all {
        match it.state {
            BreakerStanding::Open => return Ok(Breakers::Open(it.name)),
            BreakerStanding::HalfOpen => found = Breakers::HalfOpen,
            BreakerStanding::Closed => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: DbTime = DbTime(1_800_000_000_000_000);

    fn at(per_minute: Option<u32>) -> Pacing {
        Pacing::new(Pace {
            per_minute,
            ..Pace::default()
        })
    }

    #[test]
    fn behind_the_one_task_that_tries_a_breaker_others_wait_also_without_a_rate() {
        for rate in [None, Some(60_000)] {
            let mut pacing = at(rate);
            pacing.begin(1, NOW);
            pacing.waits_for_it(NOW);
            assert_eq!(pacing.next(NOW), NOW.later(LOOKS_AGAIN), "{rate:?}");
            pacing.begin(1, NOW.later(LOOKS_AGAIN));
            assert!(pacing.next(NOW) <= NOW.later(LOOKS_AGAIN * 2), "{rate:?}");
        }
    }

    #[test]
    fn a_slice_that_is_late_by_a_moment_delays_none_behind_it_and_more_is_not_made_up_for() {
        let second = Duration::from_secs(1);
        let mut pacing = at(Some(60));
        pacing.begin(2, NOW);
        assert_eq!(pacing.next(NOW), NOW.later(second * 2));
        pacing.begin(2, NOW.later(second * 3));
        assert_eq!(pacing.next(NOW), NOW.later(second * 4));
        pacing.begin(2, NOW.later(second * 60));
        assert_eq!(pacing.next(NOW), NOW.later(second * 62));
    }
}
