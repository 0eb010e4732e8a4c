//! The queue on the rows of the file: what it delivers, in which order, and that it writes nothing.

use super::{file, number, raw};
use crate::embedded::{fixture, open_in, options};
use crate::suite::LIMIT;
use crate::suite::changes::*;
use crate::suite::queue::ACK_WAIT;
use counterstep_adapters::embedded::EmbeddedOptions;
use counterstep_adapters::local_queue::QueueOptions;
use counterstep_contracts::{QueueName, TaskStatus, WaitReason};
use counterstep_kernel::change::transition::Time;
use counterstep_kernel::ports::{Find, Lost, Settle};
use counterstep_kernel::record::TaskRow;
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use std::collections::HashSet;
use std::time::Duration;

/// Changes whenever another connection writes.
fn data_version(connection: &mut SqliteConnection) -> i64 {
    number(
        connection,
        "SELECT data_version AS n FROM pragma_data_version",
    )
}

#[tokio::test]
async fn the_queue_writes_nothing() {
    let fixture = fixture().await;
    let (store, queue) = (&fixture.ports.store, &*fixture.ports.queue);
    submitted(store, row(new_task())).await;
    let mut watcher = raw(&file(&fixture));
    let before = data_version(&mut watcher);
    let queues = [QueueName("files".into())];
    let delivery = queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    queue.settle(&delivery.tag, Settle::Ack).await.unwrap();
    assert_eq!(
        queue
            .fetch(&queues, 5, Duration::from_millis(200))
            .await
            .unwrap(),
        []
    );
    store.find(&Find::Lost(Lost::default()), 5).await.unwrap();
    assert_eq!(data_version(&mut watcher), before);
    submitted(store, row(new_task())).await;
    assert_ne!(data_version(&mut watcher), before);
}

#[tokio::test]
async fn what_is_claimed_is_not_delivered_and_makes_room_for_what_waits_behind_it() {
    let fixture = fixture().await;
    let (store, queue) = (&fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(submitted(store, row(new_task())).await);
    }
    let mut delivered = HashSet::new();
    for _ in 0..10 {
        let some = queue.fetch(&queues, 4, Duration::ZERO).await.unwrap();
        assert_eq!(some.len(), 4);
        for delivery in some {
            let task = delivery.message.as_ref().unwrap().task;
            assert!(delivered.insert(task), "{task} was delivered twice");
            // Some are claimed; some have a turn that ended without.
            if delivered.len() % 2 == 0 {
                let record = load(store, task).await;
                commit(store, free(&record), &claim(&record, "one", MINUTE))
                    .await
                    .unwrap();
            }
            queue.settle(&delivery.tag, Settle::Ack).await.unwrap();
        }
    }
    assert_eq!(queue.fetch(&queues, 50, 2 * ACK_WAIT).await.unwrap(), []);
}

#[tokio::test]
async fn a_task_that_is_due_is_delivered_before_what_waits_for_a_shorter_time() {
    let fixture = fixture().await;
    let (store, queue) = (&fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let waits = async |due| {
        let mut change = submit(TaskRow {
            status: TaskStatus::Waiting,
            waiting: Some(WaitReason::Retry),
            ..row(new_task())
        });
        write_of(&mut change).due = Time::In(due);
        commit(store, NEW, &change).await.unwrap();
        change.task_id
    };
    let due = waits(Duration::ZERO).await;
    waits(MINUTE).await;
    let unreadable = submitted(store, row(new_task())).await.task.id;
    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE tasks SET version = -1 WHERE id = '{unreadable}'"
        ))
        .unwrap();
    let behind = submitted(store, row(new_task())).await.task.id;
    for expected in [due, behind] {
        let found = queue.fetch(&queues, 1, LIMIT).await.unwrap();
        assert_eq!(
            found
                .iter()
                .map(|one| one.message.as_ref().unwrap().task)
                .collect::<Vec<_>>(),
            [expected]
        );
    }
    assert_eq!(queue.fetch(&queues, 5, Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn a_task_whose_host_is_lost_is_delivered_again_after_its_lease() {
    let fixture = fixture().await;
    let (store, queue) = (&fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let lost = claimed(store, Duration::from_millis(1)).await.task.id;
    claimed(store, MINUTE).await;
    let delivery = queue.fetch(&queues, 5, LIMIT).await.unwrap();
    assert_eq!(
        delivery
            .iter()
            .map(|one| one.message.as_ref().unwrap().task)
            .collect::<Vec<_>>(),
        [lost]
    );
    assert_eq!(queue.fetch(&queues, 5, Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn the_doorbell_wakes_a_fetch_long_before_its_poll() {
    let folder = tempfile::tempdir().unwrap();
    let queue = QueueOptions {
        poll: 10 * LIMIT,
        ..QueueOptions::default()
    };
    let ports = open_in(
        folder.path(),
        EmbeddedOptions {
            queue,
            ..EmbeddedOptions::default()
        },
    )
    .await;
    let fetching = ports.queue.clone();
    let fetch = tokio::spawn(async move {
        fetching
            .fetch(&[QueueName("files".into())], 1, 10 * LIMIT)
            .await
    });
    // Whether the fetch already waits or is still looking, it must not miss it.
    let record = submitted(&ports.store, row(new_task())).await;
    ports
        .queue
        .publish(&QueueName("files".into()), &message(record.task.id, 1))
        .await
        .unwrap();
    let found = tokio::time::timeout(LIMIT, fetch)
        .await
        .expect("the doorbell")
        .unwrap()
        .unwrap();
    assert_eq!(found[0].message.as_ref().unwrap().task, record.task.id);
}

#[tokio::test]
async fn two_processes_share_the_messages_and_hear_of_each_others() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let queues = [QueueName("files".into())];
    // Committed by one, fetched by the other, without a doorbell.
    let record = submitted(&fixture.ports.store, row(new_task())).await;
    let delivery = other
        .queue
        .fetch(&queues, 1, LIMIT)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(delivery.message.as_ref().unwrap().task, record.task.id);
    commit(
        &other.store,
        free(&record),
        &claim(&record, "other", MINUTE),
    )
    .await
    .unwrap();
    other
        .queue
        .settle(&delivery.tag, Settle::Ack)
        .await
        .unwrap();

    let mut sent = HashSet::new();
    for _ in 0..30 {
        sent.insert(
            submitted(&fixture.ports.store, row(new_task()))
                .await
                .task
                .id,
        );
    }
    // Both may be given the same one: the claim decides.
    for ports in [&fixture.ports, &other] {
        let seen = ports.queue.fetch(&queues, 50, LIMIT).await.unwrap();
        assert_eq!(
            seen.iter()
                .map(|one| one.message.as_ref().unwrap().task)
                .collect::<HashSet<_>>(),
            sent
        );
    }
}

#[tokio::test]
async fn a_settlement_of_an_earlier_delivery_counts_for_nothing() {
    let fixture = fixture().await;
    let queue = &*fixture.ports.queue;
    let queues = [QueueName("files".into())];
    submitted(&fixture.ports.store, row(new_task())).await;
    let first = queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    // The second delivery is at work: the first one's ack must not take its message away.
    queue.settle(&first.tag, Settle::Ack).await.unwrap();
    assert_eq!(queue.fetch(&queues, 1, LIMIT).await.unwrap().len(), 1);
    let foreign = queue
        .settle(
            &counterstep_kernel::ports::DeliveryTag("x".into()),
            Settle::Ack,
        )
        .await;
    assert!(foreign.is_err());
}
