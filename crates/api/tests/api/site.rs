//! A server on a port of its own, over a database file and folders of its own, and ways to talk to
//! it.

use crate::reply::Reply;
use crate::types;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_api::{ApiSettings, AuthSettings, serve};
use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::ports::{Ports, TaskQuery};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::{TestClock, many_tasks};
use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) shutdown: CancelToken,
    pub(crate) server: Option<JoinHandle<std::io::Result<()>>>,
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
    /// The time of its database and of all its engines.
    pub(crate) clock: TestClock,
    folder: TempDir,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::with(|_, _| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ApiSettings, &mut EngineSettings)) -> Self {
        let mut api = ApiSettings {
            workers: 1,
            ..ApiSettings::default()
        };
        let mut settings = EngineSettings::default();
        change(&mut api, &mut settings);
        let folder = tempfile::tempdir().expect("a folder");
        let paths = EmbeddedPaths {
            database: folder.path().join("tasks.db"),
            objects: folder.path().join("objects"),
            scratch: folder.path().join("scratch"),
        };
        let clock = TestClock::new();
        let ports = embedded::open(paths, clock.embedded())
            .await
            .expect("adapters");
        let engine = Engine::new(ports, Arc::new(types::all()), settings, "api");
        Self::serving(engine, api, (folder, clock))
    }

    /// Another server on these ports.
    pub(crate) fn beside(&self, ports: Ports) -> Self {
        self.beside_with(ports, EngineSettings::default())
    }

    /// The same, for holders of keys alone.
    pub(crate) fn beside_locked(&self, ports: Ports) -> Self {
        let api = ApiSettings {
            workers: 1,
            auth: AuthSettings::Keys,
            ..ApiSettings::default()
        };
        self.beside_as(ports, api)
    }

    /// The same, with these settings.
    pub(crate) fn beside_as(&self, ports: Ports, api: ApiSettings) -> Self {
        let registry = Arc::new(types::all());
        let engine = Engine::new(ports, registry, EngineSettings::default(), "api");
        let folder = tempfile::tempdir().expect("a folder");
        Self::serving(engine, api, (folder, self.clock.clone()))
    }

    pub(crate) fn beside_with(&self, ports: Ports, settings: EngineSettings) -> Self {
        let engine = Engine::new(ports, Arc::new(types::all()), settings, "api");
        let api = ApiSettings {
            workers: 1,
            ..ApiSettings::default()
        };
        let folder = tempfile::tempdir().expect("a folder");
        Self::serving(engine, api, (folder, self.clock.clone()))
    }

    /// The same, with settings changed as for [`with`](Self::with).
    pub(crate) fn beside_set(
        &self,
        ports: Ports,
        change: impl FnOnce(&mut ApiSettings, &mut EngineSettings),
    ) -> Self {
        let mut api = ApiSettings::default();
        let mut settings = EngineSettings::default();
        change(&mut api, &mut settings);
        let engine = Engine::new(ports, Arc::new(types::all()), settings, "api");
        let folder = tempfile::tempdir().expect("a folder");
        Self::serving(engine, api, (folder, self.clock.clone()))
    }

    fn serving(engine: Engine, api: ApiSettings, (folder, clock): (TempDir, TestClock)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shutdown = CancelToken::new();
        let server = tokio::spawn(serve(engine.clone(), api, listener, shutdown.clone()));
        counterstep_adapters::tls::install_provider();
        Self {
            engine,
            shutdown,
            server: Some(server),
            address,
            client: reqwest::Client::new(),
            clock,
            folder,
        }
    }

    /// Runs what is placed on workers, until the site is dropped.
    pub(crate) fn run_worker(&self) {
        let mut settings = HostSettings::for_all(&self.engine.registry, Host::Worker, 4);
        settings.poll = Duration::from_millis(50);
        let spawn: host::Spawn = Arc::new(|work| drop(tokio::spawn(work)));
        tokio::spawn(host::serve(
            self.engine.clone(),
            settings,
            self.shutdown.clone(),
            spawn,
        ));
    }

    /// Runs what is placed on such hosts, until it is told to stop.
    pub(crate) fn run_host(&self, host: Host) -> Running {
        let mut settings = HostSettings::for_all(&self.engine.registry, host, 4);
        settings.poll = Duration::from_millis(50);
        let spawn: host::Spawn = Arc::new(|work| drop(tokio::spawn(work)));
        let stop = CancelToken::new();
        let serving = tokio::spawn(host::serve(
            self.engine.clone(),
            settings,
            stop.clone(),
            spawn,
        ));
        Running { stop, serving }
    }

    /// What a reconciler does about lost hosts.
    pub(crate) async fn recover(&self) {
        let plan = recovery::plan(&self.engine, Lost::default(), 100)
            .await
            .expect("a plan");
        recovery::run(&self.engine, plan, &CancelToken::new()).await;
    }

    /// Removes all local files, as a new machine would not have them.
    pub(crate) fn lose_scratch(&self) {
        std::fs::remove_dir_all(self.folder.path().join("scratch")).expect("there is scratch");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        Reply::of(request.timeout(PATIENCE).send().await.expect("an answer")).await
    }

    /// The answer itself, where it leads elsewhere.
    #[cfg(feature = "ui")]
    pub(crate) async fn send_unfollowed(&self, request: reqwest::RequestBuilder) -> Reply {
        let stays = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(stays).build();
        let request = request.timeout(PATIENCE).build().expect("a request");
        let answer = client.expect("a client").execute(request).await;
        Reply::of(answer.expect("an answer")).await
    }

    /// The status of an answer and its body up to the end, for a task of its own.
    #[cfg(feature = "ui")]
    pub(crate) fn whole(
        &self,
        request: reqwest::RequestBuilder,
    ) -> impl Future<Output = (u16, String)> + Send + use<> {
        async move {
            let answer = request.timeout(PATIENCE).send().await.expect("an answer");
            let status = answer.status().as_u16();
            (status, answer.text().await.expect("an end"))
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.client
            .request(method.parse().expect("a method"), self.url(path))
    }

    /// The status of an answer whose body may have no end.
    pub(crate) async fn status(&self, request: reqwest::RequestBuilder) -> u16 {
        let answer = request.timeout(PATIENCE).send().await;
        answer.expect("an answer").status().as_u16()
    }

    /// The status of an answer and its body, of a stream of events what comes up to the first place or
    /// comment.
    pub(crate) async fn beginning(&self, request: reqwest::RequestBuilder) -> (u16, String) {
        let answer = request.timeout(PATIENCE).send().await;
        let mut answer = answer.expect("an answer");
        let mut body = Vec::new();
        let is_stream = answer
            .headers()
            .get("content-type")
            .is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        while let Some(chunk) = answer.chunk().await.expect("the connection holds") {
            body.extend_from_slice(&chunk);
            let text = String::from_utf8_lossy(&body);
            if is_stream && (text.contains("\n:\n") || text.contains("\nid: ")) {
                break;
            }
        }
        (
            answer.status().as_u16(),
            String::from_utf8_lossy(&body).into_owned(),
        )
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.request("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        let request = self
            .request("POST", path)
            .header("content-type", "application/json")
            .body(body.into());
        self.send(request).await
    }

    /// Submits a form, byte by byte as given, with the boundary `XX`.
    pub(crate) async fn form(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        let request = self
            .request("POST", path)
            .header("content-type", "multipart/form-data; boundary=XX")
            .body(body.into());
        self.send(request).await
    }

    pub(crate) async fn submit(&self, path: &str) -> TaskId {
        self.post(path, r#"{"text":"hello"}"#)
            .await
            .json::<Accepted>(202)
            .task_id
    }

    /// A form with one small file, accepted.
    pub(crate) async fn keep(&self, name: &str, content_type: &str, content: &str) -> TaskId {
        let headers = format!("filename=\"{name}\"\r\nContent-Type: {content_type}");
        let body = format!("{}{content}\r\n--XX--\r\n", file_head(&headers));
        self.form("/api/tasks/keep-files", body)
            .await
            .json::<Accepted>(202)
            .task_id
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until(&self, task: TaskId, status: TaskStatus) -> TaskView {
        let what = format!("the task is {status}");
        let view = eventually(&what, || async {
            let view: TaskView = self.get(&format!("/api/tasks/{task}")).await.json(200);
            if view.status == status {
                Ok(view)
            } else {
                Err(format!("{view:?}"))
            }
        });
        view.await
    }

    /// A connection on which `bytes` were sent.
    pub(crate) async fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut socket = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        socket.write_all(bytes).await.expect("the server reads");
        socket
    }

    /// Sends bytes on a connection of their own and reads the answer.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut socket = self.connect(bytes).await;
        tokio::time::timeout(PATIENCE, Reply::read(&mut socket))
            .await
            .expect("an answer in time")
    }

    /// Files in the folder of the objects, half-done ones too.
    pub(crate) fn stored(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.folder.path().join("objects"), &mut found);
        walk(&self.folder.path().join("scratch"), &mut found);
        found
    }

    pub(crate) async fn tasks(&self) -> usize {
        let query = TaskQuery {
            limit: 1000,
            ..TaskQuery::default()
        };
        self.engine
            .ports
            .store
            .list(&query)
            .await
            .expect("the store answers")
            .lines
            .len()
    }

    /// Waits until there is no task, no object and no temporary file.
    pub(crate) async fn until_nothing_is_left(&self) {
        eventually("nothing is left", || async {
            let (stored, tasks) = (self.stored(), self.tasks().await);
            if stored.is_empty() && tasks == 0 {
                Ok(())
            } else {
                Err(format!("{tasks} tasks, {stored:?}"))
            }
        })
        .await;
    }
}

