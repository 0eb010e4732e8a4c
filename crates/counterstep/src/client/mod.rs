//! Submitting and following tasks from code, typed by the task type: in the process of an engine, or
//! over HTTP. Must not know what becomes of a task.

mod http;
mod in_process;
#[cfg(test)]
mod tests;

use counterstep_contracts::http::CancelAnswer;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_steps::DistributedTask;
use http::OverHttp;
use in_process::InProcess;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

/// Submits tasks and follows them. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client(Way);

#[derive(Debug, Clone)]
enum Way {
    InProcess(Box<InProcess>),
    Http(OverHttp),
}

/// What was asked was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request is refused, in the words of the API's problem documents.
    #[error("the request is refused: {0}")]
    Refused(String),
    /// The task came to rest without a response.
    #[error("the task is {status}{}", failure.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
    NotCompleted {
        /// Where it rests.
        status: TaskStatus,
        /// Why, where it says so.
        failure: Option<String>,
    },
    /// A request or a response is not of the declared type.
    #[error("{0}")]
    Type(#[from] serde_json::Error),
    /// The database, or the API, does not answer. Whether the request took effect is unknown: the same
    /// request with the same key tells.
    #[error("{0}")]
    Unavailable(String),
}

/// A task as far as a client asks.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    status: TaskStatus,
    response: Option<Value>,
    failure: Option<String>,
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
        OverHttp::at(url).map(|http| Self(Way::Http(http)))
    }

    /// Submits a task of a type that takes no files.
    ///
    /// # Errors
    /// [`ClientError`]; after [`ClientError::Unavailable`] the task may be there.
    pub async fn submit<T: DistributedTask>(
        &self,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        self.send::<T>(None, request).await
    }

    /// The same, at most once for a key: a repetition gets the handle of the first task.
    ///
    /// # Errors
    /// [`ClientError`]; the key with another request is refused.
    pub async fn submit_once<T: DistributedTask>(
        &self,
        key: &str,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        self.send::<T>(Some(key), request).await
    }

    async fn send<T: DistributedTask>(
        &self,
        key: Option<&str>,
        request: &T::Request,
    ) -> Result<Handle<T>, ClientError> {
        let (task_type, body) = (T::task_type(), serde_json::to_value(request)?);
        let id = match &self.0 {
            Way::InProcess(here) => here.submit(task_type, key, body).await?,
            Way::Http(http) => http.submit(&task_type.decl.route(), key, &body).await?,
        };
        Ok(self.handle(id))
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
    /// Its id.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.task
    }

    /// Where it stands.
    ///
    /// # Errors
    /// [`ClientError`]; also when there is no such task.
    pub async fn status(&self) -> Result<TaskStatus, ClientError> {
        let seen = match &self.client.0 {
            Way::InProcess(here) => here.look(self.task).await?,
            Way::Http(http) => http.look(self.task, false).await?,
        };
        Ok(seen.status)
    }

    /// Waits until it is at rest: it has ended, or waits for a person.
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
        match seen
            .response
            .filter(|_| seen.status == TaskStatus::Completed)
        {
            Some(response) => Ok(serde_json::from_value(response)?),
            None => Err(ClientError::NotCompleted {
                status: seen.status,
                failure: seen.failure,
            }),
        }
    }

    /// Cancels it: what it has done is undone.
    ///
    /// # Errors
    /// [`ClientError::Refused`], where it cannot be cancelled any more, or never.
    pub async fn cancel(&self) -> Result<CancelAnswer, ClientError> {
        match &self.client.0 {
            Way::InProcess(here) => here.cancel(self.task).await,
            Way::Http(http) => http.cancel(self.task).await,
        }
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
        let body = serde_json::to_value(body)?;
        match &self.client.0 {
            Way::InProcess(here) => here.signal(self.task, step, body).await,
            Way::Http(http) => http.signal(self.task, step, &body).await,
        }
    }

    async fn rest(&self) -> Result<Seen, ClientError> {
        match &self.client.0 {
            Way::InProcess(here) => here.rest(self.task).await,
            Way::Http(http) => loop {
                let seen = http.look(self.task, true).await?;
                if seen.status.is_at_rest() {
                    return Ok(seen);
                }
            },
        }
    }
}
