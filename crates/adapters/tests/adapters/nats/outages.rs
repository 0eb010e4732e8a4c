//! Servers that stop, start again, lose their disk; consumers that are gone or silent.

use super::*;
use crate::suite::eventually;
use counterstep_adapters::nats::{NatsAuth, NatsOpenError};
use counterstep_kernel::ports::{Signal, Signals};
use counterstep_testkit::servers::Nats as Server;
use futures::StreamExt;

/// On a server of its own, with time limits that fit a test.
fn own(server: &Server) -> NatsOptions {
    let timeout = Duration::from_secs(2);
    NatsOptions {
        ack_wait: ACK_WAIT,
        timeout,
        ..NatsOptions::new(server.url())
    }
}

/// Fetches through errors, as a host does, until the message comes.
async fn comes(nats: &Nats, task: TaskId) -> Delivery {
    eventually("the message", || async {
        let found = nats
            .queue()
            .fetch(&files(), 5, SHORT)
            .await
            .unwrap_or_default();
        found.into_iter().find(|delivery| task_of(delivery) == task)
    })
    .await
}

async fn goes_out(nats: &Nats) -> TaskId {
    let task = new_task();
    eventually("a publication", || async {
        nats.queue()
            .publish(&files()[0], &message(task, 1))
            .await
            .ok()
    })
    .await;
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_outlive_a_restart_and_hosts_go_on() {
    let server = Server::start();
    let nats = open(own(&server)).await;
    let mut hints = nats.signals().subscribe();
    let task = publish(&nats).await;
    server.restart();
    let delivery = comes(&nats, task).await;
    eventually("an ack", || async {
        nats.queue().settle(&delivery.tag, Settle::Ack).await.ok()
    })
    .await;
    // Hints of others are heard again.
    let other = open(own(&server)).await;
    eventually("a hint", || {
        other.signals().send(Signal::Rests(task));
        std::future::ready(hints.next().now_or_never())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_store_is_made_anew_by_whoever_comes_first() {
    let server = Server::start();
    for publish_first in [true, false] {
        let nats = open(own(&server)).await;
        let lost = publish(&nats).await;
        let seen = fetch(&nats, 1, LIMIT).await;
        assert_eq!(task_of(&seen[0]), lost);
        server.stop();
        server.wipe_store();
        server.begin();
        if !publish_first {
            eventually("a fetch", || async {
                nats.queue().fetch(&files(), 1, SHORT).await.ok()
            })
            .await;
        }
        let task = goes_out(&nats).await;
        let delivery = comes(&nats, task).await;
        ack(&nats, &delivery).await;
        // What was fetched before the store was lost is settled without a fuss.
        eventually("a stale ack", || async {
            nats.queue().settle(&seen[0].tag, Settle::Ack).await.ok()
        })
        .await;
        eventually("health", || async { nats.healthy().await.ok() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_everything_ends_within_its_limit_and_says_why() {
    let server = Server::start();
    let nats = open(own(&server)).await;
    publish(&nats).await;
    let delivery = fetch(&nats, 1, LIMIT).await.remove(0);
    server.crash();
    let queue = nats.queue();
    // The first ones may be on their way when the server dies, the others find that it is gone.
    for _ in 0..3 {
        within_limit("calls without a server", async {
            queue
                .publish(&files()[0], &message(new_task(), 1))
                .await
                .unwrap_err();
            queue.settle(&delivery.tag, Settle::Ack).await.unwrap_err();
            queue
                .publish_events(counterstep_steps::times::DbTime(0), &[event(new_task(), 1)])
                .await
                .unwrap_err();
        })
        .await;
    }
    eventually("a fetch that errs", || async {
        queue.fetch(&files(), 1, SHORT).await.err()
    })
    .await;
    let why = nats.healthy().await.unwrap_err();
    assert!(why.contains("not connected"), "{why}");

    // Hints within the process do not need it.
    let mut hints = nats.signals().subscribe();
    let cancel = Signal::CancelRequested(new_task());
    nats.signals().send(cancel.clone());
    assert_eq!(
        tokio::time::timeout(LIMIT, hints.next()).await.unwrap(),
        Some(cancel.clone())
    );
    for _ in 0..10_000 {
        nats.signals().send(cancel.clone());
    }

    server.begin();
    eventually("health", || async { nats.healthy().await.ok() }).await;
    let task = goes_out(&nats).await;
    comes(&nats, task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_starts_before_its_server() {
    let server = Server::start();
    server.stop();
    let options = NatsOptions {
        timeout: Duration::from_millis(200),
        ..own(&server)
    };
    let nats = open(options).await;
    assert!(nats.healthy().await.is_err());
    assert!(
        nats.queue()
            .publish(&files()[0], &message(new_task(), 1))
            .await
            .is_err()
    );
    server.begin();
    let task = goes_out(&nats).await;
    comes(&nats, task).await;
}

#[tokio::test]
async fn a_consumer_that_was_deleted_is_made_again() {
    // The first wait is longer than the test: the message comes from the new consumer, and not from
    // the old one once more. The second one is short: this server does not always answer a pull
    // request to a consumer that is gone.
    let silent_after = Duration::from_millis(300);
    let options = NatsOptions {
        ack_wait: Duration::from_secs(60),
        silent_after,
        ..apart()
    };
    let nats = open(options.clone()).await;
    let stream = plain(&shared_nats().url())
        .await
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    let unsettled = publish(&nats).await;
    let first = fetch(&nats, 1, LIMIT).await.remove(0);
    // Once under a waiting fetch, once between two.
    let waiting = async { nats.queue().fetch(&files(), 1, LIMIT).await.unwrap() };
    let (found, ()) = futures::join!(waiting, async {
        let waits =
            || async { (stream.consumer_info("files").await.ok()?.num_waiting > 0).then_some(()) };
        eventually("a fetch that waits", waits).await;
        stream.delete_consumer("files").await.unwrap();
    });
    assert_eq!(
        task_of(&found[0]),
        unsettled,
        "the new consumer delivers what was not acked"
    );
    ack(&nats, &first).await;
    ack(&nats, &found[0]).await;
    stream.delete_consumer("files").await.unwrap();
    let task = publish(&nats).await;
    let delivery = comes(&nats, task).await;
    ack(&nats, &delivery).await;
}

#[tokio::test]
async fn a_consumer_that_nobody_fetches_from_is_made_again_too() {
    let options = NatsOptions {
        silent_after: Duration::from_millis(300),
        ..apart()
    };
    let nats = open(options.clone()).await;
    nats.prepare(files().to_vec(), Events::None).await.unwrap();
    let stream = plain(&shared_nats().url())
        .await
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    stream.delete_consumer("files").await.unwrap();
    eventually("the consumer", || async {
        stream.consumer_info("files").await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_silent_consumer_is_rebuilt() {
    let options = NatsOptions {
        silent_after: Duration::from_millis(300),
        ack_wait: Duration::from_secs(60),
        ..apart()
    };
    let nats = open(options.clone()).await;
    let blocked = publish(&nats).await;
    assert_eq!(task_of(&fetch(&nats, 1, LIMIT).await[0]), blocked);
    // From now on it delivers nothing, because one message is unsettled; and it reports no error.
    let stream = plain(&shared_nats().url())
        .await
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    let config = stream.consumer_info("files").await.unwrap().config;
    stream
        .create_consumer(jetstream::consumer::Config {
            max_ack_pending: 1,
            ..config
        })
        .await
        .unwrap();
    let task = publish(&nats).await;
    assert_eq!(fetch(&nats, 1, SHORT).await, []);
    comes(&nats, task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_token_gets_it_from_a_file() {
    // Closes the block that the lines go into, and opens another one.
    let server = Server::with_jetstream("}\nauthorization {\n  token: \"s3cret\"");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let with = |auth| NatsOptions {
        auth,
        timeout: Duration::from_millis(500),
        ..own(&server)
    };
    let nats = open(with(NatsAuth::Secret(file.clone()))).await;
    nats.healthy().await.unwrap();

    std::fs::write(&file, "wrong").unwrap();
    let refused = open(with(NatsAuth::Secret(file))).await;
    let why = eventually("the reason", || async {
        refused
            .healthy()
            .await
            .err()
            .filter(|why| why.to_lowercase().contains("auth"))
    })
    .await;
    assert!(!why.contains("wrong") && !why.contains("s3cret"), "{why}");

    let missing = Nats::open(with(NatsAuth::Secret(folder.path().join("none")))).await;
    assert!(
        matches!(missing, Err(NatsOpenError::File { .. })),
        "{missing:?}"
    );
}
