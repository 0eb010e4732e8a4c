//! How long a change is tried where the store does not answer. Must not decide anything about a task.

use crate::engine::Engine;
use crate::ports::StoreError;
use futures::future::{Either, select};
use std::time::Duration;

/// The least time for a look whether a change was written.
const LOOK: Duration = Duration::from_secs(1);

/// How long to retry a store that does not answer.
pub(super) struct Patience<'a> {
    engine: &'a Engine,
    until: Duration,
    pause: Duration,
    /// A change was sent, and its outcome is unknown.
    in_doubt: bool,
}

impl<'a> Patience<'a> {
    pub(super) fn new(engine: &'a Engine, limit: Duration) -> Self {
        Self {
            engine,
            until: engine.ports.clock.monotonic() + limit,
            pause: Duration::from_millis(50),
            in_doubt: false,
        }
    }

    /// Extends the time to at least `limit` from now: a change was sent, and its outcome is unknown.
    pub(super) fn at_least(&mut self, limit: Duration) {
        self.in_doubt = true;
        self.until = self.until.max(self.engine.ports.clock.monotonic() + limit);
    }

    /// Asks until there is an answer.
    pub(super) async fn ask<T, F>(&mut self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            let answer = match self.in_doubt {
                true => self.within(Box::pin(ask())).await,
                false => ask().await,
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.wait(error).await?,
            }
        }
    }

    /// The answer to a look for a change, which may wait for a standby as the change does: in what is left of the time, and in
    /// `LOOK` at least.
    pub(super) async fn within<T>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>> + Unpin,
    ) -> Result<T, StoreError> {
        let clock = &self.engine.ports.clock;
        let left = self.until.saturating_sub(clock.monotonic()).max(LOOK);
        match select(answer, clock.sleep(left)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(StoreError::Unavailable("no answer in time".to_owned())),
        }
    }

    pub(super) async fn wait(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.may_pass() || self.engine.ports.clock.monotonic() >= self.until {
            return Err(match error {
                // A later try wrote nothing: the one without an answer may have.
                StoreError::Unavailable(text) if self.in_doubt => StoreError::Unknown(text),
                error => error,
            });
        }
        tracing::warn!(%error, "the store did not take a change; trying again");
        self.engine.ports.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}
