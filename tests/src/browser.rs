//! A real browser without a window, driven by the DevTools protocol over a pipe: pages are opened, looked at and used as people do. It is
//! Chromium's build for that, which takes half the processor time of the one with windows. Must not know the pages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser, until it is dropped.
#[derive(Debug)]
pub struct Browser {
    inner: Arc<Inner>,
    _child: Child,
    _folder: TempDir,
}

#[derive(Debug)]
struct Inner {
    commands: AsyncMutex<ChildStdin>,
    next: AtomicU64,
    answers: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    /// What happened in all tabs, in order.
    events: Mutex<Vec<Value>>,
}

/// A page that is open.
#[derive(Debug)]
pub struct Tab {
    inner: Arc<Inner>,
    session: String,
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// With the person's wish for dark pages.
    pub is_dark: bool,
}

impl Browser {
    /// A new one, with a profile of its own.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // The protocol is spoken over the third and the fourth file of the process.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec chromium-headless-shell \"$@\" 3<&0 4>&1 >/dev/null 2>&1",
                "chromium-headless-shell",
            ])
            .args(["--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--disable-sync",
            ])
            .args([
                "--disable-component-update",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--remote-debugging-pipe", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("`chromium-headless-shell` starts: cargo xtask test installs it");
        let commands = child.stdin.take().expect("a pipe");
        let inner = Arc::new(Inner {
            commands: AsyncMutex::new(commands),
            next: AtomicU64::new(1),
            answers: Mutex::default(),
            events: Mutex::default(),
        });
        let said = child.stdout.take().expect("a pipe");
        tokio::spawn(listen(inner.clone(), said));
        Self {
            inner,
            _child: child,
            _folder: folder,
        }
    }

    /// Another page, which shows nothing yet.
    ///
    /// # Panics
    /// When the browser does not answer.
    pub async fn tab(&self) -> Tab {
        let blank = json!({ "url": "about:blank" });
        let made = self.inner.call(None, "Target.createTarget", blank).await;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = self.inner.call(None, "Target.attachToTarget", attach).await;
        let tab = Tab {
            inner: self.inner.clone(),
            session: attached["sessionId"]
                .as_str()
                .expect("a session")
                .to_owned(),
        };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        tab
    }
}

