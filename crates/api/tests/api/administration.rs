//! The audit of changes beside tasks: that each is in it, by whom, and that the chain of all of them holds.

use crate::access::{ask, key, locked};
use crate::site::Site;
use crate::types::LINE;
use crate::workers::registered;
use counterstep_contracts::access::{NewKey, Role};
use counterstep_contracts::bulk::BulkView;
use counterstep_contracts::{QueueName, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::audit::admin_audit::{self, ADMIN_EVENTS, AdminEntry};
use counterstep_kernel::dead_letters::poison;
use counterstep_kernel::payloads::delete_documents;
use counterstep_kernel::ports::{Poison, PortsRuntime};
use counterstep_reconciler::audit::{Scope, verify};
use counterstep_reconciler::schedules;
use counterstep_steps::Schedule;
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) async fn entries(site: &Site) -> Vec<AdminEntry> {
    let store = &site.engine.ports.store;
    admin_audit::page(store, 0, 1_000).await.expect("a page")
}

/// A reconciler whose program declares a schedule.
async fn declare_schedule(site: &Site) {
    let registry = crate::types::all().schedule::<crate::types::WriteNote>(
        Schedule::cron("nightly", "@daily", "UTC").request(json!({"text": "a"})),
    );
    let engine = Engine::new(
        site.engine.ports.clone(),
        Arc::new(registry),
        (*site.engine.settings).clone(),
        "reconciler",
    );
    let plan = schedules::plan(&engine, 10).await.expect("a plan");
    let done = schedules::run(&engine, plan).await;
    assert_eq!((done.declared, done.failed.len()), (1, 0));
}

/// The address of a message that no host can read.
pub(crate) async fn kept_poison(site: &Site) -> String {
    let store = &site.engine.ports.store;
    let message = Poison::new(
        "work/1".into(),
        "work.x".into(),
        &"{".into(),
        "secret".into(),
    );
    poison::keep(store, &QueueName("notes".into()), &message)
        .await
        .expect("kept");
    let found = poison::list(store).await.expect("a list");
    format!("/api/poison-messages/{}", found[0].id)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_beside_tasks_is_in_the_audit_with_its_cause_and_the_chain_holds() {
    let site = locked().await;
    let (admin, _) = key(&site, "default", Role::Admin).await;
    let made = json!({"subject": "shop", "role": "read"});
    let made = ask(&site, &admin, "POST", "/api/keys", &made.to_string()).await;
    let made: NewKey = made.json(201);
    let revoke = format!("/api/keys/{}", made.view.id);
    let schedule = json!({"type": "WriteNote", "request": {"text": "secret"}, "cron": "@daily"});
    let bulk = json!({"action": "redrive", "filter": {"failure_text": "secret"}, "note": "secret"});
    let started = ask(
        &site,
        &admin,
        "POST",
        "/api/bulk-operations",
        &bulk.to_string(),
    )
    .await;
    let started: BulkView = started.json(202);
    // At once: an operation without tasks ends by itself in the next look, and is not paused then.
    for change in ["pause", "resume", "stop"] {
        let path = format!("/api/bulk-operations/{}/{change}", started.id);
        ask(&site, &admin, "POST", &path, "")
            .await
            .assert_status(200);
    }
    let poisoned = kept_poison(&site).await;
    let ports = &site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
    breaker.report(Ticket::default(), Verdict::Failed).await;
    let note = json!({"note": "why so", "actor": "ada"});
    let limit = json!({"at_once": 1, "note": "why so", "actor": "ada"});
    let view = json!({"q": "text:secret since:1h"});
    let machine = registered(&site).await;
    for (method, path, body, status) in [
        ("DELETE", &*revoke, &Value::Null, 200),
        ("PUT", "/api/schedules/weekly", &schedule, 201),
        ("POST", "/api/schedules/weekly/pause", &Value::Null, 200),
        ("POST", "/api/schedules/weekly/resume", &Value::Null, 200),
        ("DELETE", "/api/schedules/weekly", &Value::Null, 204),
        ("PUT", "/api/views/late", &view, 200),
        ("DELETE", "/api/views/late", &Value::Null, 204),
        ("POST", "/api/task-types/strict/disable", &note, 200),
        ("POST", "/api/task-types/strict/enable", &note, 200),
        ("POST", "/api/queues/notes/pause", &note, 200),
        ("POST", "/api/queues/notes/resume", &note, 200),
        (
            "POST",
            &*format!("/api/workers/{machine}/pause"),
            &note,
            200,
        ),
        (
            "POST",
            &*format!("/api/workers/{machine}/resume"),
            &note,
            200,
        ),
        ("POST", "/api/breakers/line/close", &note, 200),
        ("PUT", "/api/limits/bank", &limit, 200),
        ("POST", "/api/limits/bank/reset", &note, 200),
        ("DELETE", &poisoned, &Value::Null, 204),
    ] {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        ask(&site, &admin, method, path, &body)
            .await
            .assert_status(status);
    }
    let store = &site.engine.ports.store;
    delete_documents(store, &Tenant::default(), "operator:default-admin")
        .await
        .expect("they are deleted");
    declare_schedule(&site).await;

    let entries = entries(&site).await;
    let mut seen = BTreeSet::new();
    for entry in &entries {
        let says = entry.says().expect("it can be read");
        let (by, tenant) = match says.event.as_str() {
            // The first key, which no caller could have made.
            "key_made" if entry.no == 1 => ("test", "default"),
            event if event.starts_with("schedule_") && event != "schedule_declared" => {
                ("client:default-admin", "default")
            }
            "schedule_declared" => ("reconciler", "default"),
            _ => ("operator:default-admin", "default"),
        };
        assert!(entry.actor.starts_with(by), "{entry:?}");
        assert_eq!(says.tenant.0, tenant, "{entry:?}");
        let is_noted = ["type_", "queue_", "workers_", "limit_", "breaker_"]
            .iter()
            .any(|it| says.event.starts_with(it));
        let text = says.details.to_string();
        assert_eq!(is_noted, text.contains("why so"), "{entry:?}");
        assert_eq!(is_noted, text.contains("ada"), "{entry:?}");
        assert!(!entry.entries.contains("secret"), "{entry:?}");
        seen.insert(says.event);
    }
    let numbers: Vec<_> = entries.iter().map(|entry| entry.no).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    let expected: BTreeSet<_> = ADMIN_EVENTS
        .iter()
        .map(|event| (*event).to_owned())
        .collect();
    assert_eq!(seen, expected);

    let mut found = Vec::new();
    let verified = verify(store, &Scope::default(), &mut |finding| found.push(finding)).await;
    let verified = verified.expect("the store answers");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(verified.changes, entries.len() as u64);
}
