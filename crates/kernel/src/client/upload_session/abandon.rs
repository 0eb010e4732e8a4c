//! The end of a request that comes to nothing.

use super::UploadSession;
use crate::change::transition::ReceiveWrite;
use crate::client::{abandoned, idempotency};
use crate::keys;
use counterstep_steps::guard;
use futures::future::BoxFuture;

impl UploadSession {
    /// The request came to nothing: deletes what it stored, as far as the stores answer; the sweep
    /// does the rest.
    pub fn abandon<'a>(mut self, why: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.is_no_probe().await;
            if self.begun && self.received.is_empty() {
                // Without an answer: it may be written after what follows.
                self.lost.push(self.id);
            }
            self.leave();
            if !self.begun {
                return;
            }
            let receive = Some(ReceiveWrite::Abandoned);
            let release = self.release();
            // This first: a submission whose answer was lost may still be on its way into the
            // database. It finds its receive condemned and fails, or this has waited for it and
            // then finds the task; the files go in the first case only.
            let finds_out = !guard!("abandoned request finds its task", false);
            let written = idempotency::write(&self.engine, self.id, receive, release.clone());
            if finds_out && let Err(error) = written.await {
                if let Some(release) = release.filter(|_| abandoned::is_away(&error)) {
                    let now = self.engine.ports.clock.monotonic();
                    self.engine.abandoned.add(self.id, release, now);
                }
                tracing::warn!(task = %self.id, why, %error, "a request came to nothing; its files are left to the sweep");
                return;
            }
            match self.engine.ports.store.load(self.id).await {
                Ok(None) => {}
                Ok(Some(_)) if finds_out => return,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(task = %self.id, why, %error, "a request came to nothing; its files are left to the sweep");
                    return;
                }
            }
            let prefix = keys::task_prefix(&self.submission.tenant, self.id);
            if let Err(error) = self.engine.ports.objects.delete_prefix(&prefix).await {
                tracing::warn!(task = %self.id, %error, "deleting a request's files failed; the sweep will");
            }
        })
    }
}
