//! The streams and the consumers on the server: made where they are missing, as often as they are
//! missing. Must not change a stream that is there: its replicas and limits are the operator's.

use super::connect::Link;
use super::names::Names;
use super::options::NatsOptions;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{
    ConsumerInfoErrorKind, Context, ContextBuilder, CreateStreamError, CreateStreamErrorKind,
    GetStreamErrorKind,
};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use counterstep_contracts::QueueName;
use counterstep_kernel::ports::{DeniedConsumer, FetchError, QueueError, QueueRepair};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::Duration;

/// How long a new stream keeps events. A person who wants another time sets it on the stream.
const EVENTS_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// One of the streams of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Messages for hosts.
    Work,
    /// Domain events.
    Events,
}

/// What is on the server, as far as this process has seen.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) link: Link,
    pub(super) context: Context,
    pub(super) names: Names,
    pub(super) options: NatsOptions,
    consumers: Mutex<HashMap<QueueName, PullConsumer>>,
    /// Streams that were there, and in which connection; `None`: in an earlier one, or it is
    /// uncertain.
    seen: Mutex<HashMap<Kind, Option<u64>>>,
    /// One process makes one thing at a time: a hundred publishers would all ask for the same
    /// stream.
    making: tokio::sync::Mutex<()>,
}

impl Streams {
    pub(super) fn new(link: Link, names: Names, options: NatsOptions) -> Self {
        let context = ContextBuilder::new()
            .timeout(options.timeout)
            .build(link.client.clone());
        Self {
            link,
            context,
            names,
            options,
            consumers: Mutex::default(),
            seen: Mutex::default(),
            making: tokio::sync::Mutex::new(()),
        }
    }

    /// The settings of a stream that this program makes.
    pub(super) fn config(&self, kind: Kind) -> stream::Config {
        let common = stream::Config {
            storage: StorageType::File,
            num_replicas: self.options.replicas,
            discard: DiscardPolicy::Old,
            ..stream::Config::default()
        };
        match kind {
            Kind::Work => stream::Config {
                name: self.names.work_stream(),
                subjects: vec![self.names.subject("work.>")],
                // See docs/decisions/0012: what is acked is gone, and what is not acked is there
                // for any new consumer.
                retention: RetentionPolicy::WorkQueue,
                description: Some("Counterstep: messages for hosts".to_owned()),
                ..common
            },
            Kind::Events => stream::Config {
                name: self.names.events_stream(),
                subjects: vec![self.names.subject("events.>")],
                retention: RetentionPolicy::Limits,
                max_age: EVENTS_MAX_AGE,
                description: Some("Counterstep: domain events".to_owned()),
                ..common
            },
        }
    }

    /// The settings of a queue's consumer.
    pub(super) fn consumer_config(&self, queue: &QueueName) -> Result<pull::Config, QueueError> {
        Ok(pull::Config {
            durable_name: Some(self.names.consumer(queue)?),
            filter_subject: self.names.work_of(queue)?,
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.options.ack_wait,
            // Attempts are counted in the database. A message past a limit here would stay in the
            // stream, unseen.
            max_deliver: -1,
            // No limit: messages that wait for a delayed redelivery count too, and must not stop
            // the others. Hosts fetch no more than they can run.
            max_ack_pending: -1,
            ..pull::Config::default()
        })
    }

    /// Makes a stream, unless it was there in this connection. Asked before each publication: where
    /// a plain subscriber listens on a subject without a stream, the server reports no missing one,
    /// and the ack just never comes.
    pub(super) async fn stream(&self, kind: Kind) -> Result<(), QueueError> {
        let connects = self.link.connects();
        if self.seen().get(&kind) == Some(&Some(connects)) {
            return Ok(());
        }
        let _one = self.making.lock().await;
        if self.seen().get(&kind) == Some(&Some(connects)) {
            return Ok(());
        }
        self.make_stream(kind).await?;
        self.seen().insert(kind, Some(connects));
        Ok(())
    }

