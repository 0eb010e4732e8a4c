//! Webhooks: what is refused, what a receiver gets, how often, and what is never connected to.

use crate::site::{Site, eventually};
use counterstep_adapters::http::ReqwestWebhooks;
use counterstep_api::ApiSettings;
use counterstep_contracts::http::{Accepted, BatchAnswer, BatchOutcome, Page};
use counterstep_contracts::webhook::{
    DeliveryStatus, DeliveryView, WebhookBody, WebhookSecretsView,
};
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::EngineSettings;
use counterstep_kernel::webhooks::{AllowedNets, WebhookSecrets, Webhooks};
use counterstep_steps::times::read_rfc3339;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SECRETS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOTE: &str = r#"{"text":"hello"}"#;

pub(crate) fn secrets() -> WebhookSecrets {
    WebhookSecrets::parse(SECRETS).expect("a secret")
}

/// Lets webhooks go to these networks beside the public ones.
pub(crate) fn sending(
    allow: &[&str],
) -> impl FnOnce(&mut ApiSettings, &mut EngineSettings) + use<> {
    let allowed = AllowedNets::parse(allow.iter().copied()).expect("networks");
    move |api, engine| {
        counterstep_adapters::tls::install_provider();
        engine.webhook_allow = allowed.clone();
        api.webhooks = Some(Webhooks {
            alerts: None,
            sender: Arc::new(ReqwestWebhooks::open(allowed).expect("a client")),
            secrets: secrets(),
        });
    }
}

/// A request that a receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Checks the signature as a receiver does, with what the API shows, and reads the body.
    pub(crate) fn verified<T: DeserializeOwned>(&self, tenant: &Tenant) -> T {
        let sent_at = self.header("webhook-timestamp").parse().expect("seconds");
        let expected = secrets().sign(tenant, self.header("webhook-id"), sent_at, &self.body);
        assert_eq!(self.header("webhook-signature"), expected);
        serde_json::from_slice(&self.body).expect("a body")
    }
}

/// A receiver on loopback, which answers with these statuses, and then 200.
pub(crate) struct Receiver {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    pub(crate) fn start(answers: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let seen = got.clone();
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            loop {
                let Ok((mut socket, _)) = listener.accept().await else {
                    return;
                };
                let mut bytes = Vec::new();
                let end = loop {
                    if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
                        break end;
                    }
                    if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                        break 0;
                    }
                };
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let headers: BTreeMap<_, _> = head
                    .split("\r\n")
                    .filter_map(|line| line.split_once(": "))
                    .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                    .collect();
                let length = headers.get("content-length").and_then(|it| it.parse().ok());
                let whole = end + 4 + length.unwrap_or(0_usize);
                while bytes.len() < whole {
                    if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
                lock(&seen).push(Got { headers, body });
                let answer = answers
                    .next()
                    .unwrap_or("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, got }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?from=test", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        lock(&self.got).clone()
    }
}

fn lock(got: &Mutex<Vec<Got>>) -> MutexGuard<'_, Vec<Got>> {
    got.lock()
}

async fn submit(site: &Site, url: &str) -> TaskId {
    let request = site
        .request("POST", "/api/tasks/write-note")
        .header("counterstep-webhook", url)
        .header("content-type", "application/json")
        .body(NOTE);
    site.send(request).await.json::<Accepted>(202).task_id
}

async fn listed(site: &Site, task: TaskId) -> Vec<DeliveryView> {
    let page: Page<DeliveryView> = site
        .get(&format!("/api/tasks/{task}/webhooks"))
        .await
        .json(200);
    page.items
}

/// Whether the outcome of its last attempt is there: while it is sent, it is claimed for a minute, which is none of
/// the pauses between attempts. Time that a test moves before that would count as the time that sending takes.
fn is_noted(one: &DeliveryView) -> bool {
    let time = |text: &str| read_rfc3339(text).expect("a time");
    let claimed = |due: &String| {
        let ahead = time(due) - time(&one.updated_at);
        (58_000_000..=61_000_000).contains(&ahead)
    };
    one.last.is_some() && !one.due_at.as_ref().is_some_and(claimed)
}

