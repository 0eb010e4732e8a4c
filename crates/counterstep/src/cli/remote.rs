//! What the commands of this program ask of the HTTP API, and how they end where it does not answer as
//! asked. The requests of a client are those of `client::http`.

use super::output::unreadable;
use crate::client::http::{HttpError, OverHttp, bearer, encode};
use crate::client::{Event, Options};
use bytes::Bytes;
use counterstep_contracts::http::{Accepted, AuditTrail, Page, SignalAnswer, TaskView};
use counterstep_contracts::link::ResultLink;
use counterstep_contracts::log::LogPage;
use counterstep_contracts::operation::query::with_query;
use counterstep_contracts::operation::{About, Verb};
use counterstep_contracts::operator::{DeadLetter, UndoPlan, Why};
use counterstep_contracts::schedule::ScheduleView;
use counterstep_contracts::workers::WorkersView;
use counterstep_contracts::{AuditSeq, ScheduleSpec, TaskId};
use counterstep_node::{Exit, Layers, is_this_machine};
use futures::{Stream, StreamExt};
use reqwest::header::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;

/// Time limit of an answer: no command asks for a long poll, and a server that does not answer is to be named
/// within ten seconds.
const ANSWER: Duration = Duration::from_secs(8);

/// The API at an address.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    http: OverHttp,
}

/// Refuses what is no address of an API; `of`: where it comes from.
pub(super) fn check_address(base: &str, of: &str) -> Result<(), Exit> {
    let url = reqwest::Url::parse(base).ok();
    if url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        return Ok(());
    }
    Err(Exit::usage(format_args!(
        "{of}: invalid address `{}`; expected http://HOST:PORT or https://HOST",
        without_password(base)
    )))
}

impl Remote {
    #[cfg(test)]
    pub(super) fn at(url: &str) -> Self {
        let http = OverHttp::at(url, None).expect("an address");
        Self { http }
    }

