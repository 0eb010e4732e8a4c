//! The schema's versions, and texts that PostgreSQL does not take.

use super::{fixture, number, options, raw};
use crate::suite::changes::*;
use crate::suite::finding::{take, told};
use counterstep_adapters::postgres::{OpenError, PostgresStore};
use counterstep_contracts::{Epoch, Outcome};
use counterstep_kernel::change::transition::{AttemptWrite, LeaseChange};
use counterstep_kernel::ports::{CommitError, StoreError};
use counterstep_kernel::record::{Failure, StepFailure};
use counterstep_testkit::servers::shared_postgres;
use futures::future::join_all;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn an_older_schema_is_refused_until_it_is_migrated() {
    let url = shared_postgres().database();
    let refused = PostgresStore::open(&url, options()).await;
    let Err(error @ OpenError::OlderSchema { .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        error.to_string().contains("run `counterstep migrate`"),
        "{error}"
    );
    // Opening has made nothing.
    assert_eq!(
        number(
            &raw(&url).await,
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        )
        .await,
        0
    );
    PostgresStore::migrate(&url, &options()).await.unwrap();
    PostgresStore::open(&url, options()).await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let url = super::database().await;
    raw(&url)
        .await
        .batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('29991231000000')")
        .await
        .unwrap();
    let open = PostgresStore::open(&url, options()).await.map(drop);
    for refused in [open, PostgresStore::migrate(&url, &options()).await] {
        assert!(
            matches!(&refused, Err(OpenError::NewerSchema { version }) if version == "29991231000000"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn several_may_migrate_at_once() {
    let url = shared_postgres().database();
    let options = options();
    let results = join_all((0..6).map(|_| PostgresStore::migrate(&url, &options))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    PostgresStore::open(&url, options).await.unwrap();
}

#[tokio::test]
async fn a_nul_in_json_comes_back_and_one_in_an_error_does_not_stop_its_task() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.response = Some(json!({"a\0b": "\0", "float": 1e17, "minus": -0.0}));
    write.row.failure = Some(Failure {
        step: None,
        class: "permanent".into(),
        message: "\0".into(),
        ..Failure::default()
    });
    let expected = write.row.clone();
    let mut step = record.steps[0].clone();
    let broke = StepFailure {
        class: "permanent".into(),
        message: "it\0broke".into(),
        ..StepFailure::default()
    };
    step.error = Some(broke.clone());
    step.output = Some(json!("\0"));
    change.steps = vec![step.clone()];
    let mut failed = end(1, Outcome::Failed, false);
    if let AttemptWrite::End { error, .. } = &mut failed {
        *error = Some(broke.clone());
    }
    change.attempts = vec![start(1, Epoch(1), MINUTE), failed];
    commit(store, leased(&record), &change).await.unwrap();
    let read = load(store, record.task.id).await;
    assert_eq!(
        (&read.task.response, &read.task.failure),
        (&expected.response, &expected.failure)
    );
    assert_eq!(read.steps[0].output, step.output);
    assert_eq!(read.steps[0].error, step.error);
    let history = store.history(record.task.id).await.unwrap();
    assert_eq!(history.attempts[0].error, Some(broke));

    // In a name it would be another name.
    let mut change = after(&read);
    write_of(&mut change).lease = LeaseChange::Take {
        owner: "o\0ne".to_owned(),
        ttl: MINUTE,
    };
    let refused = commit(store, leased(&read), &change).await;
    assert!(
        matches!(&refused, Err(CommitError::Store(StoreError::Corrupt(text))) if text.contains("NUL")),
        "{refused:?}"
    );
}

/// It stays for a newer program, and is asked for every 5 minutes.
#[tokio::test]
async fn events_that_cannot_be_read_keep_no_others_from_being_published() {
    let url = super::database().await;
    let store = super::open(&url, options()).await;
    for _ in 0..10 {
        drop(told(&store).await);
    }
    let client = raw(&url).await;
    client
        .batch_execute("UPDATE outbox SET events = '[{}]'")
        .await
        .unwrap();
    let (readable, _) = told(&store).await;
    assert_eq!(take(&store, Duration::ZERO).await, []);
    let taken = take(&store, Duration::ZERO).await;
    assert_eq!(taken[0].events, readable.events);
    let soon = "SELECT count(*) FROM outbox WHERE events = '[{}]' AND visible_at < now() + interval '4 min'";
    assert_eq!(number(&client, soon).await, 0);
    assert_eq!(number(&client, "SELECT count(*) FROM outbox").await, 11);
}
