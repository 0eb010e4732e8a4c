//! Objects in the buckets of a server, whatever kind it is: what `s3` and `azure` have in common.
//!
//! Must not rest on what only some such servers can do: nothing here is a conditional write, and
//! nothing is ever read before it is written. Correctness comes from keys that no two attempts
//! share.

pub(crate) mod backends;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod credentials;
mod pages;
pub mod settings;
mod upload;

use crate::key_checks;
use async_trait::async_trait;
use backends::{Backend, Backends};
use client::{OpenUpload, UploadsFound};
use counterstep_kernel::ports::{ByteStream, Listed, ObjectError, ObjectInfo, ObjectPage, Objects};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStoreExt};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Objects in the buckets of a server.
#[derive(Debug, Clone)]
pub struct BucketObjects {
    backends: Arc<Backends>,
    part_bytes: usize,
}

impl BucketObjects {
    pub(crate) fn of(backends: Backends, part_bytes: usize) -> Self {
        Self {
            backends: Arc::new(backends),
            part_bytes,
        }
    }

    /// Whether every bucket answers: lists one key of each.
    ///
    /// # Errors
    /// [`ObjectError::Unavailable`], naming the bucket and what is wrong with it.
    pub fn check(&self) -> BoxFuture<'static, Result<(), ObjectError>> {
        let backends = self.backends.clone();
        async move {
            let checks = backends.all().map(|backend| backend.client.check());
            futures::future::try_join_all(checks).await.map(drop)
        }
        .boxed()
    }

    async fn read(
        &self,
        bucket: &str,
        key: &str,
        options: GetOptions,
    ) -> Result<ByteStream, ObjectError> {
        let (backend, path) = self.backends.locate(bucket, key)?;
        let found = backend
            .client
            .store()
            .get_opts(&path, options)
            .await
            .map_err(|error| match error {
                // A bucket that is missing may come back; an object that is missing does not.
                object_store::Error::NotFound { .. } if !backend.client.is_no_bucket(&error) => {
                    ObjectError::NotFound(format!("{bucket}/{key}"))
                }
                error => backend.unavailable(error),
            })?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }
}

