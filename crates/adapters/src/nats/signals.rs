//! Hints between processes over core NATS: nothing is stored, nobody waits, and what nobody hears is gone. Within this
//! process they arrive without NATS.

use super::connect::Link;
use super::names::Names;
use super::options::Hears;
use crate::system::LocalSignals;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Signal, Signals};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Hints that may wait for the connection; more are dropped.
const WAITING: usize = 1024;
const CANCEL: &str = "cancel";
const RESTS: &str = "rests";

/// Hints to all processes. Clones share everything.
#[derive(Debug, Clone)]
pub struct NatsSignals {
    local: LocalSignals,
    out: mpsc::Sender<Signal>,
    /// End with the last clone.
    _tasks: Arc<[super::Task; 2]>,
}

impl NatsSignals {
    pub(super) fn start(link: &Link, names: &Names, hears: Hears) -> Self {
        let local = LocalSignals::new();
        let (out, waiting) = mpsc::channel(WAITING);
        // So that a process leaves out what it has heard from itself already.
        let own: Arc<str> = link.client.new_inbox().into();
        let send = super::Task(tokio::spawn(send(link.clone(), names.clone(), own.clone(), waiting)));
        let hear = super::Task(tokio::spawn(hear(link.clone(), names.clone(), hears, own, local.clone())));
        Self { local, out, _tasks: Arc::new([send, hear]) }
    }
}

impl Signals for NatsSignals {
    fn send(&self, signal: Signal) {
        self.local.send(signal);
        // Only this process looks at every change of its own tasks; what the others wait for is a rest or a cancel.
        if matches!(signal, Signal::Changed(_)) {
            return;
        }
        match self.out.try_send(signal) {
            // Full: the connection does not keep up, or is gone. Polls and heartbeats find out by themselves.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
    }

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        self.local.subscribe()
    }

    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()> {
        self.local.cancels_of(task)
    }
}

async fn send(link: Link, names: Names, own: Arc<str>, mut waiting: mpsc::Receiver<Signal>) {
    let own = bytes::Bytes::copy_from_slice(own.as_bytes());
    while let Some(signal) = waiting.recv().await {
        // Not kept for later: after an outage a thousand old hints help nobody.
        if link.check().is_err() {
            continue;
        }
        let (kind, task) = match signal {
            Signal::CancelRequested(task) => (CANCEL, task),
            Signal::Changed(_) => continue,
            Signal::Rests(task) => (RESTS, task),
        };
        if let Err(error) = link.client.publish(names.signal(kind, task), own.clone()).await {
            tracing::debug!(%error, "a hint was not sent");
        }
    }
}

/// The client subscribes again by itself after each reconnect.
async fn hear(link: Link, names: Names, hears: Hears, own: Arc<str>, local: LocalSignals) {
    let pattern = match hears {
        Hears::Cancels => format!("signal.{CANCEL}.*"),
        Hears::Everything => "signal.*.*".to_owned(),
    };
    let mut subscription = match link.client.subscribe(names.subject(&pattern)).await {
        Ok(subscription) => subscription,
        Err(error) => {
            tracing::error!(%error, "hints of other processes are not heard; polls and heartbeats find out later");
            return;
        }
    };
    while let Some(message) = subscription.next().await {
        if message.payload != own.as_bytes()
            && let Some(signal) = parse(&message.subject)
        {
            local.send(signal);
        }
    }
}

/// Anyone who may publish could send anything: what is no hint is left alone.
fn parse(subject: &str) -> Option<Signal> {
    let mut tokens = subject.rsplit('.');
    let task: TaskId = tokens.next()?.parse().ok()?;
    match tokens.next()? {
        CANCEL => Some(Signal::CancelRequested(task)),
        RESTS => Some(Signal::Rests(task)),
        _ => None,
    }
}
