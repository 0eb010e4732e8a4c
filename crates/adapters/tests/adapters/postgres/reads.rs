//! What reads cost where there are many tasks: as much as where there are few.

use super::plans::alone;
use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::labels::labels;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{QueueName, TaskId, TaskStatus, Tenant};
use counterstep_kernel::documents::TypedDocuments;
use counterstep_kernel::ports::{
    AuditPage, Due, FailureFilter, FailureQuery, Logs, Lost, OutboxOp, PurgeOp, ReceiveOp,
    RevisionsOf, ScheduleQuery, Store, SweepOp, TaskQuery, Unclaimed, Upkeep, WaitingQuery,
};
use counterstep_kernel::record::TaskRow;
use counterstep_steps::times::DbTime;
use counterstep_testkit::servers::{ROWS_READ, shared_postgres};
use futures::future::{BoxFuture, join_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const PAGE: u32 = 51;

/// An index among more rows is a level higher: a block more for each row that is looked up.
const SLACK: i64 = 400;

/// A list that looks at more than it shows.
const SEARCH: &str = "search";

/// By how much more a read may cost.
fn slack(name: &str) -> i64 {
    if name.starts_with(SEARCH) {
        SLACK + i64::from(TaskQuery::MOST_CANDIDATES)
    } else {
        SLACK
    }
}

/// A task of the filled database.
fn task(number: u32) -> TaskId {
    TaskId(Uuid::parse_str(&format!("01900000-0000-7000-8000-{number:012x}")).unwrap())
}

type Read = Box<dyn Fn(Arc<PostgresStore>) -> BoxFuture<'static, ()>>;

macro_rules! read {
    ($store:ident => $call:expr) => {
        Box::new(|$store: Arc<PostgresStore>| -> BoxFuture<'static, ()> {
            Box::pin(async move {
                $call.await.unwrap();
            })
        }) as Read
    };
}

fn queues() -> Vec<QueueName> {
    vec![QueueName("files".into())]
}

