//! Cases of the SQLite file alone: several stores on it, newer schemas, unreadable rows, and the
//! queue on its rows.

mod deleted;
mod processes;
mod queue;
mod readers;
mod writers;

use crate::embedded::{Fixture, fixture, open_in, options};
use crate::suite::changes::*;
use crate::suite::finding::{take, told};
use crate::suite::labels::labels;
use counterstep_adapters::sqlite::{OpenError, SqliteOptions, SqliteStore};
use counterstep_adapters::transient::is_transient;
use counterstep_contracts::{Epoch, Outcome, QueueName, TaskId, TaskStatus, Tenant};
use counterstep_kernel::change::transition::LeaseChange;
use counterstep_kernel::ports::{CommitError, EndedTask, Find, PurgeOp, StoreError, TaskQuery};
use counterstep_kernel::record::{Intention, TaskRow};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::{OrphanSettings, orphans};
use counterstep_steps::{CancelToken, Registry};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use futures::future::join_all;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn file(fixture: &Fixture) -> PathBuf {
    fixture.folder.path().join("data/counterstep.db")
}

pub(crate) fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::establish(path.to_str().unwrap()).unwrap()
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

fn number(connection: &mut SqliteConnection, query: &str) -> i64 {
    diesel::sql_query(query)
        .get_result::<Number>(connection)
        .unwrap()
        .n
}

#[tokio::test]
async fn a_file_that_another_process_holds_may_open_a_moment_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tasks.db");
    let mut other = raw(&path);
    other.batch_execute("BEGIN EXCLUSIVE").expect("it is held");
    let options = || SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..SqliteOptions::default()
    };
    let held = SqliteStore::open(&path, options())
        .await
        .expect_err("it is held");
    assert!(is_transient(&held), "{held:?}");
    other.batch_execute("ROLLBACK").expect("it is free");
    SqliteStore::open(&path, options()).await.expect("it opens");
    let none = SqliteStore::open(folder.path(), options())
        .await
        .expect_err("a folder");
    assert!(!is_transient(&none), "{none:?}");
}

#[tokio::test]
async fn two_stores_on_one_file_race_fifty_claims_and_one_wins_each() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let stores = [&fixture.ports.store, &other.store];
    let mut records = Vec::new();
    for _ in 0..50 {
        records.push(submitted(stores[0], row(new_task())).await);
    }
    let claims: Vec<_> = records
        .iter()
        .flat_map(|record| stores.map(|store| (store, record, claim(record, "one of two", MINUTE))))
        .collect();
    let results = join_all(
        claims
            .iter()
            .map(|(store, record, claim)| commit(store, free(record), claim)),
    )
    .await;
    for pair in results.chunks(2) {
        assert_eq!(
            pair.iter().filter(|result| result.is_ok()).count(),
            1,
            "{pair:?}"
        );
        assert!(
            pair.iter()
                .any(|result| matches!(result, Err(CommitError::Stale))),
            "{pair:?}"
        );
    }
}

