//! The receive of a request: a row from before its first byte, which its submission takes. Must not store a file.

use super::UploadSession;
use crate::change::transition::{IdempotencyWrite, ReceiveWrite, Transition};
use crate::client::idempotency;
use crate::client::submission::{SubmitError, from_commit};
use crate::ports::{CommitError, StoreError};
use std::time::Duration;

impl UploadSession {
    /// `false`: the key turned out to be used.
    pub(super) async fn begin_receive(&mut self) -> Result<bool, SubmitError> {
        let engine = self.engine.clone();
        loop {
            // Before the answer, which may be lost. That of an earlier call was.
            let mut was_lost = std::mem::replace(&mut self.begun, true);
            // A row without an answer may be written late, even after another row was swept. With the same id, the
            // submission would take it, and its files are gone. So each try after one is a receive of its own.
            let begin = |is_lost| {
                if std::mem::take(&mut was_lost) || is_lost {
                    let lost = std::mem::replace(&mut self.id, engine.new_task_id());
                    self.lost.push(lost);
                }
                self.receive()
            };
            let written = engine.commit_receive(begin).await;
            self.leave();
            match written {
                Ok(()) => return Ok(true),
                Err(CommitError::KeyTaken) => self.begun = false,
                Err(error) => {
                    self.begun = matches!(error, CommitError::Store(StoreError::Unknown(_)));
                    return Err(from_commit(error));
                }
            }
            // Free by now: its process is gone, it was refused, or it was a try of this request.
            let Some(first) =
                idempotency::read_and_remember(&self.engine, &self.submission).await?
            else {
                continue;
            };
            self.replay = Some(first);
            return Ok(false);
        }
    }

    /// How long its rows are kept where it becomes no task.
    fn kept_for(&self) -> Duration {
        self.engine.settings.upload_timeout * 2
    }

    /// A receive of this id, and its claim on the key.
    fn receive(&self) -> Transition {
        let (tenant, sweep_after) = (self.submission.tenant.clone(), self.kept_for());
        let begin = |key| IdempotencyWrite::Begin {
            tenant: tenant.clone(),
            key,
            owner: self.engine.id.to_string(),
            expires_in: sweep_after,
        };
        Transition {
            idempotency: self.submission.key.clone().map(begin),
            receive: Some(ReceiveWrite::Begun {
                tenant,
                sweep_after,
            }),
            ..Transition::new(self.engine.new_change_id(), self.id)
        }
    }

    /// Frees its key, where it has one.
    pub(super) fn release(&self) -> Option<IdempotencyWrite> {
        let key = self.submission.key.clone()?;
        Some(IdempotencyWrite::Abandon {
            tenant: self.submission.tenant.clone(),
            key,
        })
    }

    /// Tries that may be written yet and are not used: the key that they may claim is free.
    pub(super) fn leave(&self) {
        let until = self.engine.ports.clock.monotonic() + self.kept_for();
        let Some(release) = self.release() else {
            return;
        };
        for task in &self.lost {
            self.engine.abandoned.add(*task, release.clone(), until);
        }
    }
}
