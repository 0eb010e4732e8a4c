//! NATS with a real server: the suite of the queue, and what only NATS can be asked: lost streams,
//! lost connections, poison, hints and events between processes.

mod access;
mod bad_messages;
mod engine;
mod foreign_streams;
mod outages;
mod rights;
mod signals;

use crate::embedded;
use crate::suite::changes::*;
use crate::suite::queue::ACK_WAIT;
use crate::suite::{LIMIT, within_limit};
use async_nats::jetstream;
use counterstep_adapters::nats::{Events, Nats, NatsOptions};
use counterstep_contracts::{QueueName, TaskId, WorkerMessage};
use counterstep_kernel::ports::{Delivery, Ports, Queue, Settle};
use counterstep_testkit::servers::shared_nats;
use futures::FutureExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SHORT: Duration = Duration::from_millis(50);

/// Ports with the store of the embedded set beside the queue, and the folder that it lives in.
struct Fixture {
    ports: Ports,
    nats: Nats,
    _folder: TempDir,
}

/// On the shared server, apart from other tests by the prefix.
pub(crate) fn apart() -> NatsOptions {
    let prefix = Some(format!("t{}", new_task().0.simple()));
    NatsOptions {
        ack_wait: ACK_WAIT,
        prefix,
        ..NatsOptions::new(shared_nats().url())
    }
}

pub(crate) async fn open(options: NatsOptions) -> Nats {
    Nats::open(options).await.expect("the settings are usable")
}

async fn fixture() -> Fixture {
    fixture_of(open(apart()).await).await
}

async fn fixture_of(nats: Nats) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = embedded::open_in(folder.path(), embedded::options()).await;
    let ports = Ports {
        queue: Arc::new(nats.queue()),
        signals: Arc::new(nats.signals()),
        ..ports
    };
    Fixture {
        ports,
        nats,
        _folder: folder,
    }
}

crate::queue_cases!(crate::nats::fixture);

fn files() -> [QueueName; 1] {
    [QueueName("files".into())]
}

async fn fetch(nats: &Nats, max: usize, wait: Duration) -> Vec<Delivery> {
    nats.queue().fetch(&files(), max, wait).await.unwrap()
}

async fn publish(nats: &Nats) -> TaskId {
    let task = new_task();
    nats.queue()
        .publish(&files()[0], &message(task, 1))
        .await
        .unwrap();
    task
}

async fn ack(nats: &Nats, delivery: &Delivery) {
    nats.queue()
        .settle(&delivery.tag, Settle::Ack)
        .await
        .unwrap();
}

fn task_of(delivery: &Delivery) -> TaskId {
    delivery
        .message
        .as_ref()
        .expect("a message that can be read")
        .task
}

/// A client without any of our code.
async fn plain(url: &str) -> jetstream::Context {
    jetstream::new(async_nats::connect(url).await.unwrap())
}

fn prefix(options: &NatsOptions) -> &str {
    options.prefix.as_deref().unwrap()
}

#[tokio::test]
async fn a_message_is_published_once_however_often_it_is_said() {
    let nats = open(apart()).await;
    let task = new_task();
    for _ in 0..3 {
        nats.queue()
            .publish(&files()[0], &message(task, 1))
            .await
            .unwrap();
    }
    let delivery = fetch(&nats, 10, LIMIT).await.remove(0);
    ack(&nats, &delivery).await;
    // Even after the ack; only another dispatch is another message.
    nats.queue()
        .publish(&files()[0], &message(task, 1))
        .await
        .unwrap();
    assert_eq!(fetch(&nats, 10, 2 * ACK_WAIT).await, []);
    nats.queue()
        .publish(&files()[0], &message(task, 2))
        .await
        .unwrap();
    assert_eq!(fetch(&nats, 10, LIMIT).await.len(), 1);
}

