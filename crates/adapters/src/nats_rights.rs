//! What the users of a NATS account may publish and subscribe to, so that each kind of process can do its work and no more: for
//! the file that makes the users, and for a process that compares its own. Needs no client of NATS.

use counterstep_contracts::QueueName;

/// A kind of process that has a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Submits, and runs the steps of API hosts.
    Api,
    /// Serves the queues, and hears of cancels.
    Worker,
    /// Publishes again what was lost, and creates what is missing.
    Reconciler,
    /// Looks, for `doctor`.
    Operator,
}

impl User {
    /// Behind the dash of the user's name, and as flags have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Reconciler => "reconciler",
            Self::Operator => "operator",
        }
    }
}

/// The stream of this purpose: `work` or `events`.
#[must_use]
pub fn stream(prefix: Option<&str>, purpose: &str) -> String {
    format!("{}-{purpose}", prefix.unwrap_or("counterstep"))
}

/// A subject, or a pattern, under the prefix.
#[must_use]
pub fn subject(prefix: Option<&str>, rest: &str) -> String {
    prefix.map_or_else(|| rest.to_owned(), |prefix| format!("{prefix}.{rest}"))
}

/// The durable consumer of a queue: its name, with `~` where the queue's has a dot. No queue can be called so itself.
#[must_use]
pub fn consumer(queue: &QueueName) -> String {
    queue.0.replace('.', "~")
}

/// All messages of a queue.
#[must_use]
pub fn messages(prefix: Option<&str>, queue: &QueueName) -> String {
    subject(prefix, &format!("work.{}.*.*", queue.0))
}

/// The pattern of what is created with the consumer of a queue.
#[must_use]
pub fn creation(prefix: Option<&str>, queue: &QueueName) -> String {
    let (stream, consumer) = (stream(prefix, "work"), consumer(queue));
    let messages = messages(prefix, queue);
    format!("$JS.API.CONSUMER.CREATE.{stream}.{consumer}.{messages}")
}

/// What is published to fetch from the consumer of a queue.
#[must_use]
pub fn fetching(prefix: Option<&str>, queue: &QueueName) -> String {
    let (stream, consumer) = (stream(prefix, "work"), consumer(queue));
    format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}")
}

/// What a process that serves this queue, or lane of one, publishes.
#[must_use]
pub fn of_queue(prefix: Option<&str>, queue: &QueueName) -> [String; 5] {
    let (stream, consumer) = (stream(prefix, "work"), consumer(queue));
    [
        creation(prefix, queue),
        format!("$JS.API.CONSUMER.DELETE.{stream}.{consumer}"),
        format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}"),
        fetching(prefix, queue),
        format!("$JS.ACK.{stream}.{consumer}.>"),
    ]
}

/// What a user may publish, in the lines of a file. `queues`: those that it serves, with their lanes.
#[must_use]
pub fn publish(user: User, prefix: Option<&str>, queues: &[QueueName]) -> Vec<Vec<String>> {
    let (work, events) = (stream(prefix, "work"), stream(prefix, "events"));
    let both = |action: &str| {
        vec![
            format!("$JS.API.{action}.{work}"),
            format!("$JS.API.{action}.{events}"),
        ]
    };
    let sends = ["work.>", "events.>", "signal.>"]
        .map(|rest| subject(prefix, rest))
        .to_vec();
    let looks = both("STREAM.INFO");
    match user {
        User::Api | User::Worker => {
            let consumes = queues.iter().flat_map(|queue| of_queue(prefix, queue));
            let consumes = consumes.map(|line| vec![line]);
            [sends, looks].into_iter().chain(consumes).collect()
        }
        User::Reconciler => vec![
            sends,
            looks,
            both("STREAM.CREATE"),
            vec![
                format!("$JS.API.CONSUMER.CREATE.{work}.>"),
                format!("$JS.API.CONSUMER.INFO.{work}.*"),
            ],
        ],
        User::Operator => vec![looks, vec![format!("$JS.API.CONSUMER.LIST.{work}")]],
    }
}

/// What a user may subscribe to.
#[must_use]
pub fn subscribe(user: User, prefix: Option<&str>) -> Vec<String> {
    // A program that embeds the engine submits as the API does.
    let (inboxes, hears): (&[&str], _) = match user {
        User::Api => (&["api", "service"], "signal.*.*"),
        User::Worker => (&["worker"], "signal.cancel.*"),
        User::Reconciler => (&["reconciler"], "signal.*.*"),
        User::Operator => (&["doctor"], "signal.*.*"),
    };
    let inboxes = inboxes.iter().map(|of| format!("_INBOX.{of}.>"));
    inboxes.chain([subject(prefix, hears)]).collect()
}
