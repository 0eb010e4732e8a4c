//! NATS with a real server: the suite of the queue, and what only NATS can be asked: lost streams,
//! lost connections, poison, hints and events between processes.

mod access;
mod engine;
mod outages;

use crate::embedded;
use crate::suite::changes::*;
use crate::suite::queue::ACK_WAIT;
use crate::suite::{LIMIT, eventually, within_limit};
use async_nats::jetstream;
use counterstep_adapters::nats::{Events, Hears, Nats, NatsOptions};
use counterstep_contracts::{Attempt, AttemptProgress, Direction, Epoch, TaskProgress};
use counterstep_contracts::{QueueName, TaskId, WorkerMessage};
use counterstep_kernel::ports::{Delivery, Ports, Queue, Settle, Signal, Signals};
use counterstep_testkit::servers::shared_nats;
use futures::{FutureExt, StreamExt};
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
        tokio::time::sleep(Duration::from_millis(1)).await;
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

fn progress() -> TaskProgress {
    let (direction, attempt, at) = (
        Direction::Forward,
        Attempt(2),
        "2026-11-21T03:30:00.000000Z".to_owned(),
    );
    let said = AttemptProgress {
        direction,
        attempt,
        done: 40,
        total: 100,
        at,
    };
    TaskProgress {
        task: new_task(),
        epoch: Epoch(3),
        seq: 7,
        steps: [("render".to_owned(), said)].into(),
    }
}

#[tokio::test]
async fn a_progress_is_one_readable_message_and_what_is_none_is_left_alone() {
    let options = apart();
    let nats = open(options.clone()).await;
    let plain = async_nats::connect(shared_nats().url()).await.unwrap();
    let mut outside = plain
        .subscribe(format!("{}.signal.progress.*", prefix(&options)))
        .await
        .unwrap();
    plain.flush().await.unwrap();
    let progress = progress();
    // Nothing is kept for a connection that is not there yet, so it is said until it is heard.
    let message = within_limit("a message", async {
        loop {
            nats.signals()
                .send(Signal::Progress(Arc::new(progress.clone())));
            if let Ok(message) =
                tokio::time::timeout(Duration::from_millis(200), outside.next()).await
            {
                break message.unwrap();
            }
        }
    })
    .await;
    assert_eq!(
        message.subject.as_str(),
        format!("{}.signal.progress.{}", prefix(&options), progress.task)
    );
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&message.payload).unwrap(),
        serde_json::json!({
            "task": progress.task, "epoch": 3, "seq": 7,
            "steps": {"render": {
                "direction": "forward", "attempt": 2, "done": 40, "total": 100, "at": "2026-11-21T03:30:00.000000Z",
            }},
        })
    );
    // Of another task than its subject says, no JSON, too large: none of it is passed on.
    let mut heard = nats.signals().subscribe();
    let good = serde_json::to_vec(&progress).unwrap();
    let mut large = good.clone();
    large.resize(8 * 1024 + 1, b' ');
    for (task, body) in [
        (new_task(), good.clone()),
        (progress.task, b"{}".to_vec()),
        (progress.task, large),
    ] {
        plain
            .publish(
                format!("{}.signal.progress.{task}", prefix(&options)),
                body.into(),
            )
            .await
            .unwrap();
    }
    plain.publish(message.subject, good.into()).await.unwrap();
    let next = tokio::time::timeout(LIMIT, heard.next())
        .await
        .expect("the good one");
    assert_eq!(next, Some(Signal::Progress(Arc::new(progress))));
}