#[tokio::test]
async fn the_first_delivery_of_a_message_is_known_for_one() {
    let nats = open(apart()).await;
    publish(&nats).await;
    let first = fetch(&nats, 1, LIMIT).await.remove(0);
    nats.queue()
        .settle(&first.tag, Settle::Nak(Duration::ZERO))
        .await
        .expect("it is settled");
    let second = fetch(&nats, 1, LIMIT).await.remove(0);
    assert_eq!((first.is_first, second.is_first), (true, false));
}

#[tokio::test]
async fn a_message_is_as_documented() {
    let options = apart();
    let nats = open(options.clone()).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let sent = WorkerMessage {
        traceparent: Some(traceparent.into()),
        ..message(new_task(), 7)
    };
    nats.queue()
        .publish(&QueueName("files.api".into()), &sent)
        .await
        .unwrap();
    let stream = plain(&shared_nats().url())
        .await
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    let raw = stream.get_raw_message(1).await.unwrap();
    assert_eq!(
        raw.subject.as_str(),
        format!("{}.work.files.api.Zip.v1", prefix(&options))
    );
    let header = |name: &str| raw.headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!(header("Nats-Msg-Id"), Some(format!("{}:7", sent.task)));
    assert_eq!(header("traceparent").as_deref(), Some(traceparent));
    assert_eq!(header("Content-Type").as_deref(), Some("application/json"));
    assert_eq!(
        serde_json::from_slice::<WorkerMessage>(&raw.payload).unwrap(),
        sent
    );
    // Scaling from zero: the consumer is there before the first worker.
    let consumer = stream.consumer_info("files~api").await.unwrap().config;
    assert_eq!((consumer.max_deliver, consumer.ack_wait), (-1, ACK_WAIT));
}

#[tokio::test]
async fn a_queue_that_would_reach_into_other_subjects_is_refused() {
    let nats = open(apart()).await;
    for bad in ["a.b", "*", ">", ""] {
        let queue = [QueueName(bad.into())];
        assert!(
            nats.queue()
                .publish(&queue[0], &message(new_task(), 1))
                .await
                .is_err(),
            "{bad}"
        );
        assert!(nats.queue().fetch(&queue, 1, SHORT).await.is_err(), "{bad}");
    }
    assert!(
        nats.queue()
            .settle(
                &counterstep_kernel::ports::DeliveryTag("x".into()),
                Settle::Ack
            )
            .await
            .is_err()
    );
}

#[tokio::test]
async fn two_processes_share_the_messages_of_a_queue() {
    let options = NatsOptions {
        ack_wait: Duration::from_secs(30),
        ..apart()
    };
    let both = [open(options.clone()).await, open(options).await];
    let mut sent = HashSet::new();
    for _ in 0..30 {
        sent.insert(publish(&both[0]).await);
    }
    let mut seen = [HashSet::new(), HashSet::new()];
    within_limit("fetching all", async {
        while seen[0].len() + seen[1].len() < sent.len() {
            for (nats, seen) in both.iter().zip(&mut seen) {
                for delivery in fetch(nats, 3, SHORT).await {
                    ack(nats, &delivery).await;
                    assert!(seen.insert(task_of(&delivery)));
                }
            }
        }
    })
    .await;
    assert!(
        seen.iter().all(|seen| seen.len() >= sent.len() / 5),
        "{seen:?}"
    );
    assert_eq!(
        seen[0].union(&seen[1]).copied().collect::<HashSet<_>>(),
        sent
    );
}

#[tokio::test]
async fn a_fetch_over_several_queues_brings_no_more_than_was_asked_for() {
    let nats = open(apart()).await;
    let queues: Vec<_> = ["a", "b", "c", "a.api"]
        .map(|name| QueueName(name.into()))
        .to_vec();
    for queue in &queues {
        for _ in 0..4 {
            nats.queue()
                .publish(queue, &message(new_task(), 1))
                .await
                .unwrap();
        }
    }
    let mut seen = HashSet::new();
    within_limit("fetching all", async {
        while seen.len() < 16 {
            let found = nats.queue().fetch(&queues, 3, SHORT).await.unwrap();
            assert!(found.len() <= 3, "{}", found.len());
            for delivery in &found {
                ack(&nats, delivery).await;
                seen.insert((delivery.queue.clone(), task_of(delivery)));
            }
        }
    })
    .await;
    assert!(
        queues
            .iter()
            .all(|queue| seen.iter().filter(|(of, _)| of == queue).count() == 4)
    );
}