/// Each read of the port, by name; lists with each combination of filters that a route has.
fn reads() -> Vec<(String, Read)> {
    let mut reads: Vec<(&str, Read)> = vec![
        ("load", read!(store => store.load(task(50)))),
        (
            "records",
            read!(store => store.records(&[task(50), task(51)])),
        ),
        ("history", read!(store => store.history(task(50)))),
        ("log", read!(store => store.log(task(50)))),
        ("in flight", read!(store => store.in_flight())),
        ("gauges", read!(store => store.gauges(&[]))),
        (
            "gauges by labels",
            read!(store => store.gauges(&["order".to_owned()])),
        ),
        ("workers", read!(store => store.workers())),
        ("types", read!(store => store.types())),
        (
            "key",
            read!(store => store.idempotency(&Tenant::default(), "key-50")),
        ),
        (
            "successors",
            read!(store => store.successors(&Tenant::default(), TaskId(Uuid::nil()))),
        ),
        (
            "all, newest",
            read!(store => store.list(&TaskQuery { limit: 1, ..TaskQuery::default() })),
        ),
        (
            "schedules",
            read!(store => store.schedules(&ScheduleQuery::Page {
                tenant: Tenant::default(), after: None, limit: PAGE,
            })),
        ),
        (
            "schedules due",
            read!(store => store.schedules(&ScheduleQuery::Due {
                types: vec!["Zip".into()], declared: Vec::new(), after: None, limit: PAGE,
            })),
        ),
        (
            "failures",
            read!(store => store.failures(&FailureQuery {
                tenant: Tenant::default(), task_type: "Zip".into(), classes: &["permanent"], within: MINUTE, counts_from: None, at_most: 9,
            })),
        ),
        (
            "waiting",
            read!(store => store.waiting(&WaitingQuery {
                tenant: Tenant::default(), task_type: Some("Zip".into()), at_most: 9,
            })),
        ),
        (
            "lost",
            read!(store => store.due(&Due::Lost(Lost::default()), PAGE)),
        ),
        (
            "tasks to sweep",
            read!(store => store.sweeps(&SweepOp::Due { limit: PAGE })),
        ),
        (
            "overdue receives",
            read!(store => store.receives(&ReceiveOp::Overdue { limit: PAGE })),
        ),
        (
            "receives",
            read!(store => store.receives(&ReceiveOp::Of(vec![task(50), task(60)]))),
        ),
        (
            "relay",
            read!(store => store.outbox(OutboxOp::Take { older_than: Duration::ZERO, limit: PAGE })),
        ),
        (
            "published",
            read!(store => store.outbox(OutboxOp::Published(vec![1, 2, 3]))),
        ),
        (
            "published of changes",
            read!(store => store.outbox(OutboxOp::PublishedOf(vec![new_change()]))),
        ),
        (
            "tombstones",
            read!(store => store.purge(&PurgeOp::OldestTombstones { limit: PAGE })),
        ),
        (
            "tombstones of tasks",
            read!(store => store.purge(&PurgeOp::TombstonesOf(vec![task(50), task(60)]))),
        ),
        (
            "rows of one",
            read!(store => store.audit_page(&AuditPage {
                task: Some(task(50).to_string()), after: None, limit: PAGE,
            })),
        ),
        (
            "rows",
            read!(store => store.audit_page(&AuditPage {
                task: None, after: Some((task(5_000).to_string(), 1)), limit: PAGE,
            })),
        ),
        (
            "revisions",
            read!(store => async move {
                let tasks: Vec<_> = (50..100).map(task).collect();
                store.lines(&tasks).await.unwrap();
                store.revisions(&RevisionsOf::Tasks(tasks)).await
            }),
        ),
        (
            "revisions of those that ended",
            read!(store => async move {
                let (tenant, task_types) = (Tenant::default(), vec!["Zip".to_owned(), "Rare".to_owned()]);
                let after = (DbTime(0), task(0));
                store.revisions(&RevisionsOf::Ended { tenant, task_types, after, limit: PAGE }).await
            }),
        ),
        (
            "heads",
            read!(store => store.chain_tips(&AuditPage {
                task: None, after: Some((task(5_000).to_string(), 1)), limit: PAGE,
            })),
        ),
    ];
    reads.push(("claimable", {
        read!(store => async move {
            let due = Due::Claimable { queues: queues(), known: known(), unclaimed_for: Duration::ZERO, after: None };
            store.due(&due, PAGE).await
        })
    }));
    reads.push(("unclaimed", {
        read!(store => async move {
            let which =
                Unclaimed { queues: queues(), known: known(), for_at_least: Duration::ZERO, at_most: MINUTE };
            store.due(&Due::Unclaimed(which), PAGE).await
        })
    }));
    for (name, after) in [("ended", None), ("ended, next page", Some(task(9_001)))] {
        let read = move |store: Arc<PostgresStore>| -> BoxFuture<'static, ()> {
            let (task_type, status) = ("Zip".to_owned(), TaskStatus::Completed);
            let op = PurgeOp::Ended {
                task_type,
                status,
                before: MINUTE,
                after,
                limit: PAGE,
            };
            Box::pin(async move { drop(store.purge(&op).await.unwrap()) })
        };
        reads.push((name, Box::new(read)));
    }
    let mut reads: Vec<(String, Read)> = reads
        .into_iter()
        .map(|(name, read)| (name.to_owned(), read))
        .collect();
    for task_type in [None, Some("Zip"), Some("Rare")] {
        for status in [
            None,
            Some(TaskStatus::Completed),
            Some(TaskStatus::Cancelled),
            Some(TaskStatus::DeadLettered),
        ] {
            for before in [None, Some(task(30))] {
                let query = TaskQuery {
                    tenant: Some(Tenant::default()),
                    task_type: task_type.map(str::to_owned),
                    statuses: status.into_iter().collect(),
                    before,
                    limit: PAGE,
                    ..TaskQuery::default()
                };
                let name = format!("list of {task_type:?} {status:?} before {before:?}");
                let read = move |store: Arc<PostgresStore>| -> BoxFuture<'static, ()> {
                    let query = query.clone();
                    Box::pin(async move { drop(store.list(&query).await.unwrap()) })
                };
                reads.push((name, Box::new(read)));
            }
        }
    }
    reads.extend(searches());
    reads
}

