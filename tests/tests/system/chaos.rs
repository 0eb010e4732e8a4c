//! A short chaos run, so that the program that operators run against a new version works. The long
//! runs are theirs: `cargo xtask chaos`.

use counterstep_tests::chaos::{Options, run};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_strikes_and_finds_no_anomaly() {
    let options = Options {
        seed: 7,
        length: Duration::from_secs(6),
        clients: 4,
        disk: None,
    };
    let report = run(&options).await;
    assert!(
        !report.faults.is_empty() && !report.ended.is_empty(),
        "the run showed nothing: {report}"
    );
    assert!(report.anomalies.is_empty(), "{report}");
}
