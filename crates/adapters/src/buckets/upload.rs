//! Streaming an object to its place in a bucket, in bounded memory. Must not leave an open upload
//! behind, however the future ends.

use super::backends::Backend;
use super::client::has_code;
use super::connection::retry_pause;
use bytes::{Bytes, BytesMut};
use counterstep_kernel::ports::{ByteStream, ObjectError};
use futures::StreamExt;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt, PutPayload};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Parts on their way at a time, besides the one that is being gathered.
const IN_FLIGHT: usize = 2;
/// Maximum number of parts of an upload, as S3 has it.
const MAX_PARTS: usize = 10_000;
/// How often an abort is tried before the sweep is left to do it.
const ABORT_TRIES: u32 = 3;

/// Stores a body: a small one with one request, a larger one in parts.
pub(super) async fn put(
    backend: &Arc<Backend>,
    path: &Path,
    body: ByteStream,
    part_bytes: usize,
) -> Result<u64, ObjectError> {
    let mut source = Source {
        body,
        rest: Bytes::new(),
        part_bytes,
        size_bytes: 0,
    };
    let first = source.part().await?;
    if first.len() < part_bytes {
        let size_bytes = first.len() as u64;
        backend
            .client
            .store()
            .put(path, first.into())
            .await
            .map_err(|error| backend.unavailable(error))?;
        return Ok(size_bytes);
    }
    let id = backend
        .client
        .parts()
        .create_multipart(path)
        .await
        .map_err(|error| backend.unavailable(error))?;
    let mut upload = Upload {
        backend: backend.clone(),
        path: path.clone(),
        id,
        open: true,
    };
    let stored = match upload.send(first, &mut source).await {
        Ok(parts) => upload.complete(parts, source.size_bytes).await,
        Err(error) => Err(error),
    };
    match stored {
        Ok(()) => {
            upload.open = false;
            Ok(source.size_bytes)
        }
        Err(error) => {
            upload.open = false;
            abort(&upload.backend, &upload.path, &upload.id).await;
            Err(error)
        }
    }
}

/// A body cut into parts.
struct Source {
    body: ByteStream,
    /// What is left of a chunk that did not fit.
    rest: Bytes,
    part_bytes: usize,
    size_bytes: u64,
}

impl Source {
    /// The next part; one that is not whole is the last, and may be empty. Copies: a chunk of ten
    /// bytes may keep a large buffer alive, and memory would follow the source's habits.
    async fn part(&mut self) -> Result<Bytes, ObjectError> {
        let mut part = BytesMut::new();
        loop {
            let fits = self.rest.len().min(self.part_bytes - part.len());
            part.extend_from_slice(&self.rest.split_to(fits));
            if part.len() == self.part_bytes {
                break;
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(error)) => return Err(ObjectError::Source(error.to_string())),
                None => break,
            }
        }
        self.size_bytes += part.len() as u64;
        Ok(part.freeze())
    }
}

/// An open upload, aborted when it is dropped open.
struct Upload {
    backend: Arc<Backend>,
    path: Path,
    id: MultipartId,
    open: bool,
}

impl Upload {
    /// Sends all parts, a few at a time, and gives their receipts in order. Dropped, it ends what
    /// is on its way.
    async fn send(&self, first: Bytes, source: &mut Source) -> Result<Vec<PartId>, ObjectError> {
        // Tasks and not futures: what is on its way moves on while the source is waited for.
        let mut on_the_way = JoinSet::new();
        let mut receipts: Vec<Option<PartId>> = Vec::new();
        let mut part = first;
        loop {
            if receipts.len() == MAX_PARTS {
                let (most, mib) = (
                    (MAX_PARTS * source.part_bytes) >> 20,
                    source.part_bytes >> 20,
                );
                return Err(ObjectError::Refused(format!(
                    "the object is larger than {most} MiB, which is all that {MAX_PARTS} parts of {mib} MiB hold: raise \
                     part_mib in the object store's URL"
                )));
            }
            while on_the_way.len() >= IN_FLIGHT {
                self.receive(on_the_way.join_next().await, &mut receipts)?;
            }
            let whole = part.len() == source.part_bytes;
            let (backend, path, id, number) = (
                self.backend.clone(),
                self.path.clone(),
                self.id.clone(),
                receipts.len(),
            );
            receipts.push(None);
            let payload = PutPayload::from_bytes(part);
            on_the_way.spawn(async move {
                (
                    number,
                    backend
                        .client
                        .parts()
                        .put_part(&path, &id, number, payload)
                        .await,
                )
            });
            if !whole {
                break;
            }
            part = source.part().await?;
            if part.is_empty() {
                break;
            }
        }
        while !on_the_way.is_empty() {
            self.receive(on_the_way.join_next().await, &mut receipts)?;
        }
        Ok(receipts.into_iter().flatten().collect())
    }

    fn receive(
        &self,
        sent: Option<Result<(usize, object_store::Result<PartId>), tokio::task::JoinError>>,
        receipts: &mut [Option<PartId>],
    ) -> Result<(), ObjectError> {
        match sent {
            Some(Ok((number, Ok(receipt)))) => receipts[number] = Some(receipt),
            Some(Ok((_, Err(error)))) => return Err(self.backend.unavailable(error)),
            Some(Err(error)) => return Err(self.backend.unavailable(error)),
            None => {}
        }
        Ok(())
    }

    async fn complete(&self, parts: Vec<PartId>, size_bytes: u64) -> Result<(), ObjectError> {
        let error = match self
            .backend
            .client
            .parts()
            .complete_multipart(&self.path, &self.id, parts)
            .await
        {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        // The answer to a first try may have been lost, and the server no longer knows an upload
        // that is complete. No other attempt writes to this key, so an object of this size is the
        // one.
        match self.backend.client.store().head(&self.path).await {
            Ok(found) if found.size == size_bytes && is_not_found(&error) => Ok(()),
            Ok(_) | Err(_) => Err(self.backend.unavailable(error)),
        }
    }
}

/// Whether the server says that there is no such upload. Azure, which knows parts alone, has none
/// left to complete.
fn is_not_found(error: &object_store::Error) -> bool {
    let codes = ["NoSuchUpload", "InvalidBlockList"];
    codes.iter().any(|code| has_code(error, code))
        || matches!(error, object_store::Error::NotFound { .. })
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let (backend, path, id) = (
            self.backend.clone(),
            self.path.clone(),
            std::mem::take(&mut self.id),
        );
        // Without a runtime the process is about to end: then the sweep finds it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { abort(&backend, &path, &id).await });
        }
    }
}

async fn abort(backend: &Backend, path: &Path, id: &MultipartId) {
    for tried in 0..ABORT_TRIES {
        match backend.client.parts().abort_multipart(path, id).await {
            Ok(()) => return,
            Err(error) if is_not_found(&error) => return,
            Err(error) => tracing::debug!(%error, %path, "an upload could not be aborted"),
        }
        tokio::time::sleep(retry_pause(tried)).await;
    }
    tracing::warn!(%path, "an upload stays open until the next sweep: the object store does not abort it");
}
