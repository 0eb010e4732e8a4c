//! Looks up what is to become of a kept result, and drops it where that is clear. One that another host has made void is
//! named in the audit of its task.

use super::decide::{self, Fate};
use super::{ResultPlace, Spooling, body};
use crate::change::{Author, ChangeError};
use crate::draft::DroppedResult;
use crate::ports::{LoadFor, SpoolEntry, SpoolKey, SpoolOutcome};
use crate::record::TaskRecord;
use crate::record::load::fits;
use crate::task::TaskType;
use crate::turn::Ended;
use crate::webhooks::alerts::{Incident, raise};
use counterstep_contracts::alert::AlertEvent;
use counterstep_contracts::retry::format_duration;
use std::time::Duration;

/// A result that a turn is to write down.
#[derive(Debug)]
pub(crate) struct KeptResult {
    pub(crate) ended: Ended,
    pub(crate) place: ResultPlace,
}

/// What became of a look.
#[derive(Debug)]
pub(super) enum Settled {
    /// A turn is to write it down, of the task as it was read.
    Open(Box<(TaskRecord, KeptResult)>),
    /// It is not in the spool any more.
    Gone,
    /// It stays: the store does not answer, or this process cannot read the task or the result, or leaves the task to others.
    Later,
}

impl Spooling<'_> {
    pub(super) async fn settle(&self, key: &SpoolKey) -> Settled {
        let Self { engine, spool } = *self;
        let entry = match spool.get(key).await {
            Ok(Some(entry)) => entry,
            Ok(None) => return Settled::Gone,
            Err(error) => {
                tracing::error!(task = %key.task, %error, "a result cannot be read from the spool");
                return Settled::Later;
            }
        };
        // What the rows have of it is dropped here.
        let found = engine.ports.store.load_for(key.task, LoadFor::Confirm);
        let record = match found.await {
            Ok(Some(record)) => record,
            Ok(None) => return self.drop_as(key, SpoolOutcome::Unusable).await,
            Err(error) => return later(key, &error),
        };
        let age = self.age(&entry, &record);
        if age > engine.settings.spool_max_age {
            return self.drop_as(key, SpoolOutcome::Expired).await;
        }
        self.tell(age).await;
        let known = engine.registry.of(&*record.task);
        let Some(task_type) = known.filter(|it| engine.registry.takes(it)) else {
            return later(key, &"this process takes no tasks of its type and version");
        };
        let at = record.steps.iter().position(|row| row.no == key.step);
        let Some(at) = at.filter(|_| fits(&task_type, &record)) else {
            return later(key, &"its steps are not those of its declaration");
        };
        if !decide::is_open(&record, key, entry.epoch) {
            return self.close(&task_type, record, at, &entry).await;
        }
        let codec = engine.ports.store.payload_codec();
        match body::decode(codec, key, at, &entry.body) {
            Ok(ended) => {
                let place = ResultPlace::of(&record, at, key.direction);
                Settled::Open(Box::new((record, KeptResult { ended, place })))
            }
            Err(body::Unreadable::Here(why)) => later(key, &why),
            Err(body::Unreadable::Anywhere(error)) => {
                tracing::error!(task = %key.task, error, "what the spool has of a result cannot be read");
                self.drop_as(key, SpoolOutcome::Unusable).await
            }
        }
    }

    /// For how long a result has been kept, at most. The calendar of this machine may have been set since, and the database knows for
    /// how long nothing has been written of the task.
    fn age(&self, entry: &SpoolEntry, record: &TaskRecord) -> Duration {
        let now = self.engine.ports.clock.unix_millis();
        let by_calendar = Duration::from_millis(now.saturating_sub(entry.kept_at));
        by_calendar.min(record.now.after(record.task.updated_at))
    }

    /// Tells operators that results had to be kept, now that the database can be told.
    async fn tell(&self, age: Duration) {
        let detail = format!(
            "results of steps were kept on the disk of this worker for up to {}: it could not reach the database",
            format_duration(Duration::from_secs(age.as_secs() + 1))
        );
        let incident = Incident {
            event: AlertEvent::SpoolGrowing,
            about: &self.engine.id,
            detail: &detail,
        };
        raise(self.engine, incident).await;
    }

    async fn drop_as(&self, key: &SpoolKey, outcome: SpoolOutcome) -> Settled {
        self.forget(key, outcome).await;
        Settled::Gone
    }

    /// Its attempt has ended in the rows.
    async fn close(
        &self,
        task_type: &TaskType,
        record: TaskRecord,
        at: usize,
        entry: &SpoolEntry,
    ) -> Settled {
        let key = &entry.key;
        let history = match self.engine.ports.store.history(key.task).await {
            Ok(history) => history,
            Err(error) => return later(key, &error),
        };
        let outcome = match decide::of(&history, entry) {
            Fate::Written => SpoolOutcome::Committed,
            Fate::Named => SpoolOutcome::Fenced,
            Fate::Fenced => {
                let dropped = DroppedResult {
                    at,
                    direction: key.direction,
                    attempt: key.attempt,
                    epoch: entry.epoch,
                    worker: &entry.worker,
                };
                let named = self.engine.change(
                    Author::anyone(&self.engine.id),
                    task_type,
                    record,
                    |draft| draft.drop_result(dropped),
                );
                match named.await {
                    Ok(_) => {}
                    // No state of the task refuses it but that of a step that was skipped.
                    Err(error @ ChangeError::Illegal(_)) => {
                        tracing::error!(task = %key.task, %error, "a result that is dropped cannot be named");
                    }
                    Err(error) => return later(key, &error),
                }
                SpoolOutcome::Fenced
            }
        };
        self.drop_as(key, outcome).await
    }
}

fn later(key: &SpoolKey, why: &dyn std::fmt::Display) -> Settled {
    tracing::debug!(task = %key.task, step = %key.step, %why, "a result stays in the spool");
    Settled::Later
}
