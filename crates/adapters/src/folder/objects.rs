//! Objects as files: `root/{bucket}/{key}`. Must not keep a whole object, or a whole listing, in
//! memory.

use super::shared_folders::SharedFolders;
use super::{pages, walk};
use crate::key_checks;
use crate::new_folders::{make_folders, sync_name};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use counterstep_kernel::ports::{ByteStream, Listed, ObjectError, ObjectInfo, ObjectPage, Objects};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as StorePath;
use object_store::{GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// How much of an object is held at a time.
const PART: usize = 1 << 20;
/// Bytes that are written to find out whether the disk takes any.
const PROBE: usize = 4 << 10;
/// How many entries of a listing are read at a time.
const PAGE: usize = 256;
/// How often a put is begun again when a concurrent delete prunes the folder that it has just made.
const BEGIN_TRIES: u32 = 10;

/// Objects as files in a folder. A put is flushed to disk before it returns.
#[derive(Debug, Clone)]
pub struct FolderObjects {
    root: PathBuf,
    folders: Arc<SharedFolders>,
    files: Arc<LocalFileSystem>,
}

impl FolderObjects {
    /// Makes the folder where there is none.
    ///
    /// # Errors
    /// When the folder cannot be made or is none.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_folders(root, 0o777)?;
        let root = root.canonicalize()?;
        let files = LocalFileSystem::new_with_prefix(&root)
            .map_err(io::Error::other)?
            .with_fsync(true);
        Ok(Self {
            root,
            folders: Arc::default(),
            files: Arc::new(files),
        })
    }

    async fn begin(&self, place: &StorePath) -> Result<Box<dyn MultipartUpload>, ObjectError> {
        let mut tried = 0;
        loop {
            let (files, place, folders) = (self.files.clone(), place.clone(), self.folders.clone());
            let path = self.root.join(place.as_ref());
            // It makes a file without a thread of its own, so it gets one here. It would make the folders, too, but a
            // concurrent put into one of them would not wait until that is on the disk.
            let begun = spawn_blocking(move || {
                folders.make(path.parent().unwrap_or(&path))?;
                let begun = Handle::current().block_on(files.put_multipart(&place));
                begun.map_err(io::Error::other)
            });
            tried += 1;
            match begun.await.map_err(unavailable)? {
                Ok(upload) => return Ok(upload),
                Err(error) if tried >= BEGIN_TRIES => return Err(unavailable(error)),
                Err(_) => {}
            }
        }
    }

    /// Streams an object to a checked key.
    async fn store(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let place = StorePath::parse(format!("{bucket}/{key}"))
            .map_err(|error| ObjectError::Refused(error.to_string()))?;
        let mut upload = self.begin(&place).await?;
        let stored = match send(upload.as_mut(), body).await {
            Ok(size_bytes) => upload
                .complete()
                .await
                .map(|_| size_bytes)
                .map_err(unavailable),
            Err(error) => Err(error),
        };
        if stored.is_err() {
            // Dropping the upload would remove its file too, but later and on some other thread.
            if let Err(error) = upload.abort().await {
                tracing::debug!(%error, bucket, key, "an upload that failed was not there to abort");
            }
            let (root, path) = (self.root.join(bucket), self.root.join(bucket).join(key));
            spawn_blocking(move || walk::prune(&path, &root))
                .await
                .map_err(unavailable)?;
        }
        stored
    }

    async fn read(
        &self,
        bucket: &str,
        key: &str,
        options: GetOptions,
    ) -> Result<ByteStream, ObjectError> {
        let found = self
            .files
            .get_opts(&place(bucket, key)?, options)
            .await
            .map_err(|error| match error {
                object_store::Error::NotFound { .. } => {
                    ObjectError::NotFound(format!("{bucket}/{key}"))
                }
                other => unavailable(other),
            })?;
        Ok(found.into_stream().map_err(io::Error::other).boxed())
    }

    /// The folder of a listed object's bucket, and its file.
    fn path_of(&self, listed: &Listed) -> Result<(PathBuf, PathBuf), ObjectError> {
        let bucket = self.root.join(key_checks::bucket(&listed.bucket)?);
        let key = key_checks::key(&listed.key)?;
        let name = match &listed.upload {
            None => key.to_owned(),
            Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{key}#{number}")
            }
            Some(other) => {
                return Err(ObjectError::Refused(format!(
                    "`{other}` is no half-done upload of a folder"
                )));
            }
        };
        Ok((bucket.clone(), bucket.join(name)))
    }

    /// Folders of the root that are buckets, by name: also such as are links to a folder elsewhere, which
    /// objects are written to and read from.
    fn buckets(root: &Path) -> io::Result<Vec<String>> {
        let mut buckets = Vec::new();
        for entry in std::fs::read_dir(root)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if key_checks::bucket(&name).is_ok() && entry.path().is_dir() {
                buckets.push(name);
            }
        }
        buckets.sort();
        Ok(buckets)
    }
}

