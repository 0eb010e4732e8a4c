//! What sweeps ask: which tasks to look at, and whose turn it is to list.

use super::changes::*;
use super::eventually;
use counterstep_contracts::{Epoch, Outcome, QueueName, TaskId};
use counterstep_kernel::change::transition::LeaseChange;
use counterstep_kernel::documents::{ListingOp, ListingTurn};
use counterstep_kernel::ports::{Find, Ports, Store};
use counterstep_kernel::record::TaskRecord;
use std::time::Duration;

async fn due(store: &Store) -> Vec<TaskId> {
    to_sweep(store, 100).await
}

async fn to_sweep(store: &Store, limit: u32) -> Vec<TaskId> {
    let found = store.find(&Find::ToSweep, limit).await.unwrap();
    found.into_iter().map(|found| found.task).collect()
}

/// A task without a lease, an attempt of which came to nothing: a sweep may take what it stored `sweep_after`
/// after its start.
async fn left(store: &Store, sweep_after: Duration) -> TaskRecord {
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    change.attempts = vec![
        start(1, Epoch(1), sweep_after),
        end(1, Outcome::Failed, false),
    ];
    write_of(&mut change).lease = LeaseChange::Release;
    commit(store, leased(&record), &change).await.unwrap();
    load(store, record.task.id).await
}

pub(crate) async fn a_task_is_due_for_a_sweep_once_its_time_has_come_and_not_while_it_is_leased(
    ports: &Ports,
) {
    let store = &ports.store;
    let task = left(store, Duration::ZERO).await.task.id;
    left(store, MINUTE).await;
    submitted(store, row(new_task())).await;
    assert_eq!(due(store).await, [task]);

    // Claimed once more, and its host is lost at once: until it is taken back, that comes first.
    let record = load(store, task).await;
    commit(store, free(&record), &claim(&record, "two", Duration::ZERO))
        .await
        .unwrap();
    let leased = load(store, task).await;
    assert_eq!((due(store).await, leased.task.sweep_at), (vec![], None));
    let mut take_back = after(&leased);
    let write = write_of(&mut take_back);
    (write.lease, write.needs_expired_lease) = (LeaseChange::Release, true);
    commit(store, free(&leased), &take_back).await.unwrap();
    assert_eq!(due(store).await, [task]);

    sweep(store, task, vec![condemn(1)]).await;
    assert_eq!(
        due(store).await,
        [task],
        "a sweep that died here comes back to it"
    );
    assert_eq!(sweep(store, task, vec![swept(1)]).await.task.sweep_at, None);
    assert_eq!(due(store).await, []);
}

pub(crate) async fn tasks_are_due_for_a_sweep_in_the_order_of_their_time(ports: &Ports) {
    let store = &ports.store;
    let mut expected = Vec::new();
    for micros in [30_003, 10_001, 20_002] {
        let record = left(store, Duration::from_micros(micros)).await;
        expected.push((record.task.sweep_at.expect("a time"), record.task.id));
    }
    expected.sort_unstable();
    let all = eventually("three tasks that are due", || async {
        Some(due(store).await).filter(|all| all.len() == 3)
    });
    assert_eq!(
        all.await,
        expected.iter().map(|(_, task)| *task).collect::<Vec<_>>()
    );
    assert_eq!(to_sweep(store, 1).await, [expected[0].1]);
}

pub(crate) async fn a_task_that_is_put_off_is_due_later_and_keeps_its_revision(ports: &Ports) {
    let store = &ports.store;
    let (task, other) = (
        left(store, Duration::ZERO).await,
        left(store, Duration::ZERO).await,
    );
    let nothing_left = submitted(store, row(new_task())).await;
    let running = claimed(store, MINUTE).await;
    let asked = [&task, &nothing_left, &running]
        .map(|record| record.task.id)
        .to_vec();
    let put_off = async |tasks: Vec<TaskId>, by| store.put_off(&tasks, by).await.unwrap();
    put_off([asked, vec![new_task()]].concat(), MINUTE).await;
    assert_eq!(due(store).await, [other.task.id]);
    let after = load(store, task.task.id).await;
    assert_eq!(
        (after.task.rev, after.task.change_id),
        (task.task.rev, task.task.change_id)
    );
    assert_eq!(
        (after.task.updated_at, &after.marks),
        (task.task.updated_at, &task.marks)
    );
    assert!(
        after.task.sweep_at >= Some(task.now.later(MINUTE)),
        "{after:?}"
    );
    for record in [nothing_left, running] {
        let after = load(store, record.task.id).await;
        assert_eq!(
            (after.task, after.steps),
            (record.task, record.steps),
            "there is nothing to put off"
        );
    }
    put_off(vec![task.task.id], Duration::ZERO).await;
    let mut both = [task.task.id, other.task.id];
    let mut found = due(store).await;
    both.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, both);
}

