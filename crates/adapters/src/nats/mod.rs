//! Queue, hints and domain events on NATS: JetStream for what must not get lost, core NATS for the
//! rest.
//!
//! Knows subjects, streams and consumers. Must not know what a message is about: that a task can be
//! claimed is in the database, and a message only says when to look.

mod abort_on_drop;
mod connect;
pub mod doctor;
mod fetch;
mod names;
mod options;
mod pool;
mod queue;
mod refusals;
mod signals;
mod streams;
mod watchdog;

pub use options::{Hears, NatsAuth, NatsOpenError, NatsOptions};
pub use queue::NatsQueue;
pub use signals::NatsSignals;

use abort_on_drop::AbortOnDrop;
use connect::Link;
use counterstep_contracts::QueueName;
use futures::future::BoxFuture;
use names::Names;
use pool::Pool;
use std::sync::Arc;
use std::time::Duration;
use streams::{Kind, Streams};
use tokio::time::{Instant, sleep, timeout};

/// A subject that a pattern of the rules covers.
fn probed(right: &str) -> String {
    right.replace(".>", ".probe")
}

/// How long to wait for refusals: the client reports them beside the answers that follow them.
const HEARD_AFTER: Duration = Duration::from_millis(20);

/// A connection to NATS, and everything on it. Clones share it.
#[derive(Debug, Clone)]
pub struct Nats {
    streams: Arc<Streams>,
    queue: NatsQueue,
    signals: NatsSignals,
}

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsServer {
    /// Name of the server.
    pub name: String,
    /// Its version, as `2.10.27`.
    pub version: String,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
    /// The largest message that it takes, in bytes.
    pub max_payload: usize,
    /// Whether JetStream is on.
    pub jetstream: bool,
}

impl Nats {
    /// Connects, and makes the streams where they are missing. Waits for a server up to the time
    /// limit of a request; one that is not there by then is connected to later, and the streams are
    /// made when they are first needed.
    ///
    /// # Errors
    /// [`NatsOpenError`], when the settings cannot be used whatever the server does.
    pub fn open(options: NatsOptions) -> BoxFuture<'static, Result<Self, NatsOpenError>> {
        Box::pin(async move {
            let nats = Self::connect(options).await?;
            let ready = match nats.connected().await {
                Ok(()) => nats.healthy().await,
                Err(why) => Err(why),
            };
            if let Err(why) = ready {
                tracing::warn!(error = %why, "NATS is not ready; going on without it until it is");
            }
            Ok(nats)
        })
    }

    /// Connects as [`Nats::open`] does and makes nothing: for [`Nats::examine`].
    ///
    /// # Errors
    /// [`NatsOpenError`], when the settings cannot be used whatever the server does.
    pub fn look(options: NatsOptions) -> BoxFuture<'static, Result<Self, NatsOpenError>> {
        Box::pin(async move {
            let nats = Self::connect(options).await?;
            // Why it is not connected is what an examination finds.
            let _ = nats.connected().await;
            Ok(nats)
        })
    }

    fn connect(options: NatsOptions) -> BoxFuture<'static, Result<Self, NatsOpenError>> {
        Box::pin(async move {
            let names = Names::new(options.prefix.as_deref())?;
            let link = Link::open(&options).await?;
            let signals = NatsSignals::start(&link, &names, options.hears);
            let streams = Arc::new(Streams::new(link, names, options));
            let pool = Arc::new(Pool::default());
            let watch = watchdog::watch(Arc::downgrade(&streams), Arc::downgrade(&pool));
            let watch = Arc::new(AbortOnDrop(tokio::spawn(watch)));
            let queue = NatsQueue {
                streams: streams.clone(),
                pool,
                _watch: watch,
            };
            Ok(Self {
                streams,
                queue,
                signals,
            })
        })
    }

    /// Waits for the connection, up to the time limit of a request.
    async fn connected(&self) -> Result<(), String> {
        let limit = self.streams.options.timeout;
        let started = Instant::now();
        while let Err(error) = self.streams.link.check() {
            if started.elapsed() > limit {
                return Err(error.0);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> NatsQueue {
        self.queue.clone()
    }

    /// The hints.
    #[must_use]
    pub fn signals(&self) -> NatsSignals {
        self.signals.clone()
    }

    /// Whether work can be published and fetched: connected, and the stream is there (it is made
    /// where it is missing). The text says what is not so. Ends within the time limit of a request.
    pub fn healthy(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.streams.link.check().map_err(|error| error.0)?;
            let limit = self.streams.options.timeout;
            match timeout(limit, self.streams.ensure_stream(Kind::Work)).await {
                Ok(ensured) => ensured.map_err(|error| error.0),
                Err(_) => Err(format!("NATS does not answer within {limit:?}")),
            }
        })
    }

    /// Makes the consumers of these queues, and the stream of domain events where some are to be
    /// published, so that autoscalers and subscribers find them before the first message.
    ///
    /// # Errors
    /// A text that says what the server refused; all of it is tried again when it is first needed.
    pub fn prepare(
        &self,
        queues: Vec<QueueName>,
        events: Events,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.streams.link.check().map_err(|error| error.0)?;
            for queue in &queues {
                self.streams
                    .consumer(queue)
                    .await
                    .map_err(|error| error.0)?;
            }
            match events {
                Events::Published => self
                    .streams
                    .ensure_stream(Kind::Events)
                    .await
                    .map_err(|error| error.0),
                Events::None => Ok(()),
            }
        })
    }

    /// Which subjects the account of this process may not publish to, of those that serving these queues takes. Publishes to
    /// each what the server does not understand, and so does not act on.
    ///
    /// # Errors
    /// A text, when NATS does not answer.
    pub fn missing_rights<'a>(
        &'a self,
        queues: &'a [QueueName],
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let (link, names) = (&self.streams.link, &self.streams.names);
            link.check().map_err(|error| error.0)?;
            let mut missing = Vec::new();
            // The client drops what it hears beyond 128 at a time.
            for some in queues.chunks(20) {
                let rights: Vec<String> = some.iter().flat_map(|it| names.rights(it)).collect();
                for right in &rights {
                    let sent = link.client.publish(probed(right), "?".into()).await;
                    sent.map_err(|error| error.to_string())?;
                }
                self.come_back().await?;
                let refused = link.refusals.all();
                missing.extend(rights.into_iter().filter(|right| {
                    let subject = probed(right);
                    // A right that is missing shows by itself when the work needs it.
                    link.refusals.forget(&subject);
                    refused.contains(&subject)
                }));
            }
            Ok(missing)
        })
    }

    /// The way to the server and back: what it has refused before is heard then.
    async fn come_back(&self) -> Result<(), String> {
        let (link, limit) = (&self.streams.link, self.streams.options.timeout);
        let name = self.streams.names.work_stream();
        let answered = timeout(limit, self.streams.context.get_stream(name)).await;
        // One that is not there is an answer too.
        drop(answered.map_err(|_| format!("NATS does not answer within {limit:?}"))?);
        link.check().map_err(|error| error.0)?;
        sleep(HEARD_AFTER).await;
        Ok(())
    }

    /// What the server says of itself; `None` before the first connection.
    #[must_use]
    pub fn server_info(&self) -> Option<NatsServer> {
        let info = self.streams.link.client.try_server_info()?;
        Some(NatsServer {
            name: info.server_name,
            version: info.version,
            cluster: info.cluster,
            max_payload: info.max_payload,
            jetstream: info.jetstream,
        })
    }
}

/// Whether this installation publishes domain events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// It does.
    Published,
    /// It does not.
    None,
}
