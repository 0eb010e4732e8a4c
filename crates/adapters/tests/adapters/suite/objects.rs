//! Objects: whole or not at all, found by prefix, gone by prefix.

use bytes::Bytes;
use counterstep_kernel::ports::{ByteStream, Listed, ObjectError, ObjectInfo, Objects, Ports};
use futures::{StreamExt, TryStreamExt, stream};
use std::io;
use std::time::Duration;

fn body(chunks: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> ByteStream {
    stream::iter(chunks.into_iter().map(Ok)).boxed()
}

fn text(text: &'static str) -> ByteStream {
    body([Bytes::from_static(text.as_bytes())])
}

pub(super) async fn put(objects: &dyn Objects, bucket: &str, key: &str, content: &'static str) {
    assert_eq!(
        objects.put(bucket, key, text(content)).await.unwrap(),
        content.len() as u64
    );
}

pub(super) async fn get(
    objects: &dyn Objects,
    bucket: &str,
    key: &str,
) -> Result<Vec<u8>, ObjectError> {
    let chunks: Vec<Bytes> = objects.get(bucket, key).await?.try_collect().await.unwrap();
    Ok(chunks.concat())
}

pub(super) async fn list(objects: &dyn Objects, prefix: &str) -> Vec<ObjectInfo> {
    let mut found: Vec<_> = objects.list(prefix).try_collect().await.unwrap();
    found.sort_by(|a: &ObjectInfo, b| (&a.bucket, &a.key).cmp(&(&b.bucket, &b.key)));
    found
}

fn object(bucket: &str, key: &str, size_bytes: u64) -> ObjectInfo {
    ObjectInfo {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        size_bytes,
    }
}

pub(super) const KEY: &str = "t/default/0193/zip/e1.1/0";

pub(crate) async fn an_object_comes_back_as_it_was_put(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "incoming-files", KEY, "hello").await;
    assert_eq!(get(objects, "incoming-files", KEY).await.unwrap(), b"hello");
    // The same key in another bucket is another object, and a second put replaces the first.
    put(objects, "other.files", KEY, "hi").await;
    put(objects, "incoming-files", KEY, "hello again").await;
    assert_eq!(
        get(objects, "incoming-files", KEY).await.unwrap(),
        b"hello again"
    );
    assert_eq!(get(objects, "other.files", KEY).await.unwrap(), b"hi");
}

pub(crate) async fn a_part_of_an_object_comes_back(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "results", KEY, "0123456789").await;
    for (range, expected) in [
        (0..1, "0"),
        (3..7, "3456"),
        (9..10, "9"),
        (0..10, "0123456789"),
    ] {
        let found = objects
            .get_range("results", KEY, range.clone())
            .await
            .expect("the part");
        let found: Vec<Bytes> = found.try_collect().await.expect("all of it");
        assert_eq!(found.concat(), expected.as_bytes(), "{range:?}");
    }
    let gone = objects
        .get_range("results", &format!("{KEY}1"), 0..1)
        .await
        .err();
    assert!(matches!(gone, Some(ObjectError::NotFound(_))), "{gone:?}");
    objects.check().await.expect("it can be written to");
}

pub(crate) async fn an_object_may_be_empty(ports: &Ports) {
    let objects = &*ports.objects;
    assert_eq!(objects.put("files", KEY, body([])).await.unwrap(), 0);
    assert_eq!(get(objects, "files", KEY).await.unwrap(), b"");
    assert_eq!(
        objects
            .put("files", KEY, body([Bytes::new(), Bytes::new()]))
            .await
            .unwrap(),
        0
    );
    assert_eq!(list(objects, "").await, [object("files", KEY, 0)]);
}

