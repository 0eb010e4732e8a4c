//! Objects of the simulation, in memory: refused, slow, or stored without an answer.

use super::faults::Trouble::{self, ObjectsDone, ObjectsRefuse, ObjectsSlow};
use super::link::Link;
use async_trait::async_trait;
use bytes::Bytes;
use counterstep_kernel::ports::{ByteStream, Listed, ObjectError, ObjectInfo, ObjectPage, Objects};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Bucket, then key.
type Name = (String, String);

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    /// Microseconds since 1970.
    stored_at: i64,
}

/// All objects. Clones are one store.
#[derive(Debug, Clone, Default)]
pub(super) struct Bucket(Arc<Mutex<BTreeMap<Name, Object>>>);

impl Bucket {
    /// The names of all objects.
    pub(super) fn names(&self) -> Vec<Name> {
        self.0.lock().keys().cloned().collect()
    }

    fn remove_prefix(&self, prefix: &str) -> u64 {
        let mut objects = self.0.lock();
        let before = objects.len();
        objects.retain(|(_, key), _| !key.starts_with(prefix));
        (before - objects.len()) as u64
    }

    fn get(&self, bucket: &str, key: &str) -> Result<Bytes, ObjectError> {
        let objects = self.0.lock();
        let name = (bucket.to_owned(), key.to_owned());
        let found = objects.get(&name).map(|object| object.bytes.clone());
        found.ok_or_else(|| ObjectError::NotFound(key.to_owned()))
    }
}

/// The way of a process to the objects.
#[derive(Debug)]
pub(super) struct ObjectLink {
    pub(super) link: Arc<Link>,
    pub(super) bucket: Bucket,
}

const TROUBLES: [Trouble; 3] = [ObjectsRefuse, ObjectsDone, ObjectsSlow];

fn away() -> ObjectError {
    ObjectError::Unavailable("no answer (simulated)".to_owned())
}

impl ObjectLink {
    /// A call that changes something.
    async fn change<T>(
        &self,
        kind: &'static str,
        change: impl FnOnce() -> T,
    ) -> Result<T, ObjectError> {
        let link = &self.link;
        let changed = match link.next(kind, &TROUBLES).await {
            None => Ok(change()),
            Some((ObjectsSlow, mut choice)) => {
                link.waits(&mut choice, 1, 20_000).await;
                link.feels(ObjectsSlow);
                Ok(change())
            }
            Some((ObjectsDone, mut choice)) => {
                change();
                link.waits(&mut choice, 1, 5_000).await;
                link.feels(ObjectsDone);
                Err(away())
            }
            Some((trouble, mut choice)) => {
                link.waits(&mut choice, 0, 5_000).await;
                link.feels(trouble);
                Err(away())
            }
        };
        if link.is_closed() {
            std::future::pending().await
        }
        changed
    }

    async fn look(&self) -> Result<(), ObjectError> {
        match self.link.next("objects look", &[ObjectsRefuse]).await {
            Some(_) => Err(away()),
            None => Ok(()),
        }
    }

    async fn store(
        &self,
        kind: &'static str,
        bucket: &str,
        key: String,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        let source = |error: std::io::Error| ObjectError::Source(error.to_string());
        let parts: Vec<Bytes> = body.map_err(source).try_collect().await?;
        let bytes: Bytes = parts.concat().into();
        let size = bytes.len() as u64;
        let world = self.link.world.clone();
        let name = (bucket.to_owned(), key);
        let (objects, process) = (self.bucket.0.clone(), self.link.process.clone());
        self.change(kind, move || {
            world.watch.stored(&name.1, &process);
            let stored_at = i64::try_from(world.calendar().as_micros()).unwrap_or(i64::MAX);
            objects.lock().insert(name, Object { bytes, stored_at });
        })
        .await?;
        Ok(size)
    }
}

#[async_trait]
impl Objects for ObjectLink {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        self.store("put object", bucket, key.to_owned(), body).await
    }

    async fn put_aside(
        &self,
        bucket: &str,
        name: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        let key = format!("archive/{name}");
        self.store("put aside", bucket, key, body).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.look().await?;
        let bytes = self.bucket.get(bucket, key)?;
        Ok(stream::once(async { Ok(bytes) }).boxed())
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<ByteStream, ObjectError> {
        self.look().await?;
        let bytes = self.bucket.get(bucket, key)?;
        let at = |place| {
            usize::try_from(place)
                .unwrap_or(usize::MAX)
                .min(bytes.len())
        };
        let part = bytes.slice(at(range.start)..at(range.end));
        Ok(stream::once(async { Ok(part) }).boxed())
    }

    async fn check(&self) -> Result<(), ObjectError> {
        self.look().await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        self.link.world.check_deleted(prefix).await;
        let (bucket, of) = (self.bucket.clone(), prefix.to_owned());
        let removed = self.change("delete prefix", move || bucket.remove_prefix(&of));
        let removed = removed.await?;
        self.link.note(("deleted", prefix, removed), || {
            format!("deletes {prefix} ({removed})")
        });
        Ok(removed)
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        let objects = self.bucket.0.lock();
        let below = objects
            .iter()
            .filter(|((_, key), _)| key.starts_with(prefix));
        let listed: Vec<_> = below
            .map(|((bucket, key), object)| {
                Ok(ObjectInfo {
                    bucket: bucket.clone(),
                    key: key.clone(),
                    size_bytes: object.bytes.len() as u64,
                })
            })
            .collect();
        stream::iter(listed).boxed()
    }

    async fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ObjectPage, ObjectError> {
        self.look().await?;
        let from = match after.and_then(|after| after.split_once('\n')) {
            Some((bucket, key)) => Bound::Excluded((bucket.to_owned(), key.to_owned())),
            None => Bound::Unbounded,
        };
        let objects = self.bucket.0.lock();
        let below = objects
            .range((from, Bound::Unbounded))
            .filter(|((_, key), _)| key.starts_with(prefix));
        let listed: Vec<Listed> = below
            .take(limit)
            .map(|((bucket, key), object)| Listed {
                bucket: bucket.clone(),
                key: key.clone(),
                size_bytes: object.bytes.len() as u64,
                stored_at: object.stored_at,
                upload: None,
            })
            .collect();
        let last = listed.last().filter(|_| listed.len() >= limit);
        Ok(ObjectPage {
            next: last.map(|last| format!("{}\n{}", last.bucket, last.key)),
            now: i64::try_from(self.link.world.calendar().as_micros()).unwrap_or(i64::MAX),
            unmanaged: 0,
            objects: listed,
        })
    }

    async fn remove(&self, listed: &[Listed]) -> Result<u64, ObjectError> {
        let (objects, listed) = (self.bucket.0.clone(), listed.to_vec());
        self.change("remove objects", move || {
            let mut objects = objects.lock();
            for it in &listed {
                objects.remove(&(it.bucket.clone(), it.key.clone()));
            }
            listed.len() as u64
        })
        .await
    }

    async fn set_aside(&self, listed: &Listed, prefix: &str) -> Result<(), ObjectError> {
        let (objects, listed) = (self.bucket.0.clone(), listed.clone());
        let aside = format!("archive/{prefix}/{}", listed.key);
        self.change("set aside", move || {
            let mut objects = objects.lock();
            if let Some(object) = objects.remove(&(listed.bucket.clone(), listed.key)) {
                objects.insert((listed.bucket, aside), object);
            }
        })
        .await
    }
}
