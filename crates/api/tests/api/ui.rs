//! The operator's page over HTTP, without a browser: who sees what, which forms are taken, and that nothing
//! of a page can be used from elsewhere. What it looks like and does is for the browser's tests.

use crate::reply::Reply;
use crate::site::Site;
use crate::workers::{WORKER, registered};
use counterstep_api::AuthSettings;
use counterstep_contracts::access::{CallerView, Role};
use counterstep_contracts::http::Page;
use counterstep_contracts::http::{AuditTrail, ChainView, Payloads, TaskView};
use counterstep_contracts::workers::{BreakerView, HistoryView};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::access::api_keys::{self, KeySpec};
use serde_json::Value;
use std::time::Duration;

async fn locked() -> Site {
    Site::with(|api, _| {
        api.auth = AuthSettings::Keys;
        api.event_heartbeat = Duration::from_millis(50);
        api.event_poll = Duration::from_millis(20);
    })
    .await
}

async fn key(site: &Site, tenant: &str, role: Role) -> String {
    let spec = KeySpec {
        tenant: Tenant(tenant.to_owned()),
        subject: format!("{tenant}-{role}"),
        role,
        expires_in: None,
    };
    let ports = &site.engine.ports;
    let made = api_keys::make(&ports.store, ports.random.as_ref(), spec, "test").await;
    made.expect("a key").0.expose()
}

/// A browser without scripts: its cookies, and the token of its last page.
#[derive(Default)]
struct Browser {
    cookies: Vec<(String, String)>,
    token: String,
}

impl Browser {
    async fn signed_in(site: &Site, key: &str) -> Self {
        let mut browser = Self::default();
        browser.get(site, "/ui/sign-in").await.assert_status(200);
        let fields = [("credential", key), ("next", "/tasks")];
        let answer = browser.post(site, "/ui/sign-in", &fields).await;
        answer.assert_status(303);
        assert_eq!(answer.header("location"), Some("/ui/tasks"));
        browser
    }

    fn cookie(&self) -> String {
        let pairs = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("; ")
    }

