//! `counterstep dev` under many clients at once.

use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services;
use std::collections::BTreeSet;

const CLIENTS: u64 = 30;
const EACH: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_submissions_at_once_all_complete_with_their_own_files() {
    let place = Place::new();
    let dev = services::dev(&place, &[]);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let api = dev.api.clone();
            tokio::spawn(async move {
                let mut tasks = Vec::new();
                for at in 0..EACH {
                    let samples = Sample::pair(client * EACH + at, 20_000);
                    tasks.push((api.submit(&samples).await, samples));
                }
                for (task, samples) in &tasks {
                    api.at_rest(*task).await;
                    api.assert_archive(*task, samples).await;
                }
                tasks.into_iter().map(|(task, _)| task).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut accepted = BTreeSet::new();
    for client in clients {
        accepted.extend(client.await.expect("a client is served to its end"));
    }
    assert_eq!(
        accepted.len() as u64,
        CLIENTS * EACH,
        "every submission is a task of its own"
    );
    assert!(dev.process.stop().success());

    let rows = Rows::of(&place).await;
    let known = rows.tasks().await;
    assert_eq!(
        known.len(),
        accepted.len(),
        "no task that no client submitted"
    );
    for task in known {
        assert!(accepted.contains(&task.record.task.id));
        task.assert_completed_once();
        task.assert_sound();
        assert_eq!(
            task.history.attempts.len(),
            3,
            "one try a step: {}",
            task.trail()
        );
    }
    rows.assert_no_orphans().await;
}
