//! What the code of a step asks of its context, in the process of the step: each a request over the socket, which the
//! process that runs the task carries out. What the code drops ends there too.

use super::child::{Line, Request};
use super::frame::{self, Down, Up, WireRequest};
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_steps::ports::{
    ByteStream, HttpServices, ObjectError, ObjectInfo, Objects, ServiceAnswer, ServiceError,
    ServiceRequest,
};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use std::io;
use std::sync::Arc;

/// Objects as the worker stores and reads them.
#[derive(Debug)]
pub(super) struct RemoteObjects(pub(super) Arc<Line>);

fn gone() -> ObjectError {
    ObjectError::Unavailable("the process that runs the task is gone".to_owned())
}

#[async_trait]
impl Objects for RemoteObjects {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let mut request = self.0.request();
        let id = request.id;
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let tell = |message: &Up, bytes: &[u8]| self.0.tell(message, bytes).map_err(|_| gone());
        tell(&Up::Put { id, bucket, key }, &[])?;
        let (mut body, mut left) = (body, Bytes::new());
        loop {
            match request.reply().await.ok_or_else(gone)?.0 {
                Down::Stored { stored, .. } => return stored,
                Down::Wants { .. } => {}
                _ => continue,
            }
            while left.is_empty() {
                match body.next().await {
                    Some(Ok(chunk)) => left = chunk,
                    Some(Err(error)) => {
                        let why = error.to_string();
                        tell(&Up::PutBroke { id, why }, &[])?;
                        break;
                    }
                    None => {
                        tell(&Up::PutEnd { id }, &[])?;
                        break;
                    }
                }
            }
            if !left.is_empty() {
                tell(&Up::PutChunk { id }, &frame::piece(&mut left))?;
            }
        }
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        let mut request = self.0.request();
        let id = request.id;
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let asked = self.0.tell(&Up::Get { id, bucket, key }, &[]);
        asked.map_err(|_| gone())?;
        match request.reply().await.ok_or_else(gone)?.0 {
            Down::Opened { opened, .. } => opened?,
            _ => return Err(gone()),
        }
        Ok(stream::unfold(Some(request), more).boxed())
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let mut request = self.0.request();
        let (id, prefix) = (request.id, prefix.to_owned());
        let asked = self.0.tell(&Up::Delete { id, prefix }, &[]);
        asked.map_err(|_| gone())?;
        match request.reply().await.ok_or_else(gone)?.0 {
            Down::Deleted { deleted, .. } => deleted,
            _ => Err(gone()),
        }
    }

    fn list(&self, _: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        let why = "a step lists no objects".to_owned();
        stream::iter([Err(ObjectError::Refused(why))]).boxed()
    }
}

/// The next piece of an object that is read.
async fn more(reading: Option<Request>) -> Option<(io::Result<Bytes>, Option<Request>)> {
    let mut reading = reading?;
    let id = reading.id;
    if let Err(error) = reading.line.tell(&Up::More { id }, &[]) {
        return Some((Err(error), None));
    }
    match reading.reply().await {
        Some((Down::Chunk { .. }, bytes)) => Some((Ok(bytes), Some(reading))),
        Some((Down::End { .. }, _)) => None,
        Some((Down::Broke { why, .. }, _)) => Some((Err(io::Error::other(why)), None)),
        Some(_) | None => Some((Err(io::Error::other(gone())), None)),
    }
}

/// Services as the worker calls them.
#[derive(Debug)]
pub(super) struct RemoteServices(pub(super) Arc<Line>);

#[async_trait]
impl HttpServices for RemoteServices {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        let gone = || ServiceError::Unanswered(gone().to_string());
        let mut sent = self.0.request();
        let id = sent.id;
        let (request, body) = WireRequest::of(request);
        let asked = self.0.tell(&Up::Call { id, request }, &body);
        asked.map_err(|_| gone())?;
        match sent.reply().await.ok_or_else(gone)? {
            (Down::Answer { answer, .. }, body) => answer.map(|answer| answer.with(body)),
            _ => Err(gone()),
        }
    }

    fn knows(&self, _: &str) -> bool {
        // The process that runs the task says so where it does not.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::parent::Desk;
    use super::*;
    use crate::folder::{FolderObjects, FolderScratch};
    use counterstep_contracts::{Attempt, Direction, Epoch, TaskId, Tenant};
    use counterstep_steps::{CancelToken, Execution, StepContext};
    use futures::poll;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::Duration;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::timeout;
    use uuid::Uuid;

    /// What has not happened after this long never will.
    const LIMIT: Duration = Duration::from_secs(60);

    fn execution() -> Execution {
        Execution {
            tenant: Tenant::default(),
            task: TaskId(Uuid::now_v7()),
            step: "pack".to_owned(),
            direction: Direction::Forward,
            attempt: Attempt(1),
            epoch: Epoch(1),
        }
    }

    /// Hands on all that the process has written so far.
    fn hand_on(from: &mut UnixStream, desk: &mut Desk) {
        while let Ok(Some((asked, bytes))) = frame::read_blocking(from) {
            desk.take(asked, bytes);
        }
    }

    fn files(folder: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return 0;
        };
        let of_entry = |path: &Path| if path.is_dir() { files(path) } else { 1 };
        entries.flatten().map(|entry| of_entry(&entry.path())).sum()
    }

    #[tokio::test]
    async fn what_the_code_drops_leaves_no_upload_half_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let stored = folder.path().join("objects");
        let objects = FolderObjects::open(&stored).expect("a folder of objects");
        let scratch =
            FolderScratch::open(&folder.path().join("scratch")).expect("a scratch folder");
        let (execution, cancel) = (execution(), CancelToken::new());
        let prefix = execution.prefix();
        let context = StepContext::new(execution, cancel, Arc::new(objects), Arc::new(scratch));
        let (replies, _answers) = unbounded_channel();
        let mut desk = Desk::new(Arc::new(context), replies);
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.set_nonblocking(true).expect("a socket");
        let remote = RemoteObjects(Arc::new(Line::new(ours)));

        let keys: Vec<String> = (0..5).map(|number| format!("{prefix}{number}")).collect();
        let mut puts = Vec::new();
        for key in &keys {
            let mut put = remote.put("logs", key, stream::pending().boxed());
            assert!(poll!(&mut put).is_pending());
            puts.push(put);
        }
        hand_on(&mut theirs, &mut desk);
        let begun = async {
            while files(&stored) < keys.len() {
                assert!(poll!(desk.work.next()).is_pending());
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, begun).await.expect("half-done uploads");
        drop(puts);
        hand_on(&mut theirs, &mut desk);
        let over = async {
            while desk.work.next().await.is_some() {}
            // The files go on a thread of their own.
            while files(&stored) > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, over).await.expect("the end of the uploads");
    }
}
