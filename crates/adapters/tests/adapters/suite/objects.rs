//! Objects: whole or not at all, found by prefix, gone by prefix.

use super::eventually;
use bytes::Bytes;
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects, Ports};
use futures::{StreamExt, TryStreamExt, stream};
use std::io;
use std::time::Duration;

fn body(chunks: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> ByteStream {
    stream::iter(chunks.into_iter().map(Ok)).boxed()
}

fn text(text: &'static str) -> ByteStream {
    body([Bytes::from_static(text.as_bytes())])
}

async fn put(objects: &dyn Objects, bucket: &str, key: &str, content: &'static str) {
    assert_eq!(objects.put(bucket, key, text(content)).await.unwrap(), content.len() as u64);
}

async fn get(objects: &dyn Objects, bucket: &str, key: &str) -> Result<Vec<u8>, ObjectError> {
    let chunks: Vec<Bytes> = objects.get(bucket, key).await?.try_collect().await.unwrap();
    Ok(chunks.concat())
}

async fn list(objects: &dyn Objects, prefix: &str) -> Vec<ObjectInfo> {
    let mut found: Vec<_> = objects.list(prefix).try_collect().await.unwrap();
    found.sort_by(|a: &ObjectInfo, b| (&a.bucket, &a.key).cmp(&(&b.bucket, &b.key)));
    found
}

fn object(bucket: &str, key: &str, size_bytes: u64) -> ObjectInfo {
    ObjectInfo { bucket: bucket.to_owned(), key: key.to_owned(), size_bytes }
}

const KEY: &str = "t/default/0193/zip/e1.1/0";

pub(crate) async fn an_object_comes_back_as_it_was_put(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "incoming-files", KEY, "hello").await;
    assert_eq!(get(objects, "incoming-files", KEY).await.unwrap(), b"hello");
    // The same key in another bucket is another object, and a second put replaces the first.
    put(objects, "other.files", KEY, "hi").await;
    put(objects, "incoming-files", KEY, "hello again").await;
    assert_eq!(get(objects, "incoming-files", KEY).await.unwrap(), b"hello again");
    assert_eq!(get(objects, "other.files", KEY).await.unwrap(), b"hi");
}

pub(crate) async fn an_object_may_be_empty(ports: &Ports) {
    let objects = &*ports.objects;
    assert_eq!(objects.put("files", KEY, body([])).await.unwrap(), 0);
    assert_eq!(get(objects, "files", KEY).await.unwrap(), b"");
    assert_eq!(objects.put("files", KEY, body([Bytes::new(), Bytes::new()])).await.unwrap(), 0);
    assert_eq!(list(objects, "").await, [object("files", KEY, 0)]);
}

pub(crate) async fn sixteen_mebibytes_in_small_chunks_come_back(ports: &Ports) {
    const CHUNK: usize = 4099;
    const CHUNKS: usize = (16 << 20) / CHUNK + 1;
    let chunk = |n: usize| Bytes::from((0..CHUNK).map(|i| (n * 31 + i) as u8).collect::<Vec<_>>());
    let objects = &*ports.objects;
    let size = objects.put("files", KEY, body((0..CHUNKS).map(chunk))).await.unwrap();
    assert_eq!(size, (CHUNK * CHUNKS) as u64);
    let read = get(objects, "files", KEY).await.unwrap();
    assert_eq!(read.len(), CHUNK * CHUNKS);
    assert!(read.chunks(CHUNK).enumerate().all(|(n, read)| read == chunk(n)), "other bytes came back");
    // One chunk larger than any part.
    let size = objects.put("files", KEY, body([Bytes::from(read.clone())])).await.unwrap();
    assert_eq!((size, get(objects, "files", KEY).await.unwrap() == read), (read.len() as u64, true));
}

pub(crate) async fn a_source_that_breaks_off_leaves_nothing(ports: &Ports) {
    let objects = &*ports.objects;
    let broken = stream::iter([Ok(Bytes::from(vec![1; 3 << 20])), Err(io::Error::other("client went away"))]);
    let error = objects.put("files", KEY, broken.boxed()).await;
    assert!(matches!(&error, Err(ObjectError::Source(why)) if why.contains("client went away")), "{error:?}");
    assert_eq!(list(objects, "").await, []);
    // What was there before stays whole.
    put(objects, "files", KEY, "whole").await;
    let broken = stream::iter([Ok(Bytes::from_static(b"half")), Err(io::Error::other("again"))]);
    assert!(objects.put("files", KEY, broken.boxed()).await.is_err());
    assert_eq!(get(objects, "files", KEY).await.unwrap(), b"whole");
    assert_eq!(list(objects, "").await.len(), 1);
}

pub(crate) async fn an_object_that_is_not_there_is_not_found(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "files", KEY, "x").await;
    for (bucket, key) in [("files", "t/default/0193/zip/e1.1/1"), ("never-made", KEY), ("files", "t/default/0193")] {
        let error = get(objects, bucket, key).await;
        assert!(matches!(error, Err(ObjectError::NotFound(_))), "{bucket} {key} {error:?}");
    }
}

