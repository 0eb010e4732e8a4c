//! What labels cost: not a test of anything, but a measurement.

use super::{number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::labels::labels;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::Labels;
use counterstep_kernel::ports::Store;
use counterstep_kernel::record::TaskRow;
use counterstep_testkit::servers::Postgres;
use std::time::Instant;

/// Submissions of each kind in a pair.
const EACH: u32 = 1_000;

/// Processor time of a process so far, in hundredths of a second.
fn ticks(pid: i64) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the server's process");
    // The name of the program, in brackets, may have blanks.
    let fields = stat.rsplit_once(')').expect("its name").1;
    let field = |at: usize| -> f64 {
        let text = fields.split_whitespace().nth(at).expect("a field");
        text.parse().expect("a number")
    };
    field(11) + field(12)
}

/// `cargo test --workspace --all-features --test adapters -- --ignored --nocapture submissions_with_three_labels`.
/// One after another on one connection, in pairs, on a server that waits for its files,
/// which are on a disk unless `TMPDIR` is in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures what labels cost a submission on PostgreSQL; its comment says how to run it"]
async fn submissions_with_three_labels_and_without() {
    let server = Postgres::durable();
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let raw = raw(&url).await;
    let one = PostgresOptions {
        connections: 1,
        ..options()
    };
    let store = open(&url, one).await;
    let mut made = 0_u32;
    let mut ratios = Vec::new();
    submitted(&store, row(new_task())).await;
    let server = "SELECT pid::bigint FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let pid = number(&raw, server).await;
    let written = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    for pair in 0..8 {
        let mut costs = Vec::new();
        for labelled in [pair % 2 == 0, pair % 2 != 0] {
            let (cpu, wal, started) = (ticks(pid), number(&raw, written).await, Instant::now());
            for _ in 0..EACH {
                made += 1;
                let (order, customer) = (made.to_string(), (made % 1000).to_string());
                let labels = if labelled {
                    labels(&[("order", &order), ("customer", &customer), ("region", "eu")])
                } else {
                    Labels::new()
                };
                submit_one(&store, labels).await;
            }
            let each = f64::from(EACH);
            let (took, cpu) = (started.elapsed(), (ticks(pid) - cpu) * 10_000.0 / each);
            let wal = (number(&raw, written).await - wal) / i64::from(EACH);
            let micros = took.as_secs_f64() * 1e6 / each;
            println!(
                "labels: {labelled:>5}  {micros:>6.0} µs elapsed, {cpu:>6.1} µs of the server's processor, {wal:>6} bytes of the log, each"
            );
            costs.push((labelled, micros, cpu));
        }
        costs.sort_by_key(|(labelled, ..)| *labelled);
        let (without, with) = (costs[0], costs[1]);
        ratios.push((with.1 / without.1, with.2 / without.2));
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "with three labels, median of {} pairs: {:.3} of the time, {:.3} of the server's processor time",
        ratios.len(),
        median(ratios.iter().map(|ratio| ratio.0).collect()),
        median(ratios.iter().map(|ratio| ratio.1).collect()),
    );
}

async fn submit_one(store: &Store, labels: Labels) {
    let row = TaskRow {
        labels,
        ..row(new_task())
    };
    commit(store, NEW, &submit(row)).await.unwrap();
}
