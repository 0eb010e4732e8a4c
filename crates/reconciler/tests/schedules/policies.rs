//! What the misfire and overlap policies let fire, and that schedules that wait or fail hold up no
//! others.

use crate::{alone, finish, hourly, make_due, one_pass, overdue, row, tenant, types};
use counterstep_contracts::{Misfire, Overlap, ScheduleSpec};
use counterstep_kernel::Engine;
use counterstep_kernel::schedule;
use counterstep_reconciler::{ReconcilerSettings, pass, plan, schedules};
use counterstep_steps::{CancelReason, CancelToken};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_the_misfire_policy_says_what_fires() {
    let (engine, _folder) = alone(types()).await;
    let yearly = |misfire| ScheduleSpec {
        cron: Some("0 0 1 1 *".to_owned()),
        overlap: Overlap::Allow,
        grace: "1s".to_owned(),
        catch_up_limit: 3,
        misfire,
        ..ScheduleSpec::of("Tick")
    };
    let four_years = 4 * 366 * 24 * 3600;
    for (name, misfire, fired, skipped) in [
        ("once", Misfire::FireOnce, 1, 0),
        ("each", Misfire::CatchUp, 3, 0),
        ("none", Misfire::Skip, 0, 1),
    ] {
        overdue(&engine, name, yearly(misfire), four_years).await;
        let report = one_pass(&engine).await;
        assert_eq!((report.fired, report.skipped), (fired, skipped), "{name}");
        let kept = schedule::get(&engine, &tenant(), name)
            .await
            .expect("the schedule");
        assert!(
            kept.row.next_due_at > Some(kept.now),
            "{name}: {:?}",
            kept.row
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_task_runs_the_overlap_policy_says_what_fires() {
    let (engine, _folder) = alone(types()).await;
    let yearly = |overlap| ScheduleSpec {
        cron: Some("0 0 1 1 *".to_owned()),
        overlap,
        ..ScheduleSpec::of("Tick")
    };
    for (overlap, fired, skipped) in [
        (Overlap::Skip, 0, 1),
        (Overlap::Queue, 0, 0),
        (Overlap::Allow, 1, 0),
    ] {
        let name = overlap.as_str();
        overdue(&engine, name, yearly(overlap), 0).await;
        assert_eq!(one_pass(&engine).await.fired, 1, "{name}");
        let running = row(&engine, name).await.last_task.expect("a task");
        // The next due time comes while it runs.
        make_due(&engine, name, 0).await;
        let report = one_pass(&engine).await;
        assert_eq!((report.fired, report.skipped), (fired, skipped), "{name}");
        finish(&engine, running).await;
        let report = one_pass(&engine).await;
        assert_eq!(
            report.fired,
            usize::from(overlap == Overlap::Queue),
            "{name}: only what waits is still due"
        );
    }
}

fn yearly() -> ScheduleSpec {
    ScheduleSpec {
        cron: Some("@yearly".to_owned()),
        ..hourly()
    }
}

/// Makes a schedule whose request no task type takes: each time it is due, its submission fails.
async fn overdue_and_failing(engine: &Engine, name: &str, seconds: i64) {
    overdue(engine, name, yearly(), seconds).await;
    let mut failing = row(engine, name).await;
    failing.spec.request = json!({"txt": "?"});
    failing.rev = failing.rev.next();
    assert!(
        engine
            .ports
            .store
            .put_schedule(&failing)
            .await
            .expect("the store answers")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_wait_or_fail_do_not_starve_those_behind_them() {
    let (engine, _folder) = alone(types()).await;
    let queue = ScheduleSpec {
        overlap: Overlap::Queue,
        ..yearly()
    };
    for name in ["waits-1", "waits-2", "waits-3"] {
        overdue(&engine, name, queue.clone(), 0).await;
        assert_eq!(one_pass(&engine).await.fired, 1, "{name}");
        make_due(&engine, name, 300).await;
    }
    for name in ["fails-1", "fails-2", "fails-3"] {
        overdue_and_failing(&engine, name, 200).await;
    }
    overdue(&engine, "ready-1", yearly(), 50).await;
    overdue(&engine, "ready-2", yearly(), 40).await;
    overdue(&engine, "ready-3", yearly(), 30).await;

    let settings = ReconcilerSettings {
        limit: 2,
        ..ReconcilerSettings::default()
    };
    let planned = plan(&engine, &settings).await.expect("a plan").to_string();
    assert!(planned.contains("leave schedule waits-3"), "{planned}");
    // All reconcilers of a cluster begin at the front, as one that passes once does: nothing is
    // remembered.
    for (fired, ready) in [(2, "ready-2"), (1, "ready-3")] {
        let report = pass(&engine, &settings).await.expect("a pass");
        assert_eq!((report.fired, report.failed.len()), (fired, 3), "{report}");
        assert!(row(&engine, ready).await.last_task.is_some(), "{ready}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_catches_up_does_not_fire_beyond_the_limit_of_a_pass() {
    let (engine, _folder) = alone(types()).await;
    let catches_up = ScheduleSpec {
        overlap: Overlap::Allow,
        misfire: Misfire::CatchUp,
        catch_up_limit: 50,
        ..hourly()
    };
    overdue(&engine, "hourly", catches_up, 50 * 3_600).await;
    let settings = ReconcilerSettings {
        limit: 10,
        ..ReconcilerSettings::default()
    };
    let shutdown = CancelToken::new();
    shutdown.cancel(CancelReason::Shutdown);
    let ended = schedules::pass(&engine, 10, &shutdown).await;
    assert_eq!(ended.expect("a pass").fired.len(), 0);
    for _ in 0..5 {
        let report = pass(&engine, &settings).await.expect("a pass");
        assert_eq!(report.fired, 10);
    }
}
