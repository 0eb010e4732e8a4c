//! Pull requests under way, and messages that have arrived and were not handed over yet.
//!
//! A pull request lives longer than the fetch that sent it: a caller that drops a fetch half-way,
//! or takes its first message and leaves, must not lose what the server sends for it meanwhile. So
//! requests are parked here, and the next fetch goes on with them. Must not hold a message for
//! long: a host that is full does not fetch, and others may be idle.

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::Batch;
use counterstep_contracts::QueueName;
use futures::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How long after its end on the server a request may still receive messages.
const GRACE: Duration = Duration::from_secs(1);

/// What the server sends at the end of a request's wait arrives within this time.
const ON_ITS_WAY: Duration = Duration::from_millis(50);

/// A pull request whose answers arrive.
pub(super) struct Request {
    batch: Batch,
    /// Messages that it may still bring.
    left: usize,
    /// When the server gives it up.
    until: Instant,
    parked: Instant,
}

impl Request {
    pub(super) fn new(batch: Batch, max: usize, until: Instant) -> Self {
        Self {
            batch,
            left: max,
            until,
            parked: Instant::now(),
        }
    }

    /// Whether the server still has it, as far as the time tells.
    fn is_running(&self) -> bool {
        self.left > 0 && Instant::now() < self.until
    }
}

/// What comes out of a queue's requests.
#[derive(Debug)]
pub(super) enum Arrived {
    /// A message.
    Message(Box<Message>),
    /// A request ended with an error: its consumer may be gone.
    Failed(String),
}

/// One queue's share of the pool.
#[derive(Default)]
pub(super) struct Lane {
    /// Arrived, and not handed over.
    spare: VecDeque<(Message, Instant)>,
    requests: Vec<Request>,
    /// A request was fulfilled in whole, and the stream is likely to have more messages.
    expects_more: bool,
    /// The last time that a fetch waited for messages of it.
    asked: Option<Instant>,
    /// The last time that one arrived.
    arrived: Option<Instant>,
    /// The server has answered a request since this was last asked.
    is_answered: bool,
}

impl Lane {
    /// Messages that are here or were asked for.
    pub(super) fn outstanding(&self) -> usize {
        self.spare.len()
            + self
                .requests
                .iter()
                .filter(|it| it.is_running())
                .map(|it| it.left)
                .sum::<usize>()
    }

    /// Whether its next message is likely to arrive within a round trip.
    pub(super) fn is_about_to_deliver(&self) -> bool {
        self.expects_more && self.spare.is_empty() && self.requests.iter().any(Request::is_running)
    }

    /// No message arrived within a round trip.
    pub(super) fn expects_no_more(&mut self) {
        self.expects_more = false;
    }

    /// Whether the server has answered a request since this was last asked. It answers none that it refuses.
    pub(super) fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.is_answered)
    }

    pub(super) fn add(&mut self, request: Request) {
        self.asked = Some(Instant::now());
        self.requests.push(request);
    }

    /// Gives a message back that was not handed over.
    pub(super) fn give_back(&mut self, message: Message) {
        self.spare.push_front((message, Instant::now()));
    }

    /// The next thing that is here already; `None`: nothing, and the waker is registered with every
    /// request.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Arrived> {
        if let Some((message, _)) = self.spare.pop_front() {
            return Some(Arrived::Message(Box::new(message)));
        }
        let (mut found, mut expects_more) = (None, self.expects_more);
        let mut is_answered = self.is_answered;
        self.requests.retain_mut(|request| {
            if found.is_some() {
                return true;
            }
            match request.batch.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(message))) => {
                    request.left = request.left.saturating_sub(1);
                    expects_more |= request.left == 0;
                    is_answered = true;
                    found = Some(Arrived::Message(Box::new(message)));
                    true
                }
                Poll::Ready(Some(Err(error))) => {
                    found = Some(Arrived::Failed(error.to_string()));
                    false
                }
                Poll::Ready(None) => {
                    // Later the client has ended it.
                    is_answered |= Instant::now() < request.until + GRACE;
                    expects_more &= request.left == 0;
                    false
                }
                Poll::Pending => Instant::now() < request.until + GRACE,
            }
        });
        self.expects_more = expects_more;
        self.is_answered = is_answered;
        if matches!(found, Some(Arrived::Message(_))) {
            self.arrived = Some(Instant::now());
        }
        found
    }
}

