//! Readers of one file: lists that take long, beside what the engine waits for.

use crate::embedded::fixture_under;
use crate::suite::changes::*;
use crate::suite::eventually;
use counterstep_testkit::TestClock;

#[tokio::test]
async fn lists_leave_the_engine_a_reader() {
    let clock = TestClock::new();
    let fixture = fixture_under(&clock).await;
    let store = fixture.ports.store.clone();
    let task = submitted(&store, row(new_task())).await.task.id;
    let silenced = clock.silence();
    // As many as there are readers.
    let lists: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.gauges(&[]).await })
        })
        .collect();
    eventually("lists that hold readers", || async {
        (silenced.waiting() >= 2).then_some(())
    })
    .await;
    // It does not ask for the time.
    let counted = store.child_counts(task).await;
    assert_eq!(counted.expect("a reader"), []);
    drop(silenced);
    for list in lists {
        list.await.expect("no panic").expect("an answer");
    }
}
