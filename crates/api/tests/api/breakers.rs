//! A task that waits for a breaker, as its client sees it.

use crate::site::Site;
use crate::types::LINE;
use counterstep_contracts::http::AuditTrail;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::workers::{BreakerStanding, BreakerView};
use counterstep_contracts::{TaskStatus, WaitReason};
use counterstep_kernel::ports::PortsRuntime;
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use serde_json::Value;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_that_it_waits_for_a_breaker_until_when_and_in_the_audit_for_which() {
    let site = Site::start().await;
    let ports = &site.engine.ports;
    let breaker = Breaker::new(
        "line",
        LINE,
        ports.hints.clone(),
        Arc::new(PortsRuntime::from(ports)),
    );
    breaker.report(Ticket::default(), Verdict::Failed).await;
    site.run_worker();
    let task = site.submit("/api/tasks/call-out").await;
    let waiting = site.until(task, TaskStatus::Waiting).await;
    assert_eq!(waiting.waiting_for, Some(WaitReason::Breaker));
    assert!(waiting.due_at.is_some() && waiting.steps[0].attempts.0 == 0);
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let waits = trail
        .entries
        .iter()
        .find(|entry| entry.event == "waits")
        .expect("it is written down");
    assert_eq!(
        (&waits.details["breaker"], &waits.details["step"]),
        (&"line".into(), &"call".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_breaker_is_shown_with_its_values() {
    let site = Site::start().await;
    let types: Value = site.get("/api/task-types").await.json(200);
    let items = types["items"].as_array().expect("a list");
    let call = items
        .iter()
        .find(|item| item["name"] == "CallOut")
        .expect("the type");
    let breaker = &call["steps"][0]["breaker"];
    assert_eq!(
        (&breaker["name"], &breaker["policy"]["name"]),
        (&"LINE".into(), &"line".into()),
        "{breaker}"
    );
    assert_eq!(breaker["policy"]["open_for"], "1h");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_closes_a_breaker_and_a_task_that_sleeps_for_it_is_due_only() {
    let site = Site::start().await;
    let ports = &site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
    breaker.report(Ticket::default(), Verdict::Failed).await;
    site.run_worker();
    let task = site.submit("/api/tasks/call-out").await;
    site.until(task, TaskStatus::Waiting).await;
    let why = format!("/api/tasks/{task}/why");
    let asked: Why = site.get(&why).await.json(200);
    let can = &asked.operator_can[0];
    assert_eq!(asked.because[0].code, WhyCode::Breaker, "{asked:?}");
    assert_eq!(
        (&*can.path, can.ends),
        ("/api/breakers/line/close", Some(WhyCode::Breaker))
    );
    let body = can.body.as_ref().expect("a body").to_string();
    let closed: BreakerView = site.post(&can.path, body).await.json(200);
    assert_eq!(closed.state, BreakerStanding::Closed);
    let again: Why = site.get(&why).await.json(200);
    assert_eq!(again.because[0].code, WhyCode::Due, "{again:?}");
    assert!(again.because[0].until.is_some(), "{again:?}");

    let note = r#"{"note":"a test"}"#;
    let closed: BreakerView = site.post("/api/breakers/line/close", note).await.json(200);
    assert_eq!(closed.state, BreakerStanding::Closed, "once more");
    site.post("/api/breakers/unknown/close", note)
        .await
        .problem(404, "no-such-breaker");
}
