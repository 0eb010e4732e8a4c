//! Alerts to operators over HTTP: one for each cause and hour, signed with the secret of the installation.

use crate::disabling::disable_by_failures;
use crate::site::{Site, eventually};
use crate::types::LINE;
use crate::webhooks::{Got, Receiver, secrets, sending};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::alert::{AlertBody, AlertEvent, AlertView};
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::Page;
use counterstep_contracts::webhook::{DeliveryStatus, WebhookSecretsView};
use counterstep_kernel::ports::PortsRuntime;
use counterstep_kernel::webhooks::WebhookUrl;
use counterstep_kernel::webhooks::alerts::{self, Incident, installation};
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use std::sync::Arc;

/// With a receiver of its alerts.
async fn alerting() -> (Site, Receiver) {
    let receiver = Receiver::start(Vec::new());
    let url = receiver.url();
    let site = Site::with(move |api, engine| {
        sending(&["127.0.0.1"])(api, engine);
        let url = WebhookUrl::parse(&url, &engine.webhook_allow).expect("an address");
        api.webhooks.as_mut().expect("webhooks").alerts = Some(url);
        engine.alerts = true;
    })
    .await;
    (site, receiver)
}

fn body(got: &Got) -> AlertBody {
    got.verified(&installation())
}

async fn received(receiver: &Receiver, count: usize) -> Vec<AlertBody> {
    let got = eventually("the alerts", || async {
        let got = receiver.got();
        if got.len() >= count {
            Ok(got)
        } else {
            Err(format!("{} of {count}", got.len()))
        }
    })
    .await;
    assert_eq!(got.len(), count);
    got.iter().map(body).collect()
}

async fn list(site: &Site) -> Vec<AlertView> {
    let page: Page<AlertView> = site.get("/api/alerts").await.json(200);
    page.items
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_alert_is_the_first_of_the_list_however_many_there_are() {
    let site = Site::with(|_, engine| engine.alerts = true).await;
    for breaker in 0..1_001 {
        let incident = Incident {
            event: AlertEvent::BreakerOpen,
            about: &format!("bank-{breaker}"),
            detail: "",
        };
        alerts::raise(&site.engine, incident).await;
    }
    site.clock.advance("1s");
    let sent = alerts::test(&site.engine, "kim").await.expect("written");
    let listed = list(&site).await;
    assert_eq!(listed.len(), 1_000);
    assert_eq!(listed[0].id, sent.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dead_letters_of_one_cause_are_one_alert_with_their_count() {
    let (site, receiver) = alerting().await;
    site.run_worker();
    let mut tasks = Vec::new();
    for _ in 0..25 {
        tasks.push(site.submit("/api/tasks/asks-a-person").await);
    }
    let other = site.submit("/api/tasks/cannot-undo").await;
    for task in &tasks {
        site.until(*task, TaskStatus::DeadLettered).await;
    }
    site.until(other, TaskStatus::CompensationFailed).await;
    assert_eq!(
        receiver.got().len(),
        0,
        "others of the cause are gathered first"
    );
    let pending = list(&site).await;
    assert!(
        pending
            .iter()
            .all(|it| it.status == DeliveryStatus::Pending)
    );
    site.clock.advance("11s");
    let mut alerts = received(&receiver, 2).await;
    alerts.sort_by(|one, two| one.event.cmp(&two.event));
    assert_eq!(alerts[0].event, "alert.compensation_failed");
    assert_eq!(alerts[0].data.count, Some(1));
    let dead = &alerts[1];
    assert_eq!(dead.event, "alert.dead_lettered");
    let groups: DeadLetterGroups = site.get("/api/dead-letters/groups").await.json(200);
    let group = &groups.groups[0];
    let data = &dead.data;
    assert_eq!(
        (data.count, data.group.as_ref()),
        (Some(25), Some(&group.id))
    );
    assert_eq!(data.text.as_ref(), Some(&group.text));
    assert_eq!(data.step.as_deref(), Some("judge"));
    assert_eq!(data.task_type.as_deref(), Some("AsksAPerson"));
    assert_eq!(data.tenant.as_ref().map(|it| &*it.0), Some("default"));
    assert!(data.example.is_some_and(|task| tasks.contains(&task)));

    // The same hour: no further one. Nothing of it is lost with the next.
    let late = site.submit("/api/tasks/asks-a-person").await;
    site.until(late, TaskStatus::DeadLettered).await;
    site.clock.advance("11s");
    eventually("both are delivered", || async {
        let found = list(&site).await;
        let delivered = found
            .iter()
            .filter(|it| it.status == DeliveryStatus::Delivered);
        if delivered.count() == 2 {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    assert_eq!(receiver.got().len(), 2);
    site.clock.advance("1h");
    let next = site.submit("/api/tasks/asks-a-person").await;
    site.until(next, TaskStatus::DeadLettered).await;
    site.clock.advance("11s");
    let alerts = received(&receiver, 3).await;
    assert_eq!(alerts[2].data.count, Some(27));

    let shown: WebhookSecretsView = site.get("/api/alert-secrets").await.json(200);
    assert_eq!(shown.secrets, secrets().expose(&installation()));
    let own: WebhookSecretsView = site.get("/api/webhook-secrets").await.json(200);
    assert_ne!(own.secrets, shown.secrets, "no tenant can sign alerts");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_and_other_incidents_are_one_alert_an_hour() {
    let (site, receiver) = alerting().await;
    let ports = &site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
    breaker.report(Ticket::default(), Verdict::Failed).await;
    site.run_worker();
    for _ in 0..3 {
        let task = site.submit("/api/tasks/call-out").await;
        site.until(task, TaskStatus::Waiting).await;
    }
    let alerts = received(&receiver, 1).await;
    assert_eq!(alerts[0].event, "alert.breaker_open");
    assert_eq!(alerts[0].data.about.as_deref(), Some("line"));
    let grows = Incident {
        event: AlertEvent::SpoolGrowing,
        about: "worker:1",
        detail: "7 results, 4096 bytes",
    };
    for _ in 0..2 {
        alerts::raise(&site.engine, grows).await;
    }
    let alerts = received(&receiver, 2).await;
    assert_eq!(alerts[1].event, "alert.spool_growing");
    assert_eq!(
        alerts[1].data.detail.as_deref(),
        Some("7 results, 4096 bytes")
    );
    disable_by_failures(&site, "strict").await;
    let alerts = received(&receiver, 3).await;
    let data = &alerts[2].data;
    assert_eq!(alerts[2].event, "alert.type_disabled");
    assert_eq!(data.task_type.as_deref(), Some("Strict"));
    assert!(data.detail.is_some(), "{data:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_alert_says_whether_alerts_arrive() {
    let (site, receiver) = alerting().await;
    let sent: AlertView = site.post("/api/alerts/test", "").await.json(202);
    assert_eq!(
        (sent.event, sent.status),
        (AlertEvent::Test, DeliveryStatus::Pending)
    );
    let alerts = received(&receiver, 1).await;
    assert_eq!(alerts[0].event, "alert.test");
    assert_eq!(receiver.got()[0].header("webhook-id"), sent.id);

    let silent = Site::with(sending(&["127.0.0.1"])).await;
    silent
        .post("/api/alerts/test", "")
        .await
        .problem(409, "alerts-off");
    silent.run_worker();
    let task = silent.submit("/api/tasks/asks-a-person").await;
    silent.until(task, TaskStatus::DeadLettered).await;
    assert_eq!(list(&silent).await, []);
    let none = Site::start().await;
    none.get("/api/alert-secrets")
        .await
        .problem(422, "webhooks-off");
}