/// A host of a site.
pub(crate) struct Running {
    stop: CancelToken,
    serving: JoinHandle<()>,
}

impl Running {
    /// Shuts it down, and waits until it has given everything back.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel(CancelReason::Shutdown);
        (&mut self.serving).await.expect("it ends by itself");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel(CancelReason::Shutdown);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shutdown.cancel(CancelReason::Shutdown);
    }
}

/// Asks again until the answer is good. A condition with a limit, in place of a sleep. Where it never
/// is, the last answer is printed.
pub(crate) async fn eventually<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let last = &Last(Mutex::default());
    many_tasks::eventually(what, || {
        let asked = ask();
        async move {
            let keep = |error: E| last.keep(error.to_string());
            asked.await.map_err(keep).ok()
        }
    })
    .await
}

/// What a look has seen last, for a test that fails.
struct Last(Mutex<String>);

impl Last {
    fn open(&self) -> MutexGuard<'_, String> {
        self.0.lock()
    }

    fn keep(&self, text: String) {
        *self.open() = text;
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("last seen: {}", self.open());
        }
    }
}

/// The beginning of a form whose first part is a file of the field `files`; `rest` goes on where
/// the field's name ends.
pub(crate) fn file_head(rest: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; name=\"files\"; {rest}\r\n\r\n")
}

/// A text field of a form.
pub(crate) fn text_part(name: &str, value: &str) -> String {
    format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            walk(&entry.path(), found);
        } else {
            found.push(entry.path().display().to_string());
        }
    }
}
