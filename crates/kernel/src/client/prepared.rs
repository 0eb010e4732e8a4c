//! A submission that is decided and that another transaction than the store's writes. Must not
//! announce what is not committed.

use super::submission::{Submission, SubmitError, Submitted};
use super::upload_session::{Decided, NewSubmission, UploadSession};
use crate::change::announce::announce_new;
use crate::change::queue_wait::QueueWait;
use crate::change::transition::PlaceWrite;
use crate::engine::Engine;
use crate::ports::{SqlStatement, StoreError};
use crate::retry_decision::INLINE_LIMIT;
use crate::task::TaskType;
use counterstep_contracts::TaskId;
use futures::future::BoxFuture;
use serde_json::Value;
use std::time::Duration;

/// A task whose first change is not written yet. Dropped, it leaves nothing behind.
#[derive(Debug)]
#[must_use = "a prepared task is written by its statement, and announced by `committed`"]
pub struct Prepared {
    session: UploadSession,
    new: NewSubmission,
}

/// What a request without files comes to before anything is written.
#[derive(Debug)]
pub enum Preparation {
    /// A task.
    New(Box<Prepared>),
    /// It repeats an earlier one.
    Replayed(Submitted),
}

impl Preparation {
    /// As [`prepare`]; the steps at the head end by this time of the process's clock.
    pub(super) fn until(
        engine: &Engine,
        task_type: TaskType,
        submission: Submission,
        body: Value,
        inline_until: Duration,
    ) -> BoxFuture<'_, Result<Self, SubmitError>> {
        Box::pin(async move {
            let mut session = UploadSession::begin(engine, task_type, submission).await?;
            let decided = match session.body(body) {
                Ok(()) => session.decide(inline_until).await,
                Err(error) => Err(error),
            };
            match decided {
                Ok(Decided::New(new)) => Ok(Self::New(Box::new(Prepared { session, new: *new }))),
                Ok(Decided::Replayed(submitted)) => Ok(Self::Replayed(submitted)),
                Err(error) => session.unless_refused(Err(error)).await,
            }
        })
    }
}

/// Checks a request that is one JSON value, runs the pure steps at its head, and decides on its
/// task.
///
/// # Errors
/// As [`UploadSession::submit`].
pub fn prepare(
    engine: &Engine,
    task_type: TaskType,
    submission: Submission,
    body: Value,
) -> BoxFuture<'_, Result<Preparation, SubmitError>> {
    let until = engine.ports.clock.monotonic() + INLINE_LIMIT;
    Preparation::until(engine, task_type, submission, body, until)
}

impl Prepared {
    /// The task's id, once it is committed.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.session.task_id()
    }

    /// The statement that writes it, as [`Store::statement`](crate::ports::Store::statement) has it.
    ///
    /// # Errors
    /// When the change holds what the database cannot store.
    pub fn statement(&self) -> Result<Option<SqlStatement>, StoreError> {
        let store = &self.session.engine().ports.store;
        store.statement(&self.new.transition)
    }

    /// Whether its task completes with its submission, and has a webhook to tell so, or takes a place
    /// that another one may have by then: such a change is written alone.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let change = &self.new.transition;
        change.document.is_some()
            || matches!(change.place, Some(PlaceWrite::Put { no: Some(_), .. }))
    }

    /// Writes and announces it, alone.
    pub(super) async fn commit(self) -> Result<Submitted, SubmitError> {
        let Self { mut session, new } = self;
        match session.commit(new).await {
            Err(SubmitError::PlaceTaken) => session.submit().await,
            other => other,
        }
    }

    /// Announces the task, as a commit of the store's does. `false`: it is not in the database.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn committed(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let engine = self.session.engine();
            // Of its word alone the caller would announce a task that it has rolled back, or whose
            // commit was lost.
            let Some(record) = engine.ports.store.load(self.task_id()).await? else {
                return Ok(false);
            };
            let at = record.task.created_at;
            announce_new(engine, &self.new.transition, at, QueueWait::Full).await;
            Ok(true)
        })
    }

    pub(super) const fn decided(&self) -> &NewSubmission {
        &self.new
    }

    pub(super) const fn submission(&self) -> &Submission {
        self.session.submission()
    }

    /// It will not be written.
    pub fn give_up(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.session
                .abandon("the task was not written after all")
                .await;
        })
    }
}
