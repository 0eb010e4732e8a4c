//! `counterstep dev` killed with SIGKILL again and again under load: what it accepted it completes,
//! and what it did not accept it cleans up.

use counterstep_contracts::http::Accepted;
use counterstep_contracts::{ProblemCode, TaskId, TaskStatus};
use counterstep_testkit::seed::seed;
use counterstep_tests::api::{Answer, Api};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::{Chance, Sample};
use counterstep_tests::services::{self, EVERY, QUICK, QUICK_UPLOADS};
use counterstep_tests::wait::{LATER, SOON, until};
use futures::{StreamExt, stream};
use reqwest::StatusCode;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// No more than the consecutive hosts that the type may lose: however they strike, nothing may be
/// given up.
const KILLS: usize = 10;
const CLIENTS: u64 = 5;

/// What the clients remember.
#[derive(Debug, Default)]
struct Load {
    over: AtomicBool,
    accepted: AtomicUsize,
}

/// Submits one after another until the load is over. A request that was not answered is sent again
/// with its key, until it is answered.
async fn submit_until_over(api: Api, load: Arc<Load>, client: u64) -> BTreeMap<TaskId, u64> {
    let mut accepted = BTreeMap::new();
    let mut number = 0;
    while !load.over.load(Ordering::Relaxed) {
        let seed = client << 32 | number;
        number += 1;
        let samples = Sample::pair(seed, 60_000);
        let key = format!("submission-{seed}");
        let task = until("an answer to a submission", LATER, || async {
            match api.try_submit(&samples, Some(&key)).await {
                Ok(Answer::Accepted(Accepted { task_id, .. })) => Some(task_id),
                // Its first try broke off half-way; the key is free again when nothing of it can be
                // alive any more.
                Ok(Answer::Refused(StatusCode::CONFLICT, problem))
                    if problem.code == ProblemCode::InProgress =>
                {
                    None
                }
                Ok(refused) => panic!("a submission is refused: {refused:?}"),
                Err(_) => None,
            }
        });
        let before = accepted.insert(task.await, seed);
        assert_eq!(before, None, "two submissions became one task");
        load.accepted.fetch_add(1, Ordering::Relaxed);
    }
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_completes_once_whenever_dev_is_killed() {
    // Of the moments at which it is killed.
    let mut chance = Chance::new(seed());
    let place = Place::new();
    let address = SocketAddr::from(([127, 0, 0, 1], services::free_port()));
    let flags = [QUICK, QUICK_UPLOADS, EVERY].concat();
    let mut dev = services::dev_at(&place, address, &flags);
    let load = Arc::new(Load::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(submit_until_over(dev.api.clone(), load.clone(), client)))
        .collect();
    for _ in 0..KILLS {
        let before = load.accepted.load(Ordering::Relaxed);
        let served = || async { (load.accepted.load(Ordering::Relaxed) > before).then_some(()) };
        until("an answer since it was started", SOON, served).await;
        // Not a wait for anything: it chooses the moment.
        tokio::time::sleep(Duration::from_millis(chance.within(0, 1_500))).await;
        dev.process.kill();
        dev = services::dev_at(&place, address, &flags);
    }
    load.over.store(true, Ordering::Relaxed);
    let mut accepted = BTreeMap::new();
    for client in clients {
        let of_client = client.await.expect("a client is served to its end");
        let count = accepted.len() + of_client.len();
        accepted.extend(of_client);
        assert_eq!(accepted.len(), count, "two clients were given one task");
    }
    println!("{} submissions were accepted", accepted.len());

    let api = &dev.api;
    let completed = accepted.iter().map(|(task, seed)| async move {
        assert_eq!(
            api.at_rest(*task).await.status,
            TaskStatus::Completed,
            "{task}"
        );
        api.assert_archive(*task, &Sample::pair(*seed, 60_000))
            .await;
    });
    stream::iter(completed)
        .buffer_unordered(16)
        .collect::<()>()
        .await;
    let rows = Rows::of(&place).await;
    rows.assert_no_orphans().await;
    assert!(dev.process.stop().success());

    let known = rows.tasks().await;
    // Each key is one task: a request that was committed and not answered is answered with it the
    // next time.
    let ids: BTreeSet<_> = known.iter().map(|known| known.record.task.id).collect();
    assert_eq!(
        ids,
        accepted.keys().copied().collect(),
        "tasks are those that were accepted"
    );
    for task in &known {
        task.assert_sound();
        task.assert_completed_once();
    }
    let in_doubt = known
        .iter()
        .filter(|known| known.trail().contains("in doubt"))
        .count();
    println!("{in_doubt} tasks lost their host");
    assert!(
        in_doubt > 0,
        "no kill struck a running step: the test showed nothing"
    );
}