#[async_trait]
impl Objects for BucketObjects {
    async fn check(&self) -> Result<(), ObjectError> {
        Self::check(self).await
    }

    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let (backend, path) = self.backends.locate(bucket, key)?;
        upload::put(backend, &path, body, self.part_bytes).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.read(bucket, key, GetOptions::default()).await
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<ByteStream, ObjectError> {
        self.read(
            bucket,
            key,
            GetOptions {
                range: Some(range.into()),
                ..GetOptions::default()
            },
        )
        .await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let folder = key_checks::deletable_prefix(prefix)?;
        let deletes = self
            .backends
            .all()
            .map(|backend| delete_below(backend, folder));
        let deleted = futures::future::try_join_all(deletes).await?;
        Ok(deleted.iter().sum())
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        let folder = match key_checks::listable_prefix(prefix) {
            // Every key of ours lies below it; what others keep in the bucket is not ours to list.
            Ok("") => "t".to_owned(),
            Ok(folder) => folder.to_owned(),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let backends: Vec<Arc<Backend>> = self.backends.all().cloned().collect();
        stream::iter(backends)
            .flat_map(move |backend| list_below(&backend, &folder))
            .boxed()
    }

    async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ObjectPage, ObjectError> {
        let folder = match key_checks::listable_prefix(prefix)? {
            "" => "t",
            folder => folder,
        };
        pages::read(&self.backends, folder, after, limit.clamp(1, 1000)).await
    }

    async fn remove(&self, listed: &[Listed]) -> Result<u64, ObjectError> {
        let mut objects: Vec<(&Arc<Backend>, Vec<Path>)> = Vec::new();
        let mut removed = 0;
        for one in listed {
            let (backend, path) = self.backends.locate(&one.bucket, &one.key)?;
            match &one.upload {
                Some(id) => {
                    let upload = OpenUpload {
                        key: path.to_string(),
                        id: id.clone(),
                        begun_at: None,
                    };
                    // A server that shows no open uploads has not listed this one, and keeps it
                    // from nothing.
                    if let Some(uploads) = backend.client.uploads() {
                        uploads.abort(&upload).await?;
                        removed += 1;
                    }
                }
                None => match objects
                    .iter_mut()
                    .find(|(known, _)| Arc::ptr_eq(known, backend))
                {
                    Some((_, paths)) => paths.push(path),
                    None => objects.push((backend, vec![path])),
                },
            }
        }
        for (backend, paths) in objects {
            removed += delete_all(backend, stream::iter(paths.into_iter().map(Ok)).boxed()).await?;
        }
        Ok(removed)
    }

    async fn put_aside(
        &self,
        bucket: &str,
        name: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        let (backend, path) = self
            .backends
            .archived(bucket, &key_checks::archive_name(name)?)?;
        upload::put(backend, &path, body, self.part_bytes).await
    }

    async fn set_aside(&self, listed: &Listed, prefix: &str) -> Result<(), ObjectError> {
        if listed.upload.is_some() {
            return Err(ObjectError::Refused(format!(
                "`{}` is a half-done upload and cannot be moved",
                listed.key
            )));
        }
        let (backend, from) = self.backends.locate(&listed.bucket, &listed.key)?;
        let (_, to) = self.backends.archived(
            &listed.bucket,
            &key_checks::archive_key(prefix, &listed.key)?,
        )?;
        let gone = match backend.client.largest_copy() {
            Some(largest) if listed.size_bytes <= largest => {
                match backend.client.store().copy(&from, &to).await {
                    Err(error @ object_store::Error::NotFound { .. }) => Some(error),
                    copied => copied
                        .map(|()| None)
                        .map_err(|error| backend.unavailable(error))?,
                }
            }
            Some(_) | None => match backend.client.store().get(&from).await {
                Err(error @ object_store::Error::NotFound { .. }) => Some(error),
                found => {
                    let found = found.map_err(|error| backend.unavailable(error))?;
                    let body = found.into_stream().map_err(io::Error::other).boxed();
                    upload::put(backend, &to, body, self.part_bytes).await?;
                    None
                }
            },
        };
        match gone {
            // Another sweep has moved it: the object is in its new location.
            Some(_) if backend.client.store().head(&to).await.is_ok() => Ok(()),
            Some(error) => Err(backend.unavailable(error)),
            None => delete_all(backend, stream::iter([Ok(from)]).boxed())
                .await
                .map(drop),
        }
    }
}

/// Objects below a folder of a backend, and then its open uploads.
fn list_below(
    backend: &Arc<Backend>,
    folder: &str,
) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
    let root = match backend.path(folder) {
        Ok(root) => root,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    let whole = {
        let backend = backend.clone();
        backend.client.store().list(Some(&root)).map(move |found| {
            let found = found.map_err(|error| backend.unavailable(error))?;
            Ok((backend.declared(found.location.as_ref()), found.size))
        })
    };
    let open = {
        let backend = backend.clone();
        open_uploads(backend.clone(), root).and_then(move |upload| {
            let backend = backend.clone();
            async move {
                let size_bytes = match backend.client.uploads() {
                    Some(uploads) => uploads.size(&upload).await?,
                    None => 0,
                };
                Ok((backend.declared(&upload.key), size_bytes))
            }
        })
    };
    whole
        .chain(open)
        .try_filter_map(|(named, size_bytes)| async move {
            // A key that does not lead back to a declared bucket is of another program.
            Ok(named.map(|(bucket, key)| ObjectInfo {
                bucket,
                key,
                size_bytes,
            }))
        })
        .boxed()
}

/// Open uploads below a folder, page by page; none where the server does not show them.
fn open_uploads(
    backend: Arc<Backend>,
    folder: Path,
) -> BoxStream<'static, Result<OpenUpload, ObjectError>> {
    let first = Some(None);
    stream::unfold(
        (backend, folder, first),
        |(backend, folder, marker)| async move {
            let found = backend.client.uploads()?.page(&folder, marker?, None).await;
            match found {
                Ok(UploadsFound {
                    uploads,
                    now: _,
                    next,
                }) => Some((
                    uploads.into_iter().map(Ok).collect(),
                    (backend, folder, next.map(Some)),
                )),
                Err(error) => Some((vec![Err(error)], (backend, folder, None))),
            }
        },
    )
    .flat_map(stream::iter)
    .boxed()
}

async fn delete_below(backend: &Arc<Backend>, folder: &str) -> Result<u64, ObjectError> {
    let root = backend.path(folder)?;
    // Uploads first: one that completes meanwhile is among the objects, the other way round it
    // would be in neither.
    let aborted = open_uploads(backend.clone(), root.clone())
        .map_ok(|upload| async move {
            match backend.client.uploads() {
                Some(uploads) => uploads.abort(&upload).await,
                None => Ok(false),
            }
        })
        .try_buffer_unordered(8)
        .try_fold(0, |aborted, was_there| async move {
            Ok(aborted + u64::from(was_there))
        })
        .await?;
    let found = backend
        .client
        .store()
        .list(Some(&root))
        .map_ok(|found| found.location)
        .boxed();
    Ok(aborted + delete_all(backend, found).await?)
}

/// Deletes objects, a thousand a request where the server can. Returns how many there were.
async fn delete_all(
    backend: &Arc<Backend>,
    paths: BoxStream<'static, object_store::Result<Path>>,
) -> Result<u64, ObjectError> {
    backend
        .client
        .store()
        .delete_stream(paths)
        .map(|deleted| match deleted {
            // Another sweep has removed it.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(1),
            Err(error) => Err(backend.unavailable(error)),
        })
        .try_fold(0, |sum, one| async move { Ok(sum + one) })
        .await
}
