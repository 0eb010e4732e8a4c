//! Spans on their way to the collector: a queue with a bound, and batches that leave it. Must not
//! delay the code that makes spans: those for which there is no room are dropped, counted, and now and
//! then reported in the log.

use super::collector::{Collector, NotTaken};
use counterstep_steps::{CancelReason, CancelToken};
use futures::future::BoxFuture;
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of spans that wait. About 1 KiB each.
pub(super) const ROOM: usize = 4096;

/// Maximum number of spans of one request.
const BATCH: usize = 512;

/// How long a batch waits for more spans.
const LINGER: Duration = Duration::from_secs(1);

/// Maximum tries of a batch, and the maximum pause between two.
const TRIES: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Time limit for sending the last spans at the end of the process.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Minimum time between two reports of lost spans.
const REPORTED: Duration = Duration::from_secs(60);

pub(super) fn queue(collector: Collector) -> (Queue, Exporting) {
    let (to, from) = mpsc::channel(ROOM);
    let dropped = Arc::new(AtomicU64::new(0));
    let queue = Queue {
        to,
        dropped: dropped.clone(),
    };
    let exporting = Exporting {
        from,
        collector,
        ending: CancelToken::new(),
        losses: Losses::new(dropped),
    };
    (queue, exporting)
}

/// Where spans that have ended go in.
#[derive(Debug)]
pub(super) struct Queue {
    to: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.to.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    // The process's end does it.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Where they come out.
pub(crate) struct Exporting {
    from: mpsc::Receiver<SpanData>,
    collector: Collector,
    ending: CancelToken,
    losses: Losses,
}

impl Exporting {
    /// Exports spans while `work` is done, and afterwards, for two seconds at most, those that are
    /// left.
    pub(crate) fn beside<'a, T: Send + 'a>(self, work: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let ending = self.ending.clone();
            let exporting = tokio::spawn(self.run());
            let result = work.await;
            ending.cancel(CancelReason::Shutdown);
            if timeout(LAST_SPANS, exporting).await.is_err() {
                tracing::warn!("the collector did not take the last spans in time");
            }
            result
        })
    }

    /// The spans that wait.
    #[cfg(test)]
    pub(super) fn waiting(&mut self) -> Vec<SpanData> {
        std::iter::from_fn(|| self.from.try_recv().ok()).collect()
    }

    async fn run(mut self) {
        let mut batch = Vec::new();
        while !self.ending.is_cancelled() && self.fill(&mut batch).await {
            self.export(std::mem::take(&mut batch)).await;
            self.losses.report(Instant::now());
        }
        // Another one may still be made, by a thread that the process does not wait for.
        self.from.close();
        while self.from.recv_many(&mut batch, BATCH).await > 0 {
            self.export(std::mem::take(&mut batch)).await;
        }
        self.losses.report_all();
    }

    /// Waits for spans. `false`: there will be none.
    async fn fill(&mut self, batch: &mut Vec<SpanData>) -> bool {
        let ending = self.ending.clone();
        let mut ended = pin!(ending.cancelled());
        tokio::select! {
            count = self.from.recv_many(batch, BATCH) => if count == 0 {
                return false;
            },
            _ = &mut ended => return true,
        }
        let mut linger = pin!(sleep(LINGER));
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                count = self.from.recv_many(batch, room) => if count == 0 {
                    break;
                },
                () = &mut linger => break,
                _ = &mut ended => break,
            }
        }
        true
    }

    /// Sends a batch; again, where the collector may take it later.
    async fn export(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        if count == 0 {
            return;
        }
        let request = self.collector.request(batch);
        for tried in 1..=TRIES {
            let NotTaken { why, retry_after } = match self.collector.send(request.clone()).await {
                Ok(0) => return,
                Ok(rejected) => {
                    return self
                        .losses
                        .add(rejected, "refused by the collector".to_owned());
                }
                Err(not_taken) => not_taken,
            };
            let Some(asked) = retry_after.filter(|_| tried < TRIES && !self.ending.is_cancelled())
            else {
                return self.losses.add(count, why);
            };
            let pause = asked.max(LINGER * 2_u32.pow(tried - 1)).min(LONGEST_PAUSE);
            let ending = self.ending.clone();
            // At the end there is one more try, at once.
            let _ = timeout(pause, ending.cancelled()).await;
        }
    }
}

/// Spans that no collector gets.
struct Losses {
    dropped: Arc<AtomicU64>,
    refused: u64,
    why: String,
    reported_at: Option<Instant>,
}

impl Losses {
    fn new(dropped: Arc<AtomicU64>) -> Self {
        Self {
            dropped,
            refused: 0,
            why: String::new(),
            reported_at: None,
        }
    }

    fn add(&mut self, spans: u64, why: String) {
        self.refused += spans;
        self.why = why;
    }

    fn report(&mut self, now: Instant) {
        if self.reported_at.is_none_or(|last| now - last >= REPORTED) && self.report_all() {
            self.reported_at = Some(now);
        }
    }

    /// `false`: there was nothing to report.
    fn report_all(&mut self) -> bool {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let refused = std::mem::take(&mut self.refused);
        if dropped + refused == 0 {
            return false;
        }
        tracing::warn!(
            dropped,
            not_taken = refused,
            error = std::mem::take(&mut self.why),
            "spans were lost: no room for them, or the collector did not take them"
        );
        true
    }
}
