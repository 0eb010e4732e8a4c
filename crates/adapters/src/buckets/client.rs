//! What kinds of servers do differently, for one real bucket. Must not know where declared buckets
//! lie.

use async_trait::async_trait;
use counterstep_kernel::ports::ObjectError;
use object_store::ObjectStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use std::fmt::Debug;

/// A client for one real bucket.
#[async_trait]
pub(crate) trait Client: Debug + Send + Sync {
    /// The requests that all such servers know.
    fn store(&self) -> &dyn ObjectStore;

    /// Uploads in parts.
    fn parts(&self) -> &dyn MultipartStore;

    /// Open uploads, where the server shows them.
    fn uploads(&self) -> Option<&dyn Uploads>;

    /// Lists one key.
    async fn check(&self) -> Result<(), ObjectError>;

    /// One page of the objects below a folder; `after` is from the page before, and empty for the
    /// first.
    async fn objects(
        &self,
        folder: &Path,
        after: &str,
        limit: usize,
    ) -> Result<ObjectsFound, ObjectError>;

    /// Whether an error means that the bucket, and not only the object, is missing.
    fn is_no_bucket(&self, error: &object_store::Error) -> bool;

    /// Bytes of the largest object that the server has copied when it answers the request to copy
    /// it; `None`: it may answer before.
    fn largest_copy(&self) -> Option<u64>;

    /// Starts the cursors of this kind of server, so that another kind does not take them for its
    /// own.
    fn cursor(&self) -> &'static str;
}

/// Open uploads of a bucket.
#[async_trait]
pub(crate) trait Uploads: Send + Sync {
    /// One page of those below a folder, behind a key and an upload of it. Without a limit the
    /// server's own counts.
    async fn page(
        &self,
        folder: &Path,
        after: Option<(String, String)>,
        limit: Option<usize>,
    ) -> Result<UploadsFound, ObjectError>;

    /// Bytes that one has received so far; none when it is gone by now.
    async fn size(&self, upload: &OpenUpload) -> Result<u64, ObjectError>;

    /// Aborts one. Returns whether it was still there.
    async fn abort(&self, upload: &OpenUpload) -> Result<bool, ObjectError>;
}

/// An object as the server lists it. Times are microseconds since 1970-01-01 UTC.
#[derive(Debug)]
pub(crate) struct FoundObject {
    pub(crate) key: String,
    pub(crate) size_bytes: u64,
    /// `None`: the server's time cannot be read.
    pub(crate) stored_at: Option<i64>,
}

/// A page of objects.
#[derive(Debug)]
pub(crate) struct ObjectsFound {
    pub(crate) objects: Vec<FoundObject>,
    /// The server's clock when it answered; 0 where the answer has none, by which no object is old.
    pub(crate) now: i64,
    /// What the next page begins behind.
    pub(crate) next: Option<String>,
}

/// An upload that was neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUpload {
    pub(crate) key: String,
    pub(crate) id: String,
    /// As in [`FoundObject::stored_at`].
    pub(crate) begun_at: Option<i64>,
}

/// A page of open uploads.
#[derive(Debug)]
pub(crate) struct UploadsFound {
    pub(crate) uploads: Vec<OpenUpload>,
    /// As in [`ObjectsFound::now`].
    pub(crate) now: i64,
    /// The key and the upload that the next page begins behind.
    pub(crate) next: Option<(String, String)>,
}

/// What went wrong, and with which bucket.
pub(crate) fn unavailable(bucket: &str, error: impl std::fmt::Display) -> ObjectError {
    ObjectError::Unavailable(format!("bucket `{bucket}`: {error}"))
}

/// The server's clock, as the header `Date` of an answer has it: microseconds since 1970-01-01 UTC,
/// or 0.
pub(crate) fn clock(date: &str) -> i64 {
    let read = httpdate::parse_http_date(date).ok();
    let since = read.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since
        .and_then(|since| i64::try_from(since.as_micros()).ok())
        .unwrap_or(0)
}

/// Whether an error, or one of its sources, has this code of the server in its text.
pub(crate) fn has_code(error: &object_store::Error, code: &str) -> bool {
    let mut at: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = at {
        if error.to_string().contains(code) {
            return true;
        }
        at = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn a_clock_that_cannot_be_read_makes_no_object_old() {
        assert_eq!(clock("Thu, 01 Jan 1970 00:00:01 GMT"), 1_000_000);
        assert_eq!((clock("soon"), clock("")), (0, 0));
    }
}