pub(crate) async fn sixteen_mebibytes_in_small_chunks_come_back(ports: &Ports) {
    const CHUNK: usize = 4099;
    const CHUNKS: usize = (16 << 20) / CHUNK + 1;
    let chunk = |n: usize| Bytes::from((0..CHUNK).map(|i| (n * 31 + i) as u8).collect::<Vec<_>>());
    let objects = &*ports.objects;
    let size = objects
        .put("files", KEY, body((0..CHUNKS).map(chunk)))
        .await
        .unwrap();
    assert_eq!(size, (CHUNK * CHUNKS) as u64);
    let read = get(objects, "files", KEY).await.unwrap();
    assert_eq!(read.len(), CHUNK * CHUNKS);
    assert!(
        read.chunks(CHUNK)
            .enumerate()
            .all(|(n, read)| read == chunk(n)),
        "other bytes came back"
    );
    // One chunk larger than any part.
    let size = objects
        .put("files", KEY, body([Bytes::from(read.clone())]))
        .await
        .unwrap();
    assert_eq!(
        (size, get(objects, "files", KEY).await.unwrap() == read),
        (read.len() as u64, true)
    );
}

pub(crate) async fn a_source_that_breaks_off_leaves_nothing(ports: &Ports) {
    let objects = &*ports.objects;
    let broken = stream::iter([
        Ok(Bytes::from(vec![1; 3 << 20])),
        Err(io::Error::other("client went away")),
    ]);
    let error = objects.put("files", KEY, broken.boxed()).await;
    assert!(
        matches!(&error, Err(ObjectError::Source(why)) if why.contains("client went away")),
        "{error:?}"
    );
    assert_eq!(list(objects, "").await, []);
    // What was there before stays whole.
    put(objects, "files", KEY, "whole").await;
    let broken = stream::iter([
        Ok(Bytes::from_static(b"half")),
        Err(io::Error::other("again")),
    ]);
    assert!(objects.put("files", KEY, broken.boxed()).await.is_err());
    assert_eq!(get(objects, "files", KEY).await.unwrap(), b"whole");
    assert_eq!(list(objects, "").await.len(), 1);
}

pub(crate) async fn an_object_that_is_not_there_is_not_found(ports: &Ports) {
    let objects = &*ports.objects;
    put(objects, "files", KEY, "x").await;
    for (bucket, key) in [
        ("files", "t/default/0193/zip/e1.1/1"),
        ("never-made", KEY),
        ("files", "t/default/0193"),
    ] {
        let error = get(objects, bucket, key).await;
        assert!(
            matches!(error, Err(ObjectError::NotFound(_))),
            "{bucket} {key} {error:?}"
        );
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
        [
            object("incoming", "t/default/one/upload/e1.1/0", 1),
            object("incoming", "t/default/one/upload/e1.1/1", 2),
        ]
    );
    assert_eq!(list(objects, "").await.len(), 5);
    assert_eq!(list(objects, "t/default/").await.len(), 5);
    assert_eq!(list(objects, "t/default/none/").await, []);
    assert_eq!(
        objects
            .delete_prefix("t/default/one/upload/e1.1/")
            .await
            .unwrap(),
        2
    );
    assert_eq!(objects.delete_prefix("t/default/one/").await.unwrap(), 1);
    let keys: Vec<_> = list(objects, "")
        .await
        .into_iter()
        .map(|object| object.key)
        .collect();
    assert_eq!(
        keys,
        ["t/default/one-more/zip/e1.1/0", "t/default/two/zip/e1.1/0"]
    );
    assert_eq!(
        get(objects, "processed", "t/default/two/zip/e1.1/0")
            .await
            .unwrap(),
        b"dddd"
    );
}

pub(crate) async fn deleting_nothing_is_success(ports: &Ports) {
    assert_eq!(
        ports.objects.delete_prefix("t/default/one/").await.unwrap(),
        0
    );
    put(&*ports.objects, "files", KEY, "x").await;
    assert_eq!(
        ports.objects.delete_prefix("t/default/one/").await.unwrap(),
        0
    );
    assert_eq!(list(&*ports.objects, "").await.len(), 1);
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
        assert!(
            matches!(put, Err(ObjectError::Refused(_))),
            "{bucket} {key} {put:?}"
        );
        let got = objects.get(bucket, key).await;
        assert!(
            matches!(got, Err(ObjectError::Refused(_))),
            "{bucket} {key}"
        );
    }
    for prefix in [
        "",
        "t/",
        "t/default/",
        "t/default/x",
        "t/default/../x/",
        "/",
        "t//x/y/",
    ] {
        let deleted = objects.delete_prefix(prefix).await;
        assert!(
            matches!(deleted, Err(ObjectError::Refused(_))),
            "{prefix} {deleted:?}"
        );
    }
    let listed: Result<Vec<_>, _> = objects.list("../").try_collect().await;
    assert!(matches!(listed, Err(ObjectError::Refused(_))), "{listed:?}");
}

