//! Whether what this process needs answers and takes writes, kept for a moment: the question
//! writes, and any page can ask it in a loop.

use counterstep_kernel::Engine;
use counterstep_kernel::status;
use std::future::Future;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Timeout of an answer: a probe has a timeout of its own, often a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long an answer is reused.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Which parts answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) store: bool,
    pub(crate) objects: bool,
    pub(crate) queue: bool,
    pub(crate) hints: bool,
}

/// What was found last, and when.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Parts)>>);

impl Readiness {
    /// Asks all parts, unless they were asked a moment ago.
    // The lock is held meanwhile: requests that come then wait for this answer, and ask nothing.
    pub(crate) async fn parts(&self, engine: &Engine) -> Parts {
        let mut last = self.0.lock().await;
        if let Some((at, parts)) = *last
            && at.elapsed() < KEPT_FOR
        {
            return parts;
        }
        let ports = &engine.ports;
        let (store, objects, queue, hints) = futures::future::join4(
            answers("store", status::check_store(engine)),
            answers("objects", ports.objects.check()),
            answers("queue", ports.queue.check()),
            answers("hints", ports.hints.check()),
        )
        .await;
        let parts = Parts {
            store,
            objects,
            queue,
            hints,
        };
        *last = Some((Instant::now(), parts));
        parts
    }
}

async fn answers<E: std::fmt::Display>(
    part: &str,
    question: impl Future<Output = Result<(), E>>,
) -> bool {
    match timeout(PATIENCE, question).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(part, %error, "not ready");
            false
        }
        Err(_) => {
            tracing::warn!(part, "not ready: no answer in time");
            false
        }
    }
}
