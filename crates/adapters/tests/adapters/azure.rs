//! What only Azure can be asked: parts that are not committed, batches, keys and signatures,
//! containers that are missing. Azurite stands in for it.

use crate::suite::eventually;
use crate::suite::objects::pages;
use bytes::Bytes;
use counterstep_adapters::azure::{self, AzureSettings};
use counterstep_adapters::buckets::BucketObjects;
use counterstep_adapters::buckets::settings::{BucketSettings, Credentials, Location};
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects, Ports};
use counterstep_testkit::servers::{Azurite, shared_azurite};
use futures::{StreamExt, TryStreamExt, stream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const KEY: &str = "t/default/0193/zip/e1.1/0";
const MIB: usize = 1 << 20;

/// Two containers of its own for each test, and the adapter on them: one declared bucket has a
/// container of its own, one shares that with a prefix, and all others lie in the base.
struct Fixture {
    ports: Ports,
    objects: BucketObjects,
    settings: AzureSettings,
    folder: tempfile::TempDir,
    _rest: crate::embedded::Fixture,
}

impl Fixture {
    fn credentials(&self) -> PathBuf {
        self.folder.path().join("credentials")
    }
}

async fn fixture() -> Fixture {
    on(shared_azurite()).await
}

async fn on(server: &Azurite) -> Fixture {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let rest = crate::embedded::fixture().await;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let (base, uploads) = (format!("objects-{number}"), format!("uploads-{number}"));
    server.make_container(&base);
    server.make_container(&uploads);
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    std::fs::write(
        &credentials,
        format!("[default]\nazure_storage_account_key = {}\n", server.key()),
    )
    .unwrap();
    let place = |bucket: &str, prefix: &str| Location {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
    };
    let buckets = [
        ("incoming".to_owned(), place(&uploads, "")),
        ("processed".to_owned(), place(&uploads, "out")),
    ];
    let common = BucketSettings {
        endpoint: Some(server.endpoint()),
        credentials: Credentials::File(credentials),
        base: Some(place(&base, "base")),
        buckets: buckets.into(),
        part_bytes: 5 * MIB,
        ..BucketSettings::default()
    };
    let settings = AzureSettings {
        common,
        account: Some(server.account().to_owned()),
    };
    let objects = azure::open(&settings).unwrap();
    let ports = Ports {
        objects: Arc::new(objects.clone()),
        ..rest.ports.clone()
    };
    Fixture {
        ports,
        objects,
        settings,
        folder,
        _rest: rest,
    }
}

crate::object_cases!(crate::azure::fixture);

async fn list(objects: &BucketObjects) -> Vec<ObjectInfo> {
    objects.list("").try_collect().await.unwrap()
}

fn mebibytes(count: usize) -> ByteStream {
    stream::iter((0..count).map(|n| Ok(Bytes::from(vec![n as u8; MIB])))).boxed()
}

#[tokio::test]
async fn a_half_done_upload_is_not_shown_and_keeps_nothing_from_its_key() {
    let fixture = fixture().await;
    let (objects, taken) = (fixture.objects.clone(), Arc::new(AtomicU32::new(0)));
    let seen = taken.clone();
    let begun = stream::iter(0..16).map(move |n| {
        seen.store(n, Ordering::Relaxed);
        Ok(Bytes::from(vec![0; MIB]))
    });
    let hanging = tokio::spawn(async move {
        objects
            .put("files", KEY, begun.chain(stream::pending()).boxed())
            .await
    });
    // Two parts are on their way at most: the first has arrived when the third is gathered.
    eventually("a part at the server", || async {
        (taken.load(Ordering::Relaxed) == 15).then_some(())
    })
    .await;
    assert_eq!(
        (
            list(&fixture.objects).await,
            pages(&fixture.objects, "t/", 10).await
        ),
        (vec![], vec![])
    );
    assert_eq!(
        fixture
            .objects
            .delete_prefix("t/default/0193/")
            .await
            .unwrap(),
        0
    );
    for of_s3 in [
        "o|incoming||t/default/0193/zip/e1.1/0",
        "u|incoming|id|t/default/0193/zip/e1.1/0",
    ] {
        let refused = fixture.objects.page("t/", Some(of_s3), 10).await;
        assert!(
            matches!(refused, Err(ObjectError::Refused(_))),
            "{of_s3} {refused:?}"
        );
    }
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    fixture
        .objects
        .put("files", KEY, mebibytes(11))
        .await
        .unwrap();
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
        read.len() == 11 * MIB
            && read
                .iter()
                .enumerate()
                .all(|(n, byte)| *byte == (n / MIB) as u8)
    );
}

