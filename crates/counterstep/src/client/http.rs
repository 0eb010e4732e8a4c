//! The client's side of the HTTP API.

use super::form::Sending;
pub(crate) use super::http_error::HttpError;
use super::{ClientError, Options, Seen, Submitted};
use bytes::Bytes;
use counterstep_contracts::TaskId;
use counterstep_contracts::http::{Accepted, BatchAnswer, BatchOutcome, BatchRequest, TaskView};
use counterstep_contracts::operation::query::with_query;
use counterstep_contracts::operation::{About, Operation, Target, Verb};
use counterstep_steps::error::chain;
use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Time limit of an answer that does not wait for the task: a command names a server that does not answer
/// within ten seconds.
pub(super) const ANSWER: Duration = Duration::from_secs(8);

/// How long the transfer of a file may make no progress.
const SILENCE: Duration = Duration::from_secs(30);

/// Time limit of an answer to a batch, whose requests are checked one by one.
const BATCH: Duration = Duration::from_secs(60);

/// Seconds of one long poll. The API answers within this time, and its answer has to arrive.
const POLL: u64 = 30;

/// `Authorization: Bearer`, which no log shows; `None`: the token cannot stand in a header.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let is_visible = !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic());
    let value = is_visible.then(|| HeaderValue::try_from(format!("Bearer {token}")).ok());
    let mut value = value.flatten()?;
    value.set_sensitive(true);
    Some(value)
}

#[derive(Clone)]
pub(crate) struct OverHttp {
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
}

impl fmt::Debug for OverHttp {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverHttp")
    }
}

impl OverHttp {
    pub(crate) fn at(url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        let scheme = reqwest::Url::parse(url).map(|url| url.scheme().to_owned());
        match scheme.as_deref() {
            Ok("https") if cfg!(feature = "servers") => {}
            Ok("http") => {}
            Ok("https") => {
                return Err(ClientError::refused(
                    "invalid address: this program was built without TLS; expected http://, or a build with the feature \
                     `servers`",
                ));
            }
            _ => {
                return Err(ClientError::refused(
                    "invalid address; expected http://HOST:PORT or https://HOST",
                ));
            }
        }
        let token = match token.map(bearer) {
            None => None,
            Some(Some(token)) => Some(token),
            Some(None) => {
                return Err(ClientError::refused(
                    "invalid token; expected one line of visible ASCII characters",
                ));
            }
        };
        Self::new(url, token).map_err(|error| ClientError::Unavailable(chain(&error)))
    }