/// Lists by one label, of one task, of many or of all; and searches that find nothing, and end all the
/// same.
fn searches() -> Vec<(String, Read)> {
    let query = |by: &[(&str, &str)]| TaskQuery {
        tenant: Some(Tenant::default()),
        labels: labels(by),
        limit: PAGE,
        ..TaskQuery::default()
    };
    let lost = FailureFilter {
        class: Some("lost".into()),
        text: Some("no host".into()),
    };
    let queries = [
        query(&[("order", "50")]),
        query(&[("customer", "7")]),
        query(&[("region", "eu")]),
        TaskQuery {
            before: Some(task(9_000)),
            ..query(&[("region", "eu")])
        },
        TaskQuery {
            statuses: vec![TaskStatus::Cancelled],
            ..query(&[("region", "eu")])
        },
        TaskQuery {
            task_type: Some("Zip".into()),
            failure: lost.clone(),
            ..query(&[("region", "eu")])
        },
        query(&[("region", "eu"), ("zone", "none")]),
        TaskQuery {
            task_type: Some("Zip".into()),
            statuses: vec![TaskStatus::Completed],
            failure: lost,
            ..query(&[])
        },
    ];
    let search = |query: TaskQuery| -> (String, Read) {
        let found = if query.candidates() == PAGE {
            "list by label"
        } else {
            SEARCH
        };
        let name = format!("{found}: {query:?}");
        let read = move |store: Arc<PostgresStore>| -> BoxFuture<'static, ()> {
            let query = query.clone();
            Box::pin(async move { drop(store.list(&query).await.unwrap()) })
        };
        (name, Box::new(read))
    };
    queries.into_iter().map(search).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_by_one_label_reads_the_rows_that_it_gives() {
    let url = database().await;
    let mut rows = Vec::new();
    for numbers in [1..10_000, 10_000..100_000] {
        tokio::task::block_in_place(|| shared_postgres().add_tasks(&url, numbers));
        let raw = raw(&url).await;
        raw.batch_execute("VACUUM ANALYZE task_labels, tasks")
            .await
            .unwrap();
        alone(&raw).await;
        let before = number(&raw, LABELS_READ).await;
        let store = open(
            &url,
            PostgresOptions {
                connections: 2,
                ..options()
            },
        )
        .await;
        let query = TaskQuery {
            tenant: Some(Tenant::default()),
            labels: labels(&[("region", "eu")]),
            limit: PAGE,
            ..TaskQuery::default()
        };
        assert_eq!(store.list(&query).await.unwrap().lines.len(), 51);
        drop(store);
        alone(&raw).await;
        rows.push(number(&raw, LABELS_READ).await - before);
    }
    assert_eq!(
        rows,
        [51 + 51; 2],
        "of `task_labels` and of `tasks`, for a page of 51"
    );
}

/// Entries of the two indexes that a list by label walks.
const LABELS_READ: &str = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
    WHERE relname IN ('task_labels', 'tasks')";

