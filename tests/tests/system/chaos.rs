//! Short chaos runs, so that the program that operators run against a new version works. The long
//! runs are theirs: `cargo xtask chaos` and `cargo xtask cluster`.

use counterstep_tests::chaos::{KILL_LEADER, Options, Strikes, run};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_strikes_and_finds_no_anomaly() {
    let options = Options {
        seed: 7,
        length: Duration::from_secs(6),
        clients: 4,
        disk: None,
        strikes: Strikes::All,
        left_behind: None,
        samples: None,
    };
    let report = run(&options).await;
    assert!(
        !report.faults.is_empty() && !report.ended.is_empty(),
        "the run showed nothing: {report}"
    );
    assert!(report.anomalies.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_lost_or_done_twice_when_servers_of_a_nats_cluster_fail() {
    let options = Options {
        seed: 7,
        length: Duration::from_secs(3),
        clients: 4,
        disk: None,
        strikes: Strikes::NatsCluster(&[KILL_LEADER]),
        left_behind: None,
        samples: None,
    };
    let report = run(&options).await;
    println!("{report}");
    assert!(
        !report.faults.is_empty() && !report.ended.is_empty(),
        "{report}"
    );
    assert!(
        report.anomalies.is_empty() && report.void.is_empty(),
        "{report}"
    );
}
