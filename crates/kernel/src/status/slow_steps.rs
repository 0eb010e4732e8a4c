//! How long the steps of tasks took, from the journals of these tasks. Must not read more tasks than the caller names, nor
//! more rows than a bound says.

use crate::journal::{Fold, JournalWalk};
use crate::ports::{Store, StoreError, TaskQuery};
use counterstep_contracts::slow_steps::{SlowStep, SlowSteps};
use counterstep_contracts::{Direction, Outcome, TaskId};
use std::collections::BTreeMap;

/// Maximum number of rows of all journals together.
const MOST_ROWS: u32 = 20_000;

/// How long attempts at a step took, in milliseconds, and their tasks.
type Times = Vec<(u64, TaskId)>;

/// The steps of the newest tasks that fit.
///
/// # Errors
/// When the store does not answer.
pub async fn slow_steps(store: &Store, tasks: &TaskQuery) -> Result<SlowSteps, StoreError> {
    let (mut times, mut rows, mut looked_at) = (BTreeMap::new(), 0, 0);
    for line in store.list(tasks).await?.lines {
        if rows == MOST_ROWS {
            break;
        }
        looked_at += 1;
        let mut fold = Fold::new(line.task);
        let mut walk = JournalWalk::of(store, Some(line.task.to_string()));
        while rows < MOST_ROWS
            && let Some(row) = walk.next().await?
        {
            rows += 1;
            if let Some(row) = row.journal_row() {
                // Damage is for the check of the audit. It hides no other row.
                drop(fold.push_damaged(&row));
            }
        }
        add(&mut times, &fold);
    }
    let items = times.into_iter().map(|(step, times)| row(step, times));
    let mut items: Vec<_> = items.collect();
    items.sort_by_key(|it: &SlowStep| std::cmp::Reverse(it.p95_ms));
    Ok(SlowSteps {
        items,
        tasks: looked_at,
        complete: rows < MOST_ROWS,
    })
}

fn add(times: &mut BTreeMap<String, Times>, fold: &Fold) {
    for attempt in fold.attempts() {
        let has_ended = matches!(attempt.outcome, Some(Outcome::Succeeded | Outcome::Failed));
        // One change has both: it ran before anything was written of it.
        let took = attempt.ended_at.map_or(0, |it| it.0 - attempt.started_at.0);
        let steps = &fold.record().steps;
        let step = steps.iter().find(|it| it.no == attempt.step);
        if let Some(step) = step.filter(|_| has_ended && took > 0)
            && attempt.direction == Direction::Forward
        {
            let millis = u64::try_from(took / 1_000).unwrap_or(0);
            let of_step = times.entry(step.name.clone()).or_default();
            of_step.push((millis, fold.record().task.id));
        }
    }
}

/// There is one of them at least.
fn row(step: String, mut times: Times) -> SlowStep {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
    let (max_ms, slowest) = at(100);
    SlowStep {
        step,
        count: u32::try_from(times.len()).unwrap_or(u32::MAX),
        median_ms: at(50).0,
        p95_ms: at(95).0,
        max_ms,
        slowest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn percentiles_are_times_of_attempts() {
        let id = |of: u64| TaskId(Uuid::from_u128(of.into()));
        let times = |all: &[u64]| all.iter().map(|it| (*it, id(*it))).collect::<Times>();
        let figures = |all: &[u64]| {
            let row = row("pay".to_owned(), times(all));
            (row.count, row.median_ms, row.p95_ms, row.max_ms)
        };
        assert_eq!(figures(&[7]), (1, 7, 7, 7));
        assert_eq!(figures(&[9, 1]), (2, 1, 9, 9));
        let hundred: Vec<_> = (1..=100).rev().collect();
        assert_eq!(figures(&hundred), (100, 50, 95, 100));
        assert_eq!(row("pay".to_owned(), times(&hundred)).slowest, id(100));
    }
}
