//! Statements that move a time of tasks and change nothing else of them.

use super::statement::{Statement, interval, values};
use crate::rows::TouchedTypes;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::Touch;
use uuid::Uuid;

macro_rules! touched {
    ($statement:literal) => {
        concat!(
            $statement,
            " RETURNING t.id, t.task_type, t.version, t.rev, t.queue, t.traceparent"
        )
    };
}

/// Moves a time of tasks. A row that another transaction holds is not waited for, but by a wake.
pub(super) fn touch(touch: &Touch) -> Statement<'static, TouchedTypes> {
    let sorted = |tasks: &[TaskId]| {
        let mut ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
        ids.sort_unstable();
        ids
    };
    match touch {
        // It does not wait for the disk: after a power cut nothing is reserved.
        Touch::Reserve { lost, ttl } => Statement::of(
            touched!(
                "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set),
           free AS (SELECT id FROM tasks WHERE id = ANY(?) AND lease_owner IS NOT NULL AND lease_expires_at <= now()
             AND (held_until IS NULL OR held_until <= now() OR held_epoch <> epoch) FOR UPDATE SKIP LOCKED)
         UPDATE tasks t SET held_until = now() + ?, held_epoch = epoch FROM relaxed, free
         WHERE t.id = free.id AND relaxed.set IS NOT NULL"
            ),
            values![sorted(lost), interval(*ttl)],
        ),
        Touch::PutOff { tasks, by } => Statement::of(
            touched!(
                "WITH asked AS MATERIALIZED (
           SELECT id FROM tasks WHERE id = ANY(?) AND sweep_at IS NOT NULL ORDER BY id FOR UPDATE SKIP LOCKED)
         UPDATE tasks t SET sweep_at = now() + ? FROM asked WHERE t.id = asked.id"
            ),
            values![sorted(tasks), interval(*by)],
        ),
        Touch::Wake(task) => Statement::of(
            touched!(
                "UPDATE tasks t SET due_at = now() WHERE id = ? AND lease_owner IS NULL AND due_at > now()
           AND (waiting IN ('children', 'concurrency') OR status = 'compensating')"
            ),
            values![task.0],
        ),
    }
}