/// The lanes that no fetch has in its hands.
#[derive(Default)]
pub(super) struct Pool {
    lanes: Mutex<HashMap<QueueName, Lane>>,
    /// Number of fetches. Decides which queue and which lane come first, so that a busy one does not starve the others.
    turns: AtomicUsize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    fn lanes(&self) -> MutexGuard<'_, HashMap<QueueName, Lane>> {
        self.lanes.lock()
    }

    /// Sorts lanes for the next fetch: by rank, or the lower ones first and in turn. Returns whether by rank.
    pub(super) fn order_for_fetch(&self, lanes: &mut [(QueueName, Lane)]) -> bool {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let by_rank = QueueName::is_turn_by_rank(turn);
        // Rotates within each kind of turn.
        let first = if by_rank { turn - turn / 4 } else { turn / 4 };
        let (count, highest) = (
            lanes.len(),
            lanes.iter().map(|(queue, _)| queue.rank()).min(),
        );
        lanes.rotate_left(first % count.max(1));
        lanes.sort_by_key(|(queue, _)| match by_rank {
            true => queue.rank(),
            false => u8::from(Some(queue.rank()) == highest),
        });
        by_rank
    }

    /// Takes a queue's lane; another fetch at the same time gets an empty one.
    pub(super) fn take(&self, queue: &QueueName) -> Lane {
        let mut lanes = self.lanes();
        let lane = lanes.entry(queue.clone()).or_default();
        // The times stay behind: the watchdog looks at them while a fetch waits.
        let rest = Lane {
            asked: Some(Instant::now()),
            arrived: lane.arrived,
            expects_more: lane.expects_more,
            ..Lane::default()
        };
        std::mem::replace(lane, rest)
    }

    /// Puts a lane back, with whatever it has got by now.
    pub(super) fn park(&self, queue: &QueueName, lane: Lane) {
        let now = Instant::now();
        let mut lanes = self.lanes();
        let parked = lanes.entry(queue.clone()).or_default();
        parked.spare.extend(lane.spare);
        parked
            .requests
            .extend(lane.requests.into_iter().map(|request| Request {
                parked: now,
                ..request
            }));
        parked.expects_more = lane.expects_more;
        parked.is_answered |= lane.is_answered;
        parked.arrived = parked.arrived.max(lane.arrived);
        parked.asked = parked.asked.max(lane.asked);
    }

    /// Messages that no fetch has taken for this long, for other hosts to run. Requests parked for
    /// this long are polled for more.
    pub(super) fn stale(&self, age: Duration) -> Vec<Message> {
        let mut stale = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for lane in self.lanes().values_mut() {
            while lane
                .spare
                .front()
                .is_some_and(|(_, since)| since.elapsed() > age)
            {
                stale.extend(lane.spare.pop_front().map(|(message, _)| message));
            }
            let (old, young) = std::mem::take(&mut lane.requests)
                .into_iter()
                .partition(|it| it.parked.elapsed() > age);
            let (spare, mut parked) = (std::mem::take(&mut lane.spare), young);
            lane.requests = old;
            while let Some(arrived) = lane.poll(&mut cx) {
                if let Arrived::Message(message) = arrived {
                    stale.push(*message);
                }
            }
            lane.requests.append(&mut parked);
            lane.spare = spare;
        }
        stale
    }

    /// Everything that is here, at an end of the process.
    pub(super) fn drain(&self) -> Vec<Message> {
        self.stale(Duration::ZERO)
    }

    /// Whether the server may still answer a request that is parked here.
    pub(super) fn is_waiting(&self) -> bool {
        let now = Instant::now();
        let lanes = self.lanes();
        let mut requests = lanes.values().flat_map(|lane| &lane.requests);
        requests.any(|request| request.left > 0 && now < request.until + ON_ITS_WAY)
    }

    /// The lanes that were ever fetched from.
    pub(super) fn queues(&self) -> Vec<QueueName> {
        self.lanes().keys().cloned().collect()
    }

    /// Queues that a fetch waits for, and that have brought nothing for this long.
    pub(super) fn silent(&self, silent_for: Duration) -> Vec<QueueName> {
        let lanes = self.lanes();
        let silent = lanes.iter().filter(|(_, lane)| {
            lane.asked.is_some_and(|at| at.elapsed() < silent_for)
                && lane.arrived.is_none_or(|at| at.elapsed() > silent_for)
        });
        silent.map(|(queue, _)| queue.clone()).collect()
    }
}
