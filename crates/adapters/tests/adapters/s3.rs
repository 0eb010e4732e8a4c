//! What only S3 can be asked: multipart uploads and what is left of them, memory, outages, buckets
//! that are missing.

use crate::suite::{eventually, within_limit};
use bytes::Bytes;
use counterstep_adapters::buckets::BucketObjects;
use counterstep_adapters::buckets::settings::{BucketSettings, Credentials, Location};
use counterstep_adapters::s3::{self, S3Settings};
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects, Ports};
use counterstep_testkit::servers::S3;
use futures::{StreamExt, TryStreamExt, stream};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEY: &str = "t/default/0193/zip/e1.1/0";
const MIB: usize = 1 << 20;

/// A server of its own for each test, and the adapter on it: one declared bucket has a bucket of
/// its own, one shares that with a prefix, and all others lie in the base.
struct Fixture {
    ports: Ports,
    objects: BucketObjects,
    server: S3,
    settings: S3Settings,
    _rest: crate::embedded::Fixture,
}

async fn fixture() -> Fixture {
    let rest = crate::embedded::fixture().await;
    let server = S3::start(&["objects", "uploads"]);
    let credentials = server.folder().join(".credentials");
    let (id, secret) = (server.access_key(), server.secret_key());
    let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    std::fs::write(&credentials, text).unwrap();
    let place = |text: &str| Location::parse(text).unwrap();
    let common = BucketSettings {
        endpoint: Some(server.endpoint()),
        credentials: Credentials::File(credentials),
        base: Some(place("objects/base")),
        buckets: [
            ("incoming".to_owned(), place("uploads")),
            ("processed".to_owned(), place("uploads/out")),
        ]
        .into(),
        part_bytes: 5 * MIB,
        ..BucketSettings::default()
    };
    let settings = S3Settings {
        common,
        ..S3Settings::default()
    };
    let objects = s3::open(&settings).unwrap();
    let ports = Ports {
        objects: Arc::new(objects.clone()),
        ..rest.ports.clone()
    };
    Fixture {
        ports,
        objects,
        server,
        settings,
        _rest: rest,
    }
}

crate::object_cases!(crate::s3::fixture);
crate::open_upload_cases!(crate::s3::fixture);

/// Bytes that the server has of uploads that are not complete.
fn received(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(".upload_id-") || name.starts_with(".tmp.")
    });
    ours.map(|entry| entry.metadata().map_or(0, |file| file.len() as usize))
        .sum()
}

async fn list(objects: &BucketObjects) -> Vec<ObjectInfo> {
    objects.list("").try_collect().await.unwrap()
}

fn mebibytes(count: usize) -> ByteStream {
    stream::iter((0..count).map(|n| Ok(Bytes::from(vec![n as u8; MIB])))).boxed()
}

#[tokio::test]
async fn a_large_object_passes_through_a_bounded_memory() {
    const SIZE: usize = 256;
    let fixture = fixture().await;
    let (folder, most) = (
        fixture.server.folder().to_owned(),
        Arc::new(AtomicU64::new(0)),
    );
    let seen = most.clone();
    let source = stream::iter(0..SIZE).map(move |n| {
        // What was taken from here, and has not arrived over there, is in our memory or on its way.
        let under_way = (n * MIB).saturating_sub(received(&folder));
        seen.fetch_max(under_way as u64, Ordering::Relaxed);
        Ok(Bytes::from(vec![n as u8; MIB]))
    });
    let stored = fixture
        .objects
        .put("files", KEY, source.boxed())
        .await
        .unwrap();
    assert_eq!(stored, (SIZE * MIB) as u64);
    let most = most.load(Ordering::Relaxed) as usize;
    assert!(
        (5 * MIB..=3 * 5 * MIB).contains(&most),
        "{most} bytes were under way at once"
    );

    let mut read = fixture.objects.get("files", KEY).await.unwrap();
    let (mut position, mut expected) = (0, vec![0; MIB]);
    while let Some(chunk) = read.try_next().await.unwrap() {
        assert!(chunk.len() <= MIB, "a chunk of {} bytes", chunk.len());
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let (same, next) = rest.split_at(rest.len().min(MIB - position % MIB));
            assert!(same == &expected[..same.len()], "other bytes at {position}");
            (position, rest) = (position + same.len(), next);
            if position % MIB == 0 {
                expected.fill((position / MIB) as u8);
            }
        }
    }
    assert_eq!(position, SIZE * MIB);
    assert_eq!(received(fixture.server.folder()), 0);
}

