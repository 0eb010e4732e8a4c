//! A broker of the simulation, with what JetStream promises: a message is delivered at least once, again where it is not settled in
//! time, and in any order. Held to the cases of every queue.

use super::faults::Trouble::{
    self, QueueDone, QueueGarbles, QueueLate, QueueLoses, QueueRefuses, QueueTwice,
};
use super::link::{Link, SimClock};
use super::watch::Watch;
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_contracts::{QueueName, TaskEvent, TaskId, WorkerMessage};
use counterstep_kernel::ports::{
    Clock, Delivery, DeliveryTag, MessageSource, Queue, QueueError, Settle,
};
use counterstep_steps::times::DbTime;
use futures::future::{Either, select};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The messages of all queues. Clones are one broker.
#[derive(Debug, Clone)]
pub(super) struct Broker(Arc<Messages>);

#[derive(Debug)]
struct Messages {
    ack_wait: Duration,
    inner: Mutex<Inner>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    messages: BTreeMap<u64, Message>,
    /// Ids within the window in which a second publication is none.
    seen: BTreeSet<String>,
}

#[derive(Debug)]
struct Message {
    queue: QueueName,
    message: WorkerMessage,
    /// Not delivered before, by the world's time.
    from: Duration,
    deliveries: u32,
    /// What went wrong with it.
    trouble: Option<Trouble>,
}

impl Broker {
    pub(super) fn new(ack_wait: Duration) -> Self {
        Self(Arc::new(Messages {
            ack_wait,
            inner: Mutex::default(),
            bell: Notify::new(),
        }))
    }

    fn add(
        &self,
        queue: &QueueName,
        message: &WorkerMessage,
        from: Duration,
        trouble: Option<Trouble>,
    ) {
        let mut inner = self.0.inner.lock();
        if !inner.seen.insert(message.id()) {
            return;
        }
        for copy in 0..=usize::from(trouble == Some(QueueTwice)) {
            inner.last += 1;
            let (number, queue, message) = (inner.last, queue.clone(), message.clone());
            let added = Message {
                queue,
                message,
                from,
                deliveries: 0,
                // Of two the second is the one too many.
                trouble: trouble.filter(|it| *it != QueueTwice || copy > 0),
            };
            inner.messages.insert(number, added);
        }
        drop(inner);
        self.0.bell.notify_waiters();
    }

    /// What may be delivered now, and when the next one may.
    fn due(&self, queues: &[QueueName], now: Duration) -> (Vec<u64>, Option<Duration>) {
        let inner = self.0.inner.lock();
        let of = inner
            .messages
            .iter()
            .filter(|(_, it)| queues.contains(&it.queue));
        let (due, later): (Vec<_>, Vec<_>) = of.partition(|(_, it)| it.from <= now);
        let next = later.iter().map(|(_, it)| it.from).min();
        (due.into_iter().map(|(number, _)| *number).collect(), next)
    }

    fn deliver(&self, number: u64, now: Duration, link: &Link) -> Option<Delivery> {
        let watch = &link.world.watch;
        let mut inner = self.0.inner.lock();
        let message = inner.messages.get_mut(&number)?;
        message.deliveries += 1;
        message.from = now + self.0.ack_wait;
        if let Some(trouble) = message.trouble {
            watch.felt(trouble);
        }
        if message.deliveries > 1 {
            watch.reached("redelivered");
        }
        let source = MessageSource {
            name: number.to_string(),
            subject: message.queue.to_string(),
            payload: Bytes::new(),
        };
        Some(Delivery {
            tag: DeliveryTag(format!("{number}/{}", message.deliveries)),
            queue: message.queue.clone(),
            is_first: message.deliveries == 1,
            message: match message.trouble {
                Some(QueueGarbles) => Err(source.poison("it is garbled (simulated)".to_owned())),
                _ => Ok(message.message.clone()),
            },
            source,
        })
    }

    /// The task of a message that is done with; `None` as well where it cannot be read.
    fn settle(
        &self,
        tag: &DeliveryTag,
        settle: &Settle,
        now: Duration,
        watch: &Watch,
    ) -> Option<TaskId> {
        let number = |text: &str| text.parse::<u64>().ok();
        let parts = tag.0.split_once('/');
        let (number, delivery) = parts.and_then(|(of, no)| number(of).zip(number(no)))?;
        let mut inner = self.0.inner.lock();
        let is_last = |it: &&mut Message| u64::from(it.deliveries) == delivery;
        let message = inner.messages.get_mut(&number).filter(is_last)?;
        let task = message.message.task;
        let is_garbled = message.trouble == Some(QueueGarbles);
        let done = match settle {
            Settle::Nak(after) => {
                message.from = now + *after;
                watch.reached(match message.deliveries {
                    1 => "nak",
                    _ => "duplicate nak",
                });
                None
            }
            Settle::Progress => {
                message.from = now + self.0.ack_wait;
                watch.reached("progress of a delivery");
                None
            }
            Settle::Ack | Settle::Term(_) => {
                if matches!(settle, Settle::Term(_)) {
                    watch.reached("quarantine");
                    watch.quarantined(number);
                }
                let removed = inner.messages.remove(&number);
                removed.filter(|_| !is_garbled).map(|_| task)
            }
        };
        drop(inner);
        self.0.bell.notify_waiters();
        done
    }

