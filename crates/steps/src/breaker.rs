//! A circuit breaker that all processes share through the hints: closed, open, half-open with a
//! single probe.
//!
//! It decides nothing that must not be lost. Without hints there is no breaker, and every attempt
//! may start; a breaker that is forgotten is closed. Time is the hints' own: what is open, and how
//! long a probe may take, are keys that end by themselves, so no two clocks are compared.
//!
//! | key | holds | ends after |
//! |---|---|---|
//! | `breaker:{key}` | `closed ROUND` or `open ROUND`; nothing: closed | see `Breaker::kept` |
//! | `breaker:{key}:{round}:cooling` | while it is there, the breaker of this round is open; then half-open | `open_for` |
//! | `breaker:{key}:{round}:probe` | who probes | the limit of the probe's attempt |
//! | `breaker:{key}:{round}` (a counter) | failures while closed | `within` |
//!
//! A round is a name by chance. Each opening and each closing begins one, so what belongs to an
//! older one (a count, a probe) is simply never asked again.

use crate::error::ErrorClass;
use crate::ports::{HintError, Hints};
use crate::runtime::Runtime;
use crate::traces::TRACES;
use counterstep_contracts::BreakerPolicy;
use futures::future::{BoxFuture, Either, select};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a service that decides nothing.
const BEST_EFFORT_LIMIT: Duration = Duration::from_millis(250);

/// Maximum tries to close a breaker that opens anew meanwhile.
const CLOSE_TRIES: u32 = 3;
/// The round of a breaker that has never been open, or is forgotten.
const FIRST_ROUND: &str = "first";
/// No attempt has a longer limit than this, so a probe's key with more time left is none of this
/// program's.
const LONGEST_PROBE: Duration = Duration::from_secs(24 * 3600);

/// A breaker of one dependency, or of one step.
#[derive(Debug, Clone)]
pub struct Breaker {
    key: String,
    policy: BreakerPolicy,
    hints: Arc<dyn Hints>,
    runtime: Arc<dyn Runtime>,
}

/// Permission to start an attempt. Return it with the outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a probe that is not reported keeps the breaker half-open for its whole limit"]
pub struct Ticket(Option<Probe>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Probe {
    round: String,
    token: String,
}

impl Ticket {
    /// Whether the attempt is the one that finds out whether the dependency is back.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        self.0.is_some()
    }
}

/// Whether an attempt may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Go(Ticket),
    /// It may not, and is likely to be refused for this time.
    Wait(Duration),
}

/// How the breaker stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BreakerState {
    /// Attempts start.
    Closed,
    /// None does, for this time.
    Open(Duration),
    /// One does.
    HalfOpen,
}

/// What an attempt says about what it tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is there: the attempt succeeded, was refused permanently, or was asked for patience.
    Answered,
    /// The service does not work.
    Failed,
    /// Nothing: the attempt was cancelled or lost.
    Unknown,
}

impl Verdict {
    /// Of an attempt that ended with an error.
    #[must_use]
    pub const fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Transient | ErrorClass::TimedOut | ErrorClass::Panicked => Self::Failed,
            ErrorClass::Permanent | ErrorClass::RateLimited(_) => Self::Answered,
            ErrorClass::Cancelled => Self::Unknown,
        }
    }
}

/// What is kept under the breaker's key, as read.
enum StoredState {
    Closed { was: Option<String>, round: String },
    Open { round: String },
}

