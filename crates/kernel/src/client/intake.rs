//! A request from its begin until it is a task or nothing, however it arrives: the API's forms and bodies, a program's own calls, the
//! testkit's forms. Owns what becomes of one that is refused, breaks off, or whose commit is unknown. Must not know a protocol.

use super::submission::{Submission, SubmitError, Submitted};
use super::upload_session::UploadSession;
use crate::engine::Engine;
use crate::task::TaskType;
use futures::future::BoxFuture;
use std::fmt::Display;

/// Submits a request, whose fields and files `arrive` puts into the session. It goes on where its caller's client does not.
///
/// # Errors
/// As the session has them, or what `arrive` says. With [`StoreError::Unknown`](crate::ports::StoreError::Unknown) the task may be
/// there, and what it stored is there with it.
pub async fn take<E: From<SubmitError> + Display>(
    engine: &Engine,
    task_type: TaskType,
    submission: Submission,
    arrive: impl for<'a> FnOnce(&'a mut UploadSession) -> BoxFuture<'a, Result<(), E>>,
) -> Result<Submitted, E> {
    let mut session = UploadSession::begin(engine, task_type, submission).await?;
    let submitted = match arrive(&mut session).await {
        Ok(()) => session.submit().await.map_err(E::from),
        Err(refused) => Err(refused),
    };
    session.unless_refused(submitted).await
}

impl UploadSession {
    /// The end of a request. Where it has come to nothing, what it stored is taken away again. A commit whose answer was lost is no
    /// exception: [`abandon`](Self::abandon) condemns the receive first, which a commit still on its way then finds, or waits for
    /// the task and leaves it what it has.
    pub(crate) async fn unless_refused<T, E: Display>(self, ended: Result<T, E>) -> Result<T, E> {
        if let Err(error) = &ended {
            self.abandon(&error.to_string()).await;
        }
        ended
    }
}
