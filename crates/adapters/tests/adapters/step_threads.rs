//! The threads of steps: code that blocks its thread holds up none but itself.

use counterstep_adapters::step_threads::StepThreads;
use counterstep_contracts::{Attempt, TaskId};
use counterstep_kernel::ports::{CodeLabel, StepRunner};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use uuid::Uuid;

const LIMIT: Duration = Duration::from_secs(60);

fn label(step: &str) -> CodeLabel {
    CodeLabel {
        task: TaskId(Uuid::from_u128(7)),
        step: step.to_owned(),
        part: "run",
        attempt: Attempt(1),
    }
}

#[tokio::test]
async fn steps_that_block_all_threads_leave_threads_to_those_that_await() {
    const BLOCKING: usize = 12;
    let threads = StepThreads::start(2).expect("threads");
    let inside = Arc::new(AtomicUsize::new(0));
    let mut blocking = Vec::new();
    let mut gates = Vec::new();
    for _ in 0..BLOCKING {
        let (open, gate) = mpsc::channel::<()>();
        gates.push(open);
        let inside = inside.clone();
        blocking.push(threads.start(
            label("blocks"),
            Box::pin(async move {
                inside.fetch_add(1, Ordering::SeqCst);
                let _ = gate.recv();
            }),
        ));
    }
    for _ in 0..3 {
        let awaits = threads.start(
            label("awaits"),
            Box::pin(async {
                let mut ticks = tokio::time::interval(Duration::from_millis(5));
                ticks.tick().await;
                ticks.tick().await;
                tokio::task::yield_now().await;
                let computed = tokio::task::spawn_blocking(|| 6 * 7)
                    .await
                    .expect("it is computed");
                assert_eq!(computed, 42);
            }),
        );
        tokio::time::timeout(LIMIT, awaits)
            .await
            .expect("a neighbour goes on");
    }
    // All of them together, on threads of their own.
    while inside.load(Ordering::SeqCst) < BLOCKING {
        tokio::task::yield_now().await;
    }
    drop(gates);
    for blocked in blocking {
        tokio::time::timeout(LIMIT, blocked)
            .await
            .expect("it has let go");
    }
}

#[tokio::test]
async fn code_that_nobody_waits_for_any_more_is_dropped_where_it_waits() {
    let threads = StepThreads::start(1).expect("threads");
    let (held, mut dropped) = tokio::sync::mpsc::channel::<()>(1);
    let (started, has_started) = tokio::sync::oneshot::channel();
    let running = threads.start(
        label("waits"),
        Box::pin(async move {
            let _held = held;
            let _ = started.send(());
            std::future::pending::<()>().await;
        }),
    );
    has_started.await.expect("it starts");
    drop(running);
    assert_eq!(
        tokio::time::timeout(LIMIT, dropped.recv())
            .await
            .expect("it is dropped"),
        None
    );
}

#[tokio::test]
async fn code_that_panics_while_it_is_dropped_costs_no_thread() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let threads = StepThreads::start(1).expect("threads");
    let bad = threads.start(label("bad"), Box::pin(async { drop(Bad) }));
    tokio::time::timeout(LIMIT, bad).await.expect("it ends");
    let next = threads.start(label("next"), Box::pin(async {}));
    tokio::time::timeout(LIMIT, next)
        .await
        .expect("there is still a thread");
}