pub(crate) async fn puts_beside_deletes_lose_nothing(ports: &Ports) {
    let objects = ports.objects.clone();
    // Both lie below one folder that is empty again and again.
    let deletes = tokio::spawn(async move {
        loop {
            objects
                .put("files", "t/default/gone/s/e1.1/0", text("x"))
                .await
                .unwrap();
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
            assert_eq!(
                objects
                    .delete_prefix(&format!("t/default/kept-{n}/"))
                    .await
                    .unwrap(),
                1
            );
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rounds)
        .await
        .expect("sixty rounds");
    assert!(!deletes.is_finished(), "a put or a delete failed");
    deletes.abort();
}

/// All pages of this many entries.
pub(crate) async fn pages(objects: &dyn Objects, prefix: &str, limit: usize) -> Vec<Listed> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = objects.page(prefix, after.as_deref(), limit).await.unwrap();
        assert!(
            page.objects.len() <= limit,
            "a page of {}",
            page.objects.len()
        );
        for listed in &page.objects {
            // Their clocks are those of this machine.
            assert!(
                (0..60_000_000).contains(&(page.now + 1_000_000 - listed.stored_at)),
                "{listed:?} {}",
                page.now
            );
        }
        all.extend(page.objects);
        match page.next {
            Some(next) => assert_ne!(
                Some(&next),
                after.replace(next.clone()).as_ref(),
                "it does not come further"
            ),
            None => return all,
        }
    }
}

pub(crate) async fn pages_show_everything_once_and_in_order(ports: &Ports) {
    let objects = &*ports.objects;
    let mut expected = Vec::new();
    for bucket in ["incoming", "other.files", "processed"] {
        for key in [
            "one/s/e1.1/0",
            "one/s/e1.1/1",
            "one/s/e1.10/0",
            "one/s/e1.2/0",
            "one/s.undo/e1.1/0",
            "two/s/e1.1/0",
        ] {
            let key = format!("t/default/{key}");
            put(objects, bucket, &key, "xy").await;
            expected.push((bucket.to_owned(), key));
        }
    }
    expected.sort();
    for limit in [1, 2, 5, 1000] {
        let found = pages(objects, "t/", limit).await;
        assert!(
            found
                .iter()
                .all(|listed| listed.size_bytes == 2 && listed.upload.is_none())
        );
        for bucket in ["incoming", "other.files", "processed"] {
            let keys: Vec<_> = found
                .iter()
                .filter(|listed| listed.bucket == bucket)
                .map(|one| &one.key)
                .collect();
            assert!(keys.is_sorted(), "{keys:?}");
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|listed| (listed.bucket, listed.key))
            .collect();
        found.sort();
        assert_eq!(found, expected, "pages of {limit}");
    }
    assert_eq!(pages(objects, "t/default/one/s/", 2).await.len(), 4 * 3);
    assert_eq!(pages(objects, "t/default/none/", 2).await, []);
    // What is deleted between two pages does not keep the rest from being shown.
    let first = objects.page("t/", None, 2).await.unwrap();
    objects.delete_prefix("t/default/one/s/").await.unwrap();
    let mut rest = 0;
    let mut after = first.next;
    while let Some(cursor) = after {
        let page = objects.page("t/", Some(&cursor), 1000).await.unwrap();
        rest += page
            .objects
            .iter()
            .filter(|listed| listed.key.starts_with("t/default/two/"))
            .count();
        after = page.next;
    }
    assert_eq!(rest, 3);
    for prefix in ["../", "t/default", "archive/"] {
        let refused = objects.page(prefix, None, 10).await;
        assert!(
            matches!(refused, Err(ObjectError::Refused(_))),
            "{prefix} {refused:?}"
        );
    }
    // A cursor of another kind of store: it would lead past some of the objects.
    for cursor in ["?", "?|incoming|/t/x", "?/t/x"] {
        let refused = objects.page("t/", Some(cursor), 10).await;
        assert!(
            matches!(refused, Err(ObjectError::Refused(_))),
            "{cursor} {refused:?}"
        );
    }
}

