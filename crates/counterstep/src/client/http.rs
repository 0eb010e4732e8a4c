//! The client's side of the HTTP API.

use super::{ClientError, Seen, Submitted};
use counterstep_contracts::http::{
    Accepted, BatchAnswer, BatchOutcome, BatchRequest, CancelAnswer, SignalAnswer, TaskView,
};
use counterstep_contracts::problem::{Problem, ProblemCode};
use counterstep_contracts::{Labels, TaskId};
use counterstep_steps::error::chain;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// So long an answer may take that does not wait for the task.
const ANSWER: Duration = Duration::from_secs(10);

/// The same for a batch, whose requests are checked one by one.
const BATCH: Duration = Duration::from_secs(60);

/// One long poll. The API answers within this, and its answer has to arrive.
const POLL: u64 = 30;

#[derive(Clone)]
pub(super) struct OverHttp {
    pub(super) base: String,
    client: reqwest::Client,
}

impl fmt::Debug for OverHttp {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverHttp")
    }
}

impl OverHttp {
    pub(super) fn at(url: &str) -> Result<Self, ClientError> {
        counterstep_node::install_provider();
        let scheme = reqwest::Url::parse(url).map(|url| url.scheme().to_owned());
        match scheme.as_deref() {
            Ok("https") if cfg!(feature = "servers") => {}
            Ok("http") => {}
            Ok("https") => {
                return Err(ClientError::Refused(
                    "invalid address: this program was built without TLS; expected http://, or a build with the feature \
                     `servers`"
                        .to_owned(),
                ));
            }
            _ => {
                return Err(ClientError::Refused(
                    "invalid address; expected http://HOST:PORT or https://HOST".to_owned(),
                ));
            }
        }
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| ClientError::Unavailable(chain(&error)))?;
        Ok(Self {
            base: url.trim_end_matches('/').to_owned(),
            client,
        })
    }

    pub(super) async fn submit(
        &self,
        route: &str,
        key: Option<&str>,
        labels: &Labels,
        body: &Value,
    ) -> Result<TaskId, ClientError> {
        let mut request = self
            .client
            .post(format!("{}/api/tasks/{route}", self.base))
            .json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        for (name, value) in labels.iter() {
            request = request.header("counterstep-label", label_header(name, value));
        }
        let accepted: Accepted = read(request.timeout(ANSWER)).await?;
        Ok(accepted.task_id)
    }

    /// Requests with their keys.
    pub(super) async fn submit_batch(
        &self,
        route: &str,
        requests: Vec<BatchRequest>,
    ) -> Result<Submitted, ClientError> {
        let count = requests.len();
        let url = format!("{}/api/tasks/{route}/batch", self.base);
        let answer: BatchAnswer =
            read(self.client.post(url).json(&requests).timeout(BATCH)).await?;
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
            BatchOutcome::Refused { problem, .. } => Err(refused(&problem)),
        };
        Ok(answer.items.into_iter().map(each).collect())
    }

    /// `waits`: until the task is at rest, or for one long poll.
    pub(super) async fn look(&self, task: TaskId, waits: bool) -> Result<Seen, ClientError> {
        let url = format!("{}/api/tasks/{task}", self.base);
        let request = if waits {
            let limit = Duration::from_secs(POLL) + ANSWER;
            self.client
                .get(format!("{url}?wait={POLL}s"))
                .timeout(limit)
        } else {
            self.client.get(url).timeout(ANSWER)
        };
        let view: TaskView = read(request).await?;
        Ok(Seen {
            task_type: view.task_type,
            status: view.status,
            response: view.response,
            failure: view.failure.map(|failure| failure.message),
        })
    }

    pub(super) async fn cancel(&self, task: TaskId) -> Result<CancelAnswer, ClientError> {
        let request = self
            .client
            .delete(format!("{}/api/tasks/{task}", self.base));
        read(request.timeout(ANSWER)).await
    }

    pub(super) async fn signal(
        &self,
        task: TaskId,
        step: &str,
        body: &Value,
    ) -> Result<(), ClientError> {
        let url = format!("{}/api/tasks/{task}/signals", self.base);
        let mut url = reqwest::Url::parse(&url)
            .map_err(|error| ClientError::Refused(format!("the API's address: {error}")))?;
        // A step's name is one segment, whatever it holds.
        if let Ok(mut path) = url.path_segments_mut() {
            path.push(step);
        }
        let request = self.client.post(url).json(body);
        read::<SignalAnswer>(request.timeout(ANSWER))
            .await
            .map(drop)
    }
}

/// A label as the API reads it, in quotes, so that a comma is no end.
fn label_header(name: &str, value: &str) -> Vec<u8> {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"").into_bytes()
}

async fn read<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ClientError> {
    let unavailable = |error: &reqwest::Error| {
        ClientError::Unavailable(format!("the API does not answer: {}", chain(error)))
    };
    let response = request.send().await.map_err(|error| unavailable(&error))?;
    let status = response.status();
    let body = response
        .bytes()
        .await
        .map_err(|error| unavailable(&error))?;
    if status.is_success() {
        // The request took effect all the same.
        return serde_json::from_slice(&body).map_err(|error| {
            ClientError::Unavailable(format!("the API's answer cannot be read: {error}"))
        });
    }
    let said = format!("the API answered {status}");
    Err(match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => refused(&problem),
        Err(_) if is_later(status.as_u16()) => ClientError::Unavailable(said),
        Err(_) => ClientError::Refused(said),
    })
}

fn refused(problem: &Problem) -> ClientError {
    if is_later(problem.status) || problem.code == ProblemCode::InProgress {
        ClientError::Unavailable(problem.to_string())
    } else {
        ClientError::Refused(problem.to_string())
    }
}

/// Whether an answer of this status asks to come again.
fn is_later(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}
