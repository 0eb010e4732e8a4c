//! What two that come at the same moment may do to each other: never both.

use super::plans::next;
use super::{database, fixture, number, open, options, raw};
use crate::suite::changes::*;
use counterstep_contracts::{Epoch, Outcome, Tenant};
use counterstep_kernel::change::transition::IdempotencyWrite;
use counterstep_kernel::ports::{CommitError, Heartbeat};
use counterstep_kernel::record::Intention;
use counterstep_kernel::{Engine, EngineSettings, change::intents};
use counterstep_reconciler::{OrphanSettings, orphans};
use counterstep_steps::{CancelToken, Registry};
use counterstep_testkit::invariants;
use futures::future::{join, join_all};
use std::sync::Arc;
use std::time::Duration;

/// As after a failover to a server that had not got the last commit yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_a_base_that_was_lost_is_refused_and_the_task_goes_on_from_what_is_there() {
    let url = database().await;
    let store = open(&url, options()).await;
    let claimed = claimed(&store, MINUTE).await;
    commit(&store, leased(&claimed), &after(&claimed))
        .await
        .expect("the change that is lost");
    let lost = load(&store, claimed.task.id).await;
    let (task, rev) = (claimed.task.id, claimed.task.rev.0);
    raw(&url)
        .await
        .batch_execute(&format!(
            "DELETE FROM journal WHERE task = '{task}' AND rev > {rev};
             UPDATE tasks SET rev = {rev}, change_id = j.change_id, audit_seal = j.seal, updated_at = j.at
             FROM journal j WHERE tasks.id = '{task}' AND j.task = tasks.id AND j.rev = {rev}"
        ))
        .await
        .expect("the last change is gone");
    let refused = commit(&store, leased(&lost), &after(&lost)).await;
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    assert_eq!(load(&store, task).await.task.rev, claimed.task.rev);
    commit(&store, leased(&claimed), &after(&claimed))
        .await
        .expect("the owner goes on from what is there");
    assert_eq!(
        invariants::found_by_fsck(&store, &Registry::new(), task).await,
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_and_a_sweep_never_both_get_the_objects() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let reconciler = Engine::new(
        fixture.ports.clone(),
        Arc::default(),
        EngineSettings::default(),
        "reconciler",
    );
    let (mut kept, mut swept) = (0, 0);
    // How much later the sweep is asked for; less than nothing: how much sooner. It comes sooner
    // after it was too late and later after it was first, so that both stay close together on a
    // fast machine and on a busy one.
    let mut behind: i64 = 0;
    for _ in 0..120 {
        let record = claimed(store, Duration::ZERO).await;
        let mut change = after(&record);
        change.attempts = vec![start(1, Epoch(1), Duration::ZERO)];
        commit(store, leased(&record), &change).await.unwrap();
        let record = load(store, record.task.id).await;
        let mut success = after(&record);
        success.attempts = vec![end(1, Outcome::Succeeded, true)];
        success.steps = record.steps.clone();
        let success = whole(Some(&record), success);
        // Of a task whose lease has run out, as a listing finds it.
        let mut plan = orphans::plan(&reconciler, 9).await.unwrap();
        plan.condemn = intents::overdue(&record);
        // The start of one of two that race, not a wait for the other.
        let clock = &reconciler.ports.clock;
        let wait =
            |micros: i64| clock.sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
        let sweep = async {
            wait(behind).await;
            orphans::run(
                &reconciler,
                &OrphanSettings::default(),
                plan,
                &CancelToken::new(),
            )
            .await
        };
        let success = async {
            wait(-behind).await;
            store.commit(leased(&record), success.clone()).await
        };
        let (succeeded, sweep) = futures::join!(success, sweep);
        let now = load(store, record.task.id).await;
        match (succeeded, sweep.unwrap().prefixes, now.marks[0].objects) {
            (Ok(_), 0, Intention::Kept) => {
                kept += 1;
                behind -= 300;
                assert_eq!(now.task.rev, record.task.rev.next());
            }
            // It is decided again on what stands there now, and the engine keeps nothing that is
            // condemned.
            (Err(CommitError::Stale), 1, Intention::Swept) => {
                swept += 1;
                behind += 300;
                assert_eq!(
                    (now.task.status, &now.steps),
                    (record.task.status, &record.steps)
                );
                assert!(now.marks[0].runs, "it has not ended");
            }
            both => panic!("{both:?}"),
        }
    }
    assert!(
        kept > 0 && swept > 0,
        "there was no race: {kept} kept, {swept} swept"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_between_a_submissions_view_and_its_lock_condemns_its_files() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let task = new_task();
    commit(store, NEW, &begin(task, Duration::ZERO))
        .await
        .unwrap();
    let other = raw(&fixture.url).await;
    other
        .batch_execute("BEGIN; UPDATE receives SET is_condemned = TRUE")
        .await
        .unwrap();
    let sweep = async {
        super::waiting(&other).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let submission = submit_received(task);
    let (late, ()) = futures::join!(commit(store, NEW, &submission), sweep);
    assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
    assert_eq!(store.load(task).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_first_requests_with_a_key_one_gets_it() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let begin = |n: usize| {
        let mut change = nothing(new_task());
        change.idempotency = Some(IdempotencyWrite::Begin {
            tenant: Tenant::default(),
            key: format!("key-{n}"),
            owner: "api:1".to_owned(),
            expires_in: MINUTE,
        });
        change
    };
    for n in 0..5 {
        let changes: Vec<_> = (0..12).map(|_| begin(n)).collect();
        let results = join_all(changes.iter().map(|change| commit(store, NEW, change))).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert!(
            results
                .iter()
                .all(|result| matches!(result, Ok(_) | Err(CommitError::KeyTaken))),
            "{results:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_equal_begins_and_of_many_equal_tasks_one_is_written() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let task = new_task();
    let raw = raw(&fixture.url).await;
    let begins: Vec<_> = (0..12).map(|_| begin(task, MINUTE)).collect();
    let results = join_all(begins.iter().map(|change| commit(store, NEW, change))).await;
    assert!(
        results.iter().all(Result::is_ok),
        "a repetition changes nothing: {results:?}"
    );
    assert_eq!(number(&raw, "SELECT count(*) FROM receives").await, 1);

    let submits: Vec<_> = (0..12).map(|_| submit_received(task)).collect();
    let results = join_all(submits.iter().map(|change| commit(store, NEW, change))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Ok(_) | Err(CommitError::Stale))),
        "{results:?}"
    );
    assert_eq!(number(&raw, "SELECT count(*) FROM journal").await, 1);
    assert_eq!(number(&raw, "SELECT count(*) FROM receives").await, 0);
}

/// Both are written many at a time, of the same tasks, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_beside_commits_of_the_same_tasks_are_not_lost() {
    const TASKS: usize = 64;
    const ROUNDS: usize = 40;
    let store = open(&database().await, options()).await;
    let records = join_all((0..TASKS).map(|_| claimed(&store, MINUTE))).await;
    let commits = records.iter().map(async |record| {
        let mut record = record.clone();
        for _ in 0..ROUNDS {
            next(&store, &mut record).await;
        }
    });
    let beats = records.iter().rev().map(async |record| {
        let (task, epoch) = (record.task.id, record.task.epoch);
        for _ in 0..ROUNDS {
            let beat = store.heartbeat(task, epoch, MINUTE).await;
            assert!(matches!(beat, Ok(Heartbeat::Held { .. })), "{beat:?}");
        }
    });
    join(join_all(commits), join_all(beats)).await;
}
