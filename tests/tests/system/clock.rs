//! A machine whose calendar is wrong: what starts on an SQLite file.

use counterstep_tests::command::{Ended, counterstep, to_its_end};
use counterstep_tests::place::Place;
use counterstep_tests::process::{can_shift_clocks, wrong_clock};
use counterstep_tests::rows::restart_machine;

const DAY: i64 = 86_400;

/// One pass of a reconciler with a calendar that is wrong by `ahead` seconds.
fn pass(place: &Place, ahead: i64, more: &[&str]) -> Ended {
    let mut command = counterstep();
    command.args(["reconciler", "--once"]).args(more);
    command.arg("--data-dir").arg(place.data());
    if ahead != 0 {
        command.envs(wrong_clock(ahead));
    }
    to_its_end(place.path(), command)
}

#[test]
fn a_start_refuses_a_clock_that_is_days_ahead_until_it_is_accepted_and_logs_it_after_a_restart() {
    assert!(can_shift_clocks(), "the package `faketime` is missing");
    let place = Place::new();
    pass(&place, 0, &[]).assert_code(0);
    pass(&place, 3 * DAY, &[])
        .assert_code(78)
        .assert_says("--accept clock");
    pass(&place, 0, &[]).assert_code(0);
    pass(&place, 3 * DAY, &["--accept", "clock"])
        .assert_code(0)
        .assert_says("the machine's clock was set forward");
    pass(&place, 3 * DAY, &[]).assert_code(0);
    restart_machine(&place);
    pass(&place, 9 * DAY, &[])
        .assert_code(0)
        .assert_says("is that clock right?");
}