    /// The API that these settings name.
    pub(super) fn of(settings: &Layers) -> Result<Self, Exit> {
        let token = settings.token_file()?.map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Exit::config(format_args!(
                    "setting `token_file`: `{}` cannot be read: {error}",
                    path.display()
                ))
            })?;
            bearer(&text).ok_or_else(|| {
                Exit::config(format_args!(
                    "setting `token_file`: `{}` holds no token; expected one line of visible ASCII characters",
                    path.display()
                ))
            })
        });
        let (url, token) = (settings.url()?, token.transpose()?);
        if token.is_some()
            && let Some(host) = host_in_clear(&url)
        {
            let _ = writeln!(
                std::io::stderr(),
                "warning: the key of `token_file` goes to {host} without encryption, where others on the way can read \
                 it: give an https:// address"
            );
        }
        Self::new(&url, token)
    }

    /// The API at an address; `token` goes with each request.
    pub(super) fn new(base: &str, token: Option<HeaderValue>) -> Result<Self, Exit> {
        if cfg!(not(feature = "servers")) && base.starts_with("https://") {
            return Err(Exit::config(
                "setting `url`: this program was built without TLS: build it with `--features servers`, or give an \
                 http:// address",
            ));
        }
        check_address(base, "--url, COUNTERSTEP_URL or a profile")?;
        let http = OverHttp::new(base, token);
        let http = http
            .map_err(|error| Exit::failed(format_args!("no HTTP client could be made: {error}")))?;
        Ok(Self { http })
    }

    /// How a command ends that got this instead of its answer.
    fn exit(&self, error: HttpError) -> Exit {
        match error {
            HttpError::Unreachable(why) => Exit::unavailable(format_args!(
                "the API at {} does not answer ({why}): is it running, and is --url right?",
                without_password(&self.http.base)
            )),
            HttpError::Problem(problem, _) => Exit::failed(problem),
            HttpError::Answered(status) => Exit::failed(format_args!("the API answered {status}")),
            HttpError::Unreadable(why) => unreadable(why),
            HttpError::File(why) => Exit::usage(why),
            HttpError::Output(why) => Exit::failed(why),
        }
    }

    async fn read<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Exit> {
        let read = self.http.read(request.timeout(ANSWER)).await;
        read.map_err(|error| self.exit(error))
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.client.get(format!("{}{path}", self.http.base))
    }

    /// What a declared operation on these things answers; `body`: what is sent with it, of one that reads as its query.
    pub(super) async fn ask(
        &self,
        about: &About,
        named: &[&str],
        body: Option<&Value>,
    ) -> Result<Bytes, Exit> {
        let path = about.address(named);
        match (about.verb, body) {
            (Verb::Get, Some(Value::Object(query))) => {
                self.send(about.verb, &with_query(&path, query), None).await
            }
            _ => self.send(about.verb, &path, body).await,
        }
    }

    /// What an address answers as JSON; null, where it answers no body.
    pub(super) async fn call(
        &self,
        verb: Verb,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Exit> {
        let answer = self.send(verb, path, body).await?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    async fn send(&self, verb: Verb, path: &str, body: Option<&Value>) -> Result<Bytes, Exit> {
        let url = format!("{}{path}", self.http.base);
        let client = &self.http.client;
        let request = match verb {
            Verb::Get => client.get(url),
            Verb::Post => client.post(url),
            Verb::Put => client.put(url),
            Verb::Delete => client.delete(url),
        };
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = self.http.bytes(request.timeout(ANSWER)).await;
        answer.map_err(|error| self.exit(error))
    }

    /// What an address answers.
    pub(super) async fn read_from<T: DeserializeOwned>(&self, path: &str) -> Result<T, Exit> {
        self.read(self.get(path)).await
    }

    /// What an address answers to a body.
    pub(super) async fn post_to<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T, Exit> {
        let request = self.http.client.post(format!("{}{path}", self.http.base));
        self.read(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// Submits a request that is one JSON text.
    pub(super) async fn submit(
        &self,
        route: &str,
        options: &Options,
        body: String,
    ) -> Result<Accepted, Exit> {
        let submitted = self.http.submit(route, options, body).await;
        submitted.map_err(|error| self.exit(error))
    }

    /// Submits a form: the request's fields, and files by field.
    pub(super) async fn submit_form(
        &self,
        route: &str,
        options: &Options,
        fields: &Map<String, Value>,
        files: &[(String, PathBuf)],
    ) -> Result<Accepted, Exit> {
        let submitted = self.http.submit_form(route, options, fields, files).await;
        submitted.map_err(|error| self.exit(error))
    }

    pub(super) async fn task(&self, task: TaskId) -> Result<TaskView, Exit> {
        let shown = self.http.task(task).await;
        shown.map_err(|error| self.exit(error))
    }

    /// Its events behind an entry, until it has ended. What does not answer for less than a minute does not end
    /// them.
    pub(super) fn events(
        &self,
        task: TaskId,
        after: AuditSeq,
    ) -> impl Stream<Item = Result<Event, Exit>> + Send {
        let events = self.http.events(task, after);
        events.map(|event| event.map_err(|error| self.exit(error)))
    }

    pub(super) async fn audit(&self, task: TaskId) -> Result<AuditTrail, Exit> {
        self.read(self.get(&format!("/api/tasks/{task}/audit")))
            .await
    }

    pub(super) async fn log(&self, task: TaskId, after: Option<&str>) -> Result<LogPage, Exit> {
        let page = self.http.log(task, after).await;
        page.map_err(|error| self.exit(error))
    }

    pub(super) async fn signal(
        &self,
        task: TaskId,
        name: &str,
        body: String,
    ) -> Result<SignalAnswer, Exit> {
        let url = format!(
            "{}/api/tasks/{task}/signals/{}",
            self.http.base,
            encode(name)
        );
        self.read(
            self.http
                .client
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

    pub(super) async fn workers(&self) -> Result<WorkersView, Exit> {
        self.read(self.get("/api/workers")).await
    }

    pub(super) async fn dead_letters(
        &self,
        query: &[(&str, String)],
    ) -> Result<Page<DeadLetter>, Exit> {
        self.read(self.get(&format!("/api/dead-letters?{}", joined(query))))
            .await
    }

    /// The declarations that the API knows, as it shows them.
    pub(super) async fn types(&self) -> Result<Page<serde_json::Value>, Exit> {
        self.read(self.get("/api/task-types")).await
    }

    fn schedule_at(&self, name: &str) -> String {
        format!("{}/api/schedules/{}", self.http.base, encode(name))
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

    /// `next`: number of due times to include.
    pub(super) async fn schedule(&self, name: &str, next: u32) -> Result<ScheduleView, Exit> {
        self.read(
            self.http
                .client
                .get(format!("{}?next={next}", self.schedule_at(name))),
        )
        .await
    }

    pub(super) async fn set_schedule(
        &self,
        name: &str,
        spec: &ScheduleSpec,
    ) -> Result<ScheduleView, Exit> {
        self.read(self.http.client.put(self.schedule_at(name)).json(spec))
            .await
    }

    /// A link to a stored file of the response.
    pub(super) async fn result_link(
        &self,
        task: TaskId,
        name: &str,
        valid_for: Option<String>,
    ) -> Result<ResultLink, Exit> {
        let link = self.http.result_link(task, name, valid_for).await;
        link.map_err(|error| self.exit(error))
    }

    /// Streams a stored file of the response. Returns its size in bytes.
    pub(super) async fn download(
        &self,
        task: TaskId,
        name: &str,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, Exit> {
        let written = self.http.download(task, name, to).await;
        written.map_err(|error| self.exit(error))
    }
}

/// What runs the requests of a command.
pub(super) fn runtime() -> Result<Runtime, Exit> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(Exit::failed)
}

/// The host of an address, where requests to it can be read on the way: not on this machine, and without TLS.
fn host_in_clear(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?;
    (url.scheme() == "http" && !is_this_machine(host)).then(|| host.to_owned())
}

/// The parameters of a query.
pub(super) fn joined(query: &[(&str, String)]) -> String {
    let pairs: Vec<_> = query
        .iter()
        .map(|(key, value)| format!("{key}={}", encode(value)))
        .collect();
    pairs.join("&")
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let host = rest.rsplit('@').next().unwrap_or(rest);
    format!("{scheme}{host}")
}

#[cfg(test)]
mod tests;
