//! What reads cost while the server's statistics are behind the rows: they are gathered a minute after many were written.

use super::plans::alone;
use super::{database, number, open, options, raw};
use counterstep_adapters::postgres::PostgresOptions;
use counterstep_contracts::{TaskStatus, Tenant};
use counterstep_kernel::ports::{TaskQuery, WaitingQuery};
use counterstep_testkit::servers::{ROWS_READ, shared_postgres};

const PAGE: u32 = 51;

/// For a page of a type, with the catalogue that a new connection reads.
const MOST: i64 = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_a_rare_type_reads_none_of_the_tasks_of_another() {
    let url = database().await;
    let server = shared_postgres();
    let admin = raw(&url).await;
    // The server knows of a type with two hundred tasks, and then come many of another.
    tokio::task::block_in_place(|| server.add_tasks(&url, 100..300));
    let rare = "UPDATE tasks SET task_type = 'Rare', tenant = 'default'";
    admin.batch_execute(rare).await.unwrap();
    // In pages of their own, so that none of them is moved by what follows.
    admin.batch_execute("VACUUM FULL tasks").await.unwrap();
    admin.batch_execute("ANALYZE tasks").await.unwrap();
    tokio::task::block_in_place(|| server.add_tasks_unseen(&url, 300..40_000));
    for prepared_statements in [true, false] {
        for status in [None, Some(TaskStatus::Completed), Some(TaskStatus::Failed)] {
            alone(&admin).await;
            let before = number(&admin, ROWS_READ).await;
            let options = PostgresOptions {
                connections: 2,
                prepared_statements,
                ..options()
            };
            let store = open(&url, options).await;
            let query = TaskQuery {
                tenant: Some(Tenant::default()),
                task_type: Some("Rare".to_owned()),
                statuses: status.into_iter().collect(),
                limit: PAGE,
                ..TaskQuery::default()
            };
            let found = store.list(&query).await.unwrap().lines.len();
            let waiting = WaitingQuery {
                tenant: Tenant::default(),
                task_type: Some("Rare".to_owned()),
                at_most: 9,
            };
            store.waiting(&waiting).await.unwrap();
            drop(store);
            alone(&admin).await;
            let rows = number(&admin, ROWS_READ).await - before;
            let what = format!("{status:?}, prepared: {prepared_statements}: {found} found");
            assert!(found > 0 && rows < MOST, "{what}, {rows} rows read");
        }
    }
}
