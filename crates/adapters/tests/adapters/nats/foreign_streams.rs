//! Streams that another program has made: what doctor reports of them, and what is left alone.

use super::{apart, files, open, plain, prefix};
use crate::suite::changes::{message, new_task};
use async_nats::jetstream;
use counterstep_adapters::finding::Finding;
use counterstep_adapters::nats::{Events, Nats};
use counterstep_kernel::ports::Queue;
use counterstep_testkit::servers::shared_nats;
use std::collections::HashSet;
use std::time::Duration;

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

#[tokio::test]
async fn a_server_without_a_cluster_keeps_one_copy_where_three_are_set_and_that_is_said() {
    let mut options = apart();
    options.replicas = 3;
    let codes = |found: Vec<Finding>| -> HashSet<_> { found.iter().map(|it| it.code).collect() };
    let looks = Nats::look(options.clone()).await.unwrap();
    let found = looks.examine(None).await.unwrap();
    assert!(codes(found).contains("nats_replicas"), "before it is made");
    let nats = open(options).await;
    assert_eq!(nats.healthy().await, Ok(()));
    let queue = nats.queue();
    queue
        .publish(&files()[0], &message(new_task(), 1))
        .await
        .unwrap();
    let found = nats.examine(None).await.unwrap();
    assert!(codes(found).contains("nats_replicas"), "with one copy");
}
