//! Objects in S3-compatible buckets.
//!
//! Must not rest on what only some such servers can do: nothing here is a conditional write, and nothing is ever read
//! before it is written. Correctness comes from keys that no two attempts share.

mod credentials;
mod places;
mod requests;
mod settings;
mod upload;

pub use settings::{Credentials, Place, S3Settings};

use crate::keys;
use crate::tls::install_provider;
use async_trait::async_trait;
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt};
use places::{Location, Places};
use std::io;
use std::sync::Arc;

/// Objects in the buckets of an S3-compatible server.
#[derive(Debug, Clone)]
pub struct S3Objects {
    places: Arc<Places>,
    part_bytes: usize,
}

impl S3Objects {
    /// Makes the clients. Talks to nobody: see [`S3Objects::check`].
    ///
    /// # Errors
    /// Settings that cannot work, each with what to do about it.
    pub fn open(settings: &S3Settings) -> Result<Self, ObjectError> {
        install_provider();
        Ok(Self { places: Arc::new(Places::open(settings)?), part_bytes: settings.part_bytes })
    }

    /// Whether every bucket answers: lists one key of each.
    ///
    /// # Errors
    /// [`ObjectError::Unavailable`], naming the bucket and what is wrong with it.
    pub fn check(&self) -> BoxFuture<'static, Result<(), ObjectError>> {
        let places = self.places.clone();
        async move {
            let checks = places.all().map(requests::check);
            futures::future::try_join_all(checks).await.map(drop)
        }
        .boxed()
    }
}

#[async_trait]
impl Objects for S3Objects {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let (place, path) = self.places.locate(bucket, key)?;
        upload::put(place, &path, body, self.part_bytes).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        let (place, path) = self.places.locate(bucket, key)?;
        let found = place.store.get(&path).await.map_err(|error| match error {
            // A bucket that is missing may come back; an object that is missing does not.
            object_store::Error::NotFound { .. } if !is_no_bucket(&error) => {
                ObjectError::NotFound(format!("{bucket}/{key}"))
            }
            error => place.unavailable(error),
        })?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let folder = keys::deletable_prefix(prefix)?;
        let deletes = self.places.all().map(|place| delete_below(place, folder));
        let deleted = futures::future::try_join_all(deletes).await?;
        Ok(deleted.iter().sum())
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        let folder = match keys::listable_prefix(prefix) {
            // Every key of ours lies below it; what others keep in the bucket is not ours to list.
            Ok("") => "t".to_owned(),
            Ok(folder) => folder.to_owned(),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let places: Vec<Arc<Location>> = self.places.all().cloned().collect();
        stream::iter(places).flat_map(move |place| list_below(&place, &folder)).boxed()
    }
}

/// Objects below a folder of a place, and then its open uploads.
fn list_below(place: &Arc<Location>, folder: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
    let root = match place.path(folder) {
        Ok(root) => root,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    let whole = {
        let place = place.clone();
        place.store.list(Some(&root)).map(move |found| {
            let found = found.map_err(|error| place.unavailable(error))?;
            Ok((place.declared(found.location.as_ref()), found.size))
        })
    };
    let open = {
        let place = place.clone();
        requests::open_uploads(place.clone(), root).and_then(move |upload| {
            let place = place.clone();
            async move {
                let size_bytes = requests::size_of_upload(&place, &upload).await?;
                Ok((place.declared(&upload.key), size_bytes))
            }
        })
    };
    whole
        .chain(open)
        .try_filter_map(|(named, size_bytes)| async move {
            // A key that does not lead back to a declared bucket was put there by somebody else.
            Ok(named.map(|(bucket, key)| ObjectInfo { bucket, key, size_bytes }))
        })
        .boxed()
}

async fn delete_below(place: &Arc<Location>, folder: &str) -> Result<u64, ObjectError> {
    let root = place.path(folder)?;
    // Uploads first: one that completes meanwhile is among the objects, the other way round it would be in neither.
    let aborted = requests::open_uploads(place.clone(), root.clone())
        .map_ok(|upload| async move { requests::abort_upload(place, &upload).await })
        .try_buffer_unordered(8)
        .try_fold(0, |aborted, was_there| async move { Ok(aborted + u64::from(was_there)) })
        .await?;
    let found = place.store.list(Some(&root)).map_ok(|found| found.location).boxed();
    let deleted = place
        .store
        .delete_stream(found)
        .map(|deleted| match deleted {
            // Somebody else was faster.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(1),
            Err(error) => Err(place.unavailable(error)),
        })
        .try_fold(0, |sum, one| async move { Ok(sum + one) })
        .await?;
    Ok(aborted + deleted)
}

/// Whether a server says that the bucket, and not only the object, is missing.
fn is_no_bucket(error: &object_store::Error) -> bool {
    let mut at: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = at {
        if error.to_string().contains("NoSuchBucket") {
            return true;
        }
        at = error.source();
    }
    false
}
