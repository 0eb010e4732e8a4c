//! Schedules that the program declares: how reconcilers take them over, and what people may do to
//! them.

use crate::{Tick, engine, finish, hourly, make_due, one_pass, row, tenant, types};
use counterstep_contracts::ScheduleSpec;
use counterstep_kernel::schedule;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, Report, plan};
use counterstep_steps::{Schedule, StepResult};
use counterstep_testkit::TestClock;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;

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
    // The second hour may have begun with the last ten minutes.
    let report = one_pass(&new).await;
    fired += report.fired + report.skipped;
    assert_eq!(fired, 2, "two hours have passed");
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tags {
    tags: HashSet<String>,
}

struct Tag;

#[distributed_task(name = "Tag", queue = "ticks")]
impl Tag {
    type Request = Tags;
    type Response = usize;

    #[step(1, host = "worker", no_undo = "counts only")]
    async fn count(req: &Tags) -> StepResult<usize> {
        Ok(req.tags.len())
    }

    fn respond(count: &usize) -> usize {
        *count
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_type_keeps_no_order_is_the_same_in_each_process() {
    let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
    let words = json!({"tags": ["a", "b", "c", "d", "e", "f", "g", "h"]});
    let program = || {
        let hourly = Schedule::cron("hourly", "0 * * * *", "UTC").request(words.clone());
        let registry = types().with::<Tag>().schedule::<Tag>(hourly);
        engine(folder.path(), registry, (None, &clock))
    };
    let first = program().await;
    assert_eq!(one_pass(&first).await.declared, 1);
    for _ in 0..3 {
        assert_eq!(one_pass(&program().await).await, Report::default());
    }
    let by_kim = || ScheduleSpec {
        request: words.clone(),
        cron: Some("@yearly".to_owned()),
        ..ScheduleSpec::of("Tag")
    };
    let set = async |spec| schedule::set(&first, &tenant(), "by-kim", spec, "kim").await;
    let made = set(by_kim()).await.expect("it is set").row;
    assert_eq!(set(by_kim()).await.expect("it is set").row, made);

    make_due(&first, "hourly", 0).await;
    assert_eq!(one_pass(&first).await.fired, 1);
    let task = row(&first, "hourly").await.last_task.expect("a task");
    finish(&first, task).await;
}