#[async_trait]
impl Objects for FolderObjects {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        self.store(key_checks::bucket(bucket)?, key_checks::key(key)?, body)
            .await
    }

    async fn put_aside(
        &self,
        bucket: &str,
        name: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        self.store(
            key_checks::bucket(bucket)?,
            &key_checks::archive_name(name)?,
            body,
        )
        .await
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

    async fn check(&self) -> Result<(), ObjectError> {
        // A listing finds everything in order on a disk that is full. No bucket's name begins with
        // a dot.
        // Processes of two containers may have the same number.
        let file = self.root.join(format!(".writable-{}", Uuid::now_v7()));
        let written = spawn_blocking(move || {
            let written = std::fs::write(&file, [0_u8; PROBE])
                .and_then(|()| std::fs::File::open(&file)?.sync_data());
            let removed = std::fs::remove_file(&file);
            // Where nothing was written, there is nothing to remove.
            written.and(removed)
        });
        written.await.map_err(unavailable)?.map_err(unavailable)
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let (root, folder) = (
            self.root.clone(),
            key_checks::deletable_prefix(prefix)?.to_owned(),
        );
        // By the file system and not object by object: object_store hides the half-done uploads
        // (`name#1`) that a killed process leaves, so they could neither be listed nor deleted
        // through it.
        let removed = spawn_blocking(move || -> io::Result<u64> {
            let mut files = 0;
            for bucket in Self::buckets(&root)? {
                let bucket = root.join(bucket);
                let path = bucket.join(&folder);
                files += walk::remove(&path)?;
                walk::prune(&path, &bucket);
            }
            Ok(files)
        });
        removed.await.map_err(unavailable)?.map_err(unavailable)
    }

    async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ObjectPage, ObjectError> {
        let (root, folder) = (
            self.root.clone(),
            key_checks::listable_prefix(prefix)?.to_owned(),
        );
        after.map_or(Ok(()), pages::check)?;
        let (after, limit) = (after.map(str::to_owned), limit.clamp(1, pages::MOST));
        let read = spawn_blocking(move || {
            let buckets = Self::buckets(&root)?;
            pages::read(&root, &buckets, &folder, after.as_deref(), limit)
        });
        read.await.map_err(unavailable)?.map_err(unavailable)
    }

    async fn remove(&self, listed: &[Listed]) -> Result<u64, ObjectError> {
        let paths = listed
            .iter()
            .map(|listed| self.path_of(listed))
            .collect::<Result<Vec<_>, _>>()?;
        let removed = spawn_blocking(move || -> io::Result<u64> {
            let mut removed = 0;
            for (bucket, path) in paths {
                match std::fs::remove_file(&path) {
                    Ok(()) => removed += 1,
                    Err(error) if walk::is_gone(&error) => removed += 1,
                    Err(error) => return Err(error),
                }
                walk::prune(&path, &bucket);
            }
            Ok(removed)
        });
        removed.await.map_err(unavailable)?.map_err(unavailable)
    }

    async fn set_aside(&self, listed: &Listed, prefix: &str) -> Result<(), ObjectError> {
        if listed.upload.is_some() {
            return Err(ObjectError::Refused(format!(
                "`{}` is a half-done upload and cannot be moved",
                listed.key
            )));
        }
        let (bucket, from) = self.path_of(listed)?;
        let to = bucket.join(key_checks::archive_key(prefix, &listed.key)?);
        let folders = self.folders.clone();
        let moved = spawn_blocking(move || -> io::Result<()> {
            folders.make(to.parent().unwrap_or(&to))?;
            // Its bytes were flushed when it was put; a rename shows it in one place or the other.
            match std::fs::rename(&from, &to) {
                // Another caller has moved it.
                Err(error) if walk::is_gone(&error) && to.exists() => {}
                moved => moved?,
            }
            sync_name(&to)?;
            walk::prune(&from, &bucket);
            Ok(())
        });
        moved.await.map_err(unavailable)?.map_err(unavailable)
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        let folder = match key_checks::listable_prefix(prefix) {
            // Every key of ours lies below it; what was set aside does not.
            Ok("") => "t".to_owned(),
            Ok(folder) => folder.to_owned(),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        stream::unfold(
            Listing {
                root: self.root.clone(),
                folder,
                buckets: None,
                walk: None,
            },
            |listing| async {
                let page = spawn_blocking(move || {
                    let mut listing = listing;
                    let page: Vec<_> = listing.by_ref().take(PAGE).collect();
                    (page, listing)
                });
                match page.await {
                    Ok((page, _)) if page.is_empty() => None,
                    Ok((page, listing)) => Some((page, listing)),
                    // The runtime shuts down: no caller reads on.
                    Err(_) => None,
                }
            },
        )
        .flat_map(stream::iter)
        .boxed()
    }
}

/// A listing under way: the buckets that are still to come, and the walk through the current one.
#[derive(Debug)]
struct Listing {
    root: PathBuf,
    folder: String,
    buckets: Option<std::vec::IntoIter<String>>,
    walk: Option<(String, walk::Walk)>,
}

impl Listing {
    fn step(&mut self) -> io::Result<Option<ObjectInfo>> {
        loop {
            if let Some((bucket, walk)) = &mut self.walk {
                for found in walk.by_ref() {
                    let found = found?;
                    let key = found
                        .path
                        .strip_prefix(self.root.join(&bucket))
                        .ok()
                        .and_then(Path::to_str);
                    // A name that is not UTF-8 is none of ours.
                    if let Some(key) = key {
                        let (bucket, key) = (bucket.clone(), key.to_owned());
                        return Ok(Some(ObjectInfo {
                            bucket,
                            key,
                            size_bytes: found.size_bytes,
                        }));
                    }
                }
                self.walk = None;
            }
            let buckets = match &mut self.buckets {
                Some(buckets) => buckets,
                None => self
                    .buckets
                    .insert(FolderObjects::buckets(&self.root)?.into_iter()),
            };
            let Some(bucket) = buckets.next() else {
                return Ok(None);
            };
            let walk = walk::Walk::start(&self.root.join(&bucket).join(&self.folder))?;
            self.walk = Some((bucket, walk));
        }
    }
}

impl Iterator for Listing {
    type Item = Result<ObjectInfo, ObjectError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(found) => found.map(Ok),
            Err(error) => {
                // After an error the listing ends: a caller that read on could take a part for the
                // whole.
                self.walk = None;
                self.buckets = Some(Vec::new().into_iter());
                Some(Err(unavailable(error)))
            }
        }
    }
}

