//! One process as people look at it: what it runs, what it ran last, and how often attempts failed in that, there and in the processes
//! beside it. Decides nothing.

use crate::admission::paused_workers::paused_workers;
use crate::engine::Engine;
use crate::ports::{EndedTurn, RunningTurn, StoreError, WorkerSeen, Workers};
use crate::record::DbTime;
use crate::times::rfc3339;
use counterstep_contracts::TaskId;
use counterstep_contracts::workers::{
    FailureShare, NeighboursView, RecentTurnView, RunningTaskView, WorkerDetails, WorkerState,
};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::time::Duration;

/// A process; `None`: none of this id was seen in the last day.
///
/// # Errors
/// When the store does not answer.
pub fn worker_details<'a>(
    engine: &'a Engine,
    id: &'a str,
) -> BoxFuture<'a, Result<Option<WorkerDetails>, StoreError>> {
    Box::pin(async move {
        let found = engine.ports.store.workers().await?;
        let Some(own) = found.rows.iter().find(|seen| seen.row.id == id) else {
            return Ok(None);
        };
        let (row, now) = (&own.row, found.now);
        let activity = &row.activity;
        let running = row.running.iter().map(|task| {
            let turn = activity.turns.iter().find(|turn| turn.task == *task);
            running(*task, turn, now)
        });
        let running = running.collect();
        let recent = activity.recent.iter().map(|turn| recent(turn, now));
        let recent = recent.collect();
        let (failures, neighbours) = compared(own, &found);
        let own = Workers {
            now,
            rows: vec![own.clone()],
        };
        let paused = paused_workers(engine).await?;
        let worker = super::views(own, &paused).into_iter().next();
        Ok(worker.map(|worker| WorkerDetails {
            worker,
            running,
            recent,
            failures,
            neighbours,
        }))
    })
}

fn before(now: DbTime, ago: Duration) -> String {
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    rfc3339(DbTime(now.0.saturating_sub(micros)))
}

fn running(task_id: TaskId, turn: Option<&RunningTurn>, now: DbTime) -> RunningTaskView {
    RunningTaskView {
        task_id,
        task_type: turn.map(|it| it.task_type.clone()),
        step: turn.and_then(|it| it.step.clone()),
        since: turn.map(|it| before(now, it.ago)),
    }
}

fn recent(turn: &EndedTurn, now: DbTime) -> RecentTurnView {
    RecentTurnView {
        task_id: turn.task,
        task_type: turn.task_type.clone(),
        outcome: turn.outcome,
        failed_attempts: turn.failed_attempts,
        ended_at: before(now, turn.ago),
        took_millis: u64::try_from(turn.took.as_millis()).unwrap_or(u64::MAX),
    }
}

/// How many of these turns had a failed attempt.
fn share<'a>(turns: impl Iterator<Item = &'a EndedTurn>) -> FailureShare {
    let mut share = FailureShare::default();
    for turn in turns {
        share.turns += 1;
        share.failed += u64::from(turn.failed_attempts > 0);
    }
    share
}

/// Of a process, and of the others that are alive. Turns of other types would compare tasks, and not processes.
fn compared(own: &WorkerSeen, all: &Workers) -> (FailureShare, NeighboursView) {
    let its = &own.row.activity.recent;
    let types: BTreeSet<&str> = its.iter().map(|turn| &*turn.task_type).collect();
    let mut neighbours = NeighboursView::default();
    for seen in &all.rows {
        if seen.row.id == own.row.id || seen.state(all.now) != WorkerState::Alive {
            continue;
        }
        let turns = seen.row.activity.recent.iter();
        let its = share(turns.filter(|turn| types.contains(&*turn.task_type)));
        neighbours.processes += u64::from(its.turns > 0);
        neighbours.failures.failed += its.failed;
        neighbours.failures.turns += its.turns;
    }
    (share(its.iter()), neighbours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{Activity, WorkerRow};
    use counterstep_contracts::workers::TurnOutcome;
    use std::collections::BTreeMap;
    use uuid::Uuid;

    fn turn(task_type: &str, failed_attempts: u32) -> EndedTurn {
        EndedTurn {
            task: TaskId(Uuid::nil()),
            task_type: task_type.to_owned(),
            outcome: TurnOutcome::Completed,
            failed_attempts,
            took: Duration::from_millis(1_500),
            ago: Duration::from_secs(61),
        }
    }

    /// A process that was seen at this second.
    fn process(id: &str, seen_at: i64, recent: Vec<EndedTurn>) -> WorkerSeen {
        let row = WorkerRow {
            id: id.to_owned(),
            machine: "w1".to_owned(),
            program: "0.1.0".to_owned(),
            queues: Vec::new(),
            types: Vec::new(),
            concurrency: 4,
            running: Vec::new(),
            running_count: 0,
            heavy: 1,
            heavy_count: 0,
            permits: BTreeMap::new(),
            abandoned_count: 0,
            lost_after: Duration::from_secs(45),
            passed: None,
            kept: None,
            fetch_errors: Vec::new(),
            breakers: BTreeMap::new(),
            activity: Activity {
                recent,
                ..Activity::default()
            },
            started_at: None,
            is_stopped: false,
        };
        let seen_at = DbTime(seen_at * 1_000_000);
        WorkerSeen { row, seen_at }
    }

    #[test]
    fn a_process_is_compared_with_the_turns_of_the_same_types_of_processes_that_are_alive() {
        let own = process(
            "worker:1",
            100,
            vec![turn("A", 3), turn("A", 0), turn("B", 0)],
        );
        let rows = vec![
            own.clone(),
            process(
                "worker:2",
                90,
                vec![turn("A", 0), turn("A", 1), turn("C", 1)],
            ),
            process("worker:3", 99, vec![turn("C", 1)]),
            process("worker:4", 1, vec![turn("A", 1)]),
        ];
        let all = Workers {
            now: DbTime(100_000_000),
            rows,
        };
        let (failures, neighbours) = compared(&own, &all);
        let share = |failed, turns| FailureShare { failed, turns };
        assert_eq!(failures, share(1, 3));
        let expected = NeighboursView {
            processes: 1,
            failures: share(1, 2),
        };
        assert_eq!(neighbours, expected);
    }

    #[test]
    fn times_are_those_of_the_database() {
        let now = DbTime(3_600_000_000);
        let view = recent(&turn("A", 1), now);
        let expected = (rfc3339(DbTime(3_539_000_000)), 1_500);
        assert_eq!((view.ended_at, view.took_millis), expected);
        let waits = running(TaskId(Uuid::nil()), None, now);
        assert_eq!((waits.task_type, waits.since), (None, None));
    }
}