    /// Of an address as it stands; `token` goes with each request.
    pub(crate) fn new(base: &str, token: Option<HeaderValue>) -> Result<Self, reqwest::Error> {
        counterstep_node::install_provider();
        let mut headers = HeaderMap::new();
        headers.extend(token.map(|token| (AUTHORIZATION, token)));
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .default_headers(headers);
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            client: client.build()?,
        })
    }

    /// The answer to a request, where it is a success.
    pub(crate) async fn answer(&self, request: RequestBuilder) -> Result<Response, HttpError> {
        let sent = request.send().await;
        let response = sent.map_err(|error| HttpError::unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        match response.json().await {
            Ok(problem) => Err(HttpError::Problem(
                Box::new(problem),
                retry_after.map(Duration::from_secs),
            )),
            Err(_) => Err(HttpError::Answered(status)),
        }
    }

    /// The same, as it came.
    pub(crate) async fn bytes(&self, request: RequestBuilder) -> Result<Bytes, HttpError> {
        let body = self.answer(request).await?.bytes().await;
        body.map_err(|error| HttpError::unreachable(&error))
    }

    /// The same, read as JSON.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, HttpError> {
        serde_json::from_slice(&self.bytes(request).await?)
            .map_err(|error| HttpError::Unreadable(error.to_string()))
    }

    /// What an operation answers.
    pub(crate) async fn call<O: Operation<Output: DeserializeOwned>>(
        &self,
        target: O::Target,
        input: O::Input,
    ) -> Result<O::Output, HttpError> {
        let unreadable = |error: serde_json::Error| HttpError::Unreadable(error.to_string());
        let named = target.segments();
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        let input = (size_of::<O::Input>() > 0).then(|| serde_json::to_value(&input));
        let input = input.transpose().map_err(unreadable)?;
        let answer = self.ask(&O::ABOUT, &named, input.as_ref()).await?;
        let answer = if answer.is_empty() {
            b"null"
        } else {
            &answer[..]
        };
        serde_json::from_slice(answer).map_err(unreadable)
    }

    /// What an operation on these things answers, as it came; `input`: what is sent with it, of one that reads as its query.
    pub(crate) async fn ask(
        &self,
        about: &About,
        named: &[&str],
        input: Option<&Value>,
    ) -> Result<Bytes, HttpError> {
        let path = about.address(named);
        match (about.verb, input) {
            (Verb::Get, Some(Value::Object(query))) => {
                self.send(about.verb, &with_query(&path, query), None).await
            }
            _ => self.send(about.verb, &path, input).await,
        }
    }

    /// What an address answers, as it came.
    pub(crate) async fn send(
        &self,
        verb: Verb,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, HttpError> {
        let url = format!("{}{path}", self.base);
        let request = match verb {
            Verb::Get => self.client.get(url),
            Verb::Post => self.client.post(url),
            Verb::Put => self.client.put(url),
            Verb::Delete => self.client.delete(url),
        };
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.bytes(request.timeout(ANSWER)).await
    }

    fn submission(&self, route: &str, options: &Options) -> RequestBuilder {
        let mut request = self
            .client
            .post(format!("{}/api/tasks/{}", self.base, encode(route)));
        if let Some(key) = &options.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(url) = &options.webhook {
            request = request.header("counterstep-webhook", url);
        }
        for (name, value) in options.labels.iter() {
            request = request.header("counterstep-label", label_header(name, value));
        }
        request
    }

    /// Submits a request that is one JSON text.
    pub(crate) async fn submit(
        &self,
        route: &str,
        options: &Options,
        body: String,
    ) -> Result<Accepted, HttpError> {
        let request = self
            .submission(route, options)
            .header("content-type", "application/json")
            .body(body);
        self.read(request.timeout(ANSWER)).await
    }

    /// Submits a form: the request's fields, and files by field, which are streamed from the disk.
    pub(crate) async fn submit_form(
        &self,
        route: &str,
        options: &Options,
        fields: &Map<String, Value>,
        files: &[(String, PathBuf)],
    ) -> Result<Accepted, HttpError> {
        let sending = Sending::default();
        let form = sending.form(fields, files).await?;
        let sent = self.read(self.submission(route, options).multipart(form));
        let mut sent = pin!(sent);
        loop {
            let before = sending.bytes();
            match within(SILENCE, &mut sent).await {
                Err(silent) if sending.bytes() == before => return Err(silent),
                Err(_) => {}
                Ok(answer) => return sending.outcome(answer),
            }
        }
    }

    /// A task as the API shows it.
    pub(crate) async fn task(&self, task: TaskId) -> Result<TaskView, HttpError> {
        let url = format!("{}/api/tasks/{task}", self.base);
        self.read(self.client.get(url).timeout(ANSWER)).await
    }

    /// Streams a stored file of a task's response. Gives its size in bytes.
    pub(crate) async fn download(
        &self,
        task: TaskId,
        name: &str,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, HttpError> {
        let segments: Vec<_> = name.split('/').map(encode).collect();
        let path = segments.join("/");
        let url = format!("{}/api/tasks/{task}/result/{path}", self.base);
        let answer = within(ANSWER, self.answer(self.client.get(url))).await?;
        let mut body = answer?.bytes_stream();
        let cannot = |error| HttpError::Output(format!("the file cannot be written: {error}"));
        let mut size = 0;
        while let Some(chunk) = within(SILENCE, body.next()).await? {
            let chunk = chunk.map_err(|error| HttpError::unreachable(&error))?;
            size += chunk.len() as u64;
            to.write_all(&chunk).await.map_err(cannot)?;
        }
        to.flush().await.map_err(cannot)?;
        Ok(size)
    }

    /// Requests with their keys.
    pub(super) async fn submit_batch(
        &self,
        route: &str,
        requests: Vec<BatchRequest>,
    ) -> Result<Submitted, ClientError> {
        let count = requests.len();
        let url = format!("{}/api/tasks/{route}/batch", self.base);
        let answer: BatchAnswer = self
            .read(self.client.post(url).json(&requests).timeout(BATCH))
            .await?;
        if answer.items.len() != count {
            return Err(ClientError::Unavailable(format!(
                "the API's answer cannot be read: {} outcomes of {count} requests",
                answer.items.len()
            )));
        }
        let each = |outcome| match outcome {
            BatchOutcome::Accepted(accepted) | BatchOutcome::Replayed(accepted) => {
                Ok(accepted.task_id)
            }
            BatchOutcome::Refused {
                problem,
                retry_after,
            } => {
                let after = retry_after.map(|seconds| Duration::from_secs(seconds.into()));
                Err(ClientError::of(problem, after))
            }
        };
        Ok(answer.items.into_iter().map(each).collect())
    }

    /// `waits`: until the task is at rest, or for one long poll.
    pub(super) async fn look(&self, task: TaskId, waits: bool) -> Result<Seen, ClientError> {
        let view = if waits {
            let limit = Duration::from_secs(POLL) + ANSWER;
            let url = format!("{}/api/tasks/{task}?wait={POLL}s", self.base);
            self.read(self.client.get(url).timeout(limit)).await?
        } else {
            self.task(task).await?
        };
        let TaskView {
            task_type,
            status,
            response,
            failure,
            ..
        } = view;
        Ok(Seen {
            task_type,
            status,
            response,
            failure: failure.map(|failure| failure.message),
        })
    }
}

/// A label as the API reads it, in quotes, so that a comma is no end.
fn label_header(name: &str, value: &str) -> Vec<u8> {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"").into_bytes()
}

impl From<HttpError> for ClientError {
    fn from(error: HttpError) -> Self {
        let may_pass = error.may_pass();
        match error {
            HttpError::Unreachable(why) => {
                Self::Unavailable(format!("the API does not answer: {why}"))
            }
            HttpError::Problem(problem, retry_after) => Self::of(*problem, retry_after),
            HttpError::Answered(status) => {
                let said = format!("the API answered {status}");
                if may_pass {
                    Self::Unavailable(said)
                } else {
                    Self::refused(said)
                }
            }
            // The request took effect all the same.
            HttpError::Unreadable(why) => {
                Self::Unavailable(format!("the API's answer cannot be read: {why}"))
            }
            HttpError::File(why) | HttpError::Output(why) => Self::refused(why),
        }
    }
}

pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, HttpError> {
    let answered = tokio::time::timeout(limit, answer).await;
    answered.map_err(|_| HttpError::Unreachable(format!("no answer within {limit:?}")))
}

/// Percent-encodes a segment of a path, or a value of a query.
pub(crate) fn encode(value: &str) -> String {
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
