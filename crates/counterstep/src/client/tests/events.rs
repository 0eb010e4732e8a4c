//! The events of a task, in process and over HTTP, also where the connection is cut.

use super::{Invite, Note, Reply, ada, both};
use crate::client::{Client, ClientError, Event, Handle};
use crate::prelude::*;
use counterstep_api::ApiSettings;
use counterstep_contracts::http::AuditEvent;
use counterstep_contracts::{AuditSeq, ProblemCode, TaskId, TaskStatus};
use counterstep_steps::CancelToken;
use counterstep_testkit::Harness;
use futures::StreamExt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The entries behind one, up to the first in this state, or all.
async fn entries(task: &Handle<Invite>, after: i64, until: Option<TaskStatus>) -> Vec<AuditEvent> {
    let mut events = task.events_after(AuditSeq(after));
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Audit(event) = event.expect("an event") {
            let is_last = Some(event.status) == until;
            seen.push(*event);
            if is_last {
                break;
            }
        }
    }
    seen
}

fn seqs(events: &[AuditEvent]) -> Vec<i64> {
    events.iter().map(|event| event.entry.seq.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_task_come_once_and_in_order_and_end_with_it() {
    both(|client| {
        Box::pin(async move {
            let task = client.submit::<Invite>(&ada()).await.expect("accepted");
            let first = entries(&task, 0, Some(TaskStatus::Waiting)).await;
            let reached = first.len() as i64;
            task.signal("reply", &Reply { comes: true })
                .await
                .expect("it waits for it");
            let second = entries(&task, reached, None).await;
            assert_eq!(
                second.last().expect("its end").status,
                TaskStatus::Completed
            );
            let all = entries(&task, 0, None).await;
            assert_eq!(all, [first, second].concat());
            let count = all.len() as i64;
            assert_eq!(seqs(&all), (1..=count).collect::<Vec<_>>());
            assert_eq!(entries(&task, count, None).await, []);
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_no_task_and_of_another_type_there_are_no_events() {
    both(|client| {
        Box::pin(async move {
            let unknown = client.handle::<Invite>(TaskId(uuid::Uuid::nil()));
            let mut events = unknown.events();
            match events.next().await {
                Some(Err(ClientError::Refused(refusal))) => {
                    assert_eq!(refusal.code, Some(ProblemCode::NoSuchTask));
                }
                other => panic!("{other:?}"),
            }
            assert!(events.next().await.is_none());
            let task = client.submit::<Invite>(&ada()).await.expect("accepted");
            let mut other = client.handle::<Note>(task.task_id()).events();
            let refused = other.next().await;
            assert!(
                matches!(refused, Some(Err(ClientError::Refused(_)))),
                "{refused:?}"
            );
        })
    })
    .await;
}

/// Passes on what clients send, and of each answer `after` bytes; then it cuts.
async fn cutting(to: SocketAddr, after: usize, cuts: Arc<AtomicUsize>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let cuts = cuts.clone();
            tokio::spawn(async move {
                let server = TcpStream::connect(to).await.expect("the API");
                let (mut answers, mut requests) = server.into_split();
                let (mut sent, mut client) = client.into_split();
                let passing = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut sent, &mut requests).await;
                });
                let mut bytes = vec![0; after];
                let mut size = 0;
                while size < after {
                    match answers.read(&mut bytes[size..]).await {
                        Ok(read) if read > 0 => {
                            let _ = client.write_all(&bytes[size..size + read]).await;
                            size += read;
                        }
                        _ => break,
                    }
                }
                if size == after {
                    cuts.fetch_add(1, Ordering::Relaxed);
                }
                passing.abort();
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_goes_on_behind_its_last_event() {
    let mut site = Harness::embedded(Registry::new().with::<Invite>())
        .start()
        .await;
    site.serve(4);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = counterstep_api::serve(
        site.engine.clone(),
        ApiSettings::default(),
        listener,
        CancelToken::new(),
    );
    let serving = tokio::spawn(serving);
    let whole = Client::of(&site.engine);
    let task = whole.submit::<Invite>(&ada()).await.expect("accepted");
    let cuts = Arc::new(AtomicUsize::new(0));
    let proxy = cutting(address, 1_200, cuts.clone()).await;
    let cut = Client::at(&format!("http://{proxy}")).expect("a client");
    let cut = cut.handle::<Invite>(task.task_id());
    let followed = tokio::spawn(async move {
        let events = cut
            .events()
            .map(|event| event.expect("no end but the task's"));
        let entries = events.filter_map(|event| async move {
            match event {
                Event::Audit(event) => Some(*event),
                _ => None,
            }
        });
        entries.collect::<Vec<_>>().await
    });
    entries(&task, 0, Some(TaskStatus::Waiting)).await;
    task.signal("reply", &Reply { comes: true })
        .await
        .expect("it waits for it");
    let seen = followed.await.expect("it ends");
    assert_eq!(seen, entries(&task, 0, None).await);
    let cuts = cuts.load(Ordering::Relaxed);
    assert!(cuts >= 2, "only {cuts} cuts");
    serving.abort();
}
