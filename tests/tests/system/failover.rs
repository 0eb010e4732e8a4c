//! One failover of PostgreSQL under load, which each run of the tests makes. The others are `cargo xtask failover`.

use counterstep_tests::chaos::failover::{Case, run};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_the_standby_has_taken_over() {
    let outcome = run(Case::Killed, 24).await;
    assert!(
        outcome.acknowledged > 24,
        "the run showed nothing: {outcome}"
    );
    assert!(outcome.report.anomalies.is_empty(), "{outcome}");
    assert_eq!(outcome.lost, 0, "{outcome}");
    println!("{outcome}");
}