    /// Forgets that a stream was there.
    pub(super) fn forget_stream(&self, kind: Kind) {
        if let Some(connection) = self.seen().get_mut(&kind) {
            *connection = None;
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Kind, Option<u64>>> {
        self.seen.lock()
    }

    /// Makes a stream, unless it is there.
    pub(super) async fn ensure_stream(&self, kind: Kind) -> Result<(), QueueError> {
        let _one = self.making.lock().await;
        self.make_stream(kind).await
    }

    async fn make_stream(&self, kind: Kind) -> Result<(), QueueError> {
        let config = self.config(kind);
        match self.context.get_stream(&config.name).await {
            Ok(found) => {
                let found = &found.cached_info().config;
                covers(found, &config)?;
                if found.num_replicas < config.num_replicas && !self.seen().contains_key(&kind) {
                    fewer_copies(&config, found.num_replicas);
                }
                self.seen().entry(kind).or_insert(None);
                return Ok(());
            }
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error)
                    if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {}
                _ => {
                    return Err(QueueError(format!(
                        "looking for the stream `{}`: {error}",
                        config.name
                    )));
                }
            },
        }
        let name = config.name.clone();
        if !self.options.create_streams {
            return Err(QueueError(format!(
                "the stream `{name}` is missing, and this process is not to create it \
                 (`nats_create_streams = false`): start the reconciler, which creates it with its next pass"
            )));
        }
        let mut created = self.context.create_stream(config.clone()).await;
        if created.as_ref().is_err_and(is_of_one_server) {
            // A stream with one copy is worth more than none: without it each task waits for a poll.
            fewer_copies(&config, 1);
            let one_copy = stream::Config {
                num_replicas: 1,
                ..config
            };
            created = self.context.create_stream(one_copy).await;
        }
        match created {
            Ok(_) => {
                // It takes messages with it, and what its operator has set: worth more than a line
                // in passing.
                let before = self.seen().insert(kind, None);
                match before {
                    Some(_) => {
                        tracing::warn!(stream = %name, "the stream was gone, with its messages; made it again")
                    }
                    None => tracing::info!(stream = %name, "made a stream"),
                }
                self.cached().clear();
                Ok(())
            }
            Err(error) => match error.kind() {
                // Another process has created it, with its own replicas and limits.
                CreateStreamErrorKind::JetStream(error)
                    if error.error_code() == ErrorCode::STREAM_NAME_EXIST =>
                {
                    Ok(())
                }
                _ => Err(QueueError(format!("making the stream `{name}`: {error}"))),
            },
        }
    }

    /// The consumer of a queue; made, with its stream, where this process has not seen it yet.
    pub(super) async fn consumer(&self, queue: &QueueName) -> Result<PullConsumer, QueueError> {
        if let Some(consumer) = self.cached().get(queue) {
            return Ok(consumer.clone());
        }
        let _one = self.making.lock().await;
        if let Some(consumer) = self.cached().get(queue) {
            return Ok(consumer.clone());
        }
        let config = self.consumer_config(queue)?;
        let stream = self.names.work_stream();
        let creation = self.names.creation(queue);
        let refusals = &self.link.refusals;
        if refusals.is_fresh(&creation) {
            return Err(lacks(&creation));
        }
        let make = async {
            match self
                .context
                .create_consumer_on_stream(config.clone(), &stream)
                .await
            {
                Err(error) if is_missing(&error.to_string()) => {
                    self.make_stream(Kind::Work).await?;
                    Ok(self
                        .context
                        .create_consumer_on_stream(config, &stream)
                        .await)
                }
                made => Ok(made),
            }
        };
        // What is refused for want of a permission gets no answer.
        let made: Result<_, QueueError> = tokio::select! {
            biased;
            () = refusals.refused(&creation) => return Err(lacks(&creation)),
            made = make => made,
        };
        let consumer = made?.map_err(|error| {
            QueueError(format!("making the consumer of queue `{queue}`: {error}"))
        })?;
        refusals.forget(&creation);
        self.cached().insert(queue.clone(), consumer.clone());
        Ok(consumer)
    }

    /// Whether this process may not make the consumer of a queue.
    pub(super) fn lacks(&self, queue: &QueueName) -> bool {
        self.link.refusals.is_fresh(&self.names.creation(queue))
    }

    /// Those of these lanes whose consumers this process may not use. Without a connection nothing is known of its rights.
    pub(super) fn denied(&self, lanes: &[QueueName]) -> Vec<FetchError> {
        let refused = match self.link.check() {
            Ok(()) => self.link.refusals.all(),
            Err(_) => Vec::new(),
        };
        if refused.is_empty() {
            return Vec::new();
        }
        let denied = lanes.iter().filter_map(|lane| {
            let needed = [self.names.creation(lane), self.names.fetching(lane)];
            let subject = needed.into_iter().find(|it| refused.contains(it))?;
            let name = self.names.consumer(lane).ok()?;
            Some(FetchError {
                queue: lane.clone(),
                message: lacks(&subject).0,
                consumer: Some(DeniedConsumer { name, subject }),
            })
        });
        denied.collect()
    }

