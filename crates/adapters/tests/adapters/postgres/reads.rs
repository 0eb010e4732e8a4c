//! What reads cost where there are many tasks: as much as where there are few.

use super::each_read::{PAGE, reads, slack};
use super::plans::alone;
use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::labels::labels;
use counterstep_adapters::postgres::PostgresOptions;
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::{ReceiveOp, ScheduleQuery, TaskQuery};
use counterstep_kernel::record::TaskRow;
use counterstep_testkit::servers::{ROWS_READ, shared_postgres};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An index among more rows is a level higher: a block more for each row that is looked up.
pub(super) const SLACK: i64 = 400;

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

/// Ten tasks each have one parent, and places under one key.
fn beside(numbers: &std::ops::Range<u32>) -> String {
    let (first, last) = (numbers.start, numbers.end - 1);
    let id = |number: &str| {
        format!("('01900000-0000-7000-8000-' || lpad(to_hex({number}), 12, '0'))::uuid")
    };
    let (task, parent) = (id("n"), id("n - n % 10"));
    format!(
        "INSERT INTO children (parent, step, no, task)
           SELECT {parent}, 1, n % 10, {task} FROM generate_series({first}, {last}) n WHERE n % 10 > 0;
         INSERT INTO places (key, task, no, created_at)
           SELECT 'Zip/default/' || n / 10, {task}, CASE n % 10 WHEN 0 THEN 0 END, now() FROM generate_series({first}, {last}) n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_costs_the_same_among_ten_thousand_tasks_and_a_hundred_thousand() {
    let url = database().await;
    let fill = async |numbers: std::ops::Range<u32>| {
        let beside = beside(&numbers);
        tokio::task::block_in_place(|| shared_postgres().add_tasks(&url, numbers));
        raw(&url).await.batch_execute(&beside).await.unwrap();
    };
    fill(1..10_000).await;
    let few = costs(&url, 1).await;
    fill(10_000..100_000).await;
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
        crate::suite::within_limit("a submission", submitted(&store, row(new_task()))).await;
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
        tasks.push(submitted(&store, row).await.task.id);
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