pub(crate) async fn a_sweep_leaves_a_task_as_long_unchanged_and_unclaimed_as_it_was(ports: &Ports) {
    let store = &ports.store;
    let task = left(store, Duration::ZERO).await.task.id;
    let record = load(store, task).await;
    let mut change = after(&record);
    write_of(&mut change).row.status = counterstep_contracts::TaskStatus::Dispatched;
    commit(store, free(&record), &change).await.unwrap();
    let dispatched = load(store, task).await;
    super::a_moment_later(store).await;
    let younger = submitted(store, row(new_task())).await.task.id;
    sweep(store, task, vec![condemn(1)]).await;
    let swept = sweep(store, task, vec![swept(1)]).await;
    assert_eq!(swept.task.updated_at, dispatched.task.updated_at);
    let queues = vec![QueueName("files".into())];
    let claimable = Find::Claimable {
        queues,
        known: known(),
        unclaimed_for: Duration::ZERO,
        after: None,
    };
    let found: Vec<_> = store
        .find(&claimable, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|due| due.task)
        .collect();
    assert_eq!(
        (found.first(), found.contains(&younger)),
        (Some(&task), true),
        "it keeps its place"
    );
}

fn claim_listing(every: Duration, by: &str, hold: Duration) -> ListingOp {
    ListingOp::Claim {
        every,
        by: by.to_owned(),
        hold,
    }
}

fn keep(every: Duration, by: &str, cursor: Option<&str>, hold: Duration) -> ListingOp {
    ListingOp::Keep {
        every,
        by: by.to_owned(),
        cursor: cursor.map(str::to_owned),
        hold,
    }
}

fn from(cursor: Option<&str>) -> Option<ListingTurn> {
    Some(ListingTurn {
        cursor: cursor.map(str::to_owned),
    })
}

pub(crate) async fn a_listing_is_one_callers_until_it_is_due_again(ports: &Ports) {
    let store = &ports.store;
    let hour = 60 * MINUTE;
    assert_eq!(
        store
            .listing(&claim_listing(hour, "one", MINUTE))
            .await
            .unwrap(),
        from(None)
    );
    assert_eq!(
        store
            .listing(&claim_listing(hour, "two", MINUTE))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        store
            .listing(&keep(hour, "two", Some("x"), MINUTE))
            .await
            .unwrap(),
        None,
        "it is not its turn"
    );
    assert_eq!(
        store
            .listing(&keep(hour, "one", Some("o|a|b"), MINUTE))
            .await
            .unwrap(),
        from(Some("o|a|b"))
    );
    assert_eq!(
        store
            .listing(&claim_listing(hour, "two", MINUTE))
            .await
            .unwrap(),
        None
    );
    // It lets go in the middle: another one goes on from there.
    store
        .listing(&keep(hour, "one", Some("o|a|c"), Duration::ZERO))
        .await
        .unwrap();
    assert_eq!(
        store
            .listing(&claim_listing(hour, "two", MINUTE))
            .await
            .unwrap(),
        from(Some("o|a|c"))
    );
    assert_eq!(
        store
            .listing(&keep(hour, "one", None, MINUTE))
            .await
            .unwrap(),
        None,
        "it has lost it"
    );
    // At its end it has no holder until the interval is over.
    assert_eq!(
        store
            .listing(&keep(hour, "two", None, Duration::ZERO))
            .await
            .unwrap(),
        from(None)
    );
    assert_eq!(
        store
            .listing(&claim_listing(hour, "one", MINUTE))
            .await
            .unwrap(),
        None
    );
    // Another interval has a row of its own, and one that is over is due again.
    let instant = Duration::from_millis(1);
    assert_eq!(
        store
            .listing(&claim_listing(instant, "one", MINUTE))
            .await
            .unwrap(),
        from(None)
    );
    store
        .listing(&keep(instant, "one", None, Duration::ZERO))
        .await
        .unwrap();
    let again = eventually("a listing that is due again", || async {
        store
            .listing(&claim_listing(instant, "two", MINUTE))
            .await
            .unwrap()
    });
    assert_eq!(Some(again.await), from(None));
}

pub(crate) async fn a_listing_whose_holder_died_goes_on_where_it_was(ports: &Ports) {
    let store = &ports.store;
    let hour = 60 * MINUTE;
    store
        .listing(&claim_listing(hour, "one", MINUTE))
        .await
        .unwrap();
    store
        .listing(&keep(hour, "one", Some("o|a|b"), Duration::from_millis(30)))
        .await
        .unwrap();
    let taken = eventually("the end of the hold", || async {
        store
            .listing(&claim_listing(hour, "two", MINUTE))
            .await
            .unwrap()
    });
    assert_eq!(Some(taken.await), from(Some("o|a|b")));
}

pub(crate) async fn of_fifty_racing_callers_one_gets_the_listing(ports: &Ports) {
    let claims = (0..50).map(|n| {
        let store = ports.store.clone();
        tokio::spawn(async move {
            store
                .listing(&claim_listing(MINUTE, &format!("r{n}"), MINUTE))
                .await
                .unwrap()
        })
    });
    let claims = futures::future::join_all(claims.collect::<Vec<_>>()).await;
    assert_eq!(
        claims
            .into_iter()
            .filter(|claim| claim.as_ref().unwrap().is_some())
            .count(),
        1
    );
}
