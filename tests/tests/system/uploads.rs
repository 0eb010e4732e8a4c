//! Requests that do not arrive in time, over a real connection.

use counterstep_contracts::ProblemCode;
use counterstep_tests::api::Answer;
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::{Chance, Sample};
use counterstep_tests::services;

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_the_server_takes_too_slowly_are_not_blamed_on_a_client_that_went_away() {
    let place = Place::new();
    // Far less than so much takes to be written to disk.
    let dev = services::dev(&place, &["--upload-timeout", "200ms", "--every", "1s"]);
    let samples = [Sample::random("large.bin", &mut Chance::new(8), 200 << 20)];
    for _ in 0..5 {
        match dev.api.try_submit(&samples, None).await.expect("an answer") {
            // Whichever of the two took more of the time.
            Answer::Refused(_, problem) => {
                let slow = [ProblemCode::SlowBody, ProblemCode::Unavailable].contains(&problem.code);
                assert!(slow, "{problem:?}");
            }
            Answer::Accepted(accepted) => panic!("200 MiB were stored in 200 ms: {accepted:?}"),
        }
    }
    let rows = Rows::of(&place).await;
    assert_eq!(rows.tasks().await, []);
    rows.assert_no_orphans().await;
    assert!(dev.process.stop().success());
}
