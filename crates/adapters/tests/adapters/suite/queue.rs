//! Deliveries and their settlement. The fixture's ack wait is [`ACK_WAIT`].

use super::changes::*;
use super::{LIMIT, eventually, within_limit};
use counterstep_contracts::{QueueName, TaskId};
use counterstep_kernel::ports::{Delivery, Ports, Settle};
use futures::future::join_all;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long the queue of a fixture waits for a settlement.
pub(crate) const ACK_WAIT: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_millis(20);

/// Commits a message and publishes it.
async fn send(ports: &Ports, queue: &str) -> TaskId {
    let mut row = row(new_task());
    row.queue = queue.to_owned();
    let record = submitted(&ports.store, row).await;
    ports
        .queue
        .publish(&QueueName(queue.into()), &message(record.task.id, 1))
        .await
        .unwrap();
    record.task.id
}

async fn fetch(ports: &Ports, max: usize, wait: Duration) -> Vec<Delivery> {
    ports
        .queue
        .fetch(&[QueueName("files".into())], max, wait)
        .await
        .unwrap()
}

async fn one(ports: &Ports) -> Delivery {
    let mut found = fetch(ports, 1, LIMIT).await;
    assert_eq!(found.len(), 1, "nothing was delivered");
    found.remove(0)
}

/// A moment before which something must not happen. Set before the queue starts to count, so that a
/// slow machine makes it hold all the more.
struct NotBefore(Instant);

impl NotBefore {
    fn from_now(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    fn is_over(&self, what: &str) {
        let now = Instant::now();
        assert!(
            now >= self.0,
            "{what} came too early, by {:?}",
            self.0 - now
        );
    }
}

fn task_of(delivery: &Delivery) -> TaskId {
    delivery
        .message
        .as_ref()
        .expect("a message that can be read")
        .task
}

async fn settle(ports: &Ports, delivery: &Delivery, settle: Settle) {
    ports.queue.settle(&delivery.tag, settle).await.unwrap();
}

/// Nothing comes for longer than it takes to be delivered again.
async fn assert_silent(ports: &Ports) {
    assert_eq!(fetch(ports, 10, 2 * ACK_WAIT).await, []);
}

pub(crate) async fn an_acked_message_never_comes_again(ports: &Ports) {
    let task = send(ports, "files").await;
    let delivery = one(ports).await;
    assert_eq!(
        (&delivery.queue.0[..], &delivery.message),
        ("files", &Ok(message(task, 1)))
    );
    settle(ports, &delivery, Settle::Ack).await;
    assert_silent(ports).await;
    settle(ports, &delivery, Settle::Ack).await;
    settle(ports, &delivery, Settle::Nak(Duration::ZERO)).await;
    assert_silent(ports).await;
}

pub(crate) async fn an_unsettled_message_comes_again_after_the_ack_wait(ports: &Ports) {
    let task = send(ports, "files").await;
    let early = NotBefore::from_now(ACK_WAIT / 2);
    let first = one(ports).await;
    let second = one(ports).await;
    early.is_over("a second delivery");
    assert_eq!((task_of(&first), task_of(&second)), (task, task));
    assert_ne!(first.tag, second.tag);
    // The settlement of the last delivery counts.
    settle(ports, &second, Settle::Ack).await;
    assert_silent(ports).await;
}

pub(crate) async fn a_nak_delays_the_redelivery(ports: &Ports) {
    send(ports, "files").await;
    let delivery = one(ports).await;
    let early = NotBefore::from_now(2 * ACK_WAIT);
    settle(ports, &delivery, Settle::Nak(3 * ACK_WAIT)).await;
    let again = one(ports).await;
    early.is_over("a redelivery that was to be delayed");
    assert!(!again.is_first);
    settle(ports, &again, Settle::Nak(Duration::ZERO)).await;
    one(ports).await;
}

pub(crate) async fn progress_puts_the_redelivery_off(ports: &Ports) {
    send(ports, "files").await;
    let mut early = NotBefore::from_now(ACK_WAIT);
    let mut delivery = one(ports).await;
    // Three ack waits in all.
    for _ in 0..12 {
        let next = NotBefore::from_now(ACK_WAIT);
        settle(ports, &delivery, Settle::Progress).await;
        if let Some(again) = fetch(ports, 1, ACK_WAIT / 4).await.pop() {
            // A machine that stalls for longer than the ack wait sees it again, and rightly.
            early.is_over("a redelivery in spite of progress");
            delivery = again;
        }
        early = next;
    }
    assert_eq!(one(ports).await.message, delivery.message);
}

pub(crate) async fn a_terminated_message_never_comes_again(ports: &Ports) {
    send(ports, "files").await;
    let delivery = one(ports).await;
    settle(ports, &delivery, Settle::Term("unknown type".to_owned())).await;
    assert_silent(ports).await;
}

pub(crate) async fn an_empty_fetch_ends_with_its_wait(ports: &Ports) {
    let early = NotBefore::from_now(10 * SHORT);
    assert_eq!(fetch(ports, 5, 10 * SHORT).await, []);
    early.is_over("the end of a fetch");
    assert_eq!(fetch(ports, 5, Duration::ZERO).await, []);
    assert_eq!(fetch(ports, 0, SHORT).await, []);
    assert_eq!(ports.queue.fetch(&[], 5, SHORT).await.unwrap(), []);
}

pub(crate) async fn only_the_queues_asked_for_are_fetched(ports: &Ports) {
    send(ports, "other").await;
    assert_eq!(fetch(ports, 5, SHORT).await, []);
    let queues = [QueueName("files".into()), QueueName("other".into())];
    assert_eq!(ports.queue.fetch(&queues, 5, LIMIT).await.unwrap().len(), 1);
}

pub(crate) async fn each_message_goes_to_one_of_many_fetches(ports: &Ports) {
    let mut sent = HashSet::new();
    for _ in 0..20 {
        sent.insert(send(ports, "files").await);
    }
    let mut seen = HashSet::new();
    let early = NotBefore::from_now(ACK_WAIT);
    within_limit("fetching all", async {
        while seen.len() < sent.len() {
            for delivery in join_all((0..8).map(|_| fetch(ports, 2, SHORT)))
                .await
                .into_iter()
                .flatten()
            {
                settle(ports, &delivery, Settle::Ack).await;
                if !seen.insert(task_of(&delivery)) {
                    // A machine that stalls for longer than the ack wait may see one again, and
                    // rightly.
                    early.is_over("a message delivered twice");
                }
            }
        }
    })
    .await;
    assert_eq!(seen, sent);
    eventually("an empty queue", || async {
        fetch(ports, 5, SHORT).await.is_empty().then_some(())
    })
    .await;
}