#[tokio::test]
async fn more_than_a_batch_is_deleted() {
    const OBJECTS: usize = 300;
    let fixture = fixture().await;
    let puts = (0..OBJECTS).map(|n| {
        let objects = fixture.objects.clone();
        async move {
            objects
                .put(
                    "incoming",
                    &format!("t/default/many/s/e1.1/{n}"),
                    mebibytes(0),
                )
                .await
        }
    });
    stream::iter(puts)
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    assert_eq!(
        fixture
            .objects
            .delete_prefix("t/default/many/")
            .await
            .unwrap(),
        OBJECTS as u64
    );
    assert_eq!(list(&fixture.objects).await, []);
}

#[tokio::test]
async fn a_shared_access_signature_lets_it_in_and_is_read_anew_for_each_request() {
    let fixture = fixture().await;
    let (container, signature) = shared_azurite().make_signed_container();
    let mut settings = fixture.settings.clone();
    settings.common.base = Some(Location {
        bucket: container.to_owned(),
        prefix: String::new(),
    });
    settings.common.buckets.clear();
    let objects = azure::open(&settings).unwrap();
    let token = |token: &str| {
        std::fs::write(
            fixture.credentials(),
            format!("azure_storage_sas_token = {token}\n"),
        )
        .unwrap();
    };
    token(signature);
    objects.check().await.unwrap();
    objects.put("files", KEY, mebibytes(6)).await.unwrap();
    let listed = pages(&objects, "t/", 10).await;
    objects.set_aside(&listed[0], "orphans").await.unwrap();
    assert_eq!(list(&objects).await, []);
    token(&signature.replace("sig=3", "sig=x"));
    let error = objects.check().await.unwrap_err().to_string();
    assert!(error.contains("credentials are not accepted"), "{error}");
    let refused = objects.put("files", KEY, mebibytes(1)).await.unwrap_err();
    assert!(
        matches!(&refused, ObjectError::Unavailable(why) if !why.contains("sig=")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_check_names_what_is_missing() {
    let server = Azurite::start();
    let fixture = on(&server).await;
    fixture.objects.check().await.unwrap();
    let mut settings = fixture.settings.clone();
    settings.common.retry_for = Duration::from_secs(1);
    settings.common.buckets.insert(
        "lost".to_owned(),
        Location {
            bucket: "never-made".to_owned(),
            prefix: String::new(),
        },
    );
    let objects = azure::open(&settings).unwrap();
    let error = objects.check().await.unwrap_err().to_string();
    assert!(error.contains("there is no bucket `never-made`"), "{error}");
    // Its objects may come back with it, so they do not count as lost.
    let error = objects.get("lost", KEY).await.err();
    assert!(
        matches!(&error, Some(ObjectError::Unavailable(why)) if why.contains("`never-made`")),
        "{error:?}"
    );
    std::fs::write(
        fixture.credentials(),
        "azure_storage_account_key = b3RoZXI=\n",
    )
    .unwrap();
    let error = fixture.objects.check().await.unwrap_err().to_string();
    assert!(error.contains("credentials are not accepted"), "{error}");
    std::fs::remove_file(fixture.credentials()).unwrap();
    let error = fixture.objects.check().await.unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
    server.stop();
    std::fs::write(
        fixture.credentials(),
        format!("azure_storage_account_key = {}\n", server.key()),
    )
    .unwrap();
    for error in [
        objects.check().await.unwrap_err(),
        objects.put("files", KEY, mebibytes(1)).await.unwrap_err(),
    ] {
        assert!(matches!(error, ObjectError::Unavailable(_)), "{error:?}");
    }
}
