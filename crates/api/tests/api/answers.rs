//! What each route answers, byte for byte, held in a file for each chapter of the document: to a good call, and to each
//! kind of bad one.

#[path = "answers/calls.rs"]
mod calls;
#[path = "answers/text.rs"]
mod text;

use crate::access::{Credential, FullTenant, all_is_on, in_order, key};
use crate::documents::operation;
use crate::reply::Reply;
use crate::site::Site;
use crate::webhooks::Receiver;
use calls::{Bad, Call};
use counterstep_api::{AuthSettings, RouteView, all_routes, openapi_document};
use counterstep_contracts::access::Role;
use counterstep_kernel::webhooks::WebhookUrl;
use counterstep_testkit::golden;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Addresses that show what has become of tasks, or of those who run them.
const SHOW_TASKS: [&str; 5] = [
    "/api/task-types/{id}/durations",
    "/api/tasks",
    "/api/dead-letters",
    "/api/events",
    "/api/workers",
];

/// Sites that run at a time.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn each_route_answers_what_its_golden_file_says() {
    let document = openapi_document(&crate::types::all(), &AuthSettings::Keys);
    let routes = in_order(all_routes().collect()).into_iter().map(|route| {
        let (_, operation) = operation(&document, route, "write-note");
        let takes_body = !operation["requestBody"].is_null();
        let chapter = operation["tags"][0].as_str().expect("a chapter").to_owned();
        async move { (chapter, section(route, takes_body).await) }
    });
    let sections: Vec<_> = futures::stream::iter(routes)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut chapters = BTreeMap::<_, String>::new();
    for (chapter, section) in sections {
        *chapters.entry(chapter).or_default() += &section;
    }
    for (chapter, text) in chapters {
        let name = chapter.replace(' ', "_");
        golden::compare(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt")),
            &text,
            "test --workspace --all-features --test api golden_file",
        );
    }
}

/// The answers of one route, in a site of its own: what is listed there is what its own calls have made.
async fn section(route: RouteView, takes_body: bool) -> String {
    let receiver = Receiver::start(Vec::new());
    let url = receiver.url();
    let site = Site::with(|api, engine| {
        all_is_on(api, engine);
        api.auth = AuthSettings::Keys;
        api.history_every = Duration::from_secs(3600);
        let alerts = WebhookUrl::parse(&url, &engine.webhook_allow).expect("an address");
        api.webhooks.as_mut().expect("webhooks").alerts = Some(alerts);
        engine.alerts = true;
    })
    .await;
    // It asks each queue many times a second.
    if SHOW_TASKS.iter().any(|it| route.path.starts_with(it)) {
        site.run_worker();
    }
    let tenant = if route.is_of_installation {
        "default"
    } else {
        "acme"
    };
    let admin = Credential::bearer(&key(&site, tenant, Role::Admin).await.0);
    let other = Credential::bearer(&key(&site, "umbra", Role::Admin).await.0);
    let mut own = FullTenant {
        site: &site,
        admin: &admin,
        webhook: url,
        ids: Vec::new(),
    };
    let mut good = calls::good(route, takes_body, &mut own).await;
    let mut answered = Vec::new();
    for bad in Bad::of(route, &good) {
        let call = bad.call(&good);
        let by = if matches!(bad, Bad::OtherTenant) {
            &other
        } else {
            &admin
        };
        let reply = send(&site, by, &call).await;
        // It was none, and what the good call is about may be gone.
        if reply.status < 300 && route.method != "GET" {
            good = calls::good(route, takes_body, &mut own).await;
        }
        answered.push((bad.to_string(), call, reply));
    }
    let reply = send(&site, &admin, &good).await;
    assert!((200..300).contains(&reply.status), "{route:?}: {reply:?}");
    answered.insert(0, ("good".to_owned(), good, reply));
    text::section(&site, route, &answered)
}

async fn send(site: &Site, by: &Credential, call: &Call) -> Reply {
    let request = by.on(site.request(call.method, &call.path));
    let request = match &call.body {
        None => request,
        Some(body) => request
            .header("content-type", "application/json")
            .body(body.to_string()),
    };
    let answer = request.send().await.expect("an answer");
    let reply = Reply::without_body(&answer);
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert!(reply.header("x-request-id").is_some(), "{reply:?}");
    match reply.header("content-type") {
        Some("text/event-stream") => reply,
        _ => Reply::of(answer).await,
    }
}
