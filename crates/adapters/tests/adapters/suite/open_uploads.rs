//! Uploads that are not complete, of stores that show them.

use super::eventually;
use super::objects::{KEY, get, list, pages, put};
use bytes::Bytes;
use counterstep_kernel::ports::{ObjectError, Ports};
use futures::{StreamExt, stream};

pub(crate) async fn a_half_done_upload_is_listed_and_deleted(ports: &Ports) {
    let objects = ports.objects.clone();
    // More than a part of any store: one that sends larger parts has sent nothing before it has
    // gathered the first.
    let begun = stream::iter((0..12).map(|n| Ok(Bytes::from(vec![n; 1 << 20]))))
        .chain(stream::pending())
        .boxed();
    let hanging = tokio::spawn(async move { objects.put("files", KEY, begun).await });
    let objects = &*ports.objects;
    let half = eventually("a half-done upload in the list", || async {
        list(objects, "t/default/0193/")
            .await
            .into_iter()
            .find(|half| half.size_bytes > 0)
    });
    assert_eq!(half.await.bucket, "files");
    let not_there = get(objects, "files", KEY).await;
    assert!(
        matches!(not_there, Err(ObjectError::NotFound(_))),
        "{not_there:?}"
    );
    assert_eq!(objects.delete_prefix("t/default/0193/").await.unwrap(), 1);
    assert_eq!(list(objects, "").await, []);
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
}

pub(crate) async fn a_page_shows_half_done_uploads_as_such(ports: &Ports) {
    let objects = ports.objects.clone();
    let begun = stream::iter((0..12).map(|n| Ok(Bytes::from(vec![n; 1 << 20]))))
        .chain(stream::pending())
        .boxed();
    let hanging = tokio::spawn(async move { objects.put("files", KEY, begun).await });
    let objects = &*ports.objects;
    put(objects, "files", "t/default/0193/zip/e1.1/1", "whole").await;
    let half = eventually("a half-done upload in a page", || async {
        pages(objects, "t/", 10)
            .await
            .into_iter()
            .find(|listed| listed.upload.is_some())
    });
    let half = half.await;
    assert_eq!((half.bucket.as_str(), half.key.as_str()), ("files", KEY));
    let moved = objects.set_aside(&half, "orphans").await;
    assert!(matches!(moved, Err(ObjectError::Refused(_))), "{moved:?}");
    assert_eq!(objects.remove(&[half]).await.unwrap(), 1);
    let left: Vec<_> = pages(objects, "t/", 10)
        .await
        .into_iter()
        .map(|listed| listed.key)
        .collect();
    assert_eq!(left, ["t/default/0193/zip/e1.1/1"]);
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
}
