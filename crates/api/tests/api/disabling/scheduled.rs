//! What schedules do while the type that they submit is disabled.

use super::switch;
use crate::site::{Site, eventually};
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::schedule::ScheduleView;
use counterstep_reconciler::schedules::{self, ScheduleReport};
use counterstep_steps::times::rfc3339;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_skips_what_is_due_while_its_type_is_disabled() {
    let site = Site::start().await;
    let spec =
        r#"{"type":"strict","cron":"* * * * * *","misfire":"catch_up","request":{"fate":"works"}}"#;
    let request = site
        .request("PUT", "/api/schedules/often")
        .header("content-type", "application/json");
    site.send(request.body(spec))
        .await
        .json::<ScheduleView>(201);
    switch(&site, "strict", "disable")
        .await
        .json::<SwitchView>(200);
    site.send(site.request("POST", "/api/schedules/often/run"))
        .await
        .problem(409, "type-disabled");
    let skipped = eventually("a due time is skipped", || async {
        let plan = schedules::plan(&site.engine, 10).await.expect("a plan");
        let report = schedules::run(&site.engine, plan).await;
        assert!(
            report.fired.is_empty() && report.failed.is_empty(),
            "{report:?}"
        );
        if report.skipped > 0 {
            Ok(report.skipped)
        } else {
            Err("nothing was due")
        }
    })
    .await;
    assert!(skipped > 0);
    assert_eq!(site.tasks().await, 0);
    switch(&site, "strict", "enable")
        .await
        .json::<SwitchView>(200);
    eventually("the schedule fires again", || async {
        let plan = schedules::plan(&site.engine, 10).await.expect("a plan");
        if schedules::run(&site.engine, plan).await.fired.is_empty() {
            Err("nothing was due")
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_only_once_waits_until_its_type_is_enabled() {
    let site = Site::start().await;
    switch(&site, "strict", "disable")
        .await
        .json::<SwitchView>(200);
    let soon = site
        .engine
        .ports
        .store
        .types()
        .await
        .expect("a clock")
        .now
        .later(Duration::from_secs(2));
    let spec = format!(
        r#"{{"type":"strict","run_at":"{}","request":{{"fate":"works"}}}}"#,
        rfc3339(soon)
    );
    let request = site
        .request("PUT", "/api/schedules/once")
        .header("content-type", "application/json");
    site.send(request.body(spec))
        .await
        .json::<ScheduleView>(201);
    let pass = || async {
        let plan = schedules::plan(&site.engine, 10).await.expect("a plan");
        schedules::run(&site.engine, plan).await
    };
    site.clock.advance("2s");
    let report = eventually("it is due", || async {
        let report = pass().await;
        if report == ScheduleReport::default() {
            Err("it is not")
        } else {
            Ok(report)
        }
    })
    .await;
    assert_eq!(
        (report.waiting, report.skipped, report.fired.len()),
        (1, 0, 0),
        "{report:?}"
    );
    switch(&site, "strict", "enable")
        .await
        .json::<SwitchView>(200);
    assert_eq!(pass().await.fired.len(), 1);
    assert_eq!(site.tasks().await, 1);
}
