//! Signals, locks and hints of the simulation: those of one process, between all; some are lost, and at times none answers.

use super::faults::Trouble::{LocksAway, SignalLost};
use super::link::Link;
use async_trait::async_trait;
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::system::LocalSignals;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{
    Acquired, HintError, Hints, LockError, LockTag, Locks, Signal, Signals,
};
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;

/// The way of a process to the signals.
#[derive(Debug)]
pub(super) struct SignalLink {
    pub(super) link: Arc<Link>,
    pub(super) signals: LocalSignals,
}

impl Signals for SignalLink {
    fn send(&self, signal: Signal) {
        let (link, watch) = (&self.link, &self.link.world.watch);
        if link.is_closed() {
            return;
        }
        if link.struck("signal", &[SignalLost]).is_none() {
            self.signals.send(signal);
            return;
        }
        match signal {
            Signal::CancelRequested(task) if link.world.executions.runs(task) => {
                watch.felt(SignalLost);
                watch.reached("cancel that no signal brings");
            }
            _ => {}
        }
    }

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        self.signals.subscribe()
    }

    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()> {
        self.signals.cancels_of(task)
    }
}

/// The way of a process to locks and hints.
#[derive(Debug)]
pub(super) struct LockLink {
    pub(super) link: Arc<Link>,
    pub(super) locks: Arc<LocalLocks>,
    pub(super) hints: Arc<LocalHints>,
}

const AWAY: &str = "no answer (simulated)";

impl LockLink {
    async fn locks(&self) -> Result<&LocalLocks, LockError> {
        match self.link.next("locks", &[LocksAway]).await {
            Some(_) => {
                self.link.feels(LocksAway);
                Err(LockError(AWAY.to_owned()))
            }
            None => Ok(&self.locks),
        }
    }

    async fn hints(&self) -> Result<&LocalHints, HintError> {
        match self.link.next("hints", &[LocksAway]).await {
            Some(_) => {
                self.link.feels(LocksAway);
                Err(HintError(AWAY.to_owned()))
            }
            None => Ok(&self.hints),
        }
    }
}

#[async_trait]
impl Locks for LockLink {
    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError> {
        self.locks().await?.acquire(task, ttl).await
    }

    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError> {
        self.locks().await?.extend(task, tag, ttl).await
    }

    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError> {
        self.locks().await?.release(task, tag).await
    }
}

#[async_trait]
impl Hints for LockLink {
    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        self.hints().await?.seen(key).await
    }

    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        self.hints().await?.remember(key, ttl).await
    }

    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        self.hints().await?.bump(counter, window).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        self.hints().await?.get(key).await
    }

    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        self.hints().await?.left(key).await
    }

    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        self.hints().await?.set(key, value, ttl).await
    }

    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        self.hints().await?.swap(key, was, value, ttl).await
    }
}
