//! A client of the HTTP interface, as a user would write one.

use crate::archive;
use crate::sample::Sample;
use crate::wait::{LATER, until};
use bytes::Bytes;
use counterstep_contracts::http::{Accepted, AuditTrail, Page, TaskSummary, TaskView};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::{Problem, TaskId, TaskStatus};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Response, StatusCode};
use std::time::Duration;

/// The route of the task type under test.
pub const ROUTE: &str = "/api/tasks/create-zip-from-files";

/// No single answer takes longer, long polls included.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a connection waits for its next request: shorter than the API keeps it.
const IDLE: Duration = Duration::from_secs(30);

/// The API at an address.
#[derive(Debug, Clone)]
pub struct Api {
    base: String,
    client: Client,
    /// For `Authorization: Bearer`.
    key: Option<String>,
}

/// An answer to a submission.
#[derive(Debug)]
pub enum Answer {
    /// 202.
    Accepted(Accepted),
    /// A problem document.
    Refused(StatusCode, Problem),
}

impl Api {
    /// At `host:port`.
    ///
    /// # Panics
    /// When no client can be made.
    #[must_use]
    pub fn at(address: &str) -> Self {
        counterstep_adapters::tls::install_provider();
        // A connection that the API is about to close must not be asked once more.
        let client = Client::builder()
            .timeout(LIMIT)
            .pool_idle_timeout(IDLE)
            .build()
            .expect("an HTTP client");
        Self {
            base: format!("http://{address}"),
            client,
            key: None,
        }
    }

    /// As the holder of an API key.
    #[must_use]
    pub fn with_key(self, key: &str) -> Self {
        let key = Some(key.to_owned());
        Self { key, ..self }
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// A request of a route, for what has no method here.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    async fn get(&self, path: &str) -> Response {
        let answer = self.request(reqwest::Method::GET, path).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("{path} is not answered: {error:?}"));
        let status = answer.status();
        if !status.is_success() {
            panic!(
                "{path}: {status} {}",
                answer.text().await.unwrap_or_default()
            );
        }
        answer
    }

    /// Submits files, once, with an idempotency key where one is given.
    ///
    /// # Errors
    /// When no whole answer came back.
    ///
    /// # Panics
    /// When an answer is neither a 202 nor a problem document.
    pub async fn try_submit(
        &self,
        samples: &[Sample],
        key: Option<&str>,
    ) -> reqwest::Result<Answer> {
        let form = samples.iter().fold(Form::new(), |form, sample| {
            form.part(
                "files",
                Part::stream(sample.bytes.clone()).file_name(sample.name.clone()),
            )
        });
        let mut request = self.request(reqwest::Method::POST, ROUTE).multipart(form);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        let text = || String::from_utf8_lossy(&body).into_owned();
        Ok(if status == StatusCode::ACCEPTED {
            Answer::Accepted(
                serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {}", text())),
            )
        } else {
            let problem = serde_json::from_slice(&body)
                .unwrap_or_else(|error| panic!("{error}: {status} {}", text()));
            Answer::Refused(status, problem)
        })
    }

    /// Submits files, and is accepted.
    ///
    /// # Panics
    /// When it is not.
    pub async fn submit(&self, samples: &[Sample]) -> TaskId {
        match self.try_submit(samples, None).await {
            Ok(Answer::Accepted(accepted)) => accepted.task_id,
            other => panic!("a submission was not accepted: {other:?}"),
        }
    }

    /// A task as it is.
    ///
    /// # Panics
    /// When it is not shown.
    pub async fn task(&self, task: TaskId) -> TaskView {
        self.get(&format!("/api/tasks/{task}"))
            .await
            .json()
            .await
            .expect("a task")
    }

    /// What its steps have logged.
    ///
    /// # Panics
    /// When it is not shown.
    pub async fn log(&self, task: TaskId) -> Vec<String> {
        let log = self.get(&format!("/api/tasks/{task}/log")).await;
        let log: LogPage = log.json().await.expect("a page");
        log.lines.into_iter().map(|line| line.message).collect()
    }

    /// A task when it has come to rest.
    ///
    /// # Panics
    /// When it does not.
    pub async fn at_rest(&self, task: TaskId) -> TaskView {
        self.at_rest_within(task, LATER).await
    }

    /// The same for one that has much to do.
    ///
    /// # Panics
    /// When it does not.
    pub async fn at_rest_within(&self, task: TaskId, limit: Duration) -> TaskView {
        until(&format!("task {task} at rest"), limit, || async {
            let answer = self.get(&format!("/api/tasks/{task}?wait=10s")).await;
            let view: TaskView = answer.json().await.expect("a task");
            view.status.is_at_rest().then_some(view)
        })
        .await
    }

    /// A task's audit trail.
    ///
    /// # Panics
    /// When it is not shown.
    pub async fn audit(&self, task: TaskId) -> AuditTrail {
        self.get(&format!("/api/tasks/{task}/audit"))
            .await
            .json()
            .await
            .expect("an audit trail")
    }

    /// The newest tasks in a state, up to a page of them.
    ///
    /// # Panics
    /// When they are not listed.
    pub async fn list(&self, status: TaskStatus) -> Vec<TaskSummary> {
        let page: Page<TaskSummary> = self
            .get(&format!("/api/tasks?limit=200&status={status}"))
            .await
            .json()
            .await
            .expect("a page");
        page.items
    }

    /// A task's archive, as it arrives.
    ///
    /// # Panics
    /// When there is none.
    pub async fn archive(&self, task: TaskId) -> Response {
        self.get(&format!("/api/tasks/{task}/result/zip")).await
    }

    /// A completed task's archive holds these files byte for byte.
    ///
    /// # Panics
    /// When it does not.
    pub async fn assert_archive(&self, task: TaskId, samples: &[Sample]) {
        let archive: Bytes = self
            .archive(task)
            .await
            .bytes()
            .await
            .expect("the archive arrives whole");
        archive::assert_holds(&archive, samples);
    }
}
