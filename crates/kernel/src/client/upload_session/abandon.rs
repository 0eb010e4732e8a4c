//! The end of a request that comes to nothing.

use super::UploadSession;
use crate::client::idempotency;
use crate::keys;
use crate::transition::{IdempotencyWrite, ReceiveWrite};
use futures::future::BoxFuture;

impl UploadSession {
    /// The request came to nothing: deletes what it stored, as far as the stores answer; the sweep
    /// does the rest.
    pub fn abandon<'a>(mut self, why: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.is_no_probe().await;
            let receive = (!self.received.is_empty()).then_some(ReceiveWrite::Abandoned);
            let release = self
                .submission
                .key
                .clone()
                .filter(|_| self.key_begun)
                .map(|key| IdempotencyWrite::Abandon {
                    tenant: self.submission.tenant.clone(),
                    key,
                });
            if receive.is_none() && release.is_none() {
                return;
            }
            // This first: a submission whose answer was lost may still be on its way into the
            // database. It finds its receive condemned and fails, or this has waited for it and
            // then finds the task; the files go in the first case only.
            if let Err(error) = idempotency::write(&self.engine, self.id, receive, release).await {
                tracing::warn!(task = %self.id, why, %error, "a request came to nothing; its files are left to the sweep");
                return;
            }
            match self.engine.ports.store.load(self.id).await {
                Ok(None) => {}
                Ok(Some(_)) => return,
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
