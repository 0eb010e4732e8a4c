//! The queue on JetStream: publishing, settling, and a watch over its consumers. Fetching is in
//! `fetch`.

use super::abort_on_drop::AbortOnDrop;
use super::fetch;
use super::pool::Pool;
use super::streams::{Kind, Streams};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{AckKind, Message};
use async_nats::{Request, RequestErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_contracts::{CloudEvent, QueueName, TaskEvent, WorkerMessage};
use counterstep_kernel::ports::{
    Delivery, DeliveryTag, FetchError, Queue, QueueError, QueueRepair, Settle,
};
use counterstep_steps::times::DbTime;
use counterstep_steps::times::rfc3339;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::Span;

/// Pause between two polls for what the server still sends to a host that ends.
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// The queue on JetStream. Clones share requests under way.
#[derive(Debug, Clone)]
pub struct NatsQueue {
    pub(super) streams: Arc<Streams>,
    pub(super) pool: Arc<Pool>,
    /// Ends with the last clone.
    pub(super) _watch: Arc<AbortOnDrop>,
}

/// Forgets that a stream was there, unless a publication to it succeeded.
struct Doubt<'a> {
    streams: &'a Streams,
    kind: Kind,
}

impl Doubt<'_> {
    fn dispel(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.streams.forget_stream(self.kind);
    }
}

/// One publication, ready to be sent, and once more.
struct Post {
    subject: String,
    message: PublishMessage,
}

#[async_trait]
impl Queue for NatsQueue {
    fn ack_wait(&self) -> Duration {
        self.streams.options.ack_wait
    }

    async fn check(&self) -> Result<(), QueueError> {
        self.streams.link.check()
    }

    fn refused(&self) -> Vec<String> {
        self.streams.link.refusals.all()
    }

    fn denied_consumers(&self) -> Vec<FetchError> {
        self.streams.denied(&self.pool.queues())
    }

    async fn repair(
        &self,
        queues: &[QueueName],
        repair: QueueRepair,
    ) -> Result<Vec<String>, QueueError> {
        self.limited(
            "looking for streams and consumers",
            self.streams.repair(queues, repair),
        )
        .await
    }

    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        let mut headers = HeaderMap::new();
        if let Some(traceparent) = &message.traceparent {
            headers.insert("traceparent", traceparent.as_str());
        }
        let subject = self
            .streams
            .names
            .work(queue, &message.task_type, message.version)?;
        // The span of the publication is the caller's, who does not know the server.
        let span = Span::current();
        span.record("messaging.system", "nats");
        span.record("messaging.destination.name", subject.as_str());
        let post = post(subject, &message.id(), headers, "application/json", message)?;
        self.limited("publishing", async {
            // Before its first message: an autoscaler that finds no consumer starts no worker that
            // would make it.
            if self.streams.options.create_streams {
                self.streams.consumer(queue).await?;
            }
            self.put(Kind::Work, std::slice::from_ref(&post)).await
        })
        .await
    }

    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        fetch::fetch(&self.streams, &self.pool, queues, max, wait).await
    }

    async fn publish_events(&self, at: DbTime, events: &[TaskEvent]) -> Result<(), QueueError> {
        let time = rfc3339(at);
        let mut posts = Vec::with_capacity(events.len());
        for event in events {
            let mut headers = HeaderMap::new();
            if let Some(traceparent) = &event.traceparent {
                headers.insert("traceparent", traceparent.as_str());
            }
            let subject = self.streams.names.event(&event.task_type, &event.event)?;
            let event = CloudEvent::new(event.clone(), time.clone());
            posts.push(post(
                subject,
                &event.id,
                headers,
                "application/cloudevents+json",
                &event,
            )?);
        }
        self.limited("publishing events", self.put(Kind::Events, &posts))
            .await
    }

    // A pull request cannot be taken back: the server may answer it until its wait is over, and what
    // it sends then would come to other hosts only after the ack wait.
    async fn release(&self) {
        loop {
            give_back(self.pool.drain()).await;
            if !self.pool.is_waiting() {
                return;
            }
            sleep(RELEASE_PAUSE).await;
        }
    }

    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        // The tag is the subject that the server gave the delivery for its settlement. It knows by
        // itself which delivery it was, so nothing is kept here, and nothing to keep is lost.
        if !tag.0.starts_with("$JS.ACK.") {
            return Err(QueueError(format!(
                "`{}` is no delivery of this queue",
                tag.0.escape_debug()
            )));
        }
        let client = &self.streams.link.client;
        let kind = match settle {
            Settle::Ack => AckKind::Ack,
            Settle::Term(_) => AckKind::Term,
            Settle::Nak(delay) => AckKind::Nak((!delay.is_zero()).then_some(delay)),
            Settle::Progress => AckKind::Progress,
        };
        let is_final = matches!(kind, AckKind::Ack | AckKind::Term);
        self.limited("settling", async {
            if !is_final {
                let sent = client.publish(tag.0.clone(), kind.into()).await;
                return sent.map_err(|error| QueueError(error.to_string()));
            }
            let request = Request::new().payload(kind.into());
            match client.send_request(tag.0.clone(), request).await {
                Ok(_) => Ok(()),
                // Its consumer was deleted or made anew: the delivery is not the last one any more.
                Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
                Err(error) => Err(QueueError(format!(
                    "the settlement was not confirmed: {error}"
                ))),
            }
        })
        .await
    }
}

