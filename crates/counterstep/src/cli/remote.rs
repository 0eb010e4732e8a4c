//! A small client of the HTTP API, for the commands of this program.

use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::TaskId;
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::http::{
    Accepted, AuditTrail, CancelAnswer, Page, SignalAnswer, TaskSummary, TaskView,
};
use counterstep_contracts::operator::{
    DeadLetter, OperatorAnswer, RecoveriesAnswer, RecoveriesRequest, ResolveRequest, RetryRequest,
    UndoPlan, Why,
};
use counterstep_contracts::problem::Problem;
use counterstep_contracts::schedule::ScheduleView;
use counterstep_contracts::workers::WorkersView;
use counterstep_node::Exit;
use futures::StreamExt;
use reqwest::{Response, multipart};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// For so long an answer is waited for: no command asks for a long poll, and one that does not
/// answer is to be named within ten seconds.
const ANSWER: Duration = Duration::from_secs(8);

/// The API at an address.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    base: String,
    client: reqwest::Client,
}

impl Remote {
    pub(super) fn new(base: &str) -> Result<Self, Exit> {
        counterstep_node::install_provider();
        if cfg!(not(feature = "servers")) && base.starts_with("https://") {
            return Err(Exit::config(
                "setting `url`: this program was built without TLS: build it with `--features servers`, or give an \
                 http:// address",
            ));
        }
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build();
        let client = client
            .map_err(|error| Exit::failed(format_args!("no HTTP client could be made: {error}")))?;
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            client,
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Exit {
        Exit::unavailable(format_args!(
            "the API at {} does not answer ({}): is it running, and is --url right?",
            without_password(&self.base),
            counterstep_steps::error::chain(error)
        ))
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Response, Exit> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        match response.json::<Problem>().await {
            Ok(problem) => Err(Exit::failed(problem)),
            Err(_) => Err(Exit::failed(format_args!("the API answered {status}"))),
        }
    }

    async fn read<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Exit> {
        let response = self.answer(request.timeout(ANSWER)).await?;
        response.json().await.map_err(|error| {
            Exit::failed(format_args!(
                "the API's answer cannot be read ({error}): is it of another version?"
            ))
        })
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.base))
    }

    /// Submits files as a form; `field` is the request's field for them. Streams from disk.
    pub(super) async fn submit(
        &self,
        route: &str,
        field: &str,
        files: &[&Path],
    ) -> Result<Accepted, Exit> {
        let mut form = multipart::Form::new();
        for path in files {
            let cannot =
                |error| Exit::failed(format_args!("`{}` cannot be read: {error}", path.display()));
            let file = tokio::fs::File::open(path).await.map_err(cannot)?;
            let size = file.metadata().await.map_err(cannot)?.len();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let body = reqwest::Body::wrap_stream(tokio_util::io::ReaderStream::new(file));
            form = form.part(
                field.to_owned(),
                multipart::Part::stream_with_length(body, size).file_name(name),
            );
        }
        let request = self
            .client
            .post(format!("{}/api/tasks/{route}", self.base))
            .multipart(form);
        self.answer(request)
            .await?
            .json()
            .await
            .map_err(Exit::failed)
    }

    pub(super) async fn task(&self, task: TaskId) -> Result<TaskView, Exit> {
        self.read(self.get(&format!("/api/tasks/{task}"))).await
    }

    pub(super) async fn audit(&self, task: TaskId) -> Result<AuditTrail, Exit> {
        self.read(self.get(&format!("/api/tasks/{task}/audit")))
            .await
    }

    pub(super) async fn cancel(&self, task: TaskId) -> Result<CancelAnswer, Exit> {
        self.read(
            self.client
                .delete(format!("{}/api/tasks/{task}", self.base)),
        )
        .await
    }

    pub(super) async fn signal(
        &self,
        task: TaskId,
        name: &str,
        actor: Option<&str>,
        body: String,
    ) -> Result<SignalAnswer, Exit> {
        let query = actor.map_or_else(String::new, |actor| format!("?actor={}", encode(actor)));
        let url = format!(
            "{}/api/tasks/{task}/signals/{}{query}",
            self.base,
            encode(name)
        );
        self.read(
            self.client
                .post(url)
                .header("content-type", "application/json")
                .body(body),
        )
        .await
    }

    pub(super) async fn plan(&self, task: TaskId) -> Result<UndoPlan, Exit> {
        self.read(self.get(&format!("/api/tasks/{task}/plan")))
            .await
    }

    pub(super) async fn why(&self, task: TaskId) -> Result<Why, Exit> {
        self.read(self.get(&format!("/api/tasks/{task}/why"))).await
    }

    pub(super) async fn resolve(
        &self,
        task: TaskId,
        body: &ResolveRequest,
    ) -> Result<OperatorAnswer, Exit> {
        self.read(
            self.client
                .post(format!("{}/api/tasks/{task}/resolve", self.base))
                .json(body),
        )
        .await
    }

    pub(super) async fn retry(
        &self,
        task: TaskId,
        body: &RetryRequest,
    ) -> Result<OperatorAnswer, Exit> {
        self.read(
            self.client
                .post(format!("{}/api/tasks/{task}/retry", self.base))
                .json(body),
        )
        .await
    }

    pub(super) async fn set_recoveries(
        &self,
        task: TaskId,
        body: &RecoveriesRequest,
    ) -> Result<RecoveriesAnswer, Exit> {
        self.read(
            self.client
                .post(format!("{}/api/tasks/{task}/recoveries", self.base))
                .json(body),
        )
        .await
    }

    pub(super) async fn workers(&self) -> Result<WorkersView, Exit> {
        self.read(self.get("/api/workers")).await
    }

    pub(super) async fn dead_letters(
        &self,
        query: &[(&str, String)],
    ) -> Result<Page<DeadLetter>, Exit> {
        let query: Vec<_> = query
            .iter()
            .map(|(key, value)| format!("{key}={}", encode(value)))
            .collect();
        self.read(self.get(&format!("/api/dead-letters?{}", query.join("&"))))
            .await
    }

    pub(super) async fn list(&self, query: &[(&str, String)]) -> Result<Page<TaskSummary>, Exit> {
        let query: Vec<_> = query
            .iter()
            .map(|(key, value)| format!("{key}={}", encode(value)))
            .collect();
        self.read(self.get(&format!("/api/tasks?{}", query.join("&"))))
            .await
    }

    /// The declarations that the API knows, as it shows them.
    pub(super) async fn types(&self) -> Result<Page<serde_json::Value>, Exit> {
        self.read(self.get("/api/task-types")).await
    }

    /// Disables or enables a type, as `what` says.
    pub(super) async fn switch(
        &self,
        route: &str,
        what: &str,
        body: &SwitchRequest,
    ) -> Result<SwitchView, Exit> {
        let url = format!("{}/api/task-types/{}/{what}", self.base, encode(route));
        self.read(self.client.post(url).json(body)).await
    }

    fn schedule_at(&self, name: &str) -> String {
        format!("{}/api/schedules/{}", self.base, encode(name))
    }

    pub(super) async fn schedules(
        &self,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<ScheduleView>, Exit> {
        let cursor =
            cursor.map_or_else(String::new, |cursor| format!("&cursor={}", encode(cursor)));
        self.read(self.get(&format!("/api/schedules?limit={limit}{cursor}")))
            .await
    }

    /// With its next due times, so many.
    pub(super) async fn schedule(&self, name: &str, next: u32) -> Result<ScheduleView, Exit> {
        self.read(
            self.client
                .get(format!("{}?next={next}", self.schedule_at(name))),
        )
        .await
    }

    pub(super) async fn set_schedule(
        &self,
        name: &str,
        spec: &ScheduleSpec,
    ) -> Result<ScheduleView, Exit> {
        self.read(self.client.put(self.schedule_at(name)).json(spec))
            .await
    }

    pub(super) async fn delete_schedule(&self, name: &str) -> Result<(), Exit> {
        self.answer(self.client.delete(self.schedule_at(name)).timeout(ANSWER))
            .await
            .map(drop)
    }

    /// Pauses, resumes or runs one, as `what` says.
    pub(super) async fn ask_schedule<T: DeserializeOwned>(
        &self,
        name: &str,
        what: &str,
    ) -> Result<T, Exit> {
        self.read(
            self.client
                .post(format!("{}/{what}", self.schedule_at(name))),
        )
        .await
    }

    /// Streams a stored file of the response to disk. Returns its size in bytes.
    pub(super) async fn download(&self, task: TaskId, name: &str, to: &Path) -> Result<u64, Exit> {
        let response = self
            .answer(self.get(&format!("/api/tasks/{task}/result/{name}")))
            .await?;
        let cannot = |error| {
            Exit::failed(format_args!(
                "`{}` cannot be written: {error}",
                to.display()
            ))
        };
        let mut file = tokio::fs::File::create(to).await.map_err(cannot)?;
        let mut body = response.bytes_stream();
        let mut size = 0;
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| self.unreachable(&error))?;
            size += chunk.len() as u64;
            tokio::io::AsyncWriteExt::write_all(&mut file, &chunk)
                .await
                .map_err(cannot)?;
        }
        tokio::io::AsyncWriteExt::flush(&mut file)
            .await
            .map_err(cannot)?;
        Ok(size)
    }
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    match url
        .split_once("://")
        .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)))
    {
        Some((scheme, rest)) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}

/// Percent-encodes a query value.
fn encode(value: &str) -> String {
    use std::fmt::Write as _;
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
