//! What the commands of this program ask of the HTTP API, and how they end where it does not answer as
//! asked. The requests of a client are those of `client::http`.

use super::output::unreadable;
use super::question::AskedAbout;
use crate::client::http::{HttpError, OverHttp, bearer};
use crate::client::{Event, Options};
use bytes::Bytes;
use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_contracts::link::ResultLink;
use counterstep_contracts::operation::past::GetTaskAt;
use counterstep_contracts::operation::{About, Operation, Verb};
use counterstep_contracts::{AuditSeq, TaskId};
use counterstep_node::{Exit, Layers, is_this_machine};
use futures::{Stream, StreamExt};
use reqwest::header::HeaderValue;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;

/// The API at an address.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    http: OverHttp,
    /// Asked about before a change.
    asked_about: Option<AskedAbout>,
    /// A person has said yes beforehand.
    is_confirmed: bool,
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
        Self {
            http,
            asked_about: None,
            is_confirmed: false,
        }
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
        Ok(Self {
            http,
            asked_about: None,
            is_confirmed: false,
        })
    }

    /// The same, with a question before each change where these settings name a profile or another machine.
    pub(super) fn asking(self, settings: &Layers) -> Result<Self, Exit> {
        let asked_about = AskedAbout::of(settings, &self.address(""))?;
        Ok(Self {
            asked_about,
            ..self
        })
    }

    /// The same, where a person has said yes to each change beforehand.
    pub(super) fn confirmed(self) -> Self {
        Self {
            is_confirmed: true,
            ..self
        }
    }

    /// Whether they have.
    pub(super) const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Asks whether a change is meant for this server.
    ///
    /// # Errors
    /// Where it is not.
    pub(super) fn confirm(&self, change: &str) -> Result<(), Exit> {
        match &self.asked_about {
            Some(server) => server.ask(change),
            None => Ok(()),
        }
    }

    /// Of a path below it, as it may be shown.
    pub(super) fn address(&self, path: &str) -> String {
        without_password(&self.http.base) + path
    }

    /// How a command ends that got this instead of its answer.
    fn exit(&self, error: HttpError) -> Exit {
        match error {
            HttpError::Unreachable(why) => Exit::unavailable(format_args!(
                "the API at {} does not answer ({why}): is it running, and is --url right?",
                self.address("")
            )),
            HttpError::Problem(problem, _) => Exit::failed(problem),
            HttpError::Answered(status) => Exit::failed(format_args!("the API answered {status}")),
            HttpError::Unreadable(why) => unreadable(why),
            HttpError::File(why) => Exit::usage(why),
            HttpError::Output(why) => Exit::failed(why),
        }
    }

    /// What an operation answers.
    pub(super) async fn call<O: Operation<Output: DeserializeOwned>>(
        &self,
        target: O::Target,
        input: O::Input,
    ) -> Result<O::Output, Exit> {
        let answer = self.http.call::<O>(target, input).await;
        answer.map_err(|error| self.exit(error))
    }

    /// The same without its types: as it came.
    pub(super) async fn ask(
        &self,
        about: &About,
        named: &[&str],
        input: Option<&Value>,
    ) -> Result<Bytes, Exit> {
        let answer = self.http.ask(about, named, input).await;
        answer.map_err(|error| self.exit(error))
    }

    /// What an address answers; null, where it answers no body.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        verb: Verb,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Exit> {
        let answer = self.http.send(verb, path, body).await;
        let answer = answer.map_err(|error| self.exit(error))?;
        let answer = if answer.is_empty() {
            b"null"
        } else {
            &answer[..]
        };
        serde_json::from_slice(answer).map_err(unreadable)
    }

    /// What an address answers to GET.
    pub(super) async fn read_from<T: DeserializeOwned>(&self, path: &str) -> Result<T, Exit> {
        self.send(Verb::Get, path, None).await
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

    /// As it stood at this entry of its audit.
    pub(super) async fn task_at(&self, task: TaskId, seq: i64) -> Result<TaskView, Exit> {
        let (id, input) = (task.to_string(), json!({ "seq": seq }));
        let answer = self.ask(&GetTaskAt::ABOUT, &[&id], Some(&input)).await?;
        serde_json::from_slice(&answer).map_err(Exit::failed)
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

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let host = rest.rsplit('@').next().unwrap_or(rest);
    format!("{scheme}{host}")
}

#[cfg(test)]
mod tests;
