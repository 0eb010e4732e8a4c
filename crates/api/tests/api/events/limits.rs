//! What is refused, how long streams stay, and what is left of those that are gone.

use super::reader::{Reader, Sent};
use crate::site::{Site, eventually};
use counterstep_contracts::TaskStatus;
use counterstep_steps::CancelReason;
use std::time::Duration;
use tokio::io::AsyncReadExt;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_task_and_no_event_is_refused_before_a_stream_begins() {
    let site = Site::start().await;
    let unknown = uuid::Uuid::from_u128(1);
    site.get(&format!("/api/tasks/{unknown}/events"))
        .await
        .problem(404, "no-such-task");
    site.get("/api/tasks/7/events")
        .await
        .problem(400, "malformed-parameter");
    let task = site.submit("/api/tasks/write-note").await;
    let path = format!("/api/tasks/{task}/events");
    for id in ["-1", "1.5", "one", "0x1", "99999999999999999999"] {
        let request = site.request("GET", &path).header("last-event-id", id);
        let problem = site.send(request).await.problem(400, "malformed-parameter");
        assert_eq!(problem["pointer"], "Last-Event-ID", "{id}");
    }
    let twice = site.request("GET", &path).header("last-event-id", "1");
    site.send(twice.header("last-event-id", "2"))
        .await
        .problem(400, "malformed-parameter");
    site.get(&format!("{path}?after=1"))
        .await
        .problem(422, "invalid-request");
    let reply = site.post(&path, "{}").await;
    reply.problem(405, "method-not-allowed");
    assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    let head = site.send(site.request("HEAD", &path)).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_id_of_the_last_event_is_none() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let mut whole = Reader::open(&site, task, Some("")).await;
    let first = whole.entry().await.expect("an entry");
    assert_eq!(first.entry.seq.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_to_a_client_of_http_1_0_ends_with_its_connection_and_has_no_chunks() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    site.run_worker();
    site.until(task, TaskStatus::Completed).await;
    let ask = format!(
        "GET /api/tasks/{task}/events HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    );
    let mut socket = site.connect(ask.as_bytes()).await;
    let mut answer = String::new();
    let read = socket.read_to_string(&mut answer).await;
    read.expect("it is closed at its end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(" 200 "), "{head}");
    assert!(!head.to_ascii_lowercase().contains("chunked"), "{head}");
    assert!(
        body.starts_with("retry:") && body.contains("completed"),
        "{body}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_the_last_event_there_is_nothing_until_the_task_has_ended() {
    let site = Site::with(|api, _| {
        api.event_heartbeat = Duration::from_millis(50);
        api.event_poll = Duration::from_millis(50);
    })
    .await;
    let task = site.submit("/api/tasks/write-note").await;
    let mut ahead = Reader::open(&site, task, Some("1000")).await;
    assert!(matches!(ahead.next().await, Some(Sent::Comment)));
    site.run_worker();
    assert!(ahead.entry().await.is_none(), "it has all up to 1000");
    site.until(task, TaskStatus::Completed).await;
    // It tells a browser not to come again.
    assert!(Reader::reopen(&site, task, Some("1000")).await.is_none());
    let mut whole = Reader::open(&site, task, None).await;
    let mut last = 0;
    while let Some(event) = whole.entry().await {
        last = event.entry.seq.0;
    }
    assert!(
        Reader::reopen(&site, task, Some(&last.to_string()))
            .await
            .is_none()
    );
    let mut end = Reader::open(&site, task, Some(&(last - 1).to_string())).await;
    assert_eq!(end.entry().await.expect("the last one").entry.seq.0, last);
    assert!(end.entry().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_leaves_its_place_to_others() {
    let site = Site::with(|api, _| {
        api.event_streams = 2;
        api.event_heartbeat = Duration::from_millis(50);
    })
    .await;
    let task = site.submit("/api/tasks/write-note").await;
    let path = format!("/api/tasks/{task}/events");
    // What is refused takes no place.
    for _ in 0..5 {
        let unknown = uuid::Uuid::from_u128(1);
        site.get(&format!("/api/tasks/{unknown}/events"))
            .await
            .problem(404, "no-such-task");
    }
    for _ in 0..5 {
        let both = eventually("two places", || async {
            Ok::<_, String>((open(&site, &path).await?, open(&site, &path).await?))
        })
        .await;
        let refused = site.get(&path).await;
        refused.problem(503, "too-many-streams");
        assert_eq!(refused.header("retry-after"), Some("10"));
        drop(both);
        eventually("both places are free", || async {
            let both = (open(&site, &path).await?, open(&site, &path).await?);
            drop(both);
            Ok::<_, String>(())
        })
        .await;
    }
}

/// A stream, where there is room.
async fn open(site: &Site, path: &str) -> Result<reqwest::Response, String> {
    let answer = site.request("GET", path).send().await.expect("an answer");
    match answer.status().as_u16() {
        200 => Ok(answer),
        status => Err(status.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_streams() {
    let mut site = Site::with(|api, _| api.drain = Duration::from_secs(600)).await;
    let task = site.submit("/api/tasks/write-note").await;
    let mut stream = Reader::open(&site, task, None).await;
    assert_eq!(stream.entry().await.unwrap().entry.event, "submitted");
    site.shutdown.cancel(CancelReason::Shutdown);
    while stream.entry().await.is_some() {}
    let server = site.server.take().expect("it runs");
    let stopped = tokio::time::timeout(Duration::from_secs(60), server).await;
    stopped.expect("it ends").unwrap().unwrap();
}
