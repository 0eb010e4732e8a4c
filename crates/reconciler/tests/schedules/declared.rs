//! Schedules that the program declares: how reconcilers take them over, and what people may do to
//! them.

use crate::{Tick, engine, hourly, make_due, one_pass, row, tenant, types};
use counterstep_kernel::schedule;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_reconciler::{ReconcilerSettings, Report, plan};
use counterstep_steps::Schedule;
use counterstep_testkit::TestClock;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_schedule_is_taken_over_and_its_pause_outlives_a_change() {
    let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
    let declare = |cron: &str| {
        let nightly =
            Schedule::cron("nightly", cron, "Europe/Berlin").request(json!({"text": "good night"}));
        types().schedule::<Tick>(nightly)
    };
    let first = engine(folder.path(), declare("0 3 * * *"), (None, &clock)).await;
    let planned = plan(&first, &ReconcilerSettings::default())
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        "take over schedule nightly: the program declares it so\n"
    );
    assert_eq!(one_pass(&first).await.declared, 1);
    assert_eq!(
        one_pass(&first).await,
        Report::default(),
        "nothing has changed"
    );
    schedule::pause(&first, &tenant(), "nightly", true, "kim")
        .await
        .expect("it is paused");
    for refused in [
        schedule::set(&first, &tenant(), "nightly", hourly(), "kim")
            .await
            .map(drop),
        schedule::delete(&first, &tenant(), "nightly", "kim").await,
    ] {
        assert!(
            matches!(refused, Err(ScheduleError::Declared)),
            "{refused:?}"
        );
    }

    let second = engine(folder.path(), declare("0 4 * * *"), (None, &clock)).await;
    assert_eq!(one_pass(&second).await.declared, 1);
    let changed = row(&second, "nightly").await;
    assert_eq!(
        (changed.spec.cron.as_deref(), changed.paused),
        (Some("0 4 * * *"), true)
    );
    assert_eq!(changed.spec.request, json!({"text": "good night"}));

    // A program that does not declare it leaves it alone, and may delete it.
    schedule::pause(&second, &tenant(), "nightly", false, "kim")
        .await
        .expect("it goes on");
    make_due(&second, "nightly", 5).await;
    let other = engine(folder.path(), types(), (None, &clock)).await;
    assert_eq!(one_pass(&other).await, Report::default());
    assert_eq!(one_pass(&second).await.fired, 1);
    schedule::delete(&other, &tenant(), "nightly", "kim")
        .await
        .expect("it is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_a_program_that_declare_a_schedule_in_turn_keep_its_due_times() {
    let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
    let declare = |text: &str| {
        let hourly = Schedule::cron("hourly", "0 * * * *", "UTC").request(json!({"text": text}));
        types().schedule::<Tick>(hourly)
    };
    let old = engine(folder.path(), declare("old"), (None, &clock)).await;
    let new = engine(folder.path(), declare("new"), (None, &clock)).await;
    let mut fired = 0;
    for _ in 0..6 {
        for program in [&old, &new] {
            let report = one_pass(program).await;
            fired += report.fired + report.skipped;
            clock.advance("10m");
        }
    }
    assert_eq!(fired, 2, "two hours have passed");
}