impl Breaker {
    /// Of a key: all breakers with the same key and hints are one.
    #[must_use]
    pub fn new(
        key: &str,
        policy: BreakerPolicy,
        hints: Arc<dyn Hints>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            key: key.to_owned(),
            policy,
            hints,
            runtime,
        }
    }

    /// What it stands for.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its policy.
    #[must_use]
    pub const fn policy(&self) -> &BreakerPolicy {
        &self.policy
    }

    /// How it stands; takes nothing. Closed where the hints do not say.
    pub fn standing(&self) -> BoxFuture<'_, BreakerState> {
        Box::pin(async move { self.known().await.unwrap_or(BreakerState::Closed) })
    }

    /// The same; `None`: the hints do not say.
    pub fn known(&self) -> BoxFuture<'_, Option<BreakerState>> {
        Box::pin(async move {
            let StoredState::Open { round } = self.state().await? else {
                return Some(BreakerState::Closed);
            };
            let left = self.cooling(&round).await?;
            Some(left.map_or(BreakerState::HalfOpen, BreakerState::Open))
        })
    }

    /// Closes it, as a person decides who knows that the dependency is back. `Some(false)`: it was not open; `None`: the hints do
    /// not answer.
    pub fn close(&self) -> BoxFuture<'_, Option<bool>> {
        Box::pin(async move {
            // A probe that fails meanwhile opens it anew.
            for _ in 0..CLOSE_TRIES {
                let StoredState::Open { round } = self.state().await? else {
                    return Some(false);
                };
                if self.closed(&round).await? {
                    return Some(true);
                }
            }
            None
        })
    }

    /// Begins a new round of a breaker that is open.
    async fn closed(&self, round: &str) -> Option<bool> {
        let (was, closed) = (format!("open {round}"), format!("closed {}", self.name()));
        let key = self.state_key();
        let swap = self.hints.swap(&key, Some(&was), &closed, self.kept());
        let is_closed = self.ask(swap).await?;
        if is_closed {
            self.trace("breaker closed");
        }
        Some(is_closed)
    }

    /// Half-open, while an attempt probes: when to ask again. Takes nothing.
    pub fn probing(&self) -> BoxFuture<'_, Option<Duration>> {
        Box::pin(async move {
            let Some(StoredState::Open { round }) = self.state().await else {
                return None;
            };
            let probe = self.ask(self.hints.get(&self.probe_key(&round))).await;
            probe.flatten().map(|_| self.look_again())
        })
    }

    /// Asks for leave to start an attempt that takes no longer than `limit`. Half-open, one of all
    /// that ask gets it, as a probe; should it never report, another one gets it after `limit`.
    pub fn admit(&self, limit: Duration) -> BoxFuture<'_, Admission> {
        Box::pin(async move {
            let Some(StoredState::Open { round }) = self.state().await else {
                return Admission::Go(Ticket::default());
            };
            match self.cooling(&round).await {
                Some(Some(left)) => Admission::Wait(left),
                Some(None) => self.probe(round, limit).await,
                None => Admission::Go(Ticket::default()),
            }
        })
    }

    async fn probe(&self, round: String, limit: Duration) -> Admission {
        let token = self.name();
        match self
            .ask(
                self.hints
                    .swap(&self.probe_key(&round), None, &token, limit),
            )
            .await
        {
            Some(true) => {
                tracing::info!(breaker = self.key, "half-open: one attempt probes");
                self.trace("breaker half-open");
                Admission::Go(Ticket(Some(Probe { round, token })))
            }
            Some(false) => {
                self.bounded(&self.probe_key(&round), limit.max(LONGEST_PROBE))
                    .await;
                Admission::Wait(self.look_again())
            }
            None => Admission::Go(Ticket::default()),
        }
    }

    /// Tells how the attempt ended.
    pub fn report(&self, ticket: Ticket, verdict: Verdict) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match (ticket.0, verdict) {
                (None, Verdict::Failed) => self.failed().await,
                (None, Verdict::Answered | Verdict::Unknown) => {}
                (Some(Probe { round, .. }), Verdict::Answered) => {
                    if self.closed(&round).await == Some(true) {
                        tracing::info!(breaker = self.key, "closed: the probe was answered");
                    }
                }
                (Some(Probe { round, .. }), Verdict::Failed) => {
                    self.open(Some(&format!("open {round}"))).await
                }
                (Some(Probe { round, token }), Verdict::Unknown) => {
                    self.give_back(&round, &token).await
                }
            }
        })
    }

    /// Another one may probe.
    async fn give_back(&self, round: &str, token: &str) {
        self.ask(
            self.hints
                .swap(&self.probe_key(round), Some(token), "", Duration::ZERO),
        )
        .await;
    }

    /// A failure of an attempt that started while the breaker was closed. It counts only if it
    /// still is: those that were under way when it opened tell nothing new.
    async fn failed(&self) {
        let Some(StoredState::Closed { was, round }) = self.state().await else {
            return;
        };
        let counter = format!("{}:{round}", self.state_key());
        let Some(failures) = self
            .ask(self.hints.bump(&counter, self.policy.within))
            .await
        else {
            return;
        };
        if failures >= u64::from(self.policy.after_failures) {
            self.open(was.as_deref()).await;
        }
    }

    /// Of several that open it at once, one does.
    async fn open(&self, was: Option<&str>) {
        let round = self.name();
        // First, or between the two the breaker would be half-open.
        if self
            .ask(
                self.hints
                    .set(&self.cooling_key(&round), "", self.policy.open_for),
            )
            .await
            .is_none()
        {
            return;
        }
        let open = format!("open {round}");
        if self
            .ask(self.hints.swap(&self.state_key(), was, &open, self.kept()))
            .await
            == Some(true)
        {
            let open_for = counterstep_contracts::retry::format_duration(self.policy.open_for);
            tracing::warn!(breaker = self.key, open_for, "open: attempts wait");
            self.trace("breaker open");
        }
    }

    /// An event of the span of the attempt or turn that has changed it.
    fn trace(&self, event: &'static str) {
        tracing::debug!(target: TRACES, breaker = self.key, "{event}");
    }

    /// `None`: the hints do not say.
    async fn state(&self) -> Option<StoredState> {
        let was = self.ask(self.hints.get(&self.state_key())).await?;
        let round = was
            .as_deref()
            .and_then(|text| text.split_once(' '))
            .filter(|(_, round)| is_round(round));
        Some(match round {
            Some(("open", round)) => StoredState::Open {
                round: round.to_owned(),
            },
            Some((_, round)) => StoredState::Closed {
                round: round.to_owned(),
                was,
            },
            None => StoredState::Closed {
                round: FIRST_ROUND.to_owned(),
                was,
            },
        })
    }

    /// How much longer a round is open; `Some(None)`: it is half-open; `None`: the hints do not
    /// say.
    async fn cooling(&self, round: &str) -> Option<Option<Duration>> {
        let key = self.cooling_key(round);
        if self.ask(self.hints.get(&key)).await?.is_none() {
            return Some(None);
        }
        self.bounded(&key, self.policy.open_for).await.map(Some)
    }

    /// How much longer a key is kept, and never more than `longest`: whatever set a later end,
    /// another policy or another program, the key gets this one. A wait that is only cut short
    /// would begin again each time that the task wakes up.
    async fn bounded(&self, key: &str, longest: Duration) -> Option<Duration> {
        // Gone since it was read, or the service cannot tell: then it is at most this.
        let left = self.ask(self.hints.left(key)).await?.unwrap_or(longest);
        if left > longest {
            tracing::warn!(
                key,
                "a key of a breaker ends later than its policy allows: shortened"
            );
            self.ask(self.hints.set(key, "", longest)).await?;
        }
        Some(left.min(longest))
    }

    /// How long the state is kept without a change: long enough for every task that waits to try several
    /// times, and for the counts of the round before to end.
    fn kept(&self) -> Duration {
        (self.policy.open_for * 10)
            .max(self.policy.within * 2)
            .max(Duration::from_secs(3600))
    }

    /// While another one probes. Its limit may be long, and its answer come soon.
    fn look_again(&self) -> Duration {
        self.policy.open_for / 2
    }

    fn state_key(&self) -> String {
        format!("breaker:{}", self.key)
    }

    fn cooling_key(&self, round: &str) -> String {
        format!("breaker:{}:{round}:cooling", self.key)
    }

    fn probe_key(&self, round: &str) -> String {
        format!("breaker:{}:{round}:probe", self.key)
    }

    fn name(&self) -> String {
        format!("{:032x}", self.runtime.bits())
    }

    /// The hints' answer, if it comes and comes in time.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, HintError>>) -> Option<T> {
        match select(pin!(answer), self.runtime.timeout(BEST_EFFORT_LIMIT)).await {
            Either::Left((Ok(answer), _)) => Some(answer),
            Either::Left((Err(error), _)) => {
                tracing::debug!(breaker = self.key, %error, "going on without a breaker");
                None
            }
            Either::Right(_) => {
                tracing::debug!(
                    breaker = self.key,
                    "going on without a breaker: its service did not answer in time"
                );
                None
            }
        }
    }
}

/// Whether a text can be the name of a round. It becomes a part of keys.
fn is_round(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
