//! Where each part of a form goes: a file to the store, a text or a JSON value to a field of the request. Must not touch the
//! connection, so that it goes on when the client does not.

use super::parts::is_json;
use super::{Form, Part, PartKind};
use crate::problem::malformed;
use crate::request_json;
use counterstep_kernel::client::UploadSession;
use counterstep_kernel::ports::ByteStream;
use counterstep_operations::Refused;
use futures::{StreamExt, stream};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Puts all parts of a form into an upload session, as they arrive.
pub(crate) async fn put_parts(session: &mut UploadSession, form: Form) -> Result<(), Refused> {
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
