//! The command line and the HTTP request that each button shows: a shell runs both, and they ask the interface for
//! the same. That the button does is for the tests of the pages.

use super::shop::Shop;
use counterstep_tests::command::{to_its_end, without_settings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What an interface was asked for.
#[derive(Debug, PartialEq)]
struct Asked {
    line: String,
    /// Of those that say what is to be done.
    headers: BTreeMap<String, String>,
    /// As JSON, where it is.
    body: Value,
}

/// An interface that refuses all, and writes it down.
struct Interface {
    url: String,
    asked: Receiver<Asked>,
}

impl Interface {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let (sender, asked) = channel();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                refuse(&connection, &sender);
            }
        });
        Self { url, asked }
    }
}

/// The one request of a connection.
fn refuse(connection: &TcpStream, asked: &Sender<Asked>) {
    let mut reader = BufReader::new(connection);
    let head: Vec<String> = reader
        .by_ref()
        .lines()
        .map_while(Result::ok)
        .take_while(|it| !it.is_empty())
        .collect();
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in head.iter().filter_map(|line| line.split_once(": ")) {
        let joined = headers.entry(name.to_ascii_lowercase()).or_default();
        // Several of one name are one with commas between them.
        joined.push_str(if joined.is_empty() { "" } else { ", " });
        // The value of a label may stand in quotes.
        joined.push_str(&value.replace('"', ""));
    }
    let length = headers
        .get("content-length")
        .map_or(0, |it| it.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    headers.retain(|name, _| {
        ["content-type", "idempotency-key", "counterstep-label"].contains(&name.as_str())
    });
    let mut body = serde_json::from_slice(&body).unwrap_or_default();
    if let Value::Object(fields) = &mut body {
        // Who the user of this machine is, and what says nothing.
        fields.remove("actor");
        for (name, nothing) in [("filter", json!({})), ("preview", json!(false))] {
            fields.retain(|field, value| field != name || *value != nothing);
        }
    }
    let line = head.first().cloned().unwrap_or_default();
    asked
        .send(Asked {
            line,
            headers,
            body,
        })
        .expect("a test");
    let problem = json!({
        "type": "urn:counterstep:problem:forbidden", "code": "forbidden", "title": "", "status": 403, "detail": "",
    });
    let problem = problem.to_string();
    let answer = format!(
        "HTTP/1.1 403 X\r\nconnection: close\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{problem}",
        problem.len()
    );
    let mut writer = connection;
    writer.write_all(answer.as_bytes()).expect("a reader");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_and_the_request_of_each_button_do_the_same() {
    let shop = Shop::open().await;
    let parked = shop.parked_undo().await;
    let dead = shop.dead_letter().await;
    let waits = shop
        .submit("order-lamp", r#"{"name":"Daybreak","is_large":true}"#)
        .await;
    let mut pages = vec![
        "/ui/submit/order-lamp".to_owned(),
        "/ui/types/order-lamp/disable".to_owned(),
        "/ui/types/order-lamp/enable".to_owned(),
        "/ui/schedules/nightly/pause".to_owned(),
        "/ui/schedules/nightly/resume".to_owned(),
        "/ui/schedules/nightly/run".to_owned(),
        "/ui/schedules/new?type=check-stock".to_owned(),
        "/ui/queues/lamps/pause".to_owned(),
        "/ui/queues/lamps/resume".to_owned(),
        "/ui/limits/carrier/set".to_owned(),
        "/ui/limits/carrier/reset".to_owned(),
        "/ui/bulk/new?action=resolve&amp;type=CheckStock&amp;status=dead_lettered".to_owned(),
        "/ui/bulk/new?action=redrive&amp;label=order%3D1&amp;failure_text=shelf".to_owned(),
        "/ui/bulk/new?action=cancel&amp;type=CheckStock&amp;status=submitted".to_owned(),
        "/ui/bulk/new?action=run-again&amp;type=CheckStock&amp;status=completed".to_owned(),
    ];
    let done = shop.submit("order-lamp", r#"{"name":"Aurora"}"#).await;
    shop.api.at_rest(done).await;
    for task in [parked, dead, waits, done] {
        let page = text(&shop, &format!("/ui/tasks/{task}")).await;
        pages.extend(
            between(&page, "href=\"", "\"")
                .filter(|it| it.contains("/decide/") || it.contains("/bulk/new")),
        );
    }
    let page = text(&shop, "/ui/parked").await;
    pages.extend(between(&page, "href=\"", "\"").filter(|it| it.contains("/bulk/new")));
    assert!(pages.len() >= 25, "{pages:#?}");
    for path in &pages {
        let page = text(&shop, &path.replace("&amp;", "&")).await;
        assert_same(&shop, path, &page);
    }
    // And with what a person has entered: without a note each is refused, and shown again.
    let patch = r#"{"name": "Nova", "polish_ms": null}"#;
    for (path, fields) in [
        (
            format!("/ui/tasks/{dead}/decide/retry"),
            vec![("patch", patch)],
        ),
        (
            format!("/ui/tasks/{done}/decide/run-again"),
            vec![("patch", patch), ("from", "ship")],
        ),
        (
            format!("/ui/tasks/{dead}/decide/step-done?step=count"),
            vec![("output", r#"{"a": [1]}"#)],
        ),
        (
            "/ui/limits/carrier/set".to_owned(),
            vec![("at_once", ""), ("rate", "7/2s")],
        ),
        (
            "/ui/bulk/new?action=resolve&type=CheckStock".to_owned(),
            vec![("as", "not_needed")],
        ),
        (
            "/ui/schedules/new?type=check-stock".to_owned(),
            vec![
                ("name", "n-1"),
                ("cron", "never"),
                ("zone", "Europe/Berlin"),
                ("request.name", "it's \"so\""),
                ("misfire", "catch_up"),
                ("overlap", "queue"),
                ("grace", "5m"),
                ("catch_up_limit", "7"),
            ],
        ),
        (
            "/ui/submit/order-lamp".to_owned(),
            vec![
                ("request", r#"{"name": 1.50}"#),
                ("key", "k-1"),
                ("label", "order=4711, urgent=yes"),
            ],
        ),
    ] {
        let page = refused(&shop, &path, &fields).await;
        assert_same(&shop, &path, &page);
    }
}

/// Runs both lines of a page.
fn assert_same(shop: &Shop, path: &str, page: &str) {
    let shown: Vec<_> = between(page, "<code>", "</code>")
        .map(|it| plain(&it))
        .collect();
    let line = |program: &str| {
        let mut found = shown
            .iter()
            .filter(|it| it.split(' ').any(|word| word == program));
        let line = found
            .next()
            .unwrap_or_else(|| panic!("{path}: no {program}: {page}"));
        assert!(found.next().is_none(), "{path}: {shown:?}");
        line.clone()
    };
    let interface = Interface::start();
    let ask = |line: &str| {
        let mut shell = without_settings("sh");
        shell.args(["-c", line]);
        let ended = to_its_end(shop.place.path(), shell);
        let asked = interface.asked.try_recv();
        let asked = asked.unwrap_or_else(|_| panic!("{path}: asks for nothing: {line}: {ended:?}"));
        assert!(
            interface.asked.try_recv().is_err(),
            "{path}: asks twice: {line}"
        );
        asked
    };
    let program = format!("{} ", env!("CARGO_BIN_EXE_lamps"));
    let command = format!(
        "{} --url {}",
        line("counterstep").replace("counterstep ", &program),
        interface.url
    );
    let curl = line("curl").replace(shop.api.url(), &interface.url);
    assert_eq!(ask(&command), ask(&curl), "{path}: {command}: {curl}");
}

async fn text(shop: &Shop, path: &str) -> String {
    let request = shop.api.request(reqwest::Method::GET, path);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.expect("a text")
}

/// The page that comes back where a form is sent without a note.
async fn refused(shop: &Shop, path: &str, fields: &[(&str, &str)]) -> String {
    let opened = shop.api.request(reqwest::Method::GET, path);
    let opened = opened.send().await.expect("an answer");
    let cookie = opened.headers()["set-cookie"]
        .to_str()
        .expect("a text")
        .to_owned();
    let page = opened.text().await.expect("a text");
    let token = between(&page, "name=\"form_token\" value=\"", "\"")
        .next()
        .expect("a token");
    let mut fields = fields.to_vec();
    fields.push(("form_token", &token));
    let form = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)));
    let sent = shop.api.request(reqwest::Method::POST, path);
    let sent = sent.header("cookie", cookie.split(';').next().unwrap_or_default());
    let sent = sent.header("content-type", "application/x-www-form-urlencoded");
    let answer = sent
        .body(form.collect::<Vec<_>>().join("&"))
        .send()
        .await
        .expect("an answer");
    assert!(answer.status().is_client_error(), "{path}: {answer:?}");
    answer.text().await.expect("a text")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn plain(html: &str) -> String {
    html.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = String> + 'a {
    let parts = text.split(begin).skip(1);
    parts.map(move |part| part.split(end).next().unwrap_or_default().to_owned())
}
