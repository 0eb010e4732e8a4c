//! The client's side of an engine of the same process.

use super::{ClientError, Options, Seen, Submitted};
use counterstep_contracts::http::BatchRequest;
use counterstep_contracts::{ProblemCode, TaskId, Tenant};
use counterstep_kernel::client::{self, BatchItem, Preparation, RunAgain, Submission, SubmitError};
use counterstep_kernel::ports::Signal;
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::webhooks::{WebhookUrl, Webhooks};
use counterstep_kernel::{Engine, record::load};
use counterstep_operations::{Caller, Cx, Process, Refused, Run, no_such_task, no_such_type};
use counterstep_steps::TaskType;
use counterstep_steps::traces::TRACES;
use futures::future::{Either, ready, select};
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, Span};

/// Pause between two polls of a task that another process may bring to rest: its signals may be lost.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// In the audit.
const ACTOR: &str = "client";

#[derive(Debug, Clone)]
pub(super) struct InProcess {
    pub(super) engine: Engine,
}

impl InProcess {
    pub(super) fn of(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
        }
    }

    /// What an operation answers to an administrator of the installation.
    pub(super) async fn call<O: Run>(
        &self,
        target: O::Target,
        input: O::Input,
    ) -> Result<O::Output, ClientError> {
        let cx = Cx {
            engine: self.engine.clone(),
            caller: Caller::anyone(),
            process: Arc::new(ThisProcess),
            mount_path: String::new(),
        };
        O::find(&cx, &target).map_err(refused)?;
        let running = async move { O::run(cx, target, input).await.map_err(refused) };
        match O::ABOUT.changes() {
            true => to_its_end(running).await,
            false => running.await,
        }
    }

    /// As the API: the newest version that this program knows.
    fn newest(&self, name: &str) -> Result<TaskType, ClientError> {
        self.engine
            .registry
            .newest(name)
            .ok_or_else(|| refused(no_such_type()))
    }

    /// What is submitted beside the request, and the span in which it is: below that of the caller.
    fn submission(
        &self,
        task_type: &str,
        options: Options,
    ) -> Result<(Submission, Span), ClientError> {
        let span = tracing::debug_span!(
            target: TRACES,
            "submit",
            otel.name = format_args!("submit {task_type}"),
            task_type,
        );
        let Options {
            key,
            labels,
            webhook,
        } = options;
        let webhook = webhook.map(|text| self.webhook(&text)).transpose()?;
        let submission = Submission {
            tenant: Tenant::default(),
            actor: ACTOR.to_owned(),
            key,
            traceparent: self.engine.traces.traceparent(&span),
            webhook,
            labels,
        };
        Ok((submission, span))
    }

    /// Decides on a task that a transaction of the caller's own writes.
    pub(super) async fn prepare(
        &self,
        name: &str,
        options: Options,
        body: Value,
    ) -> Result<Prepared, ClientError> {
        let task_type = self.newest(name)?;
        let (submission, span) = self.submission(name, options)?;
        let engine = self.engine.clone();
        let preparing = async move {
            let prepared = client::prepare(&engine, task_type, submission, body).await;
            match &prepared {
                // Counted when it is committed.
                Ok(Preparation::New(_)) => {}
                Ok(Preparation::Replayed(submitted)) => {
                    engine.observe_answer(&task_type, submitted.outcome());
                }
                Err(error) => engine.observe_answer(&task_type, error.outcome()),
            }
            match prepared.map_err(refused)? {
                Preparation::New(prepared) if prepared.is_alone() => {
                    prepared.give_up().await;
                    Err(ClientError::refused(
                        "a task that completes with its submission cannot have a webhook in a transaction of others: \
                         submit it with `submit_with`",
                    ))
                }
                Preparation::New(prepared) => Ok(Prepared::New(prepared)),
                Preparation::Replayed(submitted) => {
                    Ok(Prepared::Replayed(submitted.answer.task_id))
                }
            }
        };
        to_its_end(preparing.instrument(span)).await
    }

    pub(super) async fn submit(
        &self,
        name: &str,
        options: Options,
        body: Value,
    ) -> Result<TaskId, ClientError> {
        let task_type = self.newest(name)?;
        let (submission, span) = self.submission(name, options)?;
        let engine = self.engine.clone();
        let submitting = async move {
            let count = |error: SubmitError| {
                engine.observe_answer(&task_type, error.outcome());
                refused(error)
            };
            let submitted = client::take(&engine, task_type, submission, |session| {
                ready(session.body(body)).boxed()
            });
            let submitted = submitted.await.map_err(count)?;
            engine.observe_answer(&task_type, submitted.outcome());
            Ok(submitted.answer.task_id)
        };
        to_its_end(submitting.instrument(span)).await
    }

    /// Requests with their keys.
    pub(super) async fn submit_batch(
        &self,
        name: &str,
        requests: Vec<BatchRequest>,
    ) -> Result<Submitted, ClientError> {
        let task_type = self.newest(name)?;
        let item = |BatchRequest {
                        key,
                        labels,
                        webhook,
                        request,
                    }| {
            let webhook = webhook.map(|text| self.webhook(&text)).transpose()?;
            Ok(BatchItem {
                key,
                labels,
                webhook,
                body: request,
            })
        };
        let items = requests
            .into_iter()
            .map(item)
            .collect::<Result<_, ClientError>>()?;
        let (by, span) = self.submission(name, Options::default())?;
        let engine = self.engine.clone();
        let submitting = async move {
            let submitted = client::submit_all(&engine, task_type, by, items).await;
            let count = |error: SubmitError| {
                engine.observe_answer(&task_type, error.outcome());
                refused(error)
            };
            let each = |one: Result<client::Submitted, SubmitError>| {
                let submitted = one.map_err(count)?;
                engine.observe_answer(&task_type, submitted.outcome());
                Ok(submitted.answer.task_id)
            };
            let outcomes = submitted.map_err(count)?;
            Ok(outcomes.into_iter().map(each).collect())
        };
        to_its_end(submitting.instrument(span)).await
    }

    fn webhook(&self, text: &str) -> Result<WebhookUrl, ClientError> {
        let read = WebhookUrl::parse(text, &self.engine.settings.webhook_allow);
        read.map_err(|error| ClientError::refused(error.to_string()))
    }

    async fn record(&self, task: TaskId) -> Result<TaskRecord, ClientError> {
        let record = load::read(&self.engine, task).await.map_err(refused)?;
        record
            .filter(|record| record.task.tenant == Tenant::default())
            .ok_or_else(|| refused(no_such_task()))
    }

    pub(super) async fn look(&self, task: TaskId) -> Result<Seen, ClientError> {
        let row = self.record(task).await?.task;
        Ok(Seen {
            task_type: row.task_type,
            status: row.status,
            response: row.response,
            failure: row.failure.map(|failure| failure.message),
        })
    }

    pub(super) async fn rest(&self, task: TaskId) -> Result<Seen, ClientError> {
        let ports = &self.engine.ports;
        // Before the first look: a rest between the two is not missed.
        let mut rests = ports
            .signals
            .subscribe()
            .filter(|signal| std::future::ready(*signal == Signal::Rests(task)));
        let mut pause = PAUSE;
        loop {
            let seen = self.look(task).await?;
            if seen.status.is_at_rest() {
                return Ok(seen);
            }
            let sleep = ports.clock.sleep(pause);
            if let Either::Right(_) = select(pin!(rests.next()), sleep).await {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    pub(super) async fn run_again(
        &self,
        task: TaskId,
        from: Option<&str>,
        note: &str,
    ) -> Result<TaskId, ClientError> {
        self.look(task).await?;
        let order = RunAgain {
            from: from.map(str::to_owned),
            edit: None,
            actor: ACTOR.to_owned(),
            note: note.to_owned(),
            key: None,
            traceparent: self.engine.traceparent_of_submission(None),
            bulk: None,
        };
        let engine = self.engine.clone();
        to_its_end(async move {
            let again = client::run_again(&engine, task, order).await;
            again.map(|it| it.answer.task_id).map_err(refused)
        })
        .await
    }
}

/// A process without an API of its own.
#[derive(Debug)]
struct ThisProcess;

impl Process for ThisProcess {
    fn webhooks(&self) -> Result<&Webhooks, Refused> {
        let detail = "webhooks are sent by the API: use a client that talks to it over HTTP";
        Err(Refused::new(ProblemCode::WebhooksOff, detail))
    }

    fn forget_key(&self, _: &str) {}
}

/// What a request for a transaction of the caller's own comes to.
pub(super) enum Prepared {
    /// A task that is not written yet.
    New(Box<client::Prepared>),
    /// It repeats the request that made this task.
    Replayed(TaskId),
}

/// Runs a change to its end, also where its caller is dropped: what follows a commit is not to be
/// left out.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Result<T, ClientError> {
    match tokio::spawn(change).await {
        Ok(done) => done,
        Err(error) => Err(ClientError::Unavailable(format!(
            "the change was stopped: {error}"
        ))),
    }
}

/// In the words of the API.
pub(super) fn refused(error: impl Into<Refused>) -> ClientError {
    let (problem, retry_after) = error.into().into_parts();
    let after = retry_after.map(|seconds| Duration::from_secs(seconds.into()));
    ClientError::of(problem, after)
}
