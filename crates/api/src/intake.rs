//! A submission on its way into the engine: what of a body or a form goes into its upload session, and which refusals come of it.
//! Must not touch the connection, so that it goes on when the client does not.

use crate::form::{Form, Part, PartKind, is_json};
use crate::long_poll::{Rests, WaitFor};
use crate::problem::malformed;
use crate::request_json;
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, Submission, Submitted, UploadSession};
use counterstep_kernel::ports::ByteStream;
use counterstep_operations::Refused;
use counterstep_steps::TaskType;
use futures::future::ready;
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A request that was accepted.
pub(crate) struct Taken {
    pub(crate) submitted: Submitted,
    /// The wait for the rest of its task, from before there was one; `None`: the client does not
    /// wait.
    pub(crate) wait: Option<WaitFor>,
}

/// Submits a request that is one JSON value. `rests`: subscribe here if the client waits for
/// the end.
pub(crate) async fn of_json(
    engine: Engine,
    task_type: TaskType,
    submission: Submission,
    body: Value,
    rests: Option<Rests>,
) -> Result<Taken, Refused> {
    let mut wait = None;
    let submitted = client::take(&engine, task_type, submission, |session| {
        wait = rests.map(|rests| rests.of(session.task_id()));
        let taken = session.body(body).map_err(Refused::from);
        ready(taken).boxed()
    });
    let submitted = submitted.await?;
    Ok(Taken { submitted, wait })
}

/// Submits a request that is a form, as it arrives.
pub(crate) async fn of_form(
    engine: Engine,
    task_type: TaskType,
    submission: Submission,
    form: Form,
    rests: Option<Rests>,
) -> Result<Taken, Refused> {
    let mut wait = None;
    let submitted = client::take(&engine, task_type, submission, |session| {
        wait = rests.map(|rests| rests.of(session.task_id()));
        take_parts(session, form).boxed()
    });
    let submitted = submitted.await?;
    Ok(Taken { submitted, wait })
}

async fn take_parts(session: &mut UploadSession, form: Form) -> Result<(), Refused> {
    let form = Arc::new(Mutex::new(Arrival {
        form,
        failure: None,
    }));
    loop {
        let part = form.lock().await.form.part().await?;
        let Some(Part { field, kind }) = part else {
            return Ok(());
        };
        // A page can send a typed part beside a file only as a `Blob`, which always has a file
        // name.
        let kind = match kind {
            PartKind::File { name, content_type }
                if is_json(Some(&content_type))
                    && !session.takes_file(&field, &name, &content_type) =>
            {
                PartKind::Json
            }
            kind => kind,
        };
        match kind {
            PartKind::File { name, content_type } => {
                let stored = session
                    .file(&field, name, &content_type, bytes_of(form.clone()))
                    .await;
                if let Err(error) = stored {
                    // The store only saw its source break off; why it did is known here.
                    return Err(form
                        .lock()
                        .await
                        .failure
                        .take()
                        .unwrap_or_else(|| error.into()));
                }
            }
            PartKind::Json => {
                let text = form.lock().await.form.text().await?;
                let value = request_json::parse(&text).map_err(|refused| refused.at(&*field))?;
                session.field(&field, value)?;
            }
            PartKind::Text => {
                let text = form.lock().await.form.text().await?;
                let text = String::from_utf8(text)
                    .map_err(|_| malformed("a text field must be UTF-8").at(&*field))?;
                if text.contains('\0') {
                    return Err(request_json::no_nul().at(field));
                }
                session.text(&field, text)?;
            }
        }
    }
}

/// A form, and why it broke off while a store was reading from it.
#[derive(Debug)]
struct Arrival {
    form: Form,
    failure: Option<Refused>,
}

/// The current part's bytes. The lock is never waited for: while this stream is read, no other
/// code uses the form.
fn bytes_of(form: Arc<Mutex<Arrival>>) -> ByteStream {
    stream::unfold(Some(form), |form| async move {
        let form = form?;
        let mut arrival = form.lock().await;
        match arrival.form.data().await {
            Ok(Some(bytes)) => {
                drop(arrival);
                Some((Ok(bytes), Some(form)))
            }
            Ok(None) => None,
            Err(refused) => {
                let error = std::io::Error::other(refused.detail().to_owned());
                arrival.failure = Some(refused);
                Some((Err(error), None))
            }
        }
    })
    .boxed()
}
