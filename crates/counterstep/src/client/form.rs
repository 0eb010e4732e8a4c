//! A form with files, which are read from the disk while it is sent. Must not send it.

use super::http_error::HttpError;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use reqwest::multipart::{Form, Part};
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// A form on its way: how much of it has moved, and why a file of it broke off.
#[derive(Debug, Default, Clone)]
pub(super) struct Sending {
    bytes: Arc<AtomicU64>,
    broken: Arc<OnceLock<HttpError>>,
}

impl Sending {
    /// The request's fields, then files by field. Opens each file: what cannot be read is refused before anything is sent.
    pub(super) async fn form(
        &self,
        fields: &Map<String, Value>,
        files: &[(String, PathBuf)],
    ) -> Result<Form, HttpError> {
        let mut form = Form::new();
        for (field, value) in fields {
            let part = Part::text(value.to_string()).mime_str("application/json");
            let part = part.map_err(|error| HttpError::unreachable(&error))?;
            form = form.part(field.clone(), part);
        }
        for (field, path) in files {
            form = form.part(field.clone(), self.file(path).await?);
        }
        Ok(form)
    }

    async fn file(&self, path: &Path) -> Result<Part, HttpError> {
        let cannot = |error| HttpError::unread(path, &error);
        let file = File::open(path).await.map_err(cannot)?;
        let metadata = file.metadata().await.map_err(cannot)?;
        if metadata.is_dir() {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        }
        // A pipe has no size, and a file of `/proc` says 0: those are read to their end.
        let size = Some(metadata.len()).filter(|size| metadata.is_file() && *size > 0);
        let chunks = self.chunks(path.to_owned(), file, size);
        let part = match size {
            Some(size) => Part::stream_with_length(reqwest::Body::wrap_stream(chunks), size),
            None => Part::stream(reqwest::Body::wrap_stream(chunks)),
        };
        let name = path.file_name().unwrap_or_default();
        Ok(part.file_name(name.to_string_lossy().into_owned()))
    }

    /// The content. Of a file with a size exactly that number of bytes, also where the file grows meanwhile.
    fn chunks(
        &self,
        path: PathBuf,
        file: File,
        size: Option<u64>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let sending = self.clone();
        let chunks = ReaderStream::new(file.take(size.unwrap_or(u64::MAX)));
        stream::try_unfold((chunks, 0), move |(mut chunks, before)| {
            let (sending, path) = (sending.clone(), path.clone());
            async move {
                let error = match chunks.next().await {
                    Some(Ok(chunk)) => {
                        let sent = before + chunk.len() as u64;
                        sending
                            .bytes
                            .fetch_add(chunk.len() as u64, Ordering::Relaxed);
                        return Ok(Some((chunk, (chunks, sent))));
                    }
                    Some(Err(error)) => error,
                    None => match size.filter(|size| before < *size) {
                        None => return Ok(None),
                        Some(size) => io::Error::new(
                            io::ErrorKind::UnexpectedEof,
                            format!(
                                "it had {size} bytes when it was opened, and {before} when it was sent"
                            ),
                        ),
                    },
                };
                let _ = sending.broken.set(HttpError::unread(&path, &error));
                Err(error)
            }
        })
    }

    /// Bytes of files that have been read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What became of the request: a file that broke off is no failure of the connection.
    pub(super) fn outcome<T>(self, answer: Result<T, HttpError>) -> Result<T, HttpError> {
        match (answer, self.broken.get()) {
            (Err(HttpError::Unreachable(_)), Some(broken)) => Err(broken.clone()),
            (answer, _) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;
    use std::io::Write;

    #[tokio::test]
    async fn a_file_is_sent_as_long_as_it_was_when_it_was_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, [b'x'; 100_000]).expect("a file");
        let sending = Sending::default();
        let open = || async { File::open(&path).await.expect("it opens") };
        let grows = sending.chunks(path.clone(), open().await, Some(100_000));
        let log = std::fs::OpenOptions::new().append(true).open(&path);
        let mut log = log.expect("it opens");
        log.write_all(b"y").expect("it is written");
        let sent: Vec<Bytes> = grows.try_collect().await.expect("it is read");
        assert_eq!(sent.concat(), [b'x'; 100_000]);
        assert_eq!(sending.bytes(), 100_000);
        let shrinks = sending.chunks(path.clone(), open().await, Some(100_001));
        log.set_len(70_000).expect("it is cut");
        let sent: Result<Vec<Bytes>, _> = shrinks.try_collect().await;
        sent.expect_err("it is shorter");
        let unreachable = Err::<(), _>(HttpError::Unreachable("the body broke off".to_owned()));
        let said = match sending.outcome(unreachable) {
            Err(HttpError::File(said)) => said,
            other => panic!("{other:?}"),
        };
        assert!(
            said.contains("log` cannot be read: it had 100001 bytes"),
            "{said}"
        );
    }
}