pub(crate) async fn only_what_was_listed_is_removed(ports: &Ports) {
    let objects = &*ports.objects;
    for n in 0..5 {
        put(
            objects,
            "files",
            &format!("t/default/0193/zip/e1.1/{n}"),
            "x",
        )
        .await;
        put(
            objects,
            "processed",
            &format!("t/default/0193/zip/e1.1/{n}"),
            "x",
        )
        .await;
    }
    let listed = pages(objects, "t/", 1000).await;
    let (go, stay): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .partition(|one| one.key.ends_with(['1', '3']));
    assert_eq!(objects.remove(&go).await.unwrap(), 4);
    assert_eq!(pages(objects, "t/", 1000).await, stay);
    // What is gone is gone: success.
    objects.remove(&go).await.unwrap();
    objects.remove(&[]).await.unwrap();
    let elsewhere = Listed {
        key: "t/../x".to_owned(),
        ..go[0].clone()
    };
    assert!(matches!(
        objects.remove(&[elsewhere]).await,
        Err(ObjectError::Refused(_))
    ));
}

pub(crate) async fn an_object_that_is_set_aside_is_in_no_page(ports: &Ports) {
    let objects = &*ports.objects;
    for bucket in ["incoming", "processed"] {
        put(objects, bucket, "t/default/0193/zip/e1.1/0", "precious").await;
    }
    let listed = pages(objects, "t/", 10).await;
    objects.set_aside(&listed[0], "orphans/late").await.unwrap();
    assert_eq!(pages(objects, "t/", 10).await, listed[1..]);
    assert_eq!(list(objects, "").await.len(), 1);
    let gone = get(objects, &listed[0].bucket, &listed[0].key).await;
    assert!(matches!(gone, Err(ObjectError::NotFound(_))), "{gone:?}");
    // A sweep that died behind it tries once more.
    objects.set_aside(&listed[0], "orphans/late").await.unwrap();
    for prefix in ["", "t", "t/x", "../x", "a//b", "a b"] {
        let refused = objects.set_aside(&listed[1], prefix).await;
        assert!(
            matches!(refused, Err(ObjectError::Refused(_))),
            "{prefix} {refused:?}"
        );
    }
    assert_eq!(objects.delete_prefix("t/default/0193/").await.unwrap(), 1);
}

pub(crate) async fn what_is_put_aside_is_in_no_page_and_whole_or_not_at_all(ports: &Ports) {
    let objects = &*ports.objects;
    assert_eq!(
        objects
            .put_aside("kept.apart", "tasks/Zip/2026-11-25/1.jsonl", text("{}"))
            .await
            .unwrap(),
        2
    );
    assert_eq!(pages(objects, "t/", 10).await, []);
    assert_eq!(list(objects, "").await, []);
    let broken = stream::iter([
        Ok(Bytes::from_static(b"half")),
        Err(io::Error::other("the row is gone")),
    ]);
    let error = objects
        .put_aside("kept.apart", "tasks/Zip/2026-11-25/2.jsonl", broken.boxed())
        .await;
    assert!(matches!(&error, Err(ObjectError::Source(_))), "{error:?}");
    for (bucket, name) in [
        ("kept.apart", "../x"),
        ("kept.apart", "t/x"),
        ("kept.apart", ""),
        ("..", "x"),
    ] {
        let refused = objects.put_aside(bucket, name, text("x")).await;
        assert!(
            matches!(refused, Err(ObjectError::Refused(_))),
            "{bucket} {name} {refused:?}"
        );
    }
}
