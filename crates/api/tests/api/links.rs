//! Links to results: what one leads to, and that it leads to nothing else.

use crate::issuer::{KeyServer, SigningKey, claims};
use crate::reply::Reply;
use crate::site::{Site, file_head};
use counterstep_api::{ApiSettings, AuthSettings, TrustedPeers, all_routes};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::link::ResultLink;
use counterstep_kernel::access::result_links::LinkSecrets;
use serde_json::json;

fn secrets(bits: &[u128]) -> Option<LinkSecrets> {
    let lines = bits.iter().map(|it| LinkSecrets::line([*it, *it]));
    Some(LinkSecrets::parse(&lines.collect::<String>()).expect("secrets"))
}

async fn site(change: impl FnOnce(&mut ApiSettings)) -> Site {
    Site::with(|api, _| {
        api.links = secrets(&[1]);
        change(api);
    })
    .await
}

async fn ask(site: &Site, task: TaskId, name: &str, body: &str) -> Reply {
    site.post(&format!("/api/tasks/{task}/result/{name}/link"), body)
        .await
}

async fn link(site: &Site, task: TaskId, name: &str) -> ResultLink {
    ask(site, task, name, "{}").await.json(200)
}

/// The link with another value of a parameter.
fn with(url: &str, name: &str, value: &str) -> String {
    let (path, query) = url.split_once('?').expect("a query");
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((of, _)) if of == name => format!("{of}={value}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_streams_the_file_until_it_expires() {
    let site = site(|_| {}).await;
    let task = site.keep("a.html", "text/html", "<p>abc</p>").await;
    let made = ask(&site, task, "files/0", r#"{"valid_for": "2h"}"#).await;
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made: ResultLink = made.json(200);
    let prefix = format!("/api/links/{task}/files/0?tenant=default&expires=");
    assert!(made.url.starts_with(&prefix), "{}", made.url);
    assert!(made.expires_at.ends_with('Z'), "{}", made.expires_at);
    let file = site.get(&made.url).await;
    let direct = site.get(&format!("/api/tasks/{task}/result/files/0")).await;
    assert_eq!((file.status, &file.body), (200, &direct.body));
    for header in [
        "content-disposition",
        "content-security-policy",
        "content-type",
        "content-length",
        "accept-ranges",
        "etag",
        "x-content-type-options",
    ] {
        assert_eq!(file.header(header), direct.header(header), "{header}");
    }
    assert!(
        file.header("content-disposition")
            .expect("a header")
            .starts_with("attachment")
    );
    let headers = [
        ("referrer-policy", "no-referrer"),
        ("cache-control", "private"),
    ];
    let part = site.request("GET", &made.url).header("range", "bytes=3-5");
    let part = site.send(part).await;
    assert_eq!((part.status, &*part.body), (206, &b"abc"[..]));
    let etag = file.header("etag").expect("a header");
    let again = site.request("GET", &made.url).header("if-none-match", etag);
    let again = site.send(again).await;
    let head = site.send(site.request("HEAD", &made.url)).await;
    assert_eq!((again.status, head.status, head.body.len()), (304, 200, 0));
    assert_eq!(head.header("content-length"), Some("10"));
    for reply in [&file, &part, &again, &head] {
        for (header, value) in headers {
            assert_eq!(reply.header(header), Some(value), "{header}");
        }
    }
    site.clock.advance("119m");
    site.get(&made.url).await.assert_status(200);
    site.clock.advance("1m");
    site.get(&made.url).await.problem(404, "no-such-link");
    // Without a body, and without a time: an hour.
    let path = format!("/api/tasks/{task}/result/first/link");
    let usual: ResultLink = site.send(site.request("POST", &path)).await.json(200);
    site.clock.advance("59m");
    site.get(&usual.url).await.assert_status(200);
    site.clock.advance("1m");
    site.get(&usual.url).await.problem(404, "no-such-link");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_was_changed_is_answered_like_one_to_nothing() {
    let site = site(|_| {}).await;
    let task = site.keep("a.txt", "text/plain", "abc").await;
    let other = site.keep("b.txt", "text/plain", "def").await;
    let url = link(&site, task, "first").await.url;
    let of_other = link(&site, other, "first").await.url;
    let signature = |url: &str| {
        let (_, signature) = url.rsplit_once('=').expect("a signature");
        signature.to_owned()
    };
    let gone = TaskId(uuid::Uuid::from_u128(7));
    let to_nothing = site
        .get(&url.replace(&task.to_string(), &gone.to_string()))
        .await;
    to_nothing.problem(404, "no-such-link");
    for changed in [
        url.replace(&task.to_string(), &other.to_string()),
        url.replace("/first?", "/files/0?"),
        url.replace("/first?", "/nothing?"),
        with(&url, "expires", "99999999999"),
        with(&url, "expires", "18446744073709551616"),
        with(&url, "expires", "-1"),
        with(&url, "expires", ""),
        with(&url, "tenant", "acme"),
        with(&url, "tenant", ""),
        with(&url, "tenant", "a%0Ab"),
        with(&url, "signature", ""),
        with(&url, "signature", "v1."),
        with(&url, "signature", &signature(&of_other)),
        with(&url, "signature", &signature(&url).replace("v1.", "v2.")),
        with(&url, "signature", &"A".repeat(4096)),
        url.split_once('?').expect("a query").0.to_owned(),
        format!("{url}&signature={}", signature(&url)),
        format!("{url}&more=1"),
        url.replace(&task.to_string(), "x"),
    ] {
        let reply = site.get(&changed).await;
        reply.problem(404, "no-such-link");
        assert_eq!(reply.body, to_nothing.body, "{changed}");
    }
    site.get(&url).await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_a_tenant_is_no_credential_for_anything_else() {
    let (server, key) = (KeyServer::start(), SigningKey::ed25519("a"));
    server.serve(&[&key]);
    let tokens = server.settings();
    let site = site(|api| api.auth = AuthSettings::Jwt(tokens)).await;
    let token = |tenant: &str, role: &str| key.token(&claims(&site.clock, tenant, &[role]));
    let as_acme = token("acme", "submit");
    let form = file_head("filename=\"a.txt\"\r\nContent-Type: text/plain") + "abc\r\n--XX--\r\n";
    let submitted = site
        .request("POST", "/api/tasks/keep-files")
        .bearer_auth(&as_acme)
        .header("content-type", "multipart/form-data; boundary=XX")
        .body(form);
    let task = site.send(submitted).await.json::<Accepted>(202).task_id;
    let path = format!("/api/tasks/{task}/result/first/link");
    let make = |token: &str| site.request("POST", &path).bearer_auth(token);
    site.send(site.request("POST", &path))
        .await
        .problem(401, "unauthenticated");
    let umbra = token("umbra", "admin");
    site.send(make(&umbra)).await.problem(404, "no-such-task");
    let made: ResultLink = site.send(make(&token("acme", "read"))).await.json(200);
    let file = site.get(&made.url).await;
    assert_eq!((file.status, &*file.body), (200, &b"abc"[..]));
    // Another tenant's name, with the signature of this one.
    let moved = with(&made.url, "tenant", "umbra");
    site.get(&moved).await.problem(404, "no-such-link");
    // No other route looks at a signature.
    let (_, query) = made.url.split_once('?').expect("a query");
    for route in all_routes().filter(|route| route.role.is_some()) {
        let path = route.path.replace("{id}", &task.to_string());
        let path = path.replace("{name:.+}", "first").replace("{name}", "x");
        let reply = site
            .send(site.request(route.method, &format!("{path}?{query}")))
            .await;
        reply.problem(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_secret_signs_and_a_link_ends_with_the_secret_that_signed_it() {
    let old = site(|_| {}).await;
    let task = old.keep("a.txt", "text/plain", "abc").await;
    let by_old = link(&old, task, "first").await.url;
    let beside = |secrets: Option<LinkSecrets>| {
        let settings = ApiSettings {
            workers: 1,
            links: secrets,
            ..ApiSettings::default()
        };
        old.beside_as(old.engine.ports.clone(), settings)
    };
    let both = beside(secrets(&[2, 1]));
    both.get(&by_old).await.assert_status(200);
    let by_new = link(&both, task, "first").await.url;
    old.get(&by_new).await.problem(404, "no-such-link");
    let new = beside(secrets(&[2]));
    new.get(&by_new).await.assert_status(200);
    new.get(&by_old).await.problem(404, "no-such-link");
    let none = beside(None);
    none.get(&by_new).await.problem(404, "no-such-link");
    ask(&none, task, "first", "{}")
        .await
        .problem(422, "links-off");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_have_no_link_is_refused() {
    let site = site(|_| {}).await;
    let task = site.keep("a.txt", "text/plain", "abc").await;
    for (body, at) in [
        (json!({"valid_for": "0s"}), "valid_for"),
        (json!({"valid_for": "999ms"}), "valid_for"),
        (json!({"valid_for": "8d"}), "valid_for"),
        (json!({"valid_for": "soon"}), "valid_for"),
        (json!({"valid_for": 60}), "valid_for"),
        (json!({"until": "1h"}), "until"),
    ] {
        let refused = ask(&site, task, "first", &body.to_string()).await;
        let problem = refused.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], at, "{body}");
    }
    ask(&site, task, "first", r#"{"valid_for": "7d"}"#)
        .await
        .assert_status(200);
    ask(&site, task, "nothing", "{}")
        .await
        .problem(404, "no-such-result");
    let gone = TaskId(uuid::Uuid::from_u128(7));
    ask(&site, gone, "first", "{}")
        .await
        .problem(404, "no-such-task");
    let open = site.submit("/api/tasks/write-note").await;
    ask(&site, open, "first", "{}")
        .await
        .problem(409, "not-completed");
    let path = format!("/api/tasks/{task}/result/first/link");
    let text = site.request("POST", &path).body("1h");
    site.send(text).await.problem(415, "unsupported-media-type");
    let other = site.get(&path).await;
    other.problem(405, "method-not-allowed");
    assert_eq!(other.header("allow"), Some("POST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn links_have_the_path_of_the_interface_and_need_no_proxy_of_callers() {
    let below = site(|api| api.path = "/work".to_owned()).await;
    let headers = "filename=\"a.txt\"\r\nContent-Type: text/plain";
    let form = format!("{}abc\r\n--XX--\r\n", file_head(headers));
    let kept = below.form("/work/api/tasks/keep-files", form).await;
    let task = kept.json::<Accepted>(202).task_id;
    let made = format!("/work/api/tasks/{task}/result/first/link");
    let made: ResultLink = below.post(&made, "{}").await.json(200);
    assert!(made.url.starts_with("/work/api/links/"), "{}", made.url);
    below.get(&made.url).await.assert_status(200);

    let peers = TrustedPeers::parse(["127.0.0.1"]).expect("an address");
    let behind = site(|api| api.auth = AuthSettings::Proxy(peers)).await;
    let as_kim = |method: &str, path: &str| {
        let request = behind.request(method, path);
        let request = request.header("counterstep-subject", "kim");
        request
            .header("counterstep-role", "submit")
            .header("counterstep-tenant", "acme")
    };
    let form = format!("{}abc\r\n--XX--\r\n", file_head(headers));
    let submitted = as_kim("POST", "/api/tasks/keep-files")
        .header("content-type", "multipart/form-data; boundary=XX")
        .body(form);
    let task = behind.send(submitted).await.json::<Accepted>(202).task_id;
    let path = format!("/api/tasks/{task}/result/first/link");
    let made: ResultLink = behind.send(as_kim("POST", &path)).await.json(200);
    assert!(made.url.contains("tenant=acme"), "{}", made.url);
    behind.get(&made.url).await.assert_status(200);
}