/// How many rows and blocks each of them reads, and how long it takes.
async fn costs(url: &str, times: usize) -> BTreeMap<String, (i64, Duration)> {
    let raw = raw(url).await;
    let mut costs = BTreeMap::new();
    for (name, read) in reads() {
        alone(&raw).await;
        let before = number(&raw, ROWS_READ).await;
        let store = open(
            url,
            PostgresOptions {
                connections: 2,
                ..options()
            },
        )
        .await;
        let started = Instant::now();
        for _ in 0..times {
            read(store.clone()).await;
        }
        let took = started.elapsed() / u32::try_from(times).unwrap();
        drop(store);
        alone(&raw).await;
        let rows = number(&raw, ROWS_READ).await - before;
        costs.insert(name, (rows / i64::try_from(times).unwrap(), took));
    }
    costs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_costs_the_same_among_ten_thousand_tasks_and_a_hundred_thousand() {
    let url = database().await;
    let fill = |numbers| tokio::task::block_in_place(|| shared_postgres().add_tasks(&url, numbers));
    fill(1..10_000);
    let few = costs(&url, 1).await;
    fill(10_000..100_000);
    let many = costs(&url, 1).await;
    let grown: Vec<_> = many
        .iter()
        .map(|(name, (rows, _))| (name, few[name].0, *rows))
        .filter(|(name, few, many)| *many > few + slack(name))
        .collect();
    assert!(
        grown.is_empty(),
        "read more rows where there are more tasks: {grown:#?}"
    );
    let most = many.values().map(|(rows, _)| *rows).max();
    assert!(
        most.is_some_and(|most| most > 0 && most < 10_000),
        "{many:#?}"
    );
}

/// Not a test of anything:
/// `cargo test --release --workspace --all-features --test adapters -- --ignored --nocapture reads_among_a_million`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures reads among a million tasks; its comment says how to run it"]
async fn reads_among_a_million_tasks() {
    let url = database().await;
    let started = Instant::now();
    tokio::task::block_in_place(|| shared_postgres().add_tasks(&url, 1..1_000_000));
    println!("inserted in {:?}", started.elapsed());
    for (name, (rows, took)) in costs(&url, 20).await {
        println!("{rows:>6} rows {took:>12?}  {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_hold_up_neither_a_submission_nor_what_the_engine_reads() {
    let url = database().await;
    let long = Duration::from_secs(300);
    let options = PostgresOptions {
        connections: 3,
        wait: long,
        lock_timeout: long,
        statement_timeout: long,
        ..options()
    };
    let store = open(&url, options).await;
    let other = raw(&url).await;
    // What lists read is held, so that none of them comes to an end.
    other.batch_execute(HOLD_LISTS).await.unwrap();
    let lists: Vec<_> = (0..48)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let page = ScheduleQuery::Page {
                    tenant: Tenant::default(),
                    after: None,
                    limit: PAGE,
                };
                store.schedules(&page).await
            })
        })
        .collect();
    super::waiting(&other).await;
    let record =
        crate::suite::within_limit("a submission", submitted(&*store, row(new_task()))).await;
    crate::suite::within_limit("a history", store.history(record.task.id))
        .await
        .unwrap();
    crate::suite::within_limit(
        "receives",
        store.receives(&ReceiveOp::Overdue { limit: PAGE }),
    )
    .await
    .unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    for list in join_all(lists).await {
        list.unwrap().unwrap();
    }
}

/// A lock on a table that none of the other reads here needs.
const HOLD_LISTS: &str = "BEGIN; LOCK TABLE documents IN ACCESS EXCLUSIVE MODE";

/// Only the owner of the tables can make such a row.
#[tokio::test]
async fn a_page_in_which_a_row_cannot_be_read_hides_none_behind_it() {
    let url = database().await;
    let (store, admin) = (open(&url, options()).await, raw(&url).await);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let row = TaskRow {
            labels: labels(&[("order", "4711")]),
            ..row(new_task())
        };
        tasks.push(submitted(&*store, row).await.task.id);
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.0));
    let newest = tasks[0];
    let damage = format!("UPDATE tasks SET failure = 'no JSON' WHERE id = '{newest}'");
    assert_eq!(admin.execute(&*damage, &[]).await.unwrap(), 1);
    for by in [&[("order", "4711")][..], &[]] {
        let (mut before, mut found, mut pages) = (None, Vec::new(), 0);
        loop {
            let query = TaskQuery {
                tenant: Some(Tenant::default()),
                labels: labels(by),
                limit: 2,
                before,
                ..TaskQuery::default()
            };
            let page = store.list(&query).await.unwrap();
            found.extend(page.lines.iter().map(|line| line.task));
            let last = page.lines.last().map(|line| line.task);
            before = page.looked_to.or(last.filter(|_| page.lines.len() == 2));
            pages += 1;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, tasks[1..], "{by:?}");
        assert!(pages <= 3, "{pages}");
    }
}