#[tokio::test]
async fn hints_go_from_process_to_process_and_once_to_each() {
    let options = apart();
    let (here, there) = (open(options.clone()).await, open(options.clone()).await);
    let worker = open(NatsOptions {
        hears: Hears::Cancels,
        ..options
    })
    .await;
    let mut heard = [
        here.signals().subscribe(),
        there.signals().subscribe(),
        worker.signals().subscribe(),
    ];
    let (rests, cancelled) = (
        Signal::Rests(new_task()),
        Signal::CancelRequested(new_task()),
    );
    // The subscriptions are on their way to the server when `open` returns.
    for stream in &mut heard {
        eventually("a subscription", || {
            here.signals().send(cancelled.clone());
            std::future::ready(stream.next().now_or_never())
        })
        .await;
    }
    // What the looks above have sent is still on its way: this comes behind all of it.
    let behind = Signal::CancelRequested(new_task());
    here.signals().send(behind.clone());
    for stream in &mut heard {
        within_limit("the last of the looks", async {
            while stream.next().await.as_ref() != Some(&behind) {}
        })
        .await;
    }
    // A change that is no rest stays in its process.
    let changed = Signal::Changed(new_task());
    let progress = Signal::Progress(Arc::new(progress()));
    // Whatever is heard twice is heard before the last one.
    let last = Signal::CancelRequested(new_task());
    for signal in [&changed, &progress, &rests, &cancelled, &last] {
        here.signals().send(signal.clone());
    }
    let expected = [
        &[&changed, &progress, &rests, &cancelled, &last][..],
        &[&progress, &rests, &cancelled, &last],
        &[&cancelled, &last],
    ];
    for (stream, expected) in heard.iter_mut().zip(expected) {
        for signal in expected {
            let next = tokio::time::timeout(LIMIT, stream.next())
                .await
                .expect("a hint");
            assert_eq!(next.as_ref(), Some(*signal));
        }
    }
    // The server passes this on behind what it may bring back to the process that sent it.
    let answer = Signal::CancelRequested(new_task());
    there.signals().send(answer.clone());
    for stream in &mut heard {
        let next = tokio::time::timeout(LIMIT, stream.next())
            .await
            .expect("a hint");
        assert_eq!(next.as_ref(), Some(&answer), "heard twice");
    }
}

#[tokio::test]
async fn doctor_names_what_this_server_cannot_promise() {
    let options = apart();
    let plain = plain(&shared_nats().url()).await;
    let memory = jetstream::stream::Config {
        name: format!("{}-work", prefix(&options)),
        subjects: vec![format!("{}.work.>", prefix(&options))],
        storage: jetstream::stream::StorageType::Memory,
        max_messages: 10,
        duplicate_window: Duration::from_secs(1),
        ..Default::default()
    };
    plain.create_stream(memory).await.unwrap();
    let nats = open(options).await;
    nats.prepare(files().to_vec(), Events::Published)
        .await
        .unwrap();
    let monitor = shared_nats().monitor_url();
    let found = nats.examine(Some(&monitor)).await.unwrap();
    let codes: HashSet<_> = found.iter().map(|finding| finding.code).collect();
    for code in [
        "nats_replicas",
        "nats_storage",
        "nats_retention",
        "nats_duplicate_window",
        "nats_sync_interval",
    ] {
        assert!(codes.contains(code), "{code}: {found:?}");
    }
    let old = nats.server_info().unwrap().version.starts_with("2.9.");
    assert_eq!(codes.contains("nats_version"), old, "{found:?}");
    assert!(
        found
            .iter()
            .all(|it| !it.what.is_empty() && !it.why.is_empty() && !it.to_do.is_empty())
    );
}

#[tokio::test]
async fn another_ones_stream_of_the_same_name_is_left_alone_and_said() {
    let options = apart();
    let plain = plain(&shared_nats().url()).await;
    let theirs = jetstream::stream::Config {
        name: format!("{}-work", prefix(&options)),
        subjects: vec![format!("{}.theirs.>", prefix(&options))],
        ..Default::default()
    };
    plain.create_stream(theirs).await.unwrap();
    let nats = open(options).await;
    let unhealthy = nats.healthy().await.unwrap_err();
    assert!(
        unhealthy.contains("theirs") && unhealthy.contains("prefix"),
        "{unhealthy}"
    );
    assert!(
        nats.queue()
            .publish(&files()[0], &message(new_task(), 1))
            .await
            .is_err()
    );
}
