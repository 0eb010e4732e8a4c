//! What pages of other sites can do with an API on the loopback address: nothing. One test has a
//! real browser send it.

use crate::site::{Site, text_part};
use counterstep_api::AllowedHosts;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::schedule::ScheduleView;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const NOTE: &str = "/api/tasks/write-note";
const NIGHTLY: &str = "/api/schedules/nightly";

/// Longer than a browser needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn with_schedule() -> Site {
    let site = Site::start().await;
    let spec = r#"{"type":"write-note","cron":"@yearly","request":{"text":"a"}}"#;
    let put = site
        .request("PUT", NIGHTLY)
        .header("content-type", "application/json")
        .body(spec);
    site.send(put).await.json::<ScheduleView>(201);
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_allowed_is_refused_whatever_is_asked() {
    let site =
        Site::with(|api, _| api.allowed_hosts = AllowedHosts::parse(["api.example.com"]).unwrap())
            .await;
    let port = site.address.port();
    for path in ["/api/tasks", "/api/task-types", "/nothing-here"] {
        for host in [
            "evil.example",
            &format!("evil.example:{port}"),
            "localhost.evil.example",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let problem = site
                .raw(request.as_bytes())
                .await
                .problem(403, "host-not-allowed");
            assert_eq!(problem["pointer"], "Host");
        }
    }
    for host in [
        "localhost",
        &format!("127.0.0.1:{port}"),
        "[::1]:80",
        "10.1.2.3",
        "API.example.com:443",
    ] {
        let reply = site
            .raw(format!("GET /api/tasks HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .await;
        assert_eq!(reply.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn monitors_may_use_any_name() {
    let site = Site::start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        let reply = site
            .raw(format!("GET {path} HTTP/1.1\r\nHost: counterstep-api\r\n\r\n").as_bytes())
            .await;
        assert_eq!(reply.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_changes_nothing() {
    let site = with_schedule().await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let form = format!("{}--XX--\r\n", text_part("text", "a"));
        for (method, path) in [
            ("POST", NOTE),
            ("POST", "/api/schedules/nightly/run"),
            ("POST", "/api/schedules/nightly/pause"),
            ("DELETE", NIGHTLY),
        ] {
            let request = site
                .request(method, path)
                .header(name, value)
                .body(form.clone());
            let request = request.header("content-type", "multipart/form-data; boundary=XX");
            site.send(request).await.problem(403, "cross-site");
        }
    }
    assert_eq!(site.tasks().await, 0);
    assert!(!site.get(NIGHTLY).await.json::<ScheduleView>(200).paused);
    let own = format!("http://{}", site.address);
    let request = site
        .request("POST", NOTE)
        .header("origin", own)
        .header("content-type", "application/json");
    site.send(request.body(r#"{"text":"a"}"#))
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_with_a_page_of_another_site_neither_submits_nor_pauses_nor_reads() {
    let site = with_schedule().await;
    let port = site.address.port();
    let pages = Pages::serve(port).await;
    let shown = shown(&format!("http://localhost:{}/", pages.port)).await;
    // Each of its requests was answered, and by no refusal of the browser's own.
    assert_eq!(
        *pages.reports.lock().unwrap(),
        ["/report?opaque,opaque,opaque"],
        "{shown}"
    );
    assert_eq!(site.tasks().await, 0);
    assert!(!site.get(NIGHTLY).await.json::<ScheduleView>(200).paused);
    // An address that leads to this server by a name of another owner.
    let shown = self::shown(&format!("http://rebound.example:{port}/api/tasks")).await;
    assert!(shown.contains("host-not-allowed"), "{shown}");
}

/// What a new browser makes of a page.
async fn shown(url: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::open(folder.path(), url);
    let mut dom = browser.0.stdout.take().expect("a pipe");
    let reading = tokio::task::spawn_blocking(move || std::io::read_to_string(&mut dom));
    let shown = tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("the browser ends in time");
    shown.unwrap().expect("a page in UTF-8")
}

/// A server of another site, with one page that tries what pages can do.
struct Pages {
    port: u16,
    /// What the page told its own server.
    reports: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Pages {
    async fn serve(api: u16) -> Self {
        let page = PAGE.replace("PORT", &api.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = reports.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (page, told) = (page.clone(), told.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        if socket.read_buf(&mut head).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let head = String::from_utf8_lossy(&head);
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    if path.starts_with("/report") {
                        told.lock().unwrap().push(path);
                    }
                    let length = page.len();
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
                         Connection: close\r\n\r\n{page}"
                    );
                    // A browser that has gone away needs no page.
                    let _ = socket.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self {
            port,
            reports,
            serving,
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Sends what a page may send to any site without asking, and tells its own server what became of
/// it.
const PAGE: &str = r#"<!doctype html><link rel="icon" href="data:,"><script>(async () => {
    const api = "http://127.0.0.1:PORT/api/";
    const form = new FormData();
    form.append("files", new File(["x"], "a.txt"));
    const send = (path, body) => fetch(api + path, { method: "POST", mode: "no-cors", body })
        .then(answer => answer.type, error => "failed");
    const answers = [
        await send("tasks/keep-files", form),
        await send("schedules/nightly/run"),
        await send("schedules/nightly/pause"),
    ];
    await fetch("/report?" + answers.join());
})()</script>"#;

/// A browser without a window: it writes what the page has become, once nothing happens on it any
/// more.
struct Browser(Child);

impl Browser {
    /// Opens a page, with a foreign name that leads to this machine.
    fn open(folder: &Path, url: &str) -> Self {
        let started = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP rebound.example 127.0.0.1",
            ])
            .arg(format!("--user-data-dir={}", folder.display()))
            // By the page's own clock, which stands still while an answer is awaited.
            .args(["--virtual-time-budget=10000", "--dump-dom", url])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn();
        Self(started.expect("`chromium` starts: cargo xtask test installs it"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
