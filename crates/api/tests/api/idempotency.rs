//! The `Idempotency-Key`, and the trace context beside it.

use crate::reply::Reply;
use crate::site::{Site, eventually, file_head, text_part};
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{FileName, Keep, Labels, Retention, TaskStatus, Tenant};
use counterstep_kernel::client::{Submission, SubmitError, UploadSession};
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::{RetentionSettings, retention};
use counterstep_steps::CancelToken;
use std::time::Duration;

const NOTE: &str = "/api/tasks/write-note";

async fn post(site: &Site, key: &str, body: &str) -> Reply {
    let request = site
        .request("POST", NOTE)
        .header("content-type", "application/json");
    site.send(request.header("idempotency-key", key).body(body.to_owned()))
        .await
}

fn upload(key: &str, length: usize) -> String {
    format!(
        "POST /api/tasks/keep-files HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_first_answer_and_says_so() {
    let site = Site::start().await;
    let first: Accepted = post(&site, "k", r#"{"text":"a","count":1}"#)
        .await
        .json(202);
    // The same request in other words: order and white space mean nothing in JSON.
    let again = post(&site, "k", r#" { "count" : 1, "text" : "a" } "#).await;
    assert_eq!(again.json::<Accepted>(202), first);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(
        again.header("location"),
        Some(&*format!("/api/tasks/{}", first.task_id))
    );
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_after_its_time_while_its_task_stays() {
    let site = Site::with(|_, engine| engine.idempotency_ttl = Duration::from_secs(3600)).await;
    let first: Accepted = post(&site, "k", r#"{"text":"a"}"#).await.json(202);
    site.clock.advance("59m");
    let again = post(&site, "k", r#"{"text":"a"}"#).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json::<Accepted>(202), first);
    post(&site, "k", r#"{"text":"b"}"#)
        .await
        .problem(422, "idempotency-mismatch");
    // A repetition makes it live no longer.
    site.clock.advance("1m");
    let second = post(&site, "k", r#"{"text":"b"}"#).await;
    assert_eq!(second.header("idempotency-replayed"), None);
    assert_ne!(second.json::<Accepted>(202).task_id, first.task_id);
    assert_eq!(site.tasks().await, 2);
    site.get(&format!("/api/tasks/{}", first.task_id))
        .await
        .assert_status(200);
}

/// How many tasks go where those that completed are not kept.
async fn purged(site: &Site) -> u64 {
    let at_once = Retention {
        completed: Some(Keep::ThenDelete(Duration::ZERO)),
        ..Retention::default()
    };
    let mut settings = RetentionSettings::default();
    settings.types.insert("*".to_owned(), at_once);
    let planned = retention::plan(&site.engine, &settings, 10).await.unwrap();
    let done = retention::run(&site.engine, &settings, planned, &CancelToken::new()).await;
    done.unwrap().deleted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_retention_has_deleted_is_not_found() {
    let site = Site::with(|_, engine| engine.idempotency_ttl = Duration::ZERO).await;
    site.run_worker();
    let first: Accepted = post(&site, "k", r#"{"text":"a"}"#).await.json(202);
    site.until(first.task_id, TaskStatus::Completed).await;
    assert_eq!(purged(&site).await, 1);
    for path in ["", "/audit", "/plan", "/why"] {
        site.get(&format!("/api/tasks/{}{path}", first.task_id))
            .await
            .problem(404, "no-such-task");
    }
    assert_eq!(site.tasks().await, 0);
    let again: Accepted = post(&site, "k", r#"{"text":"other"}"#).await.json(202);
    assert_ne!(again.task_id, first.task_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_leaves_a_task_whose_key_lives_to_its_repetition() {
    let site = Site::start().await;
    site.run_worker();
    let first: Accepted = post(&site, "k", r#"{"text":"a"}"#).await.json(202);
    site.until(first.task_id, TaskStatus::Completed).await;
    assert_eq!(purged(&site).await, 0);
    assert_eq!(
        post(&site, "k", r#"{"text":"a"}"#)
            .await
            .json::<Accepted>(202),
        first
    );
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_another_body_is_422() {
    let site = Site::start().await;
    post(&site, "k", r#"{"text":"a"}"#)
        .await
        .json::<Accepted>(202);
    post(&site, "k", r#"{"text":"b"}"#)
        .await
        .problem(422, "idempotency-mismatch");
    let other = site
        .request("POST", "/api/tasks/charge-card")
        .header("content-type", "application/json");
    let reply = site
        .send(other.header("idempotency-key", "k").body(r#"{"text":"a"}"#))
        .await;
    reply.problem(422, "idempotency-mismatch");
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_does_not_use_up_its_key() {
    let site = Site::start().await;
    post(&site, "k", r#"{"text":5}"#)
        .await
        .problem(422, "invalid-request");
    post(&site, "k", r#"{"text":"a"}"#)
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_while_the_first_arrives_is_409() {
    let site = Site::start().await;
    let body = format!("{}abc\r\n--XX--\r\n", file_head("filename=\"a.txt\""));
    let (sent, rest) = body.split_at(body.len() - 10);
    let mut first = site
        .connect(format!("{}{sent}", upload("k", body.len())).as_bytes())
        .await;
    eventually("the first file is being stored", || async {
        if site.stored().is_empty() {
            Err("nothing")
        } else {
            Ok(())
        }
    })
    .await;
    let second = site
        .raw(format!("{}{body}", upload("k", body.len())).as_bytes())
        .await;
    second.problem(409, "in-progress");
    assert_eq!(second.header("retry-after"), Some("1"));
    tokio::io::AsyncWriteExt::write_all(&mut first, rest.as_bytes())
        .await
        .unwrap();
    Reply::read(&mut first).await.json::<Accepted>(202);
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_upload_is_compared_by_content_and_stored_once() {
    let site = Site::start().await;
    let send = async |content: &str| {
        let body = format!(
            "{}{}{content}\r\n--XX--\r\n",
            text_part("label", "x"),
            file_head("filename=\"a.txt\"")
        );
        site.raw(format!("{}{body}", upload("k", body.len())).as_bytes())
            .await
    };
    let first: Accepted = send("abc").await.json(202);
    let again = send("abc").await;
    assert_eq!(again.json::<Accepted>(202), first);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    send("abd").await.problem(422, "idempotency-mismatch");
    assert_eq!((site.tasks().await, site.stored().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_quotes_is_the_same_key() {
    let site = Site::start().await;
    let first: Accepted = post(&site, "abc", r#"{"text":"a"}"#).await.json(202);
    assert_eq!(
        post(&site, "\"abc\"", r#"{"text":"a"}"#)
            .await
            .json::<Accepted>(202),
        first
    );
    for broken in ["\"abc", "\"", "\"\"", "\"a\"b\""] {
        post(&site, broken, r#"{"text":"a"}"#)
            .await
            .problem(400, "malformed-idempotency-key");
    }
    assert_eq!(site.tasks().await, 1);
}

/// Another API process on the same data, with an upload under way. It is killed without a word, or
/// only paused: to the others it is the same.
async fn upload_at_another_process(site: &Site, lost_after: Duration) -> UploadSession {
    let settings = EngineSettings {
        lost_after,
        ..EngineSettings::default()
    };
    let other = Engine::new(
        site.engine.ports.clone(),
        site.engine.registry.clone(),
        settings,
        "api",
    );
    let (engine, id) = (other.clone(), other.id.to_string());
    let present = tokio::spawn(async move {
        worker_registry::keep_refreshed(
            &engine,
            Part::default(),
            Box::pin(std::future::pending::<()>()),
        )
        .await;
    });
    eventually("it is registered", || async {
        let workers = site.engine.ports.store.workers().await.unwrap();
        if workers.rows.iter().any(|seen| seen.row.id == id) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    present.abort();
    let _ = present.await;
    let task_type = other.registry.by_route("keep-files").unwrap();
    let submission = Submission {
        tenant: Tenant::default(),
        actor: "client".to_owned(),
        key: Some("k".to_owned()),
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    };
    let mut session = UploadSession::begin(&other, task_type, submission)
        .await
        .unwrap();
    let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"paused"))]);
    session
        .file(
            "files",
            FileName::parse("a.txt").unwrap(),
            "text/plain",
            Box::pin(bytes),
        )
        .await
        .unwrap();
    session
}

async fn repeat(site: &Site) -> Reply {
    let body = format!("{}abc\r\n--XX--\r\n", file_head("filename=\"a.txt\""));
    site.raw(format!("{}{body}", upload("k", body.len())).as_bytes())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_upload_is_free_once_its_process_is_gone_and_the_process_cannot_come_back_to_it()
 {
    let site = Site::start().await;
    let mut paused = upload_at_another_process(&site, Duration::from_millis(1)).await;
    let accepted = eventually("the process counts as lost", || async {
        let reply = repeat(&site).await;
        if reply.status == 202 {
            Ok(reply.json::<Accepted>(202))
        } else {
            Err(reply.status)
        }
    });
    let accepted = accepted.await;
    // It was only paused, and has its request whole.
    let late = paused.submit().await;
    assert!(matches!(late, Err(SubmitError::KeyMismatch)), "{late:?}");
    paused.abandon("its key is another request's").await;
    assert_eq!(repeat(&site).await.json::<Accepted>(202), accepted);
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_upload_at_a_process_that_lives_stays_taken() {
    let site = Site::start().await;
    let mut alive = upload_at_another_process(&site, Duration::from_secs(3600)).await;
    repeat(&site).await.problem(409, "in-progress");
    alive.submit().await.expect("its key is its own");
    repeat(&site).await.problem(422, "idempotency-mismatch");
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_1_to_255_visible_ascii_characters() {
    let site = Site::start().await;
    let (longest, too_long) = ("k".repeat(255), "k".repeat(256));
    post(&site, &longest, r#"{"text":"a"}"#)
        .await
        .json::<Accepted>(202);
    for key in [&*too_long, "", "a b", "a\tb", "é"] {
        post(&site, key, r#"{"text":"a"}"#)
            .await
            .problem(400, "malformed-idempotency-key");
    }
    let twice = site
        .request("POST", NOTE)
        .header("content-type", "application/json")
        .body("{\"text\":\"a\"}");
    let twice = twice
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    site.send(twice)
        .await
        .problem(400, "malformed-idempotency-key");
    assert_eq!(site.tasks().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_control_character_is_400() {
    let site = Site::start().await;
    let body = r#"{"text":"a"}"#;
    for sign in (0..=0x1f_u8).chain([0x7f]) {
        // With these a line ends: what follows is another header, or none.
        if sign == b'\r' || sign == b'\n' {
            continue;
        }
        let head = format!(
            "POST {NOTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nIdempotency-Key: a",
            body.len()
        );
        let request = [head.as_bytes(), &[sign], b"b\r\n\r\n", body.as_bytes()].concat();
        let reply = site.raw(&request).await;
        assert_eq!(reply.status, 400, "{sign:#x}");
        // The head of a request that has another one cannot be read: there is nothing yet that could answer with
        // a document.
        if sign == b'\t' {
            reply.problem(400, "malformed-idempotency-key");
        } else {
            assert!(reply.body.is_empty(), "{sign:#x}");
        }
    }
    assert_eq!(site.tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_well_formed_traceparent_is_kept_and_another_ignored() {
    let site = Site::start().await;
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (sent, kept) in [(good, Some(good)), ("nonsense", None)] {
        let request = site
            .request("POST", NOTE)
            .header("content-type", "application/json");
        let reply = site
            .send(request.header("traceparent", sent).body("{\"text\":\"a\"}"))
            .await;
        let task = reply.json::<Accepted>(202).task_id;
        let record = site.engine.ports.store.load(task).await.unwrap().unwrap();
        assert_eq!(record.task.traceparent.as_deref(), kept);
    }
}
