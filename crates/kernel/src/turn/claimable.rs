//! Whether a task may be claimed by this host here and now. A task that may not start yet is put to sleep, and one
//! that cannot be read is parked.

use super::lock::LOOK_AGAIN;
use super::offer::{Offer, OfferVerdict};
use super::turn_end::{TurnEnd, end_of, tidied};
use super::version;
use crate::admission::isolation::WhenFull;
use crate::admission::places::{self, Asked};
use crate::change::ChangeError;
use crate::dead_letters::quarantine::{Quarantine, quarantine};
use crate::engine::Engine;
use crate::ports::{LoadFor, StoreError};
use crate::record::TaskRecord;
use crate::record::load::fits;
use crate::task::TaskType;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_steps::guard;
use std::time::Duration;

/// The task that is to get a turn.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) task: TaskId,
    pub(super) full: WhenFull,
    /// The message that offers it, where one does.
    pub(super) offer: Option<Offer<'a>>,
}

/// A task that may be claimed here and now.
pub(super) struct Claimable {
    pub(super) task_type: TaskType,
    pub(super) record: TaskRecord,
    /// The number of the place that it takes with the claim.
    pub(super) place: Option<u32>,
}

/// Reads a task that this host may claim; an error is the end of its turn.
pub(super) async fn claimable(
    engine: &Engine,
    host: Host,
    Wanted { task, offer, .. }: Wanted<'_>,
) -> Result<Claimable, TurnEnd> {
    let record = match engine.ports.store.load_for(task, LoadFor::Run).await {
        Ok(Some(record)) => record,
        Ok(None) => {
            // Retention may have taken it. Otherwise the message was another installation's, which
            // now waits for a poll.
            tracing::warn!(%task, "no such task in this database: does another installation share the queue's server?");
            return Err(TurnEnd::Gone);
        }
        Err(StoreError::Corrupt(_)) => return Err(Box::pin(quarantined(engine, task)).await),
        Err(StoreError::Unsupported(why)) => {
            tracing::warn!(%task, why, "the task is left to programs of a newer version");
            return Err(TurnEnd::UnknownType);
        }
        Err(error) => {
            tracing::warn!(%task, %error, "the task could not be read");
            return Err(TurnEnd::StoreDown);
        }
    };
    let row = &record.task;
    match offer.map_or(OfferVerdict::Agrees, |offer| offer.verdict(row)) {
        OfferVerdict::Agrees => {}
        OfferVerdict::Outdated => return Err(TurnEnd::NotNow),
        OfferVerdict::Contradicts(why) => return Err(TurnEnd::Contradicted(why)),
    }
    if row.status.is_at_rest() {
        return Err(TurnEnd::Rests(row.status));
    }
    if !guard!("lease of another host", !record.lease_is_live()) {
        let left = row
            .lease_expires_at
            .map_or(Duration::ZERO, |until| until.after(record.now));
        return Err(TurnEnd::Busy(left));
    }
    // An undo runs on whichever host has it; a forward step where it was placed.
    let elsewhere = row.host != host && row.status != TaskStatus::Compensating;
    if elsewhere || !record.due_in().is_zero() {
        return Err(TurnEnd::NotNow);
    }
    let Some(task_type) = engine.registry.of(&**row) else {
        return Err(Box::pin(version::leave(engine, record)).await);
    };
    if !engine.registry.takes(&task_type) {
        return Err(TurnEnd::UnknownType);
    }
    if !fits(&task_type, &record) {
        return Err(Box::pin(quarantined(engine, task)).await);
    }
    if record.lease_has_expired() {
        // Its owner may go on, and be about to say so.
        let left = engine.is_lost_in(&task_type);
        if !left.is_zero() {
            return Err(TurnEnd::Busy(left));
        }
    }
    match places::ask(engine, &task_type, &record).await {
        Ok(Asked::Goes(place)) => Ok(Claimable {
            task_type,
            record,
            place,
        }),
        Ok(Asked::GivenBack) => Err(TurnEnd::GivenBack),
        Err(error) => Err(end_of(&error, task)),
    }
}

/// Parks a task that cannot be read.
async fn quarantined(engine: &Engine, task: TaskId) -> TurnEnd {
    match quarantine(engine, task).await {
        Ok(Quarantine::Parked(status)) => tidied(engine, task, TurnEnd::Rests(status)).await,
        Ok(Quarantine::MovedOn) => TurnEnd::Busy(LOOK_AGAIN),
        Ok(Quarantine::Unknown) => TurnEnd::UnknownType,
        Err(error) => {
            tracing::error!(%task, %error, "a task can neither be read nor parked");
            match error {
                // No host can, before its row is mended.
                ChangeError::Store(StoreError::Corrupt(_)) => TurnEnd::UnknownType,
                _ => TurnEnd::StoreDown,
            }
        }
    }
}