/// The only webhook of a task, once it has this status after `attempts` attempts.
async fn until(site: &Site, task: TaskId, status: DeliveryStatus, attempts: u32) -> DeliveryView {
    let what = format!("a webhook that is {status:?} after {attempts} attempts");
    eventually(&what, || async {
        let found = listed(site, task).await;
        match &found[..] {
            [one] if one.status == status && one.attempts == attempts && is_noted(one) => {
                Ok(one.clone())
            }
            _ => Err(format!("{found:?}")),
        }
    })
    .await
}

const FAILS: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_five_times_gets_one_verified_webhook() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    let receiver = Receiver::start(vec![FAILS; 5]);
    let task = submit(&site, &receiver.url()).await;
    assert_eq!(listed(&site, task).await, [], "it is not at rest");
    site.run_worker();
    site.until(task, TaskStatus::Completed).await;
    for attempt in 1..=5 {
        let pending = until(&site, task, DeliveryStatus::Pending, attempt).await;
        assert_eq!(pending.last.as_deref(), Some("503"));
        // Not before it is due: time is moved by the test.
        assert_eq!(receiver.got().len(), attempt as usize);
        site.clock.advance_by(Duration::from_secs(1800));
    }
    let done = until(&site, task, DeliveryStatus::Delivered, 6).await;
    assert_eq!((done.last.as_deref(), done.due_at), (Some("200"), None));
    let got = receiver.got();
    assert_eq!(got.len(), 6);
    let ids: std::collections::BTreeSet<_> = got.iter().map(|it| it.header("webhook-id")).collect();
    assert_eq!(ids, [done.id.as_str()].into(), "all attempts have one id");
    for one in &got {
        let body = one.verified::<WebhookBody>(&Tenant::default());
        assert_eq!(body.event, "task.completed");
        assert_eq!(
            (body.data.task_id, body.data.status),
            (task, TaskStatus::Completed)
        );
        assert!(!String::from_utf8_lossy(&one.body).contains("hello"));
        assert_eq!(one.header("content-type"), "application/json");
    }
    // It stays listed for a week, and is sent no more.
    site.clock.advance_by(Duration::from_secs(6 * 86_400));
    assert_eq!(listed(&site, task).await.len(), 1);
    let again: DeliveryView = site
        .post(&format!("/api/tasks/{task}/webhooks/{}/send", done.id), "")
        .await
        .json(202);
    assert_eq!((again.status, again.attempts), (DeliveryStatus::Pending, 0));
    until(&site, task, DeliveryStatus::Delivered, 1).await;
    assert_eq!(receiver.got().len(), 7);
    site.clock.advance_by(Duration::from_secs(8 * 86_400));
    eventually("the list is empty", || async {
        let left = listed(&site, task).await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rest_is_a_webhook_of_its_own_and_a_child_of_none() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    site.run_worker();
    let receiver = Receiver::start(Vec::new());
    let request = site
        .request("POST", "/api/tasks/asks-a-person")
        .header("counterstep-webhook", receiver.url())
        .header("counterstep-label", "order=4711")
        .header("content-type", "application/json")
        .body(NOTE);
    let task = site.send(request).await.json::<Accepted>(202).task_id;
    site.until(task, TaskStatus::DeadLettered).await;
    let settled = site
        .post(
            &format!("/api/tasks/{task}/resolve"),
            r#"{"as":"done","note":"seen to"}"#,
        )
        .await;
    settled.assert_status(200);
    let both = eventually("two webhooks", || async {
        let found = listed(&site, task).await;
        let is_done = |it: &DeliveryView| it.status == DeliveryStatus::Delivered;
        match &found[..] {
            [first, second] if is_done(first) && is_done(second) => Ok(found.clone()),
            _ => Err(format!("{found:?}")),
        }
    })
    .await;
    let events: Vec<_> = both.iter().map(|it| it.event.as_str()).collect();
    assert_eq!(events, ["task.dead_lettered", "task.resolved"]);
    let bodies = receiver
        .got()
        .into_iter()
        .map(|it| it.verified::<WebhookBody>(&Tenant::default()));
    for body in bodies {
        assert_eq!(body.data.labels.get("order"), Some("4711"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_public_are_422_and_leave_nothing() {
    let site = Site::with(sending(&[])).await;
    // All of these would reach it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let six = TcpListener::bind(("::1", port)).expect("the same port");
    six.set_nonblocking(true).expect("a socket");
    for host in [
        "http://example.com",
        "https://127.0.0.1",
        "https://2130706433",
        "https://0x7f.1",
        "https://0177.0.0.1",
        "https://127.1",
        "https://0",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://169.254.169.254",
        "https://10.0.0.1",
        "https://10.255.255.255",
        "https://172.16.0.1",
        "https://172.31.255.255",
        "https://192.168.0.1",
        "https://192.168.255.255",
        "https://100.64.0.1",
        "https://100.127.255.255",
        "https://224.0.0.1",
        "https://255.255.255.255",
        "https://[::]",
        "https://[fd00::1]",
        "https://[fe80::1]",
        "https://[ff02::1]",
        "https://[::ffff:10.0.0.1]",
        "https://[64:ff9b::7f00:1]",
        "https://[2002:7f00:1::]",
        "https://①②⑦.⓪.⓪.①",
        "https://%E2%91%A0%E2%91%A1%E2%91%A6.%E2%93%AA.%E2%93%AA.%E2%91%A0",
        "https://①②⑦。⓪。⓪。①",
        "https://１２７.０.０.１",
        "https://localhost",
        "https://LOCALHOST",
        "https://localhost.",
        "https://user@example.com",
        "file:///etc",
        "gopher://example.com",
        "",
    ] {
        let url = format!("{host}:{port}/hook");
        for text in [url.as_str(), host] {
            let request = site
                .request("POST", "/api/tasks/write-note")
                .header("counterstep-webhook", text.as_bytes())
                .header("content-type", "application/json")
                .body(NOTE);
            let problem = site.send(request).await.problem(422, "invalid-webhook");
            assert_eq!(problem["pointer"], "Counterstep-Webhook", "{text}");
        }
        let batch = serde_json::json!([{"webhook": url, "request": {"text": "x"}}]);
        let reply = site
            .post("/api/tasks/write-note/batch", batch.to_string())
            .await;
        let [outcome] = &reply.json::<BatchAnswer>(200).items[..] else {
            panic!("one outcome");
        };
        assert!(
            matches!(outcome, BatchOutcome::Refused { .. }),
            "{outcome:?}"
        );
    }
    let twice = site
        .request("POST", "/api/tasks/write-note")
        .header("counterstep-webhook", "https://example.com/a")
        .header("counterstep-webhook", "https://example.com/b")
        .header("content-type", "application/json")
        .body(NOTE);
    site.send(twice).await.problem(422, "invalid-webhook");
    assert_eq!(site.tasks().await, 0);
    assert!(listener.accept().is_err(), "nothing was connected to");
    assert!(six.accept().is_err(), "nothing was connected to");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_a_private_address_is_not_connected_to() {
    // http is allowed to a network in which there is no receiver: so names may come without TLS.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let site = Site::with(sending(&["192.0.2.0/24", &format!(":{port}")])).await;
    site.run_worker();
    for scheme in ["http", "https"] {
        let task = submit(&site, &format!("{scheme}://localhost:{port}/hook")).await;
        let refused = until(&site, task, DeliveryStatus::Pending, 1).await;
        let why = refused.last.expect("a reason");
        assert!(why.contains("no address that webhooks may go to"), "{why}");
    }
    assert!(listener.accept().is_err(), "nothing was connected to");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed_and_410_ends_it() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    site.run_worker();
    let other = Receiver::start(Vec::new());
    let to = format!(
        "HTTP/1.1 307 Elsewhere\r\nlocation: http://{}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        other.address
    );
    let gone = "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let receiver = Receiver::start(vec![to.leak(), gone]);
    let task = submit(&site, &receiver.url()).await;
    let moved = until(&site, task, DeliveryStatus::Pending, 1).await;
    assert_eq!(moved.last.as_deref(), Some("307"));
    site.clock.advance_by(Duration::from_secs(60));
    until(&site, task, DeliveryStatus::Failed, 2).await;
    assert!(other.got().is_empty());
    // Of a long answer that breaks off the status counts.
    let long = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n{}",
        "x".repeat(200_000)
    );
    let receiver = Receiver::start(vec![long.leak()]);
    let task = submit(&site, &receiver.url()).await;
    until(&site, task, DeliveryStatus::Delivered, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_never_arrives_is_given_up() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    site.run_worker();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let task = submit(&site, &format!("http://{address}/")).await;
    for attempt in 1..=9 {
        until(&site, task, DeliveryStatus::Pending, attempt).await;
        site.clock.advance_by(Duration::from_secs(5 * 3600));
    }
    let failed = until(&site, task, DeliveryStatus::Failed, 10).await;
    assert!(
        !failed.last.expect("a reason").contains("127.0.0.1"),
        "no address in it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_secret_a_webhook_is_refused_and_each_tenant_sees_its_own() {
    let site = Site::start().await;
    let request = site
        .request("POST", "/api/tasks/write-note")
        .header("counterstep-webhook", "https://example.com/")
        .header("content-type", "application/json")
        .body(NOTE);
    site.send(request).await.problem(422, "webhooks-off");
    site.get("/api/webhook-secrets")
        .await
        .problem(422, "webhooks-off");
    let site = Site::with(sending(&[])).await;
    let shown: WebhookSecretsView = site.get("/api/webhook-secrets").await.json(200);
    assert_eq!(shown.secrets, secrets().expose(&Tenant::default()));
    assert_ne!(shown.secrets, [SECRETS]);
    let task = site.submit("/api/tasks/write-note").await;
    for id in ["x", &format!("{task}_1"), &format!("{task}_"), "%00"] {
        site.post(&format!("/api/tasks/{task}/webhooks/{id}/send"), "")
            .await
            .problem(404, "no-such-webhook");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_a_webhook_for_each_request_also_where_it_completes_at_once() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    let receiver = Receiver::start(Vec::new());
    site.run_worker();
    let one =
        |n: u32| serde_json::json!({"webhook": receiver.url(), "request": {"text": n.to_string()}});
    let batch = serde_json::Value::from((0..3).map(one).collect::<Vec<_>>());
    let reply = site
        .post("/api/tasks/write-note/batch", batch.to_string())
        .await;
    for outcome in reply.json::<BatchAnswer>(200).items {
        let BatchOutcome::Accepted(accepted) = outcome else {
            panic!("{outcome:?}");
        };
        until(&site, accepted.task_id, DeliveryStatus::Delivered, 1).await;
    }
    // These complete with their submission, each in a change of its own; the one without a webhook does
    // not.
    let batch = serde_json::json!([
        {"webhook": receiver.url(), "request": [1, 2], "key": "same"},
        {"request": [3]},
        {"webhook": receiver.url(), "request": [1, 2], "key": "same"},
    ]);
    let reply = site
        .post("/api/tasks/add-up/batch", batch.to_string())
        .await;
    let items = reply.json::<BatchAnswer>(200).items;
    let [
        BatchOutcome::Accepted(first),
        BatchOutcome::Accepted(_),
        BatchOutcome::Replayed(third),
    ] = &items[..]
    else {
        panic!("{items:?}");
    };
    assert_eq!(first.task_id, third.task_id);
    until(&site, first.task_id, DeliveryStatus::Delivered, 1).await;
    let file = "--XX\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a\"\r\n\r\nx\r\n--XX--\r\n";
    let request = site
        .request("POST", "/api/tasks/keep-files")
        .header("counterstep-webhook", receiver.url())
        .header("content-type", "multipart/form-data; boundary=XX")
        .body(file);
    let accepted: Accepted = site.send(request).await.json(202);
    until(&site, accepted.task_id, DeliveryStatus::Delivered, 1).await;
    assert_eq!(receiver.got().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_holds_up_no_other() {
    let site = Site::with(sending(&["127.0.0.0/8"])).await;
    site.run_worker();
    // It takes connections and says nothing; another address of this machine is another host.
    let silent = TcpListener::bind("127.0.0.2:0").expect("a port");
    let slow = format!("http://{}/", silent.local_addr().expect("an address"));
    for _ in 0..80 {
        submit(&site, &slow).await;
    }
    let receiver = Receiver::start(Vec::new());
    let task = submit(&site, &receiver.url()).await;
    let before = std::time::Instant::now();
    until(&site, task, DeliveryStatus::Delivered, 1).await;
    // Behind twenty rounds of ten seconds it would come much later.
    assert!(before.elapsed() < Duration::from_secs(60));
}
