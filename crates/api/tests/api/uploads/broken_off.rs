//! Forms that do not arrive: refused on the way, slow, held up by the stores, or broken off by a
//! client that is gone.

use super::{KEEP, file, head, whole};
use crate::reply::Reply;
use crate::site::{Site, eventually, file_head};
use async_trait::async_trait;
use counterstep_contracts::http::Accepted;
use counterstep_kernel::EngineSettings;
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects, ReceiveOp, Store};
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_wait_for_the_rest_of_the_body() {
    let site = Site::with(|api, _| api.body_silence = Duration::from_secs(3600)).await;
    let request = head(9_999_999) + &file_head("filename=\"../a\"");
    site.raw(request.as_bytes())
        .await
        .problem(422, "invalid-file-name");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upload_is_408_and_leaves_nothing() {
    let site = Site::with(|api, _| api.body_silence = Duration::from_millis(300)).await;
    let begun = file_head("filename=\"a\"") + &"x".repeat(200_000);
    let request = head(begun.len() + 1000) + &begun;
    site.raw(request.as_bytes()).await.problem(408, "slow-body");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_stores_hold_up_until_it_is_swept_is_503() {
    let site = Site::start().await;
    let mut ports = site.engine.ports.clone();
    ports.objects = Arc::new(Stalling {
        objects: ports.objects.clone(),
        store: ports.store.clone(),
    });
    let settings = EngineSettings {
        upload_timeout: Duration::from_secs(1),
        ..EngineSettings::default()
    };
    let stalled = site.beside_with(ports, settings);
    let reply = stalled
        .form(KEEP, whole(&file("filename=\"a\"", "abc")))
        .await;
    assert_eq!(reply.header("retry-after"), Some("1"));
    reply.problem(503, "unavailable");
    assert_eq!(site.tasks().await, 0);
    site.until_nothing_is_left().await;
}

/// Objects that are stored, and told of only once a sweep has condemned them.
#[derive(Debug)]
struct Stalling {
    objects: Arc<dyn Objects>,
    store: Store,
}

#[async_trait]
impl Objects for Stalling {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let stored = self.objects.put(bucket, key, body).await;
        eventually("an overdue receive", || async {
            let overdue = self
                .store
                .receives(&ReceiveOp::Overdue { limit: 10 })
                .await
                .expect("the store answers");
            let tasks = overdue.rows.iter().map(|row| row.task).collect();
            let condemned = self
                .store
                .receives(&ReceiveOp::Condemn(tasks))
                .await
                .expect("the store answers");
            if condemned.rows.is_empty() {
                Err("no receive is overdue yet")
            } else {
                Ok(())
            }
        })
        .await;
        stored
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.objects.get(bucket, key).await
    }

    async fn check(&self) -> Result<(), ObjectError> {
        self.objects.check().await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        self.objects.delete_prefix(prefix).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        self.objects.list(prefix)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_over_its_time_is_408_and_leaves_nothing() {
    let site = Site::with(|_, engine| engine.upload_timeout = Duration::from_millis(800)).await;
    let begun = file_head("filename=\"a\"");
    let (mut reads, mut writes) = site
        .connect((head(9_999_999) + &begun).as_bytes())
        .await
        .into_split();
    let drip = tokio::spawn(async move {
        let mut drops = tokio::time::interval(Duration::from_millis(20));
        while writes.write_all(b"x").await.is_ok() {
            drops.tick().await;
        }
    });
    let reply = Reply::read(&mut reads).await;
    drip.abort();
    reply.problem(408, "slow-body");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_in_the_middle_leaves_nothing_and_its_key_free() {
    let site = Site::start().await;
    let body = whole(&file("filename=\"a\"", &"x".repeat(4_000_000)));
    let request = head(body.len())
        .replace("Host: localhost", "Host: localhost\r\nIdempotency-Key: k")
        + &body;
    let socket = site.connect(&request.as_bytes()[..3_000_000]).await;
    // Without this the test could pass because nothing had begun.
    eventually("the file is being stored", || async {
        if site.stored().is_empty() {
            Err("nothing")
        } else {
            Ok(())
        }
    })
    .await;
    drop(socket);
    site.until_nothing_is_left().await;
    let again = eventually("the key is free again", || async {
        let reply = site.raw(request.as_bytes()).await;
        if reply.status == 409 {
            Err("in progress")
        } else {
            Ok(reply)
        }
    });
    again.await.json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_in_the_middle_leaves_nothing() {
    let site = Site::start().await;
    let begun = head(9_999_999)
        + &file("filename=\"done\"", "abc")
        + &file_head("filename=\"a\"")
        + &"x".repeat(500_000);
    let socket = site.connect(begun.as_bytes()).await;
    eventually("a file is stored", || async {
        if site.stored().is_empty() {
            Err("nothing")
        } else {
            Ok(())
        }
    })
    .await;
    socket.set_zero_linger().expect("an option");
    drop(socket);
    site.until_nothing_is_left().await;
}
