//! Webhooks that are due: which are sent in which turn, and what is given up or deleted.

use crate::errand::{Errand, only};
use async_trait::async_trait;
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::{
    Clock, Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut,
};
use counterstep_kernel::webhooks::alerts::installation;
use counterstep_kernel::webhooks::{
    AllowedNets, NoAnswer, WebhookSecrets, WebhookSender, WebhookUrl, Webhooks, serve,
};
use counterstep_steps::CancelToken;
use counterstep_steps::times::DbTime;
use counterstep_testkit::Harness;
use counterstep_testkit::many_tasks::{Site, eventually};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that was answered.
#[derive(Debug, Clone)]
struct Sent {
    url: String,
    at: i64,
    body: Value,
}

/// Hosts whose name begins with `silent` never answer, those with `hanging` not in time, and those with `failing` answer 503.
#[derive(Debug, Default)]
struct Sender(Mutex<Vec<Sent>>, AtomicUsize);

impl Sender {
    fn sent(&self) -> Vec<Sent> {
        self.0.lock().unwrap().clone()
    }

    /// How many hosts have been asked that never answer.
    fn hanging(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    fn has_sent(&self, url: &str) -> bool {
        self.sent().iter().any(|sent| sent.url == url)
    }
}

#[async_trait]
impl WebhookSender for Sender {
    async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<u16, NoAnswer> {
        if url.contains("//silent") {
            self.1.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        let at = headers
            .iter()
            .find(|(name, _)| *name == "webhook-timestamp");
        let at = at.expect("the time").1.parse().expect("seconds");
        let (url, body) = (url.to_owned(), serde_json::from_slice(&body).expect("JSON"));
        let is_failing = url.contains("//failing");
        let is_hanging = url.contains("//hanging");
        self.0.lock().unwrap().push(Sent { url, at, body });
        if is_hanging {
            return Err(NoAnswer::Hung(Duration::from_secs(10)));
        }
        Ok(if is_failing { 503 } else { 200 })
    }
}

const ALERTS: &str = "https://ops.example/";

/// A site that sends webhooks, and what it has sent.
async fn sending(documents: Vec<DocumentWrite>) -> (Site, Arc<Sender>) {
    let site = Harness::embedded(only::<Errand>()).start().await;
    let sender = serve_on(&site, documents).await;
    (site, sender)
}

async fn put(site: &Site, documents: Vec<DocumentWrite>) {
    let store = &site.engine.ports.store;
    let put = store.put(&documents).await.expect("an answer");
    assert!(matches!(put, DocumentsPut::Written(_)), "{put:?}");
}

async fn serve_on(site: &Site, documents: Vec<DocumentWrite>) -> Arc<Sender> {
    put(site, documents).await;
    let sender = Arc::<Sender>::default();
    let webhooks = Webhooks {
        sender: sender.clone(),
        secrets: WebhookSecrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret"),
        alerts: Some(WebhookUrl::parse(ALERTS, &AllowedNets::default()).expect("an address")),
    };
    // It ends with the runtime of the test.
    tokio::spawn(serve(site.engine.clone(), webhooks, CancelToken::new()));
    sender
}

/// A webhook of a tenant, due at this time, with more or other fields of its body.
fn webhook(tenant: &str, url: &str, due: i64, fields: Value) -> DocumentWrite {
    let mut body = json!({
        "url": url,
        "data": {
            "task_id": "01890a5d-ac96-774b-bcce-b302099a8057", "task_type": "Errand", "version": 1, "status": "completed",
        },
        "status": "pending", "attempts": 0, "at": null, "last": null,
    });
    let fields = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("fields").extend(fields);
    DocumentWrite {
        kind: DocumentKind::Webhook,
        tenant: Tenant(tenant.to_owned()),
        name: format!("{due}"),
        expected: None,
        change: DocumentChange::Put {
            body: body.to_string(),
            due_at: Some(DbTime(due)),
        },
    }
}

/// An alert about parked tasks of a cause.
fn alert(due: i64) -> DocumentWrite {
    let data = json!({ "alert": "dead_lettered", "task_type": "Errand", "counts": "cause" });
    webhook(&installation().0, "", due, json!({ "data": data }))
}

async fn of_tenant(site: &Site, tenant: &str) -> Vec<Document> {
    let query = DocumentQuery::Page {
        kind: DocumentKind::Webhook,
        tenant: Tenant(tenant.to_owned()),
        after: None,
        limit: 10_000,
    };
    let found = site.engine.ports.store.documents(&query).await;
    found.expect("they are read").rows
}

fn body(document: &Document) -> Value {
    serde_json::from_str(&document.body).expect("JSON")
}

#[tokio::test]
async fn those_of_a_receiver_that_never_answers_hide_none_behind_them() {
    let silent = |due| webhook("many", "https://silent/", due, json!({}));
    let mut documents: Vec<_> = (1..=5_100).map(silent).collect();
    documents.push(webhook("few", "https://other/", 6_000, json!({})));
    documents.push(alert(6_001));
    let (_site, sender) = sending(documents).await;
    eventually("both", || async {
        (sender.has_sent("https://other/") && sender.has_sent(ALERTS)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn many_receivers_of_one_tenant_that_never_answer_leave_room_for_another() {
    let silent = |due| {
        webhook(
            "many",
            &format!("https://silent{}/", due / 4),
            due,
            json!({}),
        )
    };
    let mut documents: Vec<_> = (1..=100).map(silent).collect();
    documents.push(webhook("few", "https://other/", 6_000, json!({})));
    let (_site, sender) = sending(documents).await;
    eventually("that of the other", || async {
        sender.has_sent("https://other/").then_some(())
    })
    .await;
}

/// 900 webhooks of this number of tenants, each to a host of its own that never answers.
fn silent(tenants: i64) -> Vec<DocumentWrite> {
    let one = |due| {
        let (tenant, url) = (
            format!("many{}", due % tenants),
            format!("https://silent{due}/"),
        );
        webhook(&tenant, &url, due, json!({}))
    };
    (1..=900).map(one).collect()
}

#[tokio::test]
async fn beside_900_that_hang_another_tenant_s_webhook_and_an_alert_are_sent() {
    let (site, sender) = sending(silent(3)).await;
    eventually("eight of each hang", || async {
        (sender.hanging() >= 24).then_some(())
    })
    .await;
    put(
        &site,
        vec![
            webhook("few", "https://other/", 6_000, json!({})),
            alert(6_001),
        ],
    )
    .await;
    eventually("both", || async {
        (sender.has_sent("https://other/") && sender.has_sent(ALERTS)).then_some(())
    })
    .await;
    assert_eq!(sender.hanging(), 24);
}

#[tokio::test]
async fn alerts_need_no_room_among_webhooks() {
    let (site, sender) = sending(silent(900)).await;
    eventually("all that may be sent hang", || async {
        (sender.hanging() >= 32).then_some(())
    })
    .await;
    put(&site, vec![alert(6_000)]).await;
    eventually("the alert", || async {
        sender.has_sent(ALERTS).then_some(())
    })
    .await;
    assert_eq!(sender.hanging(), 32);
}

#[tokio::test]
async fn those_of_a_host_that_hung_three_times_in_a_row_wait_and_use_up_no_attempt() {
    let hanging = |due| webhook("many", "https://hanging/", due, json!({}));
    let mut documents: Vec<_> = (1..=20).map(hanging).collect();
    // A person has sent the second one again.
    let old = json!({ "at": 1, "attempts": 0, "last": null });
    let again = json!({ "at": 1, "attempts": 0, "last": "503" });
    documents.push(webhook("many", "https://hanging/", 21, old));
    documents.push(webhook("many", "https://hanging/", 22, again));
    let (site, sender) = sending(documents).await;
    let (waiting, given_up) = eventually("those that were not tried wait", || async {
        let found = of_tenant(&site, "many").await;
        let untried = found.iter().filter(|it| body(it)["attempts"] == 0);
        let (waiting, given_up): (Vec<_>, Vec<_>) =
            untried.partition(|it| body(it)["status"] == "pending");
        let are_aside = waiting.iter().all(|it| it.due_at > Some(it.seen_at));
        are_aside.then_some((waiting.len(), given_up.len()))
    })
    .await;
    let sent = sender.sent().len();
    // Two are sent at a time.
    assert!((3..=4).contains(&sent), "{sent}");
    // The host hangs for seconds so far: none is given up untried, however old.
    assert_eq!((waiting, given_up), (22 - sent, 0));
    site.clock.advance("31s");
    // One at a time, and those that were tried have attempts left.
    eventually("the next", || async {
        (sender.sent().len() > sent).then_some(())
    })
    .await;
}

#[tokio::test]
async fn those_that_are_listed_no_more_need_no_room_to_be_deleted() {
    let silent = |due| webhook("many", "https://silent/", due, json!({}));
    let over = |due| {
        let delivered = json!({ "status": "delivered", "attempts": 1 });
        webhook("many", "https://silent/", due, delivered)
    };
    let documents = (1..=4).map(silent).chain((5..=204).map(over)).collect();
    let (site, _sender) = sending(documents).await;
    eventually("the others are deleted", || async {
        (of_tenant(&site, "many").await.len() == 4).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_that_still_fails_days_after_its_task_came_to_rest_is_given_up() {
    let site = Harness::embedded(only::<Errand>()).start().await;
    let query = DocumentQuery::Latest {
        kind: DocumentKind::Webhook,
        limit: 1,
    };
    let now = site
        .engine
        .ports
        .store
        .documents(&query)
        .await
        .expect("the time")
        .now;
    let rested = |hours: i64| json!({ "at": now.0 - hours * 3_600_000_000, "attempts": 1 });
    let documents = vec![
        webhook("old", "https://failing/", 1, rested(73)),
        webhook("new", "https://failing/", 2, rested(71)),
    ];
    serve_on(&site, documents).await;
    let stands = |tenant: &'static str| {
        let site = &site;
        eventually("its second attempt", move || async move {
            let found = body(&of_tenant(site, tenant).await[0]);
            (found["last"] == "503").then(|| found["status"].clone())
        })
    };
    assert_eq!(stands("old").await, "failed");
    assert_eq!(stands("new").await, "pending");
}

#[tokio::test]
async fn receivers_are_told_the_time_of_the_sender_and_not_that_of_the_database() {
    let site = Harness::embedded(only::<Errand>()).start().await;
    let file = site.folder().join("counterstep.db");
    let mut database =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database");
    let ahead = site.clock.unix_millis() + 3_600_000;
    database
        .batch_execute(&format!("UPDATE clock SET at = {ahead} * 1000"))
        .expect("it is an hour ahead");
    let sender = serve_on(&site, vec![webhook("a", "https://other/", 1, json!({}))]).await;
    let sent = eventually("it is sent", || async { sender.sent().pop() }).await;
    let now = i64::try_from(site.clock.unix_millis() / 1000).expect("seconds");
    let written = of_tenant(&site, "a").await[0].seen_at.0 / 1_000_000;
    assert!(written - now > 3_000, "{written} at {now}");
    assert!((sent.at - now).abs() < 300, "{} at {now}", sent.at);
}

#[tokio::test]
async fn an_alert_is_sent_where_its_tasks_cannot_be_counted() {
    let site = Harness::embedded(only::<Errand>()).start().await;
    // What a list reads is not there.
    let file = site.folder().join("counterstep.db");
    let mut database =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database");
    database
        .batch_execute("ALTER TABLE tasks RENAME COLUMN failure TO failed")
        .expect("it is renamed");
    let sender = serve_on(&site, vec![alert(1)]).await;
    let sent = eventually("it is sent", || async { sender.sent().pop() }).await;
    assert_eq!(sent.body["type"], "alert.dead_lettered");
    assert_eq!(sent.body["data"]["count"], Value::Null);
}
