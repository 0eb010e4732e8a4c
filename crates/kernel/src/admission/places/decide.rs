//! What becomes of a task that wants a place, worked out from the rows of its key. Pure.

use super::Allowed;
use crate::ports::PlaceRow;
use crate::record::DbTime;
use counterstep_contracts::{Beyond, TaskId, TaskStatus, WaitReason};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a task gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The place with this number.
    Free(u32),
    /// None now.
    Full,
    /// None for this time: another submission of the key may come, and replace it.
    Early(Duration),
    /// None at all: this newer one has its place.
    Replaced(TaskId),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) verdict: Verdict,
    /// They sleep though there is a place for them.
    pub(super) wake: Vec<TaskId>,
    /// They are asked to make room.
    pub(super) cancel: Vec<TaskId>,
}

/// The numbers that may be given out now. None while as many are held as are allowed, also where some of
/// those have numbers from a time when more were.
pub(crate) fn free_numbers(rows: &[PlaceRow], at_once: u32) -> Vec<u32> {
    let held: BTreeSet<u32> = rows.iter().filter_map(|row| row.no).collect();
    let left = at_once.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
    (0..at_once)
        .filter(|no| !held.contains(no))
        .take(usize::try_from(left).unwrap_or(usize::MAX))
        .collect()
}

fn is_asleep(row: &PlaceRow) -> bool {
    row.waiting == Some(WaitReason::Concurrency)
}

/// Those that sleep though there is a place for them; the line in the order in which places are given.
pub(super) fn to_wake(rows: &[PlaceRow], at_once: u32) -> Vec<TaskId> {
    let line = rows.iter().filter(|row| row.no.is_none());
    let next = line.take(free_numbers(rows, at_once).len());
    next.filter(|row| is_asleep(row))
        .map(|row| row.task)
        .collect()
}

/// `rows`: those of the key, as the kind of [`Allowed`] wants them; `task`: when it was submitted, and its id.
pub(super) fn decide(
    rows: &[PlaceRow],
    task: (DbTime, TaskId),
    allowed: Allowed,
    now: DbTime,
) -> Decided {
    // Its row says what it counts as newer than.
    let task = rows
        .iter()
        .find(|row| row.task == task.1)
        .map_or(task, place);
    match allowed.debounce {
        Some(debounce) => debounced(rows, task, allowed, debounce, now),
        None => counted(rows, task, allowed),
    }
}

fn counted(rows: &[PlaceRow], task: (DbTime, TaskId), allowed: Allowed) -> Decided {
    match allowed.beyond {
        Beyond::Wait | Beyond::Refuse => in_line(rows, task, allowed.at_once),
        Beyond::Replace => newest(rows, task, allowed.at_once),
    }
}

/// Of those that have not started, only the newest may, and only when no newer one came for some time.
fn debounced(
    rows: &[PlaceRow],
    task: (DbTime, TaskId),
    allowed: Allowed,
    debounce: Duration,
    now: DbTime,
) -> Decided {
    let (held, others): (Vec<_>, Vec<_>) = rows
        .iter()
        .filter(|row| row.task != task.1)
        .cloned()
        .partition(|row| row.no.is_some());
    let newer = others.iter().filter(|row| place(row) > task);
    if let Some(newest) = newer.max_by_key(|row| place(row)) {
        return Decided {
            verdict: Verdict::Replaced(newest.task),
            wake: Vec::new(),
            cancel: Vec::new(),
        };
    }
    let left = task.0.later(debounce).after(now);
    let mut decided = if left.is_zero() {
        counted(&held, task, allowed)
    } else {
        Decided {
            verdict: Verdict::Early(left),
            wake: Vec::new(),
            cancel: Vec::new(),
        }
    };
    let older = others.iter().filter(|row| goes(row));
    decided.cancel.extend(older.map(|row| row.task));
    decided
}

/// Whether it is asked to make room: not where it does already.
fn goes(row: &PlaceRow) -> bool {
    !row.cancel_requested && row.status != TaskStatus::Compensating
}

fn place(row: &PlaceRow) -> (DbTime, TaskId) {
    (row.since, row.task)
}