pub(crate) async fn a_prefix_is_listed_and_deleted_in_every_bucket(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "incoming", "t/default/one/upload/e1.1/0", "a").await;
    put(objects, "incoming", "t/default/one/upload/e1.1/1", "bb").await;
    put(objects, "processed", "t/default/one/zip/e2.1/0", "ccc").await;
    put(objects, "processed", "t/default/two/zip/e1.1/0", "dddd").await;
    // Not below the prefix, though its name begins like it.
    put(objects, "processed", "t/default/one-more/zip/e1.1/0", "e").await;

    assert_eq!(
        list(objects, "t/default/one/upload/").await,
        [object("incoming", "t/default/one/upload/e1.1/0", 1), object("incoming", "t/default/one/upload/e1.1/1", 2),]
    );
    assert_eq!(list(objects, "").await.len(), 5);
    assert_eq!(list(objects, "t/default/").await.len(), 5);
    assert_eq!(list(objects, "t/default/none/").await, []);
    assert_eq!(objects.delete_prefix("t/default/one/upload/e1.1/").await.unwrap(), 2);
    assert_eq!(objects.delete_prefix("t/default/one/").await.unwrap(), 1);
    let keys: Vec<_> = list(objects, "").await.into_iter().map(|object| object.key).collect();
    assert_eq!(keys, ["t/default/one-more/zip/e1.1/0", "t/default/two/zip/e1.1/0"]);
    assert_eq!(get(objects, "processed", "t/default/two/zip/e1.1/0").await.unwrap(), b"dddd");
}

pub(crate) async fn deleting_nothing_is_success(ports: &Ports) {
    assert_eq!(ports.objects.delete_prefix("t/default/one/").await.unwrap(), 0);
    put(&*ports.objects, "files", KEY, "x").await;
    assert_eq!(ports.objects.delete_prefix("t/default/one/").await.unwrap(), 0);
    assert_eq!(list(&*ports.objects, "").await.len(), 1);
}

pub(crate) async fn a_half_done_upload_is_listed_and_deleted(ports: &Ports) {
    let objects = ports.objects.clone();
    // More than a part of any store: one that sends larger parts has sent nothing before it has gathered the first.
    let begun = stream::iter((0..12).map(|n| Ok(Bytes::from(vec![n; 1 << 20])))).chain(stream::pending()).boxed();
    let hanging = tokio::spawn(async move { objects.put("files", KEY, begun).await });
    let objects = &*ports.objects;
    let half = eventually("a half-done upload in the list", || async {
        list(objects, "t/default/0193/").await.into_iter().find(|half| half.size_bytes > 0)
    });
    assert_eq!(half.await.bucket, "files");
    let not_there = get(objects, "files", KEY).await;
    assert!(matches!(not_there, Err(ObjectError::NotFound(_))), "{not_there:?}");
    assert_eq!(objects.delete_prefix("t/default/0193/").await.unwrap(), 1);
    assert_eq!(list(objects, "").await, []);
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
}

pub(crate) async fn keys_and_buckets_that_could_lead_elsewhere_are_refused(ports: &Ports) {
    let objects = &*ports.objects;
    for (bucket, key) in [
        ("files", "t/default/../../x"),
        ("files", "t/default/a b"),
        ("files", "/t/default/x"),
        ("files", "t/default//x"),
        ("files", "t/default/%2e%2e/x"),
        ("files", "x/y"),
        ("..", "t/default/x"),
        ("Files", "t/default/x"),
        ("a/b", "t/default/x"),
    ] {
        let put = objects.put(bucket, key, text("x")).await;
        assert!(matches!(put, Err(ObjectError::Refused(_))), "{bucket} {key} {put:?}");
        let got = objects.get(bucket, key).await;
        assert!(matches!(got, Err(ObjectError::Refused(_))), "{bucket} {key}");
    }
    for prefix in ["", "t/", "t/default/", "t/default/x", "t/default/../x/", "/", "t//x/y/"] {
        let deleted = objects.delete_prefix(prefix).await;
        assert!(matches!(deleted, Err(ObjectError::Refused(_))), "{prefix} {deleted:?}");
    }
    let listed: Result<Vec<_>, _> = objects.list("../").try_collect().await;
    assert!(matches!(listed, Err(ObjectError::Refused(_))), "{listed:?}");
}

pub(crate) async fn puts_beside_deletes_lose_nothing(ports: &Ports) {
    let objects = ports.objects.clone();
    // Both lie below one folder that is empty again and again.
    let deletes = tokio::spawn(async move {
        loop {
            objects.put("files", "t/default/gone/s/e1.1/0", text("x")).await.unwrap();
            objects.delete_prefix("t/default/gone/").await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let objects = &*ports.objects;
    let rounds = async {
        for n in 0..60 {
            let key = format!("t/default/kept-{n}/s/e1.1/0");
            put(objects, "files", &key, "kept").await;
            assert_eq!(get(objects, "files", &key).await.unwrap(), b"kept");
            assert_eq!(objects.delete_prefix(&format!("t/default/kept-{n}/")).await.unwrap(), 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rounds).await.expect("sixty rounds");
    assert!(!deletes.is_finished(), "a put or a delete failed");
    deletes.abort();
}
