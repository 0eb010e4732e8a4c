//! Submitting and following tasks from code, typed by the task type: in the process of an engine, or
//! over HTTP. Must not know what becomes of a task.

mod error;
mod events;
mod form;
pub(crate) mod http;
mod http_error;
mod in_process;
mod links;
mod submit;
#[cfg(test)]
mod tests;
mod transaction;

pub use counterstep_kernel::ports::SqlStatement;
pub use error::{ClientError, Refusal};
pub use events::{Event, Events};
pub(crate) use submit::Options;
pub use submit::Submit;
pub use transaction::{SqlConnection, SqlError, Uncommitted};

use counterstep_contracts::http::{BATCH_MOST, BatchRequest, CancelAnswer, ChildSummary};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::operation::task_lists::{ChildrenQuery, GetLog, ListChildren, LogQuery};
use counterstep_contracts::operation::tasks::{CancelTask, RunTaskAgain, SendSignal, SignalOfTask};
use counterstep_contracts::operation::{Cursor, Limit};
use counterstep_contracts::run_again::RunAgainRequest;
use counterstep_contracts::{Problem, ProblemCode, TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::client::SubmitError;
use counterstep_operations::Run;
use counterstep_steps::task::output;
use counterstep_steps::{DistributedTask, StepError};
use http::OverHttp;
use in_process::{InProcess, refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// How long a wait continues while the API, or the database, does not answer.
const PUTS_UP_FOR: Duration = Duration::from_secs(60);

/// Pause between two polls of a wait.
const PAUSE: Duration = Duration::from_millis(100);

/// Submits tasks and follows them. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client(Way);

#[derive(Debug, Clone)]
enum Way {
    InProcess(Box<InProcess>),
    Http(OverHttp),
}

/// What became of each request of a batch.
type Submitted = Vec<Result<TaskId, ClientError>>;

/// A task as far as a client asks.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    task_type: String,
    status: TaskStatus,
    response: Option<Value>,
    failure: Option<String>,
}

impl Submit {
    pub(crate) fn checked(self) -> Result<Options, ClientError> {
        if let Some(key) = &self.key {
            check_key(key)?;
        }
        let labels = self.labels;
        let labels = labels.map_err(|error| refused(SubmitError::Label(error)))?;
        Ok(Options {
            key: self.key,
            labels,
            webhook: self.webhook,
        })
    }
}

impl Client {
    /// In the process of an engine. Tasks are those of the default tenant.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        Self(Way::InProcess(Box::new(InProcess::of(engine))))
    }

    /// Of the API at this address, as `http://127.0.0.1:7400`.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], where no HTTP client can be made.
    pub fn at(url: &str) -> Result<Self, ClientError> {
        OverHttp::at(url, None).map(|http| Self(Way::Http(http)))
    }

    /// The same, with an API key or another token for `Authorization: Bearer`. Tasks are those of the
    /// key's tenant.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], where no HTTP client can be made; [`ClientError::Refused`] for a
    /// token that is none.
    pub fn at_with_token(url: &str, token: &str) -> Result<Self, ClientError> {
        OverHttp::at(url, Some(token)).map(|http| Self(Way::Http(http)))
    }

    /// Submits a task of a type that takes no files.
    ///
    /// # Errors
    /// [`ClientError`]; after [`ClientError::Unavailable`] the task may be there.
    pub async fn submit<T: DistributedTask>(
        &self,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        self.submit_with(Submit::new(), request).await
    }

    /// The same, at most once for a key of 1 to 255 visible ASCII characters other than `"`: a
    /// repetition gets the handle of the first task, for as long as keys are kept (a day, unless the
    /// settings say otherwise). All types share the keys.
    ///
    /// # Errors
    /// [`ClientError`]; the key with another request is refused.
    pub async fn submit_once<T: DistributedTask>(
        &self,
        key: &str,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        self.submit_with(Submit::new().key(key), request).await
    }

    /// Submits up to 1,000 requests of one type together, each with a key and labels of its own. Gives
    /// the outcome of each, in order: one that is refused keeps no other from being accepted. All
    /// that are accepted are written by one commit.
    ///
    /// # Errors
    /// [`ClientError`] where none of them was looked at, or the database, or the API, does not
    /// answer: the same requests with the same keys tell then which of them took effect.
    pub async fn submit_batch<'a, T: DistributedTask>(
        &self,
        requests: impl IntoIterator<Item = (Submit, &'a T::Request)>,
    ) -> Result<Vec<Result<Handle<T>, ClientError>>, ClientError>
    where
        T::Request: 'a,
    {
        let mut sent = Vec::new();
        let places: Vec<Result<(), ClientError>> = requests
            .into_iter()
            .map(|(how, request)| {
                let (how, request) = (how.checked()?, body_of(request)?);
                sent.push(BatchRequest {
                    key: how.key,
                    labels: how.labels,
                    webhook: how.webhook,
                    request,
                });
                Ok(())
            })
            .collect();
        if places.len() > BATCH_MOST {
            let detail = format!(
                "invalid batch: {} requests; expected at most {BATCH_MOST}",
                places.len()
            );
            let problem = Problem::new(ProblemCode::TooLarge, detail);
            return Err(ClientError::of(problem, None));
        }
        let decl = T::task_type().decl;
        let submitted = match &self.0 {
            _ if sent.is_empty() => Vec::new(),
            Way::InProcess(here) => here.submit_batch(decl.name, sent).await?,
            Way::Http(http) => http.submit_batch(&decl.route(), sent).await?,
        };
        let mut submitted = submitted.into_iter();
        let one = |place: Result<(), ClientError>| match place {
            Ok(()) => submitted.next(),
            Err(error) => Some(Err(error)),
        };
        let outcomes = places.into_iter().filter_map(one);
        Ok(outcomes
            .map(|outcome| outcome.map(|task| self.handle(task)))
            .collect())
    }

    /// The same, with a key or without, and with labels by which the task is found.
    ///
    /// # Errors
    /// [`ClientError`]; a label that is none is refused.
    pub async fn submit_with<T: DistributedTask>(
        &self,
        how: Submit,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        let (options, body) = (how.checked()?, body_of(request)?);
        let decl = T::task_type().decl;
        let id = match &self.0 {
            Way::InProcess(here) => here.submit(decl.name, options, body).await?,
            Way::Http(http) => {
                let route = decl.route();
                let submitted = http.submit(&route, &options, body.to_string());
                submitted.await?.task_id
            }
        };
        Ok(self.handle(id))
    }

    /// What an operation of [`contracts::operation`](counterstep_contracts::operation) answers, as
    /// `client.call::<PauseQueue>(name, request)`. In the process of an engine the caller is an administrator of the installation,
    /// and over HTTP the holder of the token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn call<O: Run<Output: DeserializeOwned>>(
        &self,
        target: O::Target,
        input: O::Input,
    ) -> Result<O::Output, ClientError> {
        match &self.0 {
            Way::InProcess(here) => here.call::<O>(target, input).await,
            Way::Http(http) => Ok(http.call::<O>(target, input).await?),
        }
    }

    /// Of a task that was submitted before.
    #[must_use]
    pub fn handle<T: DistributedTask>(&self, task: TaskId) -> Handle<T> {
        Handle {
            client: self.clone(),
            task,
            of: PhantomData,
        }
    }
}