    /// The server has answered a request for messages of a queue: it is not refused any more.
    pub(super) fn may_fetch(&self, queue: &QueueName) {
        self.link.refusals.forget(&self.names.fetching(queue));
    }

    /// Whether the consumer of a queue was seen.
    pub(super) fn knows(&self, queue: &QueueName) -> bool {
        self.cached().contains_key(queue)
    }

    /// Forgets that a consumer was seen: the next use makes it where it is missing.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.cached().remove(queue);
    }

    /// The queues whose consumers this process uses.
    pub(super) fn queues(&self) -> Vec<QueueName> {
        self.cached().keys().cloned().collect()
    }

    /// Whether the server has the queue's consumer.
    pub(super) async fn consumer_exists(&self, queue: &QueueName) -> Result<bool, QueueError> {
        let stream = self
            .context
            .get_stream_no_info(self.names.work_stream())
            .await;
        let stream = stream.map_err(|error| QueueError(error.to_string()))?;
        match stream.consumer_info(self.names.consumer(queue)?).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => {
                    Ok(false)
                }
                _ => Err(QueueError(error.to_string())),
            },
        }
    }

    /// What is missing on the server, as text: the stream of work, and the consumers of these
    /// queues. Mended, where that is asked for; the stream of events, too, where this process has
    /// seen it.
    pub(super) async fn repair(
        &self,
        queues: &[QueueName],
        repair: QueueRepair,
    ) -> Result<Vec<String>, QueueError> {
        let mut missing = Vec::new();
        for kind in [Kind::Work, Kind::Events] {
            if kind == Kind::Events && !self.seen().contains_key(&kind) {
                continue;
            }
            let name = self.config(kind).name;
            if self.stream_exists(&name).await? {
                continue;
            }
            if repair == QueueRepair::Mend {
                self.ensure_stream(kind).await?;
            }
            missing.push(format!("the stream `{name}`"));
        }
        for queue in queues {
            if self.consumer_exists(queue).await? {
                continue;
            }
            if repair == QueueRepair::Mend {
                self.forget(queue);
                self.consumer(queue).await?;
            }
            missing.push(format!("the consumer of queue `{queue}`"));
        }
        Ok(missing)
    }

    async fn stream_exists(&self, name: &str) -> Result<bool, QueueError> {
        match self.context.get_stream(name).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error)
                    if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    Ok(false)
                }
                _ => Err(QueueError(format!(
                    "looking for the stream `{name}`: {error}"
                ))),
            },
        }
    }

    /// Deletes a consumer, and makes it again. Unacked messages are delivered again.
    pub(super) async fn rebuild(&self, queue: &QueueName) -> Result<(), QueueError> {
        self.forget(queue);
        let name = self.names.consumer(queue)?;
        // An error most likely says that it is not there.
        let _ = self
            .context
            .delete_consumer_from_stream(name, self.names.work_stream())
            .await;
        self.consumer(queue).await.map(drop)
    }

    fn cached(&self) -> parking_lot::MutexGuard<'_, HashMap<QueueName, PullConsumer>> {
        self.consumers.lock()
    }
}

/// Whether a server refuses a stream with copies, since it is not one of a cluster.
fn is_of_one_server(error: &CreateStreamError) -> bool {
    matches!(error.kind(), CreateStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED)
}

fn fewer_copies(wanted: &stream::Config, copies: usize) {
    let (stream, set) = (&wanted.name, wanted.num_replicas);
    tracing::warn!(
        code = "nats_replicas", %stream, copies, set,
        "the stream has fewer copies than are set: a lost disk may lose its messages; `doctor` says what to do"
    );
}

fn lacks(subject: &str) -> QueueError {
    QueueError(format!(
        "the NATS account may not publish to `{subject}`: `deploy render` writes the line that nats/accounts.conf lacks"
    ))
}

fn covers(found: &stream::Config, wanted: &stream::Config) -> Result<(), QueueError> {
    if wanted
        .subjects
        .iter()
        .all(|subject| found.subjects.contains(subject))
    {
        return Ok(());
    }
    Err(QueueError(format!(
        "the stream `{}` keeps {:?}, and not {:?}: it belongs to another program, or was changed; \
         set another prefix, or give it these subjects",
        found.name, found.subjects, wanted.subjects
    )))
}

/// Whether a request failed because its stream is not there. The client's error for it has changed
/// with its versions, the server's text has not.
fn is_missing(error: &str) -> bool {
    error.contains("stream not found")
}
