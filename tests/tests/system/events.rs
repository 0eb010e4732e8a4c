//! Streams of events over real processes: two APIs on real servers, and what thousands of idle streams
//! cost one.

use counterstep_contracts::http::{Accepted, AuditEvent, AuditView, BatchAnswer, BatchOutcome};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{LATER, until};
use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection is cut after this, or after one event.
const CUT_AFTER: Duration = Duration::from_millis(300);

/// The event that one connection brings before it is cut, if any; `None`: the task has ended, and nothing is left.
async fn connection(api: &Api, task: TaskId, last: i64) -> Option<Option<AuditView>> {
    let request = api.request(Method::GET, &format!("/api/tasks/{task}/events"));
    let answer = request.header("last-event-id", last).send().await;
    let answer = answer.expect("an answer");
    if answer.status() == StatusCode::NO_CONTENT {
        return None;
    }
    assert_eq!(answer.status(), StatusCode::OK);
    let (mut body, mut text) = (answer.bytes_stream(), String::new());
    let cut = Instant::now() + CUT_AFTER;
    loop {
        let left = cut.saturating_duration_since(Instant::now());
        let Ok(Some(chunk)) = tokio::time::timeout(left, body.next()).await else {
            return Some(None);
        };
        text.push_str(std::str::from_utf8(&chunk.expect("bytes")).expect("text"));
        while let Some((whole, rest)) = text.split_once("\n\n") {
            if whole.starts_with("id: ") {
                let data = whole.split_once("\ndata: ").expect("data").1;
                let event: AuditEvent = serde_json::from_str(data).expect("an entry");
                return Some(Some(event.entry));
            }
            text = rest.to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_twenty_times_sees_each_event_once_on_two_apis() {
    let cluster = Cluster::start(QUICK);
    let apis = [cluster.api(), cluster.api()];
    let task = apis[0].api.submit(&Sample::pair(1, 2_000_000)).await;
    let (mut seen, mut cuts, mut worker) = (Vec::<AuditView>::new(), 0, None);
    while let Some(more) = {
        let last = seen.last().map_or(0, |entry| entry.seq.0);
        connection(&apis[cuts % 2].api, task, last).await
    } {
        seen.extend(more);
        cuts += 1;
        // Others while it waits for a worker.
        if cuts == 15 {
            worker = Some(cluster.worker());
        }
        assert!(cuts < 1_000, "it does not end: {seen:#?}");
    }
    println!("{cuts} cuts, {} events", seen.len());
    assert!(cuts >= 20, "only {cuts} cuts");
    assert_eq!(seen.last().expect("its end").to, TaskStatus::Completed);
    assert_eq!(seen, apis[1].api.audit(task).await.entries);
    drop(worker);
}

/// Memory of a process that is in use, in bytes.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a size") * 1024
}

fn order(number: usize) -> serde_json::Value {
    serde_json::json!({"account": format!("a-{number}"), "item": "milk", "quantity": 1, "amount_cents": 100})
}

/// The median time of a submission.
async fn submissions(api: &Api) -> Duration {
    let mut times = Vec::new();
    for number in 0..300 {
        let begun = Instant::now();
        let request = api.request(Method::POST, "/api/tasks/place-order");
        let answer = request
            .json(&order(number))
            .send()
            .await
            .expect("an answer");
        let _: Accepted = answer.json().await.expect("accepted");
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of 5,000 streams; run by hand: cargo test --release -p counterstep-tests -- --ignored idle_streams --nocapture"]
async fn five_thousand_idle_streams_take_at_most_32_kib_each() {
    const STREAMS: usize = 5_000;
    let place = Place::new();
    // No worker: the tasks wait.
    let flags = [QUICK, &["--streams-per-caller", "5000"]].concat();
    let served = services::api(&place, &flags);
    let (api, pid) = (&served.api, served.process.pid());
    let mut tasks = Vec::new();
    for batch in 0..STREAMS / 1000 {
        let requests: Vec<_> = (0..1000)
            .map(|number| serde_json::json!({"request": order(batch * 1000 + number)}))
            .collect();
        let request = api.request(Method::POST, "/api/tasks/place-order/batch");
        let answer = request.json(&requests).send().await.expect("an answer");
        let answer: BatchAnswer = answer.json().await.expect("a batch");
        tasks.extend(answer.items.into_iter().map(|item| match item {
            BatchOutcome::Accepted(accepted) => accepted.task_id,
            other => panic!("{other:?}"),
        }));
    }
    let address = api.url().strip_prefix("http://").expect("a URL").to_owned();
    let without = submissions(api).await;
    let before = memory(pid);
    let open = |task: TaskId| {
        let address = address.clone();
        async move {
            let mut socket = TcpStream::connect(&address).await.expect("a connection");
            let head = format!("GET /api/tasks/{task}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
            socket.write_all(head.as_bytes()).await.expect("it is read");
            let mut bytes = Vec::new();
            while !String::from_utf8_lossy(&bytes).contains("id: 1\n") {
                let read = socket
                    .read_buf(&mut bytes)
                    .await
                    .expect("the stream goes on");
                assert_ne!(read, 0, "{}", bytes.escape_ascii());
            }
            socket
        }
    };
    let sockets: Vec<_> = stream::iter(tasks.iter().copied().map(open))
        .buffer_unordered(64)
        .collect()
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let after = memory(pid);
    let with = submissions(api).await;
    let each = after.saturating_sub(before) / STREAMS as u64;
    println!(
        "{} streams: {each} bytes each ({before} bytes before, {after} after); a submission takes {without:?} without \
         them and {with:?} with them",
        sockets.len()
    );
    drop(sockets);
    until("the streams are closed", LATER, || async {
        let tcp = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
        (tcp.count() < 200).then_some(())
    })
    .await;
    println!("{} bytes when they are gone", memory(pid));
    assert!(each <= 32 * 1024, "{each} bytes each");
    assert!(with <= without * 3 / 2, "{with:?} instead of {without:?}");
}