async fn listen(inner: Arc<Inner>, said: ChildStdout) {
    let mut said = BufReader::new(said);
    let mut message = Vec::new();
    while said
        .read_until(0, &mut message)
        .await
        .is_ok_and(|read| read > 0)
    {
        message.pop();
        let value: Value = serde_json::from_slice(&message).unwrap_or_default();
        message.clear();
        match value["id"].as_u64() {
            Some(id) => {
                let asked = lock(&inner.answers).remove(&id);
                // One that gave up waiting has failed already.
                let _ = asked.map(|asked| asked.send(value));
            }
            None => lock(&inner.events).push(value),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

impl Inner {
    async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        lock(&self.answers).insert(id, send);
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        let mut commands = self.commands.lock().await;
        commands
            .write_all(&bytes)
            .await
            .expect("the browser listens");
        commands.flush().await.expect("the browser listens");
        drop(commands);
        let answer = timeout(PATIENCE, answer).await;
        let mut answer = answer
            .unwrap_or_else(|_| panic!("no answer to {method}"))
            .expect("the browser runs");
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].take()
    }
}

impl Tab {
    /// A command of the protocol.
    ///
    /// # Panics
    /// When the browser refuses it.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        self.inner.call(Some(&self.session), method, params).await
    }

    /// Opens a page and waits until it has loaded.
    ///
    /// # Panics
    /// When it does not load.
    pub async fn open(&self, url: &str) {
        let before = self.events("Page.loadEventFired").len();
        let gone = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(gone["errorText"].is_null(), "{url}: {}", gone["errorText"]);
        self.loads_beyond(before).await;
    }

    async fn loads_beyond(&self, before: usize) {
        let limit = Instant::now() + PATIENCE;
        while self.events("Page.loadEventFired").len() <= before {
            assert!(Instant::now() < limit, "the page does not load");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// What an expression of the page's language comes to.
    ///
    /// # Panics
    /// When it throws.
    pub async fn eval(&self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut found = self.call("Runtime.evaluate", asked).await;
        let thrown = &found["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        found["result"]["value"].take()
    }

    /// Waits until an expression is true; while a page is left and another one comes, nothing is.
    ///
    /// # Panics
    /// When it does not become so.
    pub async fn until(&self, what: &str, expression: &str) {
        let limit = Instant::now() + PATIENCE;
        loop {
            let asked =
                json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
            let found = self.call("Runtime.evaluate", asked).await;
            if found["result"]["value"] == json!(true) {
                return;
            }
            if Instant::now() > limit {
                let text = self.eval("document.body.innerText").await;
                panic!(
                    "{what} does not come true:\n{}",
                    text.as_str().unwrap_or_default()
                );
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        let quoted = json!(text);
        let expression = format!("document.body.innerText.includes({quoted})");
        self.until(&format!("`{text}`"), &expression).await;
    }

    /// Clicks on what a selector names, with the mouse.
    ///
    /// # Panics
    /// When there is no such thing.
    pub async fn click(&self, selector: &str) {
        self.until(
            selector,
            &format!("!!document.querySelector({})", json!(selector)),
        )
        .await;
        let place = self
            .eval(&format!(
                "(() => {{ const it = document.querySelector({}); it.scrollIntoView({{ block: 'center' }});
                 const box = it.getBoundingClientRect();
                 return [box.x + box.width / 2, box.y + box.height / 2] }})()",
                json!(selector)
            ))
            .await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Clicks on what leads to another page, and waits until that has loaded.
    pub async fn follow(&self, selector: &str) {
        let before = self.events("Page.loadEventFired").len();
        self.click(selector).await;
        self.loads_beyond(before).await;
    }

    /// Puts a text into a field, in place of what is there.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.until(
            selector,
            &format!("!!document.querySelector({})", json!(selector)),
        )
        .await;
        self.eval(&format!(
            "(() => {{ const it = document.querySelector({}); it.focus(); it.select(); }})()",
            json!(selector)
        ))
        .await;
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Presses a key. The one of a character is also typed.
    pub async fn press(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Chooses how the page is looked at.
    pub async fn look(&self, view: View) {
        let scheme = if view.is_dark { "dark" } else { "light" };
        let wish = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]});
        self.call("Emulation.setEmulatedMedia", wish).await;
        let size = json!({
            "width": view.width, "height": view.height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Keeps what the page looks like, down to `most` pixels.
    ///
    /// # Panics
    /// When it cannot be written.
    pub async fn picture(&self, path: &Path, most: f64) {
        let size = self.call("Page.getLayoutMetrics", json!({})).await;
        let size = &size["cssContentSize"];
        let height = size["height"].as_f64().unwrap_or(most).min(most);
        let part = json!({ "x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": part });
        let taken = self.call("Page.captureScreenshot", asked).await;
        let data = taken["data"].as_str().expect("a picture");
        let bytes = STANDARD.decode(data).expect("base64");
        std::fs::write(path, bytes).expect("the picture is written");
    }

    /// The addresses that were asked for.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events("Network.requestWillBeSent");
        let url = |event: &Value| event["request"]["url"].as_str().map(str::to_owned);
        sent.iter().filter_map(url).collect()
    }

    /// What went wrong on its pages: errors of scripts, and what the policy of a page has kept out.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let thrown = self.events("Runtime.exceptionThrown");
        let thrown = thrown.iter().map(|it| it["exceptionDetails"].to_string());
        let logged = self.events("Log.entryAdded");
        // A refusal is an answer, and no error.
        let is_refusal = |it: &Value| {
            it["entry"]["text"]
                .as_str()
                .is_some_and(|it| it.contains("status of 401"))
        };
        let is_error = |it: &&Value| it["entry"]["level"] == "error" && !is_refusal(it);
        let logged = logged
            .iter()
            .filter(is_error)
            .map(|it| it["entry"].to_string());
        thrown.chain(logged).collect()
    }

    fn events(&self, method: &str) -> Vec<Value> {
        let all = lock(&self.inner.events);
        let own = all
            .iter()
            .filter(|it| it["sessionId"] == self.session.as_str());
        let own = own.filter(|it| it["method"] == method);
        own.map(|it| it["params"].clone()).collect()
    }
}