/// A task of type `T`.
pub struct Handle<T> {
    client: Client,
    task: TaskId,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            task: self.task,
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.task).finish()
    }
}

impl<T: DistributedTask> Handle<T> {
    /// Id of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.task
    }

    /// The same as [`id`](Self::id), under the name that the context of a step uses.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.id()
    }

    /// Where it stands.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no such task.
    pub async fn status(&self) -> Result<TaskStatus, ClientError> {
        Ok(self.look(false).await?.status)
    }

    /// Waits until it is at rest: it has ended, or waits for a person. Without a limit; what does not
    /// answer for less than a minute does not end the wait.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn wait(&self) -> Result<TaskStatus, ClientError> {
        Ok(self.rest().await?.status)
    }

    /// Waits until it is at rest, and gives its response.
    ///
    /// # Errors
    /// [`ClientError::NotCompleted`], where it rests without one.
    pub async fn response(&self) -> Result<T::Response, ClientError> {
        let seen = self.rest().await?;
        if seen.status != TaskStatus::Completed {
            return Err(ClientError::NotCompleted {
                status: seen.status,
                failure: seen.failure,
            });
        }
        // A response that is no value is left out of a body.
        Ok(serde_json::from_value(seen.response.unwrap_or_default())?)
    }

    /// The tasks that its steps have submitted so far, by step and place; [`Client::handle`] follows
    /// one of them.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no such task.
    pub async fn children(&self) -> Result<Vec<ChildSummary>, ClientError> {
        self.look(false).await?;
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let query = ChildrenQuery {
                step: None,
                status: Vec::new(),
                limit: Limit::MOST,
                cursor,
            };
            let page = self.client.call::<ListChildren>(self.task, query).await?;
            all.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(Cursor(next)),
                None => return Ok(all),
            }
        }
    }

    /// What its steps have logged, also while they run: the latest lines, in the order in which they
    /// were written. `after`: only those behind the `cursor` of an earlier page.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no such task.
    pub async fn log(&self, after: Option<&str>) -> Result<LogPage, ClientError> {
        self.look(false).await?;
        let query = LogQuery::after(after);
        self.client.call::<GetLog>(self.task, query).await
    }

    /// Cancels it: what it has done is undone.
    ///
    /// # Errors
    /// [`ClientError::Refused`], where it cannot be cancelled any more, or never.
    pub async fn cancel(&self) -> Result<CancelAnswer, ClientError> {
        self.client.call::<CancelTask>(self.task, ()).await
    }

    /// Runs it again once it has ended, as a new task: from the start, or from a step, with what the steps before it
    /// gave. `note`: why, for the audit. Over HTTP the key or token needs the role `operate`.
    ///
    /// # Errors
    /// [`ClientError::Refused`], where it has not ended, or cannot run again from that step.
    pub async fn run_again(&self, from: Option<&str>, note: &str) -> Result<Self, ClientError> {
        let task = match &self.client.0 {
            Way::InProcess(here) => here.run_again(self.task, from, note).await?,
            Way::Http(http) => {
                let request = RunAgainRequest {
                    from: from.map(str::to_owned),
                    request: None,
                    patch: None,
                    note: note.to_owned(),
                    actor: None,
                };
                let accepted = http.call::<RunTaskAgain>(self.task, request).await?;
                accepted.task_id
            }
        };
        Ok(self.client.handle(task))
    }

    /// Sends the signal that this step waits for, or will.
    ///
    /// # Errors
    /// [`ClientError::Refused`], where no step waits for it, or not any more, or it is of another type.
    pub async fn signal<B: Serialize + Sync>(
        &self,
        step: &str,
        body: &B,
    ) -> Result<(), ClientError> {
        let to = SignalOfTask {
            task: self.task,
            name: step.to_owned(),
        };
        let body = serde_json::to_value(body)?;
        self.client.call::<SendSignal>(to, body).await.map(drop)
    }

    async fn rest(&self) -> Result<Seen, ClientError> {
        self.until(true, |seen| seen.status.is_at_rest()).await
    }

    /// Looks until it sees enough. What does not answer for less than a minute does not end it.
    async fn until(
        &self,
        waits: bool,
        is_enough: impl Fn(&Seen) -> bool + Send,
    ) -> Result<Seen, ClientError> {
        let mut failing_since = None;
        loop {
            match self.look(waits).await {
                Ok(seen) if is_enough(&seen) => return Ok(seen),
                Ok(_) => failing_since = None,
                Err(ClientError::Unavailable(why)) => {
                    let since = *failing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= PUTS_UP_FOR {
                        return Err(ClientError::Unavailable(why));
                    }
                }
                Err(error) => return Err(error),
            }
            // A server that is about to stop answers a long poll at once.
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `waits`: for its rest, or for a while.
    async fn look(&self, waits: bool) -> Result<Seen, ClientError> {
        let seen = match &self.client.0 {
            Way::InProcess(here) if waits => here.rest(self.task).await?,
            Way::InProcess(here) => here.look(self.task).await?,
            Way::Http(http) => http.look(self.task, waits).await?,
        };
        let expected = T::task_type().decl.name;
        if seen.task_type != expected {
            let (task, found) = (self.task, &seen.task_type);
            return Err(ClientError::refused(format!(
                "task {task} is a {found}; expected a {expected}"
            )));
        }
        Ok(seen)
    }
}

/// A request as the API reads it, so that both ways refuse the same.
fn body_of(request: &impl Serialize) -> Result<Value, ClientError> {
    let invalid = |error: StepError| Problem::new(ProblemCode::InvalidRequest, error.message);
    output(request).map_err(|error| ClientError::of(invalid(error), None))
}

/// Visible ASCII, as the header takes it; quotes around a key would not be a part of it there.
fn check_key(key: &str) -> Result<(), ClientError> {
    let fits = (1..=255).contains(&key.len());
    if fits && key.bytes().all(|b| b.is_ascii_graphic() && b != b'"') {
        return Ok(());
    }
    let detail = format!(
        "invalid key `{}`; expected 1 to 255 visible ASCII characters other than quotes",
        key.escape_debug()
    );
    let problem = Problem::new(ProblemCode::MalformedIdempotencyKey, detail);
    Err(ClientError::of(problem.at("Idempotency-Key"), None))
}
