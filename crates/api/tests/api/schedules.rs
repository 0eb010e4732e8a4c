//! Schedules over HTTP: made, listed, shown, paused, run, deleted, and each refusal with its code.

use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::http::{Accepted, AuditTrail, Page};
use counterstep_contracts::schedule::ScheduleView;
use counterstep_contracts::{ScheduleSpec, TaskStatus, Tenant};
use counterstep_kernel::schedule::{self as by_people, ScheduleError};
use counterstep_reconciler::schedules;
use counterstep_steps::Schedule;
use serde_json::json;

const NIGHTLY: &str =
    r#"{"type":"write-note","cron":"30 2 * * *","zone":"Europe/Berlin","request":{"text":"hi"}}"#;

async fn put(site: &Site, name: &str, body: &str) -> Reply {
    let request = site.request("PUT", &format!("/api/schedules/{name}"));
    site.send(
        request
            .header("content-type", "application/json")
            .body(body.to_owned()),
    )
    .await
}

async fn ask(site: &Site, name: &str, what: &str) -> Reply {
    site.send(site.request("POST", &format!("/api/schedules/{name}/{what}")))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_made_shown_changed_and_deleted() {
    let site = Site::start().await;
    let made: ScheduleView = put(&site, "nightly", NIGHTLY).await.json(201);
    assert_eq!(
        (made.name.as_str(), made.spec.task_type.as_str()),
        ("nightly", "WriteNote")
    );
    assert_eq!(
        (made.spec.misfire.as_str(), made.spec.overlap.as_str()),
        ("fire_once", "skip")
    );
    let same: ScheduleView = put(&site, "nightly", NIGHTLY).await.json(200);
    assert_eq!(same, made);
    let shown: ScheduleView = site.get("/api/schedules/nightly?next=3").await.json(200);
    assert_eq!(shown.upcoming.len(), 3);
    assert_eq!(shown.upcoming.first(), shown.next_due_at.as_ref());
    let later = NIGHTLY.replace("30 2", "45 2");
    let changed: ScheduleView = put(&site, "nightly", &later).await.json(200);
    assert_eq!(
        (changed.revision, changed.spec.cron.as_deref()),
        (made.revision + 1, Some("45 2 * * *"))
    );
    let deleted = site
        .send(site.request("DELETE", "/api/schedules/nightly"))
        .await;
    assert_eq!(deleted.status, 204);
    site.get("/api/schedules/nightly")
        .await
        .problem(404, "no-such-schedule");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_by_name_in_pages() {
    let site = Site::start().await;
    for name in ["c", "a", "b"] {
        put(&site, name, NIGHTLY).await.json::<ScheduleView>(201);
    }
    let page: Page<ScheduleView> = site.get("/api/schedules?limit=2").await.json(200);
    assert_eq!(
        page.items
            .iter()
            .map(|item| item.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let cursor = page.next_cursor.expect("there is more");
    let rest: Page<ScheduleView> = site
        .get(&format!("/api/schedules?limit=2&cursor={cursor}"))
        .await
        .json(200);
    assert_eq!(
        rest.items
            .iter()
            .map(|item| item.name.as_str())
            .collect::<Vec<_>>(),
        ["c"]
    );
    assert_eq!(rest.next_cursor, None);
    let of_type =
        ["write-note", "WriteNote"].map(|name| format!("/api/schedules?type={name}&limit=2"));
    for path in &of_type {
        let found: Page<ScheduleView> = site.get(path).await.json(200);
        assert_eq!((found.items.len(), found.next_cursor.is_some()), (2, true));
    }
    let none: Page<ScheduleView> = site.get("/api/schedules?type=Other").await.json(200);
    assert!(none.items.is_empty());
    site.get("/api/schedules?cursor=b~0000000000000000")
        .await
        .problem(400, "malformed-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_paused_and_runs_by_hand() {
    let site = Site::start().await;
    put(&site, "nightly", NIGHTLY)
        .await
        .json::<ScheduleView>(201);
    let paused: ScheduleView = ask(&site, "nightly", "pause").await.json(200);
    assert_eq!((paused.paused, paused.next_due_at), (true, None));
    let reply = ask(&site, "nightly", "run").await;
    let accepted: Accepted = reply.json(202);
    ask(&site, "nightly", "run")
        .await
        .problem(409, "schedule-busy");
    site.run_worker();
    site.until(accepted.task_id, TaskStatus::Completed).await;
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{}/audit", accepted.task_id))
        .await
        .json(200);
    assert_eq!(trail.entries[0].details["scheduled"]["schedule"], "nightly");
    let resumed: ScheduleView = ask(&site, "nightly", "resume").await.json(200);
    assert!(!resumed.paused && resumed.next_due_at.is_some());
    assert_eq!(resumed.last_task, Some(accepted.task_id));
    assert_eq!(resumed.last_due_at, None);
    let fired = resumed.last_fired_at.expect("it has fired");
    assert!(
        fired >= paused.updated_at && fired < resumed.updated_at,
        "{fired}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_code() {
    let site = Site::start().await;
    for (body, pointer) in [
        (NIGHTLY.replace("30 2", "30 24"), "cron"),
        (NIGHTLY.replace("Berlin", "Atlantis"), "zone"),
        (NIGHTLY.replace("write-note", "no-such-type"), "type"),
        (NIGHTLY.replace("write-note", "keep-files"), "type"),
        (
            NIGHTLY.replace(r#""text":"hi""#, r#""text":7"#),
            "request.text",
        ),
        (NIGHTLY.replace(r#""cron""#, r#""crom""#), "crom"),
        (
            NIGHTLY.replace(r#"{"type""#, r#"{"misfire":"maybe","type""#),
            "misfire",
        ),
        (
            NIGHTLY.replace(r#"{"type""#, r#"{"grace":"soon","type""#),
            "grace",
        ),
        (
            r#"{"type":"write-note","request":{"text":"hi"}}"#.to_owned(),
            "cron",
        ),
        (
            r#"{"type":"write-note","run_at":"2001-01-01T00:00:00Z","request":{"text":"hi"}}"#
                .to_owned(),
            "run_at",
        ),
    ] {
        let problem = put(&site, "x", &body).await.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{body}: {problem}");
    }
    let name = put(&site, "a%20b", NIGHTLY)
        .await
        .problem(422, "invalid-request");
    assert_eq!(name["pointer"], "name");
    for what in ["pause", "resume", "run"] {
        ask(&site, "no-such", what)
            .await
            .problem(404, "no-such-schedule");
    }
    site.get("/api/schedules/%00")
        .await
        .problem(404, "no-such-schedule");
    site.get("/api/schedules/x?next=101")
        .await
        .problem(422, "invalid-request");
    site.post("/api/schedules/x", "{}")
        .await
        .problem(405, "method-not-allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_from_code_is_paused_over_http_but_not_changed() {
    let site = Site::start().await;
    // As a reconciler of the same program has taken it over.
    let declared = Schedule::cron("hourly", "@hourly", "UTC").request(json!({"text": "hi"}));
    let registry = (*site.engine.registry)
        .clone()
        .try_schedule("WriteNote", declared)
        .expect("a schedule");
    let mut reconciler = site.engine.clone();
    reconciler.registry = std::sync::Arc::new(registry);
    let plan = schedules::plan(&reconciler, 10).await.expect("a plan");
    assert_eq!(schedules::run(&reconciler, plan).await.declared, 1);
    let shown: ScheduleView = site.get("/api/schedules/hourly").await.json(200);
    assert_eq!(
        (shown.origin.as_str(), shown.spec.cron.as_deref()),
        ("code", Some("@hourly"))
    );
    ask(&site, "hourly", "pause")
        .await
        .json::<ScheduleView>(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_program_declares_is_free_to_other_tenants_and_their_schedule_fires() {
    let site = Site::start().await;
    let hourly = || Schedule::cron("hourly", "@hourly", "UTC").request(json!({"text": "hi"}));
    let registry = (*site.engine.registry).clone();
    let registry = registry.try_schedule("WriteNote", hourly());
    let mut declaring = site.engine.clone();
    declaring.registry = std::sync::Arc::new(registry.expect("a schedule"));
    let other = Tenant("other".to_owned());
    let spec: ScheduleSpec = serde_json::from_str(NIGHTLY).expect("a schedule");
    let spec = || ScheduleSpec {
        cron: Some("* * * * *".to_owned()),
        ..spec.clone()
    };
    let made = by_people::set(&declaring, &other, "hourly", spec(), "kim").await;
    assert!(made.expect("it is theirs").is_new);
    let refused = by_people::set(&declaring, &Tenant::default(), "hourly", spec(), "kim").await;
    assert!(
        matches!(refused, Err(ScheduleError::Declared)),
        "{refused:?}"
    );
    // Although the program's own of this name is declared in this very pass.
    site.clock.advance("2m");
    let plan = schedules::plan(&declaring, 10).await.expect("a plan");
    let ran = schedules::run(&declaring, plan).await;
    assert_eq!((ran.declared, ran.fired.len()), (1, 1), "{ran:?}");
    let deleted = by_people::delete(&declaring, &other, "hourly", "kim").await;
    deleted.expect("it is theirs");
}
