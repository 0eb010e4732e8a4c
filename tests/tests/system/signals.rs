//! `counterstep tasks signal` against a service in another process: what is sent, and what a
//! refusal looks like. Its task type waits for no signal; what an accepted one does is shown in
//! `orders`, and in the tests of the API.

use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_signal_is_told_in_the_words_of_the_api() {
    let place = Place::new();
    let dev = services::dev(&place, QUICK);
    let task = dev.api.submit(&Sample::pair(1, 1_000)).await.to_string();
    let signal = |arguments: &[&str]| {
        run(
            place.path(),
            &[
                &["tasks", "--url", dev.api.url(), "signal", &task],
                arguments,
            ]
            .concat(),
        )
    };
    signal(&["approval", "--body", "{}"])
        .assert_code(1)
        .assert_says("no-such-signal");
    signal(&["approval", "--body", "{"])
        .assert_code(2)
        .assert_says("not JSON");
    signal(&["approval"]).assert_code(2).assert_says("--body");
    assert!(dev.process.stop().success());
}
