//! The client's side of an engine of the same process.

use super::{ClientError, Seen};
use counterstep_contracts::http::CancelAnswer;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::client::{
    self, Refusal, SignalRefusal, Submission, SubmitError, UploadSession,
};
use counterstep_kernel::ports::Signal;
use counterstep_kernel::{Engine, load};
use counterstep_steps::TaskType;
use futures::StreamExt;
use futures::future::{Either, select};
use serde_json::Value;
use std::pin::pin;
use std::time::Duration;

/// Between two looks at a task that another process may bring to rest: its signals may skip.
const PAUSE: Duration = Duration::from_millis(200);

/// No look is later than this after the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// In the audit.
const ACTOR: &str = "client";

#[derive(Debug, Clone)]
pub(super) struct InProcess {
    engine: Engine,
}

impl InProcess {
    pub(super) fn of(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
        }
    }

    pub(super) async fn submit(
        &self,
        task_type: TaskType,
        key: Option<&str>,
        body: Value,
    ) -> Result<TaskId, ClientError> {
        let submission = Submission {
            tenant: Tenant::default(),
            key: key.map(str::to_owned),
            traceparent: None,
        };
        let begun = UploadSession::begin(&self.engine, task_type, submission).await;
        let mut session = begun.map_err(refused)?;
        let submitted = match session.body(body) {
            Ok(()) => session.submit().await,
            Err(error) => Err(error),
        };
        match submitted {
            Ok(submitted) => Ok(submitted.answer.task_id),
            Err(error) => {
                session.abandon("the request was refused").await;
                Err(refused(error))
            }
        }
    }

    pub(super) async fn look(&self, task: TaskId) -> Result<Seen, ClientError> {
        let record = load::read(&self.engine, task)
            .await
            .map_err(|error| ClientError::Unavailable(error.to_string()))?;
        let row = record
            .filter(|record| record.task.tenant == Tenant::default())
            .ok_or_else(|| ClientError::Refused("there is no such task".to_owned()))?
            .task;
        Ok(Seen {
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

    pub(super) async fn cancel(&self, task: TaskId) -> Result<CancelAnswer, ClientError> {
        match client::cancel(&self.engine, task).await {
            Ok(cancelled) => Ok(cancelled.answer),
            Err(Refusal::Change(error)) => Err(ClientError::Unavailable(error.to_string())),
            Err(refusal) => Err(ClientError::Refused(refusal.to_string())),
        }
    }

    pub(super) async fn signal(
        &self,
        task: TaskId,
        step: &str,
        body: Value,
    ) -> Result<(), ClientError> {
        match client::signal(&self.engine, task, step, body, ACTOR).await {
            Ok(_) => Ok(()),
            Err(SignalRefusal::Change(error)) => Err(ClientError::Unavailable(error.to_string())),
            Err(refusal) => Err(ClientError::Refused(refusal.to_string())),
        }
    }
}

fn refused(error: SubmitError) -> ClientError {
    match error {
        SubmitError::Store(_) | SubmitError::Objects(_) | SubmitError::TooSlow => {
            ClientError::Unavailable(error.to_string())
        }
        SubmitError::Invalid(_)
        | SubmitError::InProgress
        | SubmitError::KeyMismatch
        | SubmitError::Source(_)
        | SubmitError::Declaration(_)
        | SubmitError::Moved
        | SubmitError::Disabled(_) => ClientError::Refused(error.to_string()),
    }
}
