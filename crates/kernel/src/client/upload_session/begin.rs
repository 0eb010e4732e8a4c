//! The receive of a request: a row from before its first byte, which its submission takes. Must not store a file.

use super::UploadSession;
use crate::change::transition::{IdempotencyWrite, ReceiveWrite, Transition};
use crate::client::idempotency;
use crate::client::submission::{SubmitError, from_commit};
use crate::ports::CommitError;
use counterstep_contracts::TaskId;

impl UploadSession {
    /// `false`: the key turned out to be used.
    pub(super) async fn begin_receive(&mut self) -> Result<bool, SubmitError> {
        let engine = self.engine.clone();
        let mut lost = Vec::new();
        loop {
            // Before the answer, which may be lost. An id that was sent before and refused is free.
            let mut is_sent = std::mem::replace(&mut self.begun, true);
            // A row without an answer may be written late, even after another row was swept. With the same id, the
            // submission would take it, and its files are gone. So each try is a receive of its own.
            let begin = || {
                if std::mem::replace(&mut is_sent, true) {
                    lost.push(std::mem::replace(&mut self.id, engine.new_task_id()));
                }
                self.receive()
            };
            let written = engine.commit_receive(begin).await;
            self.leave(&lost);
            match written {
                Ok(()) => return Ok(true),
                Err(CommitError::KeyTaken) => self.begun = false,
                Err(error) => return Err(from_commit(error)),
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

    /// A receive of this id, and its claim on the key.
    fn receive(&self) -> Transition {
        let sweep_after = self.engine.settings.upload_timeout * 2;
        let tenant = self.submission.tenant.clone();
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

    /// Receives that may be written and are not used: the key that they may have claimed is free.
    fn leave(&self, lost: &[TaskId]) {
        let Some(key) = &self.submission.key else {
            return;
        };
        for task in lost {
            let release = IdempotencyWrite::Abandon {
                tenant: self.submission.tenant.clone(),
                key: key.clone(),
            };
            self.engine.abandoned.add(*task, release);
        }
    }
}