fn post(
    subject: String,
    id: &str,
    mut headers: HeaderMap,
    content_type: &str,
    body: &impl serde::Serialize,
) -> Result<Post, QueueError> {
    headers.insert(NATS_MESSAGE_ID, id);
    headers.insert("Content-Type", content_type);
    let body = serde_json::to_vec(body)
        .map_err(|error| QueueError(format!("it cannot be written: {error}")))?;
    Ok(Post {
        subject,
        message: PublishMessage::build()
            .headers(headers)
            .payload(Bytes::from(body)),
    })
}

impl NatsQueue {
    /// Sends all, and then waits for all: together they take one way to the server and back. Makes
    /// the stream where it is missing. A duplicate is success: the server has it.
    async fn put(&self, kind: Kind, posts: &[Post]) -> Result<(), QueueError> {
        // Stays so where this is dropped at its time limit, and the next publication looks for the
        // stream.
        let doubt = Doubt {
            streams: &self.streams,
            kind,
        };
        self.streams.stream(kind).await?;
        let unsent = self.try_put(posts, 0..posts.len()).await?;
        if unsent.is_empty() {
            doubt.dispel();
            return Ok(());
        }
        self.streams.ensure_stream(kind).await?;
        match self.try_put(posts, unsent.into_iter()).await?.len() {
            0 => {
                doubt.dispel();
                Ok(())
            }
            left => Err(QueueError(format!("no stream took {left} messages"))),
        }
    }

    /// Returns those for which there was no stream.
    async fn try_put(
        &self,
        posts: &[Post],
        which: impl Iterator<Item = usize> + Send,
    ) -> Result<Vec<usize>, QueueError> {
        let mut sent: Vec<(usize, PublishAckFuture)> = Vec::new();
        for at in which {
            let Post { subject, message } = &posts[at];
            let ack = self
                .streams
                .context
                .send_publish(subject.clone(), message.clone())
                .await
                .map_err(failed)?;
            sent.push((at, ack));
        }
        let mut missing = Vec::new();
        for (at, ack) in sent {
            match ack.await {
                Ok(_) => {}
                Err(error) if error.kind() == PublishErrorKind::StreamNotFound => missing.push(at),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(missing)
    }

    /// Nothing waits for a server longer than the settings say, connected or not.
    async fn limited<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, QueueError>> + Send,
    ) -> Result<T, QueueError> {
        self.streams.link.check()?;
        let limit = self.streams.options.timeout;
        timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(QueueError(format!("{what} took longer than {limit:?}"))))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: PublishError) -> QueueError {
    QueueError(format!("publishing: {error}"))
}

pub(super) async fn give_back(messages: Vec<Message>) {
    for message in messages {
        if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
            tracing::debug!(%error, "a message could not be given back; it comes again after the ack wait");
        }
    }
}