#[tokio::test]
async fn several_stores_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let opened = join_all((0..8).map(|_| SqliteStore::open(&path, SqliteOptions::default()))).await;
    for store in opened {
        let store = store.unwrap().into();
        submitted(&store, row(new_task())).await;
    }
    assert_eq!(
        number(&mut raw(&path), "SELECT count(*) AS n FROM tasks"),
        8
    );
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.db");
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap()
        .into();
    let record = submitted(&store, row(new_task())).await;
    drop(store);
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap()
        .into();
    assert_eq!(load(&store, record.task.id).await.task, record.task);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_the_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.db");
    drop(
        SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap(),
    );
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000000');
        PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE";
    raw(&path).batch_execute(newer).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).await;
    assert!(
        matches!(&refused, Err(OpenError::NewerSchema { version }) if version == "29990101000000"),
        "{refused:?}"
    );
    assert!(std::fs::read(&path).unwrap() == before, "the file changed");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(
        &path,
        "not a database at all, but long enough to be looked at".repeat(20),
    )
    .unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn one_row_that_nobody_understands_does_not_hide_the_others() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let mut rows: Vec<TaskId> = Vec::new();
    for _ in 0..3 {
        rows.push(submitted(store, row(new_task())).await.task.id);
    }
    let newer = rows[1];
    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE tasks SET status = 'levitating', due_at = 1 WHERE id = '{newer}'"
        ))
        .unwrap();
    let corrupt = store.load(newer).await;
    assert!(
        matches!(&corrupt, Err(StoreError::Corrupt(why)) if why.contains("levitating")),
        "{corrupt:?}"
    );
    let due = Find::Claimable {
        queues: vec![QueueName("files".into())],
        known: known(),
        unclaimed_for: Duration::ZERO,
        after: None,
    };
    let found: Vec<_> = store
        .find(&due, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|due| due.task)
        .collect();
    assert_eq!(found, [rows[0], rows[2]]);
    // The page is full all the same.
    let page = store
        .list(&TaskQuery {
            limit: 2,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(
        page.lines.iter().map(|line| line.task).collect::<Vec<_>>(),
        [rows[2], rows[0]]
    );

    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE journal SET data = '{{' WHERE task = '{}'",
            rows[0]
        ))
        .unwrap();
    assert!(matches!(
        store.load(rows[0]).await,
        Err(StoreError::Corrupt(_))
    ));
    assert_eq!(store.find(&due, 10).await.unwrap().len(), 2);
}

/// It stays for a newer program, and is asked for every 5 minutes.
#[tokio::test]
async fn events_that_cannot_be_read_keep_no_others_from_being_published() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    for _ in 0..10 {
        drop(told(store).await);
    }
    let mut file = raw(&file(&fixture));
    file.batch_execute("UPDATE outbox SET events = '[{}]'")
        .unwrap();
    let (readable, _) = told(store).await;
    assert_eq!(take(store, Duration::ZERO).await, []);
    let taken = take(store, Duration::ZERO).await;
    assert_eq!(taken[0].events, readable.events);
    let soon = "SELECT count(*) AS n FROM outbox WHERE events = '[{}]' AND visible_at < created_at + 290000000";
    assert_eq!(number(&mut file, soon), 0);
    assert_eq!(number(&mut file, "SELECT count(*) AS n FROM outbox"), 11);
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_put_off_and_the_others_are_swept() {
    swept_beside(|task| {
        format!("UPDATE journal SET entries = '{{' WHERE task = '{task}' AND rev = 2")
    })
    .await;
}

#[tokio::test]
async fn a_task_whose_version_is_none_is_put_off_and_the_others_are_swept() {
    swept_beside(|task| format!("UPDATE tasks SET version = -1 WHERE id = '{task}'")).await;
}

async fn swept_beside(spoil: impl Fn(TaskId) -> String) {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let record = claimed(store, MINUTE).await;
        let mut change = after(&record);
        change.attempts = vec![
            start(1, Epoch(1), Duration::ZERO),
            end(1, Outcome::Failed, false),
        ];
        write_of(&mut change).lease = LeaseChange::Release;
        commit(store, leased(&record), &change).await.unwrap();
        tasks.push(record.task.id);
    }
    let [broken, other] = tasks[..] else {
        panic!("{tasks:?}")
    };
    raw(&file(&fixture)).batch_execute(&spoil(broken)).unwrap();
    let engine = Engine::new(
        fixture.ports.clone(),
        Arc::new(Registry::new()),
        EngineSettings::default(),
        "test",
    );
    let plan = orphans::plan(&engine, 9).await.unwrap();
    assert_eq!(
        plan.condemn
            .iter()
            .map(|intent| intent.task)
            .collect::<Vec<_>>(),
        [other]
    );
    assert!(
        matches!(&plan.unreadable[..], [(task, _)] if *task == broken),
        "{plan:?}"
    );
    let swept = orphans::run(
        &engine,
        &OrphanSettings::default(),
        plan,
        &CancelToken::new(),
    )
    .await
    .unwrap();
    assert!(
        matches!(&swept.failed[..], [(what, _)] if *what == broken.to_string()),
        "{swept:?}"
    );
    assert_eq!(swept.prefixes, 1);
    assert_eq!(load(store, other).await.marks[0].objects, Intention::Swept);
    // Not at each pass, but it is looked at again.
    assert_eq!(store.find(&Find::ToSweep, 9).await.unwrap(), []);
    let later = "SELECT count(*) AS n FROM tasks WHERE sweep_at IS NOT NULL";
    assert_eq!(number(&mut raw(&file(&fixture)), later), 1);
}