    fn keep(&mut self, answer: &Reply) {
        if let Some(set) = answer.header("set-cookie") {
            let (name, rest) = set.split_once('=').expect("a cookie");
            let (value, attributes) = rest.split_once(';').expect("attributes");
            for needed in ["Path=/ui", "HttpOnly", "SameSite=Strict"] {
                assert!(attributes.contains(needed), "{set}");
            }
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        if let Some((_, rest)) = text(answer).split_once("name=\"form_token\" value=\"") {
            rest.split('"')
                .next()
                .unwrap_or_default()
                .clone_into(&mut self.token);
        }
    }

    async fn get(&mut self, site: &Site, path: &str) -> Reply {
        let request = site.request("GET", path).header("cookie", self.cookie());
        let answer = site.send_unfollowed(request).await;
        self.keep(&answer);
        answer
    }

    async fn post(&mut self, site: &Site, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut all = vec![("form_token", self.token.clone())];
        all.extend(
            fields
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let body = serde_urlencoded::to_string(all);
        let request = site.request("POST", path).header("cookie", self.cookie());
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        let answer = site.send_unfollowed(request).await;
        self.keep(&answer);
        answer
    }
}

/// Forms as browsers write them; all that is sent here are words.
mod serde_urlencoded {
    pub(super) fn to_string(fields: Vec<(&str, String)>) -> String {
        let encoded = |text: &str| {
            let sign = |byte: u8| match byte {
                b' ' => "+".to_owned(),
                byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => {
                    char::from(byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            };
            text.bytes().map(sign).collect::<String>()
        };
        let pairs = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

fn text(answer: &Reply) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_signed_in_is_led_there_and_back() {
    let site = locked().await;
    let admin = key(&site, "acme", Role::Admin).await;
    let mut browser = Browser::default();
    let answer = browser.get(&site, "/ui/tasks?type=write-note").await;
    answer.assert_status(303);
    let to = answer.header("location").unwrap().to_owned();
    assert_eq!(to, "/ui/sign-in?next=%2Ftasks%3Ftype%3Dwrite-note");
    browser.get(&site, &to).await.assert_status(200);
    let wrong = browser
        .post(&site, "/ui/sign-in", &[("credential", "cs_x_y")])
        .await;
    wrong.assert_status(401);
    assert!(text(&wrong).contains("does not accept this key"));
    let fields = [
        ("credential", admin.as_str()),
        ("next", "/tasks?type=write-note"),
    ];
    let right = browser.post(&site, "/ui/sign-in", &fields).await;
    assert_eq!(right.header("location"), Some("/ui/tasks?type=write-note"));
    let page = browser.get(&site, "/ui/tasks").await;
    page.assert_status(200);
    assert!(text(&page).contains("acme-admin"), "{}", text(&page));
    assert!(!text(&page).contains(&admin), "no page holds the key");
    let out = browser.post(&site, "/ui/sign-out", &[]).await;
    assert_eq!(out.header("location"), Some("/ui/sign-in"));
    browser.get(&site, "/ui/tasks").await.assert_status(303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_the_token_of_its_browser_changes_nothing() {
    let site = locked().await;
    let admin = key(&site, "acme", Role::Admin).await;
    let mut browser = Browser::signed_in(&site, &admin).await;
    let mut other = Browser::signed_in(&site, &admin).await;
    other.get(&site, "/ui/tasks").await.assert_status(200);
    browser
        .get(&site, "/ui/submit/write-note")
        .await
        .assert_status(200);
    let fields = [("request", r#"{"text":"hello"}"#)];
    for token in [String::new(), "x".to_owned(), other.token.clone()] {
        let own = std::mem::replace(&mut browser.token, token);
        let answer = browser.post(&site, "/ui/submit/write-note", &fields).await;
        answer.assert_status(403);
        browser.token = own;
    }
    assert_eq!(site.tasks().await, 0);
    browser
        .get(&site, "/ui/submit/write-note")
        .await
        .assert_status(200);
    browser
        .post(&site, "/ui/submit/write-note", &fields)
        .await
        .assert_status(303);
    assert_eq!(site.tasks().await, 1);
    // The browser says so itself where the page is another site's.
    let foreign = site
        .request("POST", "/ui/sign-out")
        .header("sec-fetch-site", "cross-site")
        .header("cookie", browser.cookie());
    site.send_unfollowed(foreign)
        .await
        .problem(403, "cross-site");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_load_nothing_from_elsewhere_and_run_nothing_that_stands_in_them() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    registered(&site).await;
    for path in [
        "/ui",
        "/ui/tasks",
        "/ui/parked",
        "/ui/effects",
        "/ui/types",
        "/ui/schedules",
        "/ui/queues",
        "/ui/limits",
        "/ui/workers",
        &format!("/ui/workers/{WORKER}"),
        &format!("/ui/tasks/{task}"),
    ] {
        let answer = site.get(path).await;
        answer.assert_status(200);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let html = text(&answer);
        for refused in [
            "<style",
            " style=",
            " onclick",
            "javascript:",
            "http://",
            "https://",
        ] {
            let at = html
                .find(refused)
                .map(|at| &html[at..html.len().min(at + 80)]);
            // A namespace is no address that is loaded.
            assert!(
                at.is_none_or(|it| it.starts_with("http://127.0.0.1")),
                "{path}: {at:?}"
            );
        }
        for part in html.split("<script").skip(1) {
            assert!(part.starts_with(" src=\"/ui/assets/"), "{path}: {part:.80}");
        }
    }
    let html = text(&site.get("/ui").await);
    let asset = html
        .split("href=\"")
        .find(|it| it.contains(".css"))
        .unwrap();
    let asset = site.get(asset.split('"').next().unwrap()).await;
    asset.assert_status(200);
    assert_eq!(
        asset.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    site.get("/ui/assets/ui.css").await.assert_status(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_a_page_is_shown_and_never_obeyed() {
    let site = Site::start().await;
    let evil = r#"{"text":"</pre><script>alert(1)</script>\" onload=x"}"#;
    let accepted = site.post("/api/tasks/write-note", evil).await;
    let task = accepted.json::<Value>(202)["task_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let html = text(&site.get(&format!("/ui/tasks/{task}")).await);
    assert!(!html.contains("<script>"), "{html}");
    let query = text(
        &site
            .get("/ui/tasks?label=%3Cscript%3E&text=%22%3E%3Cimg&since=24h")
            .await,
    );
    assert!(
        !query.contains("<script>") && !query.contains("<img"),
        "{query}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_no_button_and_is_refused_behind_each() {
    let site = locked().await;
    let (reader, admin) = (
        key(&site, "acme", Role::Read).await,
        key(&site, "acme", Role::Admin).await,
    );
    let mut boss = Browser::signed_in(&site, &admin).await;
    boss.get(&site, "/ui/submit/write-note")
        .await
        .assert_status(200);
    let submitted = boss
        .post(
            &site,
            "/ui/submit/write-note",
            &[("request", r#"{"text":"hello"}"#)],
        )
        .await;
    let place = submitted
        .header("location")
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let mut browser = Browser::signed_in(&site, &reader).await;
    let page = browser.get(&site, &place).await;
    page.assert_status(200);
    assert!(
        !text(&page).contains("What would happen if I"),
        "{}",
        text(&page)
    );
    assert!(text(&boss.get(&site, &place).await).contains("What would happen if I"));
    for path in [
        format!("{place}/decide/cancel"),
        "/ui/submit/write-note".to_owned(),
        "/ui/queues".to_owned(),
        "/ui/workers".to_owned(),
        format!("/ui/workers/{WORKER}"),
    ] {
        let refused = browser.get(&site, &path).await;
        assert_eq!(refused.status, 403, "{path}");
        assert!(text(&refused).contains("<h1>"), "a page says so");
    }
    browser.get(&site, "/ui/tasks").await.assert_status(200);
    browser
        .post(&site, &format!("{place}/decide/cancel"), &[])
        .await
        .assert_status(403);
    // Another tenant's task is none.
    let other = key(&site, "other", Role::Admin).await;
    let mut other = Browser::signed_in(&site, &other).await;
    assert_eq!(other.get(&site, &place).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_of_the_page_stands_in_the_audit_with_its_caller() {
    let site = locked().await;
    let admin = key(&site, "acme", Role::Admin).await;
    let mut browser = Browser::signed_in(&site, &admin).await;
    browser
        .get(&site, "/ui/submit/write-note")
        .await
        .assert_status(200);
    let submitted = browser
        .post(
            &site,
            "/ui/submit/write-note",
            &[("request", r#"{"text":"hello"}"#)],
        )
        .await;
    let place = submitted
        .header("location")
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let preview = browser.get(&site, &format!("{place}/decide/cancel")).await;
    preview.assert_status(200);
    let html = text(&preview);
    assert!(
        html.contains("counterstep tasks cancel") && html.contains("-X DELETE"),
        "{html}"
    );
    let cancelled = browser
        .post(&site, &format!("{place}/decide/cancel"), &[])
        .await;
    assert_eq!(
        cancelled.header("location"),
        Some(&*format!("{place}?did=cancelTask"))
    );
    let id = place.rsplit('/').next().unwrap();
    let request = site
        .request("GET", &format!("/api/tasks/{id}/audit"))
        .bearer_auth(&admin);
    let trail: AuditTrail = site.send(request).await.json(200);
    let entry = trail
        .entries
        .iter()
        .find(|it| it.event == "cancel_requested")
        .unwrap();
    assert_eq!(entry.actor, "client:acme-admin");
    // What the interface refuses the page says, and asks again.
    let again = browser.get(&site, &format!("{place}/decide/cancel")).await;
    assert_eq!(again.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_part_comes_at_once_and_ends_with_its_task() {
    let site = locked().await;
    let admin = key(&site, "acme", Role::Admin).await;
    let mut browser = Browser::signed_in(&site, &admin).await;
    browser
        .get(&site, "/ui/submit/write-note")
        .await
        .assert_status(200);
    let submitted = browser
        .post(
            &site,
            "/ui/submit/write-note",
            &[("request", r#"{"text":"hello"}"#)],
        )
        .await;
    let place = submitted
        .header("location")
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let live = place.replace("/ui/tasks/", "/ui/live/tasks/");
    let request = site
        .request("GET", &live)
        .header("cookie", browser.cookie());
    let reading = tokio::spawn(site.whole(request));
    site.run_worker();
    let (status, body) = reading.await.expect("the stream ends");
    assert_eq!(status, 200);
    assert!(
        body.starts_with("retry: 2000\n\nevent: part\ndata: <div id=\"task\">"),
        "{body:.200}"
    );
    assert!(body.trim_end().ends_with("event: end\ndata:"), "{body}");
    assert!(body.contains("completed"), "{body}");
    let without = site.request("GET", &live);
    site.send_unfollowed(without).await.assert_status(303);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_needs_is_in_the_interface() {
    let site = Site::start().await;
    let who: CallerView = site.get("/api/caller").await.json(200);
    assert_eq!(
        (who.tenant.as_str(), who.subject, who.role),
        ("default", None, Role::Admin)
    );
    let request = site
        .request("POST", "/api/tasks/write-note")
        .header("content-type", "application/json");
    let request = request.header(
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    );
    let accepted: Value = site
        .send(request.body(r#"{"text":"hello"}"#))
        .await
        .json(202);
    let task: TaskId = accepted["task_id"].as_str().unwrap().parse().unwrap();
    let view: TaskView = site.get(&format!("/api/tasks/{task}")).await.json(200);
    assert_eq!(
        view.trace_id.as_deref(),
        Some("0af7651916cd43dd8448eb211c80319c")
    );
    site.run_worker();
    site.until(task, counterstep_contracts::TaskStatus::Completed)
        .await;
    let payloads: Payloads = site
        .get(&format!("/api/tasks/{task}/payloads"))
        .await
        .json(200);
    assert_eq!(payloads.request["text"], "hello");
    assert!(!payloads.outputs.is_empty());
    let chain: ChainView = site
        .get(&format!("/api/tasks/{task}/audit/chain"))
        .await
        .json(200);
    assert!(
        chain.whole && chain.changes > 1 && chain.head.len() == 64,
        "{chain:?}"
    );
    let _: HistoryView = site.get("/api/history").await.json(200);
    let _: Page<BreakerView> = site.get("/api/breakers").await.json(200);
    let missing = TaskId(uuid::Uuid::nil());
    for what in ["payloads", "audit/chain"] {
        site.get(&format!("/api/tasks/{missing}/{what}"))
            .await
            .problem(404, "no-such-task");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_path_all_addresses_begin_with_it() {
    let site = Site::with(|api, _| api.path = "/work".to_owned()).await;
    let html = text(&site.get("/work/ui/tasks").await);
    assert!(html.contains("href=\"/work/ui/"), "{html}");
    for address in html
        .split("href=\"")
        .skip(1)
        .map(|it| it.split('"').next().unwrap())
    {
        assert!(
            address.starts_with("/work/ui/") || address.starts_with('#'),
            "{address}"
        );
    }
    let asset = html
        .split("src=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    site.get(asset).await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_a_page_where_nothing_is_and_a_client_a_problem() {
    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let site = Site::start().await;
    let of = async |path: &str, accept: &str| {
        let request = site.request("GET", path).header("accept", accept);
        site.send_unfollowed(request).await
    };
    let root = of("/", BROWSER).await;
    root.assert_status(303);
    assert_eq!(root.header("location"), Some("/ui"));
    let nothing = of("/ui/nonesuch", BROWSER).await;
    nothing.assert_status(404);
    assert_eq!(
        nothing.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(text(&nothing).contains("no page is at this address"));
    for accept in ["*/*", "application/json"] {
        for path in ["/", "/ui/nonesuch"] {
            of(path, accept).await.problem(404, "no-such-route");
        }
    }
    of("/api/nonesuch", BROWSER)
        .await
        .problem(404, "no-such-route");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_read_with_get_takes_head() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let of =
        async |method: &str, path: &str| site.send_unfollowed(site.request(method, path)).await;
    for path in [
        "/ui",
        "/ui/sign-in",
        "/ui/tasks",
        &format!("/ui/tasks/{task}"),
        &format!("/ui/tasks/{task}/decide/cancel"),
        "/ui/types/write-note",
        "/ui/queues/notes/pause",
    ] {
        let (got, head) = (of("GET", path).await, of("HEAD", path).await);
        assert_eq!(head.status, got.status, "{path}");
        assert_eq!(head.header("content-type"), got.header("content-type"));
        assert!(head.body.is_empty(), "{path}");
    }
    // A stream would not end.
    let live = of("HEAD", &format!("/ui/live/tasks/{task}")).await;
    assert_eq!(
        (live.status, live.header("content-type")),
        (200, Some("text/event-stream"))
    );
    assert_eq!(of("POST", "/ui/tasks").await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_type_has_both_names_and_no_deadline_where_none_is_declared() {
    let site = Site::start().await;
    for name in ["charge-card", "ChargeCard"] {
        let page = site.get(&format!("/ui/types/{name}")).await;
        page.assert_status(200);
        let page = text(&page);
        for (fact, value) in [("Deadline", "none"), ("Lease", "as the settings say")] {
            let shown = format!("<dt>{fact}</dt><dd>{value}</dd>");
            assert!(page.contains(&shown), "{shown}: {page}");
        }
        site.get(&format!("/ui/submit/{name}"))
            .await
            .assert_status(200);
    }
}
