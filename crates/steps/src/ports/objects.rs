//! The port for where large results live.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::Range;

/// Bytes on their way.
pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

/// An object store could not do it.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
pub enum ObjectError {
    /// No such object.
    #[error("there is no object `{0}`")]
    NotFound(String),
    /// The stream that was to be stored broke off.
    #[error("the source of the object broke off: {0}")]
    Source(String),
    /// The settings know no such bucket, or the key is not acceptable.
    #[error("{0}")]
    Refused(String),
    /// It does not answer, or answers with an error that may pass.
    #[error("the object store does not answer: {0}")]
    Unavailable(String),
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its declared bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Bytes.
    pub size_bytes: u64,
}

/// An object, or a half-done upload of one, in a page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its declared bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Bytes; 0 for a half-done upload.
    pub size_bytes: u64,
    /// When it was stored, or the upload began: microseconds since 1970-01-01 UTC by the object
    /// store's clock.
    pub stored_at: i64,
    /// The store's own name of a half-done upload; `None`: it is whole.
    pub upload: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectPage {
    /// Objects in the order of their keys within a bucket, then half-done uploads. May be empty
    /// before the last page.
    pub objects: Vec<Listed>,
    /// Number of further objects that are not named like ours: other programs own them.
    pub unmanaged: u64,
    /// The object store's clock: microseconds since 1970-01-01 UTC.
    pub now: i64,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<String>,
}

/// A folder of keys in which nothing is ever stored, so that looking into it costs little.
const NOWHERE: &str = "t/readyz/";

/// Where large results live. Buckets are the declaration's names; an adapter maps them.
#[async_trait]
pub trait Objects: Send + Sync + Debug {
    /// Streams an object to its place; it is visible whole or not at all. Returns its size in
    /// bytes.
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError>;

    /// Streams an object back.
    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError>;

    /// Streams a part of an object back: the bytes of a range that lies within it and is not empty.
    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<ByteStream, ObjectError> {
        let _ = (bucket, key, range);
        Err(ObjectError::Refused(
            "these objects cannot be read in part".to_owned(),
        ))
    }

    /// Whether an object could be stored now, as far as that can be told without storing one.
    async fn check(&self) -> Result<(), ObjectError> {
        self.list(NOWHERE).next().await.transpose().map(drop)
    }

    /// Deletes everything under a prefix (a folder of keys, ending in `/`), half-done uploads too,
    /// in every bucket that the settings know. Returns how many objects there were. Nothing there
    /// is success.
    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError>;

    /// Everything under a prefix, in every bucket that the settings know, half-done uploads too.
    /// For checks and sweeps: it pages inside, and it hands over one object at a time.
    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>>;

    /// A page of what lies under a prefix (`t/`, or a folder of keys below it), behind a cursor
    /// that an earlier page gave, also in another process. At most `limit` entries, and never more
    /// than 1000.
    async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ObjectPage, ObjectError> {
        let _ = (prefix, after, limit);
        Err(ObjectError::Refused(
            "these objects cannot be listed page by page".to_owned(),
        ))
    }

    /// Deletes just these: objects and half-done uploads. One that is not there any more is
    /// success. Returns how many it was asked to delete and knows to be gone.
    async fn remove(&self, listed: &[Listed]) -> Result<u64, ObjectError> {
        let _ = listed;
        Err(ObjectError::Refused(
            "these objects cannot be removed one by one".to_owned(),
        ))
    }

    /// Streams an object to `archive/{name}` of a bucket, where no listing of pages shows it; as
    /// durable as a put.
    async fn put_aside(
        &self,
        bucket: &str,
        name: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        let _ = (bucket, name, body);
        Err(ObjectError::Refused(
            "these objects have no archive".to_owned(),
        ))
    }

    /// Moves an object to `archive/{prefix}/{key}` of its bucket, where no listing of pages shows
    /// it. It is there before it is gone here. A half-done upload cannot be moved.
    async fn set_aside(&self, listed: &Listed, prefix: &str) -> Result<(), ObjectError> {
        let _ = (listed, prefix);
        Err(ObjectError::Refused(
            "these objects cannot be moved".to_owned(),
        ))
    }
}