#[tokio::test]
async fn the_labels_of_a_task_go_with_it() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let with = |status| TaskRow {
        labels: labels(&[("order", "4711"), ("customer", "7")]),
        status,
        ..row(new_task())
    };
    let ended = submitted(store, with(TaskStatus::Completed)).await.task;
    submitted(store, with(TaskStatus::Dispatched)).await;
    let count = "SELECT count(*) AS n FROM task_labels";
    assert_eq!(number(&mut raw(&file(&fixture)), count), 4);
    let purged = store
        .purge(&PurgeOp::Purge(vec![EndedTask {
            task: ended.id,
            tenant: ended.tenant,
            rev: ended.rev,
        }]))
        .await
        .unwrap();
    assert_eq!(purged.len(), 1);
    assert_eq!(number(&mut raw(&file(&fixture)), count), 2);
}

#[tokio::test]
async fn labels_that_cannot_be_read_stand_in_the_way_of_no_purge() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let damaged = TaskRow {
        labels: labels(&[("order", "4711")]),
        status: TaskStatus::Completed,
        ..row(new_task())
    };
    let damaged = submitted(store, damaged).await.task;
    raw(&file(&fixture))
        .batch_execute("UPDATE tasks SET labels = '{'")
        .unwrap();
    let purge = PurgeOp::Purge(vec![EndedTask {
        task: damaged.id,
        tenant: damaged.tenant,
        rev: damaged.rev,
    }]);
    assert_eq!(store.purge(&purge).await.unwrap().len(), 1);
    let query = TaskQuery {
        tenant: Some(Tenant::default()),
        labels: labels(&[("order", "4711")]),
        limit: 9,
        ..TaskQuery::default()
    };
    assert_eq!(store.list(&query).await.unwrap().lines, []);
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = Text)]
    detail: String,
}

/// The rows that it reads are those that it gives: no table is walked, and nothing is sorted.
#[tokio::test]
async fn a_list_by_a_label_walks_its_range_of_the_key_and_sorts_nothing() {
    let fixture = fixture().await;
    let list = include_str!("../../src/sqlite/tasks/labelled.sql");
    for order in ["DESC", "ASC"] {
        let plan = format!("EXPLAIN QUERY PLAN {list} {order}").replace('?', "'x'");
        let steps: Vec<Step> = diesel::sql_query(plan)
            .load(&mut raw(&file(&fixture)))
            .unwrap();
        let steps: Vec<_> = steps.iter().map(|step| step.detail.as_str()).collect();
        assert_eq!(
            steps,
            [
                "SEARCH l USING PRIMARY KEY (tenant=? AND name=? AND value=? AND task>? AND task<?)",
                "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)"
            ]
        );
    }
}

#[tokio::test]
async fn a_task_with_a_change_id_that_cannot_be_read_is_salvaged() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let record = submitted(store, row(new_task())).await;
    for table in ["journal", "tasks"] {
        let text = format!("UPDATE {table} SET change_id = 'x'");
        raw(&file(&fixture)).batch_execute(&text).unwrap();
    }
    let refused = store.load(record.task.id).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt(_))),
        "{refused:?}"
    );
    let salvaged = store
        .salvage(record.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(salvaged.record.task.request, record.task.request);
    assert_eq!(salvaged.record.steps, record.steps);
    let unread: Vec<_> = salvaged
        .unreadable
        .iter()
        .map(|it| (&*it.what, &*it.held))
        .collect();
    assert_eq!(unread.len(), 2, "{unread:?}");
    assert!(
        unread
            .iter()
            .all(|(what, held)| what.contains("change_id") && *held == "x"),
        "{unread:?}"
    );
}