#[tokio::test]
async fn a_dropped_put_aborts_its_upload() {
    let fixture = fixture().await;
    let objects = fixture.objects.clone();
    let hanging = mebibytes(11).chain(stream::pending()).boxed();
    let hanging = tokio::spawn(async move { objects.put("files", KEY, hanging).await });
    eventually("two parts at the server", || async {
        list(&fixture.objects)
            .await
            .into_iter()
            .find(|half| half.size_bytes == 10 << 20)
    })
    .await;
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    eventually("the end of the upload", || async {
        list(&fixture.objects).await.is_empty().then_some(())
    })
    .await;
    eventually("the removal of its parts", || async {
        (received(fixture.server.folder()) == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_source_that_breaks_off_between_parts_leaves_nothing() {
    let fixture = fixture().await;
    for whole in [5, 10, 12] {
        let broken = mebibytes(whole)
            .chain(stream::iter([Err(io::Error::other("client went away"))]))
            .boxed();
        let error = fixture
            .objects
            .put("incoming", KEY, broken)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, ObjectError::Source(why) if why.contains("client went away")),
            "{error:?}"
        );
        assert_eq!(list(&fixture.objects).await, []);
    }
    assert_eq!(received(fixture.server.folder()), 0);
}

#[tokio::test]
async fn a_body_of_whole_parts_is_stored_whole() {
    let fixture = fixture().await;
    for size in [5, 10] {
        assert_eq!(
            fixture
                .objects
                .put("files", KEY, mebibytes(size))
                .await
                .unwrap(),
            (size * MIB) as u64
        );
        let read: Vec<Bytes> = fixture
            .objects
            .get("files", KEY)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let read = read.concat();
        assert!(
            read.len() == size * MIB
                && read
                    .iter()
                    .enumerate()
                    .all(|(n, byte)| *byte == (n / MIB) as u8)
        );
    }
}

#[tokio::test]
async fn objects_lie_where_the_settings_say() {
    let fixture = fixture().await;
    for bucket in ["incoming", "processed", "files"] {
        fixture
            .objects
            .put(bucket, KEY, mebibytes(1))
            .await
            .unwrap();
    }
    for file in ["uploads/t", "uploads/out/t", "objects/base/t"] {
        assert!(fixture.server.folder().join(file).is_dir(), "{file}");
    }
    assert!(
        fixture
            .server
            .folder()
            .join("objects/base")
            .join(KEY)
            .join("files")
            .is_file()
    );
    // What others keep beside ours is neither listed nor deleted.
    let foreign = fixture.server.folder().join("objects/precious");
    std::fs::write(&foreign, "x").unwrap();
    let mut buckets: Vec<_> = list(&fixture.objects)
        .await
        .into_iter()
        .map(|object| object.bucket)
        .collect();
    buckets.sort_unstable();
    assert_eq!(buckets, ["files", "incoming", "processed"]);
    assert_eq!(
        fixture
            .objects
            .delete_prefix("t/default/0193/")
            .await
            .unwrap(),
        3
    );
    assert!(foreign.exists());
}

#[tokio::test]
async fn more_than_a_page_is_listed_and_deleted() {
    let fixture = fixture().await;
    let folder = fixture
        .server
        .folder()
        .join("uploads/t/default/many/s/e1.1");
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..1_100 {
        std::fs::write(folder.join(n.to_string()), "x").unwrap();
    }
    assert_eq!(list(&fixture.objects).await.len(), 1_100);
    assert_eq!(
        fixture
            .objects
            .delete_prefix("t/default/many/")
            .await
            .unwrap(),
        1_100
    );
    assert_eq!(list(&fixture.objects).await, []);
}

#[tokio::test]
async fn a_short_outage_is_waited_out_and_a_long_one_is_reported_in_time() {
    let fixture = fixture().await;
    fixture.server.answer_503_for(Duration::from_millis(700));
    assert_eq!(
        fixture
            .objects
            .put("files", KEY, mebibytes(6))
            .await
            .unwrap(),
        6 * MIB as u64
    );
    fixture.server.answer_503_for(Duration::from_millis(300));
    assert_eq!(list(&fixture.objects).await.len(), 1);
    assert!(fixture.server.refused() >= 2);

    let mut hasty = fixture.settings.clone();
    hasty.common.retry_for = Duration::from_secs(1);
    let hasty = s3::open(&hasty).unwrap();
    fixture.server.answer_503_for(Duration::from_secs(600));
    let errors = within_limit("calls during an outage that lasts", async {
        let mut errors = vec![hasty.put("files", KEY, mebibytes(1)).await.unwrap_err()];
        errors.extend(hasty.get("files", KEY).await.err());
        errors.push(hasty.delete_prefix("t/default/0193/").await.unwrap_err());
        errors.push(hasty.check().await.unwrap_err());
        errors
    })
    .await;
    assert!(
        errors
            .iter()
            .all(|error| matches!(error, ObjectError::Unavailable(_))),
        "{errors:?}"
    );
    assert_eq!(errors.len(), 4);
}

#[tokio::test]
async fn a_check_names_what_is_missing() {
    let fixture = fixture().await;
    fixture.objects.check().await.unwrap();
    std::fs::remove_dir_all(fixture.server.folder().join("uploads")).unwrap();
    let error = fixture.objects.check().await.unwrap_err().to_string();
    assert!(error.contains("there is no bucket `uploads`"), "{error}");
    // Its objects may come back with it, so they do not count as lost.
    for result in [
        fixture.objects.get("incoming", KEY).await.err(),
        list_error(&fixture.objects).await,
    ] {
        assert!(
            matches!(&result, Some(ObjectError::Unavailable(why)) if why.contains("`uploads`")),
            "{result:?}"
        );
    }
    let Credentials::File(file) = &fixture.settings.common.credentials else {
        unreachable!("the fixture names a file")
    };
    std::fs::write(
        file,
        "aws_access_key_id = another\naws_secret_access_key = else\n",
    )
    .unwrap();
    let error = fixture.objects.check().await.unwrap_err().to_string();
    assert!(error.contains("credentials are not accepted"), "{error}");
    std::fs::remove_file(file).unwrap();
    let error = fixture.objects.check().await.unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
    drop(fixture.server);
    let mut hasty = fixture.settings;
    hasty.common.retry_for = Duration::from_secs(1);
    let error = s3::open(&hasty).unwrap();
    assert!(matches!(
        error.check().await,
        Err(ObjectError::Unavailable(_))
    ));
}

async fn list_error(objects: &BucketObjects) -> Option<ObjectError> {
    objects.list("").try_collect::<Vec<_>>().await.err()
}