    /// Messages that are neither settled nor lost.
    pub(super) fn left(&self) -> usize {
        self.0.inner.lock().messages.len()
    }
}

/// The way of a process to the broker.
#[derive(Debug)]
pub(super) struct QueueLink {
    pub(super) link: Arc<Link>,
    pub(super) broker: Broker,
}

const PUBLISH: [Trouble; 6] = [
    QueueRefuses,
    QueueLoses,
    QueueDone,
    QueueTwice,
    QueueLate,
    QueueGarbles,
];

fn away() -> QueueError {
    QueueError("no answer (simulated)".to_owned())
}

#[async_trait]
impl Queue for QueueLink {
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        let (link, broker) = (&self.link, &self.broker);
        let now = link.world.now();
        let struck = link.next("publish", &PUBLISH).await;
        link.note(("publish", message.task.0, message.rev.0), || {
            format!("offers {} at revision {}", message.task, message.rev)
        });
        match struck {
            None => broker.add(queue, message, now, None),
            Some((trouble @ (QueueTwice | QueueGarbles), _)) => {
                broker.add(queue, message, now, Some(trouble));
            }
            Some((QueueLate, mut choice)) => {
                let late = Duration::from_millis(choice.within(100, 60_000));
                broker.add(queue, message, now + late, Some(QueueLate));
            }
            Some((QueueDone, mut choice)) => {
                broker.add(queue, message, now, None);
                link.waits(&mut choice, 1, 5_000).await;
                link.feels(QueueDone);
                return Err(away());
            }
            Some((QueueRefuses, mut choice)) => {
                link.waits(&mut choice, 0, 5_000).await;
                link.feels(QueueRefuses);
                return Err(away());
            }
            Some(_) => link.world.watch.message_is_lost(message.task),
        }
        Ok(())
    }

    async fn publish_events(&self, _: DbTime, events: &[TaskEvent]) -> Result<(), QueueError> {
        let link = &self.link;
        let publish = || {
            events
                .iter()
                .for_each(|event| link.world.watch.published(event));
        };
        match link.next("events", &[QueueRefuses, QueueDone]).await {
            None => publish(),
            Some((trouble, mut choice)) => {
                if trouble == QueueDone {
                    publish();
                }
                link.waits(&mut choice, 0, 5_000).await;
                return Err(away());
            }
        }
        link.note(("events", events.len()), || {
            format!("tells {} events", events.len())
        });
        Ok(())
    }

    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        let (link, broker, world) = (&self.link, &self.broker, &self.link.world);
        if let Some((_, mut choice)) = link.next("fetch", &[QueueRefuses]).await {
            link.waits(&mut choice, 0, 5_000).await;
            link.feels(QueueRefuses);
            return Err(away());
        }
        let until = world.now() + wait;
        loop {
            let rung = broker.0.bell.notified();
            let now = world.now();
            let (mut due, next) = broker.due(queues, now);
            if !due.is_empty() {
                let mut taken = Vec::new();
                while taken.len() < max && !due.is_empty() {
                    let at = world.draw("queue", due.len());
                    taken.extend(broker.deliver(due.remove(at), now, link));
                }
                return Ok(taken);
            }
            let Some(left) = until.checked_sub(now).filter(|left| !left.is_zero()) else {
                return Ok(Vec::new());
            };
            let wakes = next.map_or(left, |next| left.min(next.saturating_sub(now)));
            let sleep = SimClock(link.clone()).sleep(wakes);
            if let Either::Left(_) = select(pin!(rung), sleep).await
                && link.is_closed()
            {
                std::future::pending().await
            }
        }
    }

    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        let link = &self.link;
        if let Some((_, mut choice)) = link.next("settle", &[QueueRefuses]).await {
            link.waits(&mut choice, 0, 5_000).await;
            link.feels(QueueRefuses);
            return Err(away());
        }
        if let Some(task) = self
            .broker
            .settle(tag, &settle, link.world.now(), &link.world.watch)
        {
            link.settles(task);
        }
        Ok(())
    }

    fn ack_wait(&self) -> Duration {
        self.broker.0.ack_wait
    }
}