#[tokio::test]
async fn a_fetch_that_is_dropped_loses_no_message() {
    // Longer than the test: what comes again has not been delivered before.
    let nats = open(NatsOptions {
        ack_wait: 10 * LIMIT,
        ..apart()
    })
    .await;
    let mut sent = HashSet::new();
    for _ in 0..20 {
        sent.insert(publish(&nats).await);
        // Polled for different lengths: before the request, while it waits, after the first message
        // has arrived.
        let queue = nats.queue();
        let dropped = queue.fetch(&files(), 4, LIMIT).now_or_never();
        assert!(dropped.is_none_or(|found| found.is_ok_and(|found| {
            found.iter().for_each(|delivery| {
                sent.remove(&task_of(delivery));
            });
            true
        })));
        // The client's own tasks go on in between.
        tokio::task::yield_now().await;
    }
    let mut seen = HashSet::new();
    within_limit("fetching all", async {
        while !sent.is_subset(&seen) {
            seen.extend(fetch(&nats, 50, SHORT).await.iter().map(task_of));
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_full_host_does_not_fetch_goes_to_another_one() {
    let options = NatsOptions {
        ack_wait: Duration::from_secs(60),
        ..apart()
    };
    let (full, idle) = (open(options.clone()).await, open(options).await);
    // Its request is still open when it stops fetching, and takes the message.
    full.prepare(files().to_vec(), Events::None).await.unwrap();
    let (queue, queues) = (full.queue(), files());
    assert!(
        tokio::time::timeout(SHORT, queue.fetch(&queues, 4, 10 * LIMIT))
            .await
            .is_err()
    );
    let task = publish(&idle).await;
    let found = fetch(&idle, 1, LIMIT).await;
    assert_eq!(task_of(&found[0]), task);
}

#[tokio::test]
async fn poison_is_handed_over_with_what_arrived() {
    let options = NatsOptions {
        max_message_bytes: 100_000,
        ..apart()
    };
    let nats = open(options.clone()).await;
    let plain = plain(&shared_nats().url()).await;
    let subject = format!("{}.work.files.Zip.v1", prefix(&options));
    for payload in ["{}".to_owned(), "x".repeat(100_001)] {
        plain
            .publish(subject.clone(), payload.into())
            .await
            .unwrap()
            .await
            .unwrap();
    }
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(fetch(&nats, 2, LIMIT).await);
    }
    let poison: Vec<_> = found
        .iter()
        .map(|delivery| delivery.message.as_ref().unwrap_err())
        .collect();
    assert_eq!(
        (
            &poison[0].payload[..],
            poison[0].size_bytes,
            &poison[0].subject
        ),
        (&b"{}"[..], 2, &subject)
    );
    assert!(
        poison[0].reason.contains("missing field"),
        "{}",
        poison[0].reason
    );
    assert_eq!(
        (poison[1].payload.len(), poison[1].size_bytes),
        (64 * 1024, 100_001)
    );
    assert!(poison[1].reason.contains("100000"), "{}", poison[1].reason);
    assert_ne!(poison[0].source, poison[1].source);
    // The same message has the same name when it comes again.
    let mut again = HashSet::new();
    within_limit("fetching both again", async {
        while again.len() < 2 {
            again.extend(
                fetch(&nats, 2, LIMIT)
                    .await
                    .into_iter()
                    .map(|it| it.message.unwrap_err().source),
            );
        }
    })
    .await;
    assert_eq!(again, poison.iter().map(|it| it.source.clone()).collect());
    for delivery in fetch(&nats, 2, LIMIT).await {
        nats.queue()
            .settle(&delivery.tag, Settle::Term("poison".into()))
            .await
            .unwrap();
    }
}
