//! Hints and progress from process to process: who hears what, and how often.

use super::{apart, open, prefix};
use crate::suite::changes::new_task;
use crate::suite::{LIMIT, eventually, within_limit};
use counterstep_adapters::nats::{Hears, NatsOptions};
use counterstep_contracts::{Attempt, AttemptProgress, Direction, Epoch, TaskProgress};
use counterstep_kernel::ports::{Signal, Signals};
use counterstep_testkit::servers::shared_nats;
use futures::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;

fn progress() -> TaskProgress {
    let (direction, attempt, at) = (
        Direction::Forward,
        Attempt(2),
        "2026-11-21T03:30:00.000000Z".to_owned(),
    );
    let said = AttemptProgress {
        direction,
        attempt,
        done: 40,
        total: 100,
        message: Some("page 7".to_owned()),
        at,
    };
    TaskProgress {
        task: new_task(),
        epoch: Epoch(3),
        seq: 7,
        steps: [("render".to_owned(), said)].into(),
    }
}

#[tokio::test]
async fn a_progress_is_one_readable_message_and_what_is_none_is_left_alone() {
    let options = apart();
    let nats = open(options.clone()).await;
    let plain = async_nats::connect(shared_nats().url()).await.unwrap();
    let mut outside = plain
        .subscribe(format!("{}.signal.progress.*", prefix(&options)))
        .await
        .unwrap();
    plain.flush().await.unwrap();
    let progress = progress();
    // Nothing is kept for a connection that is not there yet, so it is said until it is heard.
    let message = within_limit("a message", async {
        loop {
            nats.signals()
                .send(Signal::Progress(Arc::new(progress.clone())));
            if let Ok(message) =
                tokio::time::timeout(Duration::from_millis(200), outside.next()).await
            {
                break message.unwrap();
            }
        }
    })
    .await;
    assert_eq!(
        message.subject.as_str(),
        format!("{}.signal.progress.{}", prefix(&options), progress.task)
    );
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&message.payload).unwrap(),
        serde_json::json!({
            "task": progress.task, "epoch": 3, "seq": 7,
            "steps": {"render": {
                "direction": "forward", "attempt": 2, "done": 40, "total": 100, "message": "page 7", "at": "2026-11-21T03:30:00.000000Z",
            }},
        })
    );
    // Of another task than its subject says, no JSON, too large: none of it is passed on.
    let mut heard = nats.signals().subscribe();
    let good = serde_json::to_vec(&progress).unwrap();
    let mut large = good.clone();
    large.resize(8 * 1024 + 1, b' ');
    for (task, body) in [
        (new_task(), good.clone()),
        (progress.task, b"{}".to_vec()),
        (progress.task, large),
    ] {
        plain
            .publish(
                format!("{}.signal.progress.{task}", prefix(&options)),
                body.into(),
            )
            .await
            .unwrap();
    }
    plain.publish(message.subject, good.into()).await.unwrap();
    let next = tokio::time::timeout(LIMIT, heard.next())
        .await
        .expect("the good one");
    assert_eq!(next, Some(Signal::Progress(Arc::new(progress))));
}

#[tokio::test]
async fn hints_go_from_process_to_process_and_once_to_each() {
    let options = apart();
    let (here, there) = (open(options.clone()).await, open(options.clone()).await);
    let worker = open(NatsOptions {
        hears: Hears::Cancels,
        ..options
    })
    .await;
    let mut heard = [
        here.signals().subscribe(),
        there.signals().subscribe(),
        worker.signals().subscribe(),
    ];
    let (rests, cancelled) = (
        Signal::Rests(new_task()),
        Signal::CancelRequested(new_task()),
    );
    // The subscriptions are on their way to the server when `open` returns.
    for stream in &mut heard {
        eventually("a subscription", || {
            here.signals().send(cancelled.clone());
            std::future::ready(stream.next().now_or_never())
        })
        .await;
    }
    // What the looks above have sent is still on its way: this comes behind all of it.
    let behind = Signal::CancelRequested(new_task());
    here.signals().send(behind.clone());
    for stream in &mut heard {
        within_limit("the last of the looks", async {
            while stream.next().await.as_ref() != Some(&behind) {}
        })
        .await;
    }
    // A change that is no rest stays in its process.
    let changed = Signal::Changed(new_task());
    let progress = Signal::Progress(Arc::new(progress()));
    // Whatever is heard twice is heard before the last one.
    let last = Signal::CancelRequested(new_task());
    for signal in [&changed, &progress, &rests, &cancelled, &last] {
        here.signals().send(signal.clone());
    }
    let expected = [
        &[&changed, &progress, &rests, &cancelled, &last][..],
        &[&progress, &rests, &cancelled, &last],
        &[&cancelled, &last],
    ];
    for (stream, expected) in heard.iter_mut().zip(expected) {
        for signal in expected {
            let next = tokio::time::timeout(LIMIT, stream.next())
                .await
                .expect("a hint");
            assert_eq!(next.as_ref(), Some(*signal));
        }
    }
    // The server passes this on behind what it may bring back to the process that sent it.
    let answer = Signal::CancelRequested(new_task());
    there.signals().send(answer.clone());
    for stream in &mut heard {
        let next = tokio::time::timeout(LIMIT, stream.next())
            .await
            .expect("a hint");
        assert_eq!(next.as_ref(), Some(&answer), "heard twice");
    }
}
