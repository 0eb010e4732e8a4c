//! How the breaker of a step stands, without taking anything of it.

use crate::breaker::{Breaker, BreakerState};
use crate::engine::Engine;
use crate::ports::PortsRuntime;
use crate::task::TaskType;
use std::sync::Arc;
use std::time::Duration;

/// What a breaker says before anything is taken.
pub(super) enum Look {
    /// It is closed.
    Goes,
    /// It is half-open, and no attempt probes.
    MayProbe,
    /// For this time, as far as is known.
    Waits(Duration),
}

pub(super) async fn look(breaker: &Breaker) -> Look {
    match breaker.standing().await {
        BreakerState::Closed => Look::Goes,
        BreakerState::Open(left) => Look::Waits(left),
        BreakerState::HalfOpen => breaker.probing().await.map_or(Look::MayProbe, Look::Waits),
    }
}

/// Whether the breaker of a step holds it back, before the task is claimed.
pub(super) async fn holds_back(engine: &Engine, task_type: &TaskType, at: usize) -> bool {
    let Some(breaker) = breaker_of(engine, task_type, at) else {
        return false;
    };
    matches!(look(&breaker).await, Look::Waits(_))
}

/// The breaker of a step, where it has one.
pub(crate) fn breaker_of(engine: &Engine, task_type: &TaskType, at: usize) -> Option<Breaker> {
    let step = &task_type.decl.steps[at];
    let policy = engine.settings.policies.breaker_of(step)?;
    let runtime = Arc::new(PortsRuntime::from(&engine.ports));
    let key = policy.key_of(task_type.decl.name, step.name);
    Some(Breaker::new(
        &key,
        policy,
        engine.ports.hints.clone(),
        runtime,
    ))
}
