//! Hints between processes over core NATS: nothing is stored, no sender waits, and a hint without
//! a listener is gone. Within this process they arrive without NATS.

use super::abort_on_drop::AbortOnDrop;
use super::connect::Link;
use super::names::Names;
use super::options::Hears;
use crate::system::LocalSignals;
use async_nats::HeaderMap;
use counterstep_contracts::{TaskId, TaskProgress};
use counterstep_kernel::ports::{Signal, Signals};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Maximum number of hints that wait for the connection; more are dropped.
const WAITING: usize = 1024;
const CANCEL: &str = "cancel";
const RESTS: &str = "rests";
const PROGRESS: &str = "progress";
/// Names the sender where the body is not its name.
const FROM: &str = "Counterstep-From";
/// Maximum bytes of a progress message, which has one line for each step that runs.
const LARGEST_PROGRESS: usize = 8 * 1024;

/// Hints to all processes. Clones share everything.
#[derive(Debug, Clone)]
pub struct NatsSignals {
    local: LocalSignals,
    out: mpsc::Sender<Signal>,
    /// End with the last clone.
    _tasks: Arc<[AbortOnDrop; 2]>,
}

impl NatsSignals {
    pub(super) fn start(link: &Link, names: &Names, hears: Hears) -> Self {
        let local = LocalSignals::new();
        let (out, waiting) = mpsc::channel(WAITING);
        // So that a process leaves out what it has heard from itself already.
        let own: Arc<str> = link.client.new_inbox().into();
        let send = AbortOnDrop(tokio::spawn(send(
            link.clone(),
            names.clone(),
            own.clone(),
            waiting,
        )));
        let hear = AbortOnDrop(tokio::spawn(hear(
            link.clone(),
            names.clone(),
            hears,
            own,
            local.clone(),
        )));
        Self {
            local,
            out,
            _tasks: Arc::new([send, hear]),
        }
    }
}

impl Signals for NatsSignals {
    fn send(&self, signal: Signal) {
        self.local.send(signal.clone());
        // Only this process looks at every change of its own tasks; what the others wait for is a
        // rest or a cancel.
        if matches!(signal, Signal::Changed(_)) {
            return;
        }
        match self.out.try_send(signal) {
            // Full: the connection does not keep up, or is gone. Polls and heartbeats find out by
            // themselves.
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
    let mut from = HeaderMap::new();
    from.insert(FROM, &*own);
    let own = bytes::Bytes::copy_from_slice(own.as_bytes());
    while let Some(signal) = waiting.recv().await {
        // Not kept for later: after an outage a thousand old hints are of no use.
        if link.check().is_err() {
            continue;
        }
        let (kind, task, body) = match signal {
            Signal::CancelRequested(task) => (CANCEL, task, None),
            Signal::Changed(_) => continue,
            Signal::Rests(task) => (RESTS, task, None),
            Signal::Progress(progress) => match serde_json::to_vec(&*progress) {
                Ok(body) => (PROGRESS, progress.task, Some(body)),
                Err(_) => continue,
            },
        };
        let subject = names.signal(kind, task);
        let sent = match body {
            None => link.client.publish(subject, own.clone()).await,
            Some(body) => {
                link.client
                    .publish_with_headers(subject, from.clone(), body.into())
                    .await
            }
        };
        if let Err(error) = sent {
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
        let from_us =
            |headers: &HeaderMap| headers.get(FROM).is_some_and(|from| from.as_str() == &*own);
        if message.payload == own.as_bytes() || message.headers.as_ref().is_some_and(from_us) {
            continue;
        }
        if let Some(signal) = parse(&message.subject, &message.payload) {
            local.send(signal);
        }
    }
}

/// Anyone who may publish could send anything: what is no hint is left alone.
fn parse(subject: &str, body: &[u8]) -> Option<Signal> {
    let mut tokens = subject.rsplit('.');
    let task: TaskId = tokens.next()?.parse().ok()?;
    match tokens.next()? {
        CANCEL => Some(Signal::CancelRequested(task)),
        RESTS => Some(Signal::Rests(task)),
        PROGRESS if body.len() <= LARGEST_PROGRESS => {
            let progress: TaskProgress = serde_json::from_slice(body).ok()?;
            (progress.task == task).then(|| Signal::Progress(Arc::new(progress)))
        }
        _ => None,
    }
}
