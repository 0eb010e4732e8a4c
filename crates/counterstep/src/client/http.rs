//! The client's side of the HTTP API.

use super::{ClientError, Seen};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::{Accepted, CancelAnswer, SignalAnswer, TaskView};
use counterstep_contracts::problem::Problem;
use counterstep_steps::error::chain;
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// So long an answer may take that does not wait for the task.
const ANSWER: Duration = Duration::from_secs(10);

/// One long poll. The API answers within this, and its answer has to arrive.
const POLL: u64 = 30;

#[derive(Debug, Clone)]
pub(super) struct OverHttp {
    base: String,
    client: reqwest::Client,
}

impl OverHttp {
    pub(super) fn at(url: &str) -> Result<Self, ClientError> {
        counterstep_node::install_provider();
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
        body: &Value,
    ) -> Result<TaskId, ClientError> {
        let mut request = self
            .client
            .post(format!("{}/api/tasks/{route}", self.base))
            .json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let accepted: Accepted = read(request.timeout(ANSWER)).await?;
        Ok(accepted.task_id)
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
        return Ok(serde_json::from_slice(&body)?);
    }
    let said = serde_json::from_slice::<Problem>(&body).map_or_else(
        |_| format!("the API answered {status}"),
        |it| it.to_string(),
    );
    Err(if status.is_server_error() {
        ClientError::Unavailable(said)
    } else {
        ClientError::Refused(said)
    })
}
