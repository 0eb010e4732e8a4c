//! Task types that people disable and enable, and those that only a person enables again.

use super::{ask, disable_by_failures, ends, shown, switch};
use crate::site::Site;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::http::Accepted;
use counterstep_kernel::admission::disable;

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_cooldown_stays_disabled_until_a_person_enables_it() {
    let site = Site::start().await;
    site.run_worker();
    disable_by_failures(&site, "guarded").await;
    let view = shown(&site, "Guarded").await;
    assert_eq!(
        (view.by.as_deref(), view.probe_from, view.probe),
        (Some("counterstep"), None, None)
    );
    let refused = ask(&site, "guarded", "works").await;
    let problem = refused.problem(409, "type-disabled");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(
        detail.ends_with("it takes tasks again once an operator enables it"),
        "{detail}"
    );
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(
        disable::plan_types(&site.engine).await.expect("a plan"),
        [],
        "no pass takes a probe"
    );
    switch(&site, "guarded", "enable")
        .await
        .json::<SwitchView>(200);
    ends(&site, "guarded", "works", TaskStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_a_person_disabled_takes_not_one_byte() {
    let site = Site::start().await;
    let view: SwitchView = switch(&site, "shelf", "disable").await.json(200);
    assert_eq!(
        (view.task_type.as_str(), view.by.as_deref()),
        ("Shelf", Some("operator (ada)"))
    );
    assert_eq!(
        (view.reason.as_deref(), view.probe_from),
        (Some("a test says so"), None)
    );
    let body = "--XX\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a\"\r\n\r\nx\r\n--XX--\r\n";
    let refused = site.form("/api/tasks/shelf", body).await;
    let problem = refused.problem(409, "type-disabled");
    assert_eq!(
        problem["detail"],
        "Shelf is disabled: a test says so; it takes tasks again once an operator enables it",
        "why, and not who"
    );
    assert_eq!(refused.header("retry-after"), None);
    site.until_nothing_is_left().await;
    switch(&site, "shelf", "enable")
        .await
        .json::<SwitchView>(200);
    site.form("/api/tasks/shelf", body)
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_takes_a_type_by_its_name_as_by_its_route() {
    let site = Site::start().await;
    for what in ["disable", "enable"] {
        let view = switch(&site, "WriteNote", what).await;
        assert_eq!(view.json::<SwitchView>(200).task_type, "WriteNote");
    }
    let note = r#"{"text":"a"}"#;
    site.post("/api/tasks/WriteNote", note)
        .await
        .json::<Accepted>(202);
    site.post(
        "/api/tasks/WriteNote/batch",
        &*format!(r#"[{{"request":{note}}}]"#),
    )
    .await
    .assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_needs_a_known_type_and_a_note() {
    let site = Site::start().await;
    switch(&site, "unheard-of", "disable")
        .await
        .problem(404, "no-such-task-type");
    for body in [
        r#"{"note":" "}"#,
        r#"{"note":"x","actor":""}"#,
        r#"{"actor":"ada"}"#,
        r#"{"note":"x","force":true}"#,
        "{\"note\":\"\\u001b[2J\"}",
    ] {
        site.post("/api/task-types/strict/disable", body)
            .await
            .problem(422, "invalid-request");
    }
    let reply = site.get("/api/task-types/strict/disable").await;
    reply.problem(405, "method-not-allowed");
    assert_eq!(reply.header("allow"), Some("POST"));
}
