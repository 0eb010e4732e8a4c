//! Retry policies around code outside of tasks: a handler, a client, a start-up. The same values
//! with the same meaning as on a step, on whatever runtime is put under them; nothing is durable.
//!
//! Owns the loop. What follows a failure is worked out in `retry_decision`, as for steps.

use crate::breaker::{Admission, Breaker, Ticket, Verdict};
use crate::cancel::{CancelReason, CancelToken};
use crate::error::{ErrorClass, StepError};
use crate::retry_decision::{Next, decide_retry};
use crate::runtime::Runtime;
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{Attempt, RetryPolicy};
use futures::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// An error that says what it means for the next attempt.
pub trait Classified {
    /// Its class.
    fn class(&self) -> ErrorClass;
}

impl Classified for StepError {
    fn class(&self) -> ErrorClass {
        self.class
    }
}

/// Puts a runtime under a policy.
pub trait Resilient {
    /// The policy, ready to run.
    fn on(self, runtime: &dyn Runtime) -> Retried<'_>;
}

impl Resilient for RetryPolicy {
    fn on(self, runtime: &dyn Runtime) -> Retried<'_> {
        Retried {
            policy: self,
            runtime,
            cancel: None,
            breaker: None,
        }
    }
}

/// A policy on a runtime.
#[derive(Debug, Clone, Copy)]
#[must_use = "a policy does nothing until something is run under it"]
pub struct Retried<'a> {
    policy: RetryPolicy,
    runtime: &'a dyn Runtime,
    cancel: Option<&'a CancelToken>,
    breaker: Option<&'a Breaker>,
}

/// No attempt succeeded, and there will be no other.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The last attempt failed: with an error that is never retried, or as the last one that the
    /// policy allows.
    #[error("attempt {attempts} was the last: {error}")]
    Failed {
        /// What it failed with.
        #[source]
        error: E,
        /// How many there were.
        attempts: Attempt,
    },
    /// The last attempt ran into its limit.
    #[error("attempt {attempts} was the last: it ran longer than its limit of {}", format_duration(*limit))]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// How many attempts there were.
        attempts: Attempt,
    },
    /// The token was cancelled. What ran then was dropped where it waited.
    #[error("cancelled after {attempts} attempts")]
    Cancelled {
        /// Why it was cancelled.
        reason: CancelReason,
        /// How many attempts there were; the last may not have ended.
        attempts: Attempt,
    },
    /// The breaker is open: the next attempt was not started.
    #[error("the breaker is open for another {}, after {attempts} attempts", format_duration(*left))]
    Open {
        /// How long it is likely to stay so.
        left: Duration,
        /// How many attempts there were.
        attempts: Attempt,
    },
}

/// How an attempt ended.
enum Ended<T, E> {
    Done(T),
    Failed(E),
    TimedOut(Duration),
    Cancelled(CancelReason),
}

impl<'a> Retried<'a> {
    /// Ends when this token is cancelled: between attempts at once, during one where it waits.
    pub const fn until(mut self, cancel: &'a CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Starts no attempt while this breaker is open, and tells it how each ended. It never waits
    /// for a breaker: that is for tasks, which can wait without holding anything.
    pub const fn behind(mut self, breaker: &'a Breaker) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// Tries until an attempt succeeds or no other may follow. Attempts are numbered from 1; each
    /// has a fresh limit. A panic is the caller's.
    ///
    /// # Errors
    /// [`RunError`] says why there is no other attempt.
    pub async fn run<T, E, F>(
        &self,
        mut attempt: impl FnMut(Attempt) -> F,
    ) -> Result<T, RunError<E>>
    where
        E: Classified,
        F: Future<Output = Result<T, E>>,
    {
        let mut attempts = Attempt(0);
        loop {
            if let Some(reason) = self.cancel.and_then(CancelToken::reason) {
                return Err(RunError::Cancelled { reason, attempts });
            }
            let ticket = match self.admitted().await {
                Ok(ticket) => ticket,
                Err(left) => return Err(RunError::Open { left, attempts }),
            };
            attempts = attempts.next();
            let ended = self.limited(attempt(attempts)).await;
            self.report(ticket, &ended).await;
            let (class, error) = match ended {
                Ended::Done(value) => return Ok(value),
                Ended::Cancelled(reason) => return Err(RunError::Cancelled { reason, attempts }),
                Ended::TimedOut(limit) => {
                    (ErrorClass::TimedOut, RunError::TimedOut { limit, attempts })
                }
                Ended::Failed(error) => (error.class(), RunError::Failed { error, attempts }),
            };
            let retries_used = u32::try_from(attempts.0 - 1).unwrap_or(u32::MAX);
            match decide_retry(&self.policy, class, retries_used, self.runtime.bits()) {
                Next::GiveUp => return Err(error),
                Next::Retry(delay) => {
                    tracing::debug!(attempt = %attempts, class = class.as_str(), ?delay, "trying again");
                    if let Either::Right((reason, _)) =
                        select(self.runtime.sleep(delay), pin!(self.cancelled())).await
                    {
                        return Err(RunError::Cancelled { reason, attempts });
                    }
                }
            }
        }
    }

    async fn limited<T, E>(&self, attempt: impl Future<Output = Result<T, E>>) -> Ended<T, E> {
        let limit = async {
            match self.policy.attempt_timeout {
                Some(limit) => {
                    self.runtime.timeout(limit).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        // The attempt is asked first: one that is done when its limit is over is done.
        match select(pin!(attempt), select(pin!(limit), pin!(self.cancelled()))).await {
            Either::Left((Ok(value), _)) => Ended::Done(value),
            Either::Left((Err(error), _)) => Ended::Failed(error),
            Either::Right((Either::Left((limit, _)), _)) => Ended::TimedOut(limit),
            Either::Right((Either::Right((reason, _)), _)) => Ended::Cancelled(reason),
        }
    }

    async fn cancelled(&self) -> CancelReason {
        match self.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }

    async fn admitted(&self) -> Result<Ticket, Duration> {
        let Some(breaker) = self.breaker else {
            return Ok(Ticket::default());
        };
        match breaker
            .admit(self.policy.attempt_timeout.unwrap_or(PROBE_LIMIT))
            .await
        {
            Admission::Go(ticket) => Ok(ticket),
            Admission::Wait(left) => Err(left),
        }
    }

    async fn report<T, E: Classified>(&self, ticket: Ticket, ended: &Ended<T, E>) {
        let Some(breaker) = self.breaker else { return };
        let verdict = match ended {
            Ended::Done(_) => Verdict::Answered,
            Ended::Failed(error) => Verdict::of(error.class()),
            Ended::TimedOut(_) => Verdict::Failed,
            Ended::Cancelled(_) => Verdict::Unknown,
        };
        breaker.report(ticket, verdict).await;
    }
}

/// Time limit of a probe without a limit of its own: after it another attempt may probe.
const PROBE_LIMIT: Duration = Duration::from_secs(60);
