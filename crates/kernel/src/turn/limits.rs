//! How long an attempt may take.

use crate::engine::Engine;
use crate::task::TaskType;
use counterstep_contracts::Direction;
use std::time::Duration;

/// Limit of an attempt, and the time after which its objects are orphans: no writer can be alive
/// then.
pub(crate) fn limits(
    engine: &Engine,
    task_type: &TaskType,
    at: usize,
    direction: Direction,
) -> (Duration, Duration) {
    let step = &task_type.decl.steps[at];
    let declared = engine.settings.policies.attempt_timeout(step, direction);
    let limit = declared.unwrap_or(engine.settings.step_timeout);
    let limit = engine
        .settings
        .longest_attempt
        .map_or(limit, |longest| limit.min(longest));
    (
        limit,
        limit + engine.settings.cancel_grace + engine.lease_of(task_type),
    )
}