fn place(bucket: &str, key: &str) -> Result<StorePath, ObjectError> {
    StorePath::parse(format!(
        "{}/{}",
        key_checks::bucket(bucket)?,
        key_checks::key(key)?
    ))
    .map_err(|error| ObjectError::Refused(error.to_string()))
}

fn unavailable(error: impl std::fmt::Display) -> ObjectError {
    ObjectError::Unavailable(error.to_string())
}

/// Sends a body in parts, one at a time: the next part is gathered only when the last one is
/// written.
async fn send(upload: &mut dyn MultipartUpload, mut body: ByteStream) -> Result<u64, ObjectError> {
    let mut part = BytesMut::new();
    let mut size_bytes = 0;
    while let Some(chunk) = body.next().await {
        let mut chunk: Bytes = chunk.map_err(|error| ObjectError::Source(error.to_string()))?;
        size_bytes += chunk.len() as u64;
        while !chunk.is_empty() {
            let fits = chunk.len().min(PART - part.len());
            part.extend_from_slice(&chunk.split_to(fits));
            if part.len() == PART {
                write(upload, part.split().freeze()).await?;
            }
        }
    }
    if !part.is_empty() {
        write(upload, part.freeze()).await?;
    }
    Ok(size_bytes)
}

async fn write(upload: &mut dyn MultipartUpload, part: Bytes) -> Result<(), ObjectError> {
    upload
        .put_part(PutPayload::from_bytes(part))
        .await
        .map_err(unavailable)
}