/// The oldest first.
fn in_line(rows: &[PlaceRow], task: (DbTime, TaskId), at_once: u32) -> Decided {
    let free = free_numbers(rows, at_once);
    let before = rows
        .iter()
        .filter(|row| row.no.is_none() && place(row) < task);
    let before: Vec<_> = before.collect();
    let next = before.iter().take(free.len());
    let asleep = next.filter(|row| is_asleep(row)).map(|row| row.task);
    let wake = asleep.collect();
    // By its rank: those that ask at the same time ask for different ones.
    let verdict = free
        .get(before.len())
        .map_or(Verdict::Full, |no| Verdict::Free(*no));
    Decided {
        verdict,
        wake,
        cancel: Vec::new(),
    }
}

/// The newest have the places, and the others make room.
fn newest(rows: &[PlaceRow], task: (DbTime, TaskId), at_once: u32) -> Decided {
    let most = usize::try_from(at_once).unwrap_or(usize::MAX);
    let mut others: Vec<&PlaceRow> = rows.iter().filter(|row| row.task != task.1).collect();
    others.sort_by_key(|row| std::cmp::Reverse(place(row)));
    let newer = others.iter().take_while(|row| place(row) > task).count();
    if newer >= most {
        return Decided {
            verdict: Verdict::Replaced(others[0].task),
            wake: Vec::new(),
            cancel: Vec::new(),
        };
    }
    // The task itself is one of the newest.
    let (stay, go) = others.split_at(others.len().min(most - 1));
    let rank = stay
        .iter()
        .filter(|row| row.no.is_none() && place(row) > task)
        .count();
    let verdict = free_numbers(rows, at_once)
        .get(rank)
        .map_or(Verdict::Full, |no| Verdict::Free(*no));
    Decided {
        verdict,
        wake: Vec::new(),
        cancel: go
            .iter()
            .filter(|row| goes(row))
            .map(|row| row.task)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> TaskId {
        TaskId(uuid::Uuid::from_u128(n))
    }

    /// A task that was submitted at this time.
    fn row(at: u32, no: Option<u32>) -> PlaceRow {
        PlaceRow {
            key: "Import".to_owned(),
            task: id(at.into()),
            no,
            since: DbTime(at.into()),
            status: no.map_or(TaskStatus::Dispatched, |_| TaskStatus::Running),
            waiting: None,
            cancel_requested: false,
        }
    }

    fn asleep(at: u32) -> PlaceRow {
        PlaceRow {
            status: TaskStatus::Waiting,
            waiting: Some(WaitReason::Concurrency),
            ..row(at, None)
        }
    }

    fn of(at: u32, rows: &[PlaceRow], at_once: u32, beyond: Beyond) -> Decided {
        let allowed = Allowed {
            at_once,
            beyond,
            debounce: None,
        };
        decide(
            rows,
            (DbTime(at.into()), id(at.into())),
            allowed,
            DbTime(at.into()),
        )
    }

    /// The same, with ten microseconds without another submission, looked at at `now`.
    fn debounced(at: u32, rows: &[PlaceRow], beyond: Beyond, now: u32) -> Decided {
        let allowed = Allowed {
            at_once: 1,
            beyond,
            debounce: Some(Duration::from_micros(10)),
        };
        decide(
            rows,
            (DbTime(at.into()), id(at.into())),
            allowed,
            DbTime(now.into()),
        )
    }

    #[test]
    fn the_newest_starts_when_no_other_came_for_some_time_and_replaces_those_that_have_not_started()
    {
        let rows = [row(1, Some(0)), row(2, None), row(3, None)];
        assert_eq!(
            debounced(2, &rows, Beyond::Wait, 50).verdict,
            Verdict::Replaced(id(3))
        );
        let early = debounced(3, &rows, Beyond::Wait, 6);
        assert_eq!(
            (early.verdict, early.cancel),
            (Verdict::Early(Duration::from_micros(7)), vec![id(2)])
        );
        let waits = debounced(3, &rows, Beyond::Wait, 13);
        assert_eq!((waits.verdict, waits.cancel), (Verdict::Full, vec![id(2)]));
        let replaces = debounced(3, &rows, Beyond::Replace, 13);
        assert_eq!(
            (replaces.verdict, replaces.cancel),
            (Verdict::Full, vec![id(1), id(2)])
        );
        let early = debounced(3, &rows, Beyond::Replace, 6);
        assert_eq!(early.cancel, [id(2)], "what has started goes on until then");
        assert_eq!(
            debounced(3, &rows[2..], Beyond::Wait, 13).verdict,
            Verdict::Free(0)
        );
    }

    #[test]
    fn the_oldest_have_the_free_places_each_its_own() {
        let rows = [row(1, Some(1)), row(2, None), row(3, None), row(4, None)];
        let verdict = |at| of(at, &rows, 3, Beyond::Wait).verdict;
        assert_eq!(verdict(2), Verdict::Free(0));
        assert_eq!(verdict(3), Verdict::Free(2));
        assert_eq!(verdict(4), Verdict::Full);
    }

    #[test]
    fn a_task_that_stands_in_no_row_has_its_place_in_line_too() {
        let rows = [row(1, None), row(5, None)];
        assert_eq!(of(3, &rows, 2, Beyond::Wait).verdict, Verdict::Free(1));
        assert_eq!(of(7, &rows, 2, Beyond::Wait).verdict, Verdict::Full);
    }

    #[test]
    fn those_that_sleep_before_a_free_place_are_woken() {
        let rows = [row(1, Some(0)), asleep(2), row(3, None), asleep(4)];
        let decided = of(5, &rows, 3, Beyond::Wait);
        assert_eq!(
            (decided.verdict, decided.wake),
            (Verdict::Full, vec![id(2)])
        );
        assert_eq!(to_wake(&rows, 4), [id(2), id(4)]);
        assert_eq!(to_wake(&rows, 1), []);
    }

    #[test]
    fn no_place_is_free_while_more_are_held_than_are_allowed() {
        let held = [row(1, Some(7)), row(2, Some(9))];
        assert!(free_numbers(&held, 2).is_empty());
        assert_eq!(free_numbers(&held[..1], 2), [0]);
        assert_eq!(free_numbers(&[], 2), [0, 1]);
    }

    #[test]
    fn a_newer_task_has_the_older_ones_make_room() {
        let rows = [row(1, Some(0)), row(2, None), row(3, None)];
        let decided = of(3, &rows, 1, Beyond::Replace);
        assert_eq!(
            (decided.verdict, decided.cancel),
            (Verdict::Full, vec![id(2), id(1)])
        );
        let decided = of(2, &rows, 1, Beyond::Replace);
        assert_eq!(
            (decided.verdict, decided.cancel),
            (Verdict::Replaced(id(3)), vec![])
        );
        let decided = of(3, &rows[2..], 1, Beyond::Replace);
        assert_eq!(decided.verdict, Verdict::Free(0));
    }

    #[test]
    fn a_task_counts_since_the_time_of_its_row() {
        let late = PlaceRow {
            since: DbTime(3),
            ..row(1, None)
        };
        let rows = [row(2, Some(0)), late];
        let decided = of(1, &rows, 1, Beyond::Replace);
        assert_eq!(
            (decided.verdict, decided.cancel),
            (Verdict::Full, vec![id(2)])
        );
    }

    #[test]
    fn who_makes_room_already_is_not_asked_again() {
        let leaving = |cancel_requested, status| PlaceRow {
            cancel_requested,
            status,
            ..row(1, Some(0))
        };
        for row in [
            leaving(true, TaskStatus::Running),
            leaving(false, TaskStatus::Compensating),
        ] {
            let decided = of(3, &[row], 1, Beyond::Replace);
            assert_eq!((decided.verdict, decided.cancel), (Verdict::Full, vec![]));
        }
    }

    #[test]
    fn the_newest_of_several_places_stay() {
        let rows = [row(1, Some(0)), row(2, Some(1)), row(3, None), row(4, None)];
        let decided = of(4, &rows, 2, Beyond::Replace);
        assert_eq!(
            (decided.verdict, decided.cancel),
            (Verdict::Full, vec![id(2), id(1)])
        );
        assert_eq!(
            of(4, &rows[2..], 2, Beyond::Replace).verdict,
            Verdict::Free(0)
        );
        assert_eq!(
            of(3, &rows[2..], 2, Beyond::Replace).verdict,
            Verdict::Free(1)
        );
    }
}
