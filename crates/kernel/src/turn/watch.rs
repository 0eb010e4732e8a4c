//! What ends an attempt from outside: its time limit, its silence, scratch files that are too large, the loss of its permit, a cancel that it
//! does not heed. Must not end anything itself.

use super::attempt::StoppedBy;
use super::scratch_use::ScratchUse;
use crate::admission::limits::LimitPermit;
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::error::{ErrorClass, StepError};
use crate::turn::attempt_heartbeats::Liveness;
use counterstep_contracts::retry::format_duration;
use futures::future::pending;
use std::time::Duration;

/// An attempt that is watched.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    /// How long it may run.
    pub(super) limit: Duration,
    pub(super) cancel: &'a CancelToken,
    pub(super) permit: Option<&'a LimitPermit>,
    /// It has to say that it is alive within each such time.
    pub(super) heartbeat: Option<(Duration, &'a Liveness)>,
    pub(super) scratch: &'a ScratchUse,
}

/// How an attempt has ended, whatever its code does from then on.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) error: StepError,
    /// It has not failed: its outcome is unknown.
    pub(super) stopped_by: Option<StoppedBy>,
}

/// Ends with what has ended the attempt.
pub(super) async fn watch(engine: &Engine, watched: Watched<'_>) -> Late {
    let failed = |error| Late {
        error,
        stopped_by: None,
    };
    tokio::select! {
        biased;
        error = limit(engine, watched.limit) => failed(error),
        error = silence(watched.heartbeat) => failed(error),
        error = watched.scratch.too_much(engine) => failed(error),
        error = cancelled(engine, watched.cancel) => failed(error),
        error = lost_permit(watched.permit) => Late {
            error,
            stopped_by: Some(StoppedBy::PermitLost),
        },
    }
}

fn timed_out(why: impl std::fmt::Display) -> StepError {
    StepError::new(ErrorClass::TimedOut, why)
}

async fn limit(engine: &Engine, limit: Duration) -> StepError {
    engine.ports.clock.sleep(limit).await;
    timed_out(format_args!(
        "ran longer than its limit of {}",
        format_duration(limit)
    ))
}

async fn silence(heartbeat: Option<(Duration, &Liveness)>) -> StepError {
    let Some((limit, beats)) = heartbeat else {
        return pending().await;
    };
    beats.silent_for(limit).await;
    timed_out(format_args!(
        "gave no heartbeat, and told no progress, for {}",
        format_duration(limit)
    ))
}

async fn lost_permit(permit: Option<&LimitPermit>) -> StepError {
    let Some(permit) = permit else {
        return pending().await;
    };
    permit.lost().await;
    StepError::transient(format_args!(
        "its permit of the limit `{}` is lost: it could not be renewed for a lease",
        permit.limit()
    ))
}

async fn cancelled(engine: &Engine, cancel: &CancelToken) -> StepError {
    cancel.cancelled().await;
    engine.ports.clock.sleep(engine.settings.cancel_grace).await;
    StepError::cancelled()
}
