//! Results of attempts that the store could not be given. They are kept in the spool of this process, over its restarts too,
//! until a turn commits them under their epoch, or the rows show that they are written, or another host's. Must not commit
//! one: turns do.

mod body;
mod decide;
mod seal;
mod settle;
mod take;

pub(crate) use settle::KeptResult;
pub(crate) use take::Resumed;

pub use seal::{InvalidSealSecret, SealSecrets};

use crate::change::ChangeError;
use crate::engine::Engine;
use crate::ports::{Observation, Spool, SpoolEntry, SpoolKey, SpoolOutcome};
use crate::record::TaskRecord;
use crate::turn::Ended;
use counterstep_contracts::{Direction, Epoch, Tenant};
use counterstep_steps::task::KnownType;

/// The attempt that a result belongs to.
#[derive(Debug, Clone)]
pub(crate) struct ResultPlace {
    pub(crate) key: SpoolKey,
    epoch: Epoch,
    task_type: KnownType,
    tenant: Tenant,
}

impl ResultPlace {
    /// The last attempt of a step, at this position of the declaration.
    pub(crate) fn of(record: &TaskRecord, at: usize, direction: Direction) -> Self {
        let (task, row) = (&record.task, &record.steps[at]);
        Self {
            key: SpoolKey {
                task: task.id,
                step: row.no,
                direction,
                attempt: row.last_attempt(direction),
            },
            epoch: task.epoch,
            task_type: KnownType {
                name: task.task_type.clone(),
                version: task.version,
                definition: task.definition_hash.clone(),
            },
            tenant: task.tenant.clone(),
        }
    }

    /// Whether the attempt has not ended, by the rows.
    pub(crate) fn is_open(&self, record: &TaskRecord) -> bool {
        decide::is_open(record, &self.key, self.epoch)
    }
}

/// The spool of a process that has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spooling<'a> {
    engine: &'a Engine,
    spool: &'a dyn Spool,
}

impl<'a> Spooling<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Option<Self> {
        let spool = engine.spool.as_deref()?;
        Some(Self { engine, spool })
    }

    /// Keeps a result. `false`: it is not kept, and the log says why.
    pub(crate) async fn keep(&self, place: &ResultPlace, ended: &Ended) -> bool {
        let (engine, key) = (self.engine, place.key);
        let codec = engine.ports.store.payload_codec();
        let kept = match body::encode(codec, &key, &place.tenant, ended) {
            Ok(body) => {
                let entry = SpoolEntry {
                    key,
                    epoch: place.epoch,
                    worker: engine.id.to_string(),
                    task_type: place.task_type.key(),
                    kept_at: engine.ports.clock.unix_millis(),
                    body,
                };
                self.spool
                    .put(&entry)
                    .await
                    .map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        let SpoolKey {
            task,
            step,
            attempt,
            ..
        } = key;
        match kept {
            Ok(()) => {
                tracing::warn!(%task, %step, %attempt, "the database did not take a result: it is kept in the spool");
                engine.observe(Observation::Spooled(SpoolOutcome::Kept));
                true
            }
            Err(error) => {
                tracing::error!(%task, %step, %attempt, error, "a result cannot be kept: the step will be in doubt");
                engine.observe(Observation::Spooled(SpoolOutcome::Refused));
                false
            }
        }
    }

    /// What became of a commit of a kept result.
    pub(crate) async fn written<T>(&self, place: &ResultPlace, written: &Result<T, ChangeError>) {
        let outcome = match written {
            Ok(_) => SpoolOutcome::Committed,
            // It is looked at again, and named where it is another host's.
            Err(
                ChangeError::Fenced
                | ChangeError::Gone
                | ChangeError::PlaceTaken
                | ChangeError::Store(_),
            ) => return,
            Err(
                ChangeError::Illegal(_)
                | ChangeError::KeyTaken
                | ChangeError::Condemned
                | ChangeError::Sql(_),
            ) => SpoolOutcome::Unusable,
        };
        self.forget(&place.key, outcome).await;
    }

    /// Removes a result, of which this became.
    pub(crate) async fn forget(&self, key: &SpoolKey, outcome: SpoolOutcome) {
        let SpoolKey {
            task,
            step,
            attempt,
            ..
        } = key;
        // It is looked at again: its rows say what became of it.
        if let Err(error) = self.spool.remove(key).await {
            tracing::error!(%task, %step, %attempt, %error, "a result was not removed from the spool");
            return;
        }
        self.engine.observe(Observation::Spooled(outcome));
        match outcome {
            SpoolOutcome::Kept | SpoolOutcome::Refused => {}
            SpoolOutcome::Committed => {
                tracing::info!(%task, %step, %attempt, "a result that was kept in the spool is in the database");
            }
            SpoolOutcome::Fenced | SpoolOutcome::Expired | SpoolOutcome::Unusable => {
                let outcome = outcome.as_str();
                tracing::warn!(%task, %step, %attempt, outcome, "a result that was kept in the spool is dropped");
            }
        }
    }
}
