//! Tasks that have ended, and how they leave the database. Not for a role that may not delete.

use super::changes::*;
use super::children::{child, end_of, family, submitting};
use counterstep_contracts::{Epoch, Outcome, Rev, TaskStatus};
use counterstep_kernel::change::transition::{IdempotencyWrite, LeaseChange, Time};
use counterstep_kernel::ports::{
    CommitError, EndedTask, Find, JournalPage, Lane, OutboxOp, Ports, PurgeOp, Store,
};
use counterstep_kernel::record::{History, TaskRecord};
use std::time::Duration;

/// A task that has ended in this state, with a row of each kind. Its key lives no longer.
pub(super) async fn ended(store: &Store, status: TaskStatus, key: &str) -> TaskRecord {
    ended_with(store, status, key, Duration::ZERO).await
}

/// The same, with a key that lives for `expires_in`.
async fn ended_with(
    store: &Store,
    status: TaskStatus,
    key: &str,
    expires_in: Duration,
) -> TaskRecord {
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.status = status;
    write.row.audit_seq = write.row.audit_seq.next();
    write.lease = LeaseChange::Release;
    write.finished = Time::In(Duration::ZERO);
    change.audit = vec![audit(&write.row, "ended")];
    change.attempts = vec![
        start(1, Epoch(1), Duration::ZERO),
        end(1, Outcome::Succeeded, true),
    ];
    let answer = serde_json::json!({"task": key});
    let (tenant, key, fingerprint) = (record.task.tenant.clone(), key.to_owned(), "f".to_owned());
    change.idempotency = Some(IdempotencyWrite::Finish {
        tenant,
        key,
        fingerprint,
        answer,
        expires_in,
    });
    commit(store, leased(&record), &change).await.unwrap();
    load(store, record.task.id).await
}

pub(super) fn ended_task(record: &TaskRecord) -> EndedTask {
    EndedTask {
        task: record.task.id,
        tenant: record.task.tenant.clone(),
        rev: record.task.rev,
    }
}

async fn find_ended(
    store: &Store,
    task_type: &str,
    status: TaskStatus,
    before: Duration,
) -> Vec<EndedTask> {
    let ended = Find::Ended {
        task_type: task_type.to_owned(),
        status,
        before,
        after: None,
    };
    ended_tasks(store, &ended, 10).await
}

async fn ended_tasks(store: &Store, ended: &Find, limit: u32) -> Vec<EndedTask> {
    let found = store.find(ended, limit).await.unwrap();
    found.into_iter().map(EndedTask::from).collect()
}

pub(crate) async fn tasks_that_ended_are_found_by_type_state_and_age(ports: &Ports) {
    let store = &ports.store;
    let first = ended(store, TaskStatus::Completed, "one").await;
    super::a_moment_later(store).await;
    let second = ended(store, TaskStatus::Completed, "two").await;
    let failed = ended(store, TaskStatus::Failed, "three").await;
    claimed(store, MINUTE).await;
    let (all, completed) = (Duration::ZERO, TaskStatus::Completed);
    assert_eq!(
        find_ended(store, "Zip", completed, all).await,
        [ended_task(&first), ended_task(&second)]
    );
    assert_eq!(
        find_ended(store, "Zip", TaskStatus::Failed, all).await,
        [ended_task(&failed)]
    );
    assert_eq!(find_ended(store, "Zip", TaskStatus::Running, all).await, []);
    assert_eq!(find_ended(store, "Other", completed, all).await, []);
    assert_eq!(find_ended(store, "Zip", completed, MINUTE).await, []);
    assert_eq!(find_ended(store, "Zip", completed, Duration::MAX).await, []);
    let ended = Find::Ended {
        task_type: "Zip".to_owned(),
        status: completed,
        before: all,
        after: None,
    };
    assert_eq!(ended_tasks(store, &ended, 1).await, [ended_task(&first)]);
    for (after, found) in [
        (first.task.id, vec![ended_task(&second)]),
        (second.task.id, vec![]),
        (new_task(), vec![]),
    ] {
        let (task_type, after) = ("Zip".to_owned(), Some(after));
        let ended = Find::Ended {
            task_type,
            status: completed,
            before: all,
            after,
        };
        assert_eq!(ended_tasks(store, &ended, 9).await, found);
    }
}

pub(crate) async fn a_purged_task_leaves_a_tombstone_and_no_row(ports: &Ports) {
    let store = &ports.store;
    let one = ended(store, TaskStatus::Completed, "one").await;
    let other = ended_with(store, TaskStatus::Completed, "two", MINUTE).await;
    let running = claimed(store, MINUTE).await;
    let stale = EndedTask {
        rev: Rev(other.task.rev.0 - 1),
        ..ended_task(&other)
    };
    let asked = vec![
        ended_task(&one),
        stale,
        ended_task(&running),
        EndedTask {
            task: new_task(),
            ..ended_task(&one)
        },
    ];
    assert_eq!(
        store.purge(&PurgeOp::Purge(asked.clone())).await.unwrap(),
        [ended_task(&one)]
    );
    let (id, tenant) = (one.task.id, &one.task.tenant);
    assert_eq!(store.load(id).await.unwrap(), None);
    assert_eq!(store.history(id).await.unwrap(), History::default());
    assert_eq!(store.idempotency(tenant, "one").await.unwrap(), None);
    // The others are whole.
    assert_eq!(load(store, other.task.id).await.task, other.task);
    assert_eq!(load(store, running.task.id).await.task, running.task);
    assert!(store.idempotency(tenant, "two").await.unwrap().is_some());
    assert_eq!(store.history(other.task.id).await.unwrap().audit.len(), 3);
    // A late decision on it is refused.
    for guard in [free(&one), leased(&one)] {
        let late = commit(store, guard, &after(&one)).await;
        assert!(
            matches!(late, Err(CommitError::Stale | CommitError::Fenced { .. })),
            "{late:?}"
        );
    }
    let page = JournalPage {
        task: Some(id.to_string()),
        after: None,
        limit: 10,
        lane: Lane::People,
    };
    assert_eq!(
        store.journal(&page).await.unwrap(),
        [],
        "a frozen owner adds no row"
    );
    let tombstones = store
        .purge(&PurgeOp::OldestTombstones { limit: 10 })
        .await
        .unwrap();
    assert_eq!(
        tombstones,
        [EndedTask {
            rev: Rev(0),
            ..ended_task(&one)
        }]
    );
    assert_eq!(
        store.purge(&PurgeOp::Purge(asked)).await.unwrap(),
        [],
        "it is purged once"
    );
    store.purge(&PurgeOp::Forget(vec![id])).await.unwrap();
    assert_eq!(
        store
            .purge(&PurgeOp::OldestTombstones { limit: 10 })
            .await
            .unwrap(),
        []
    );
}

pub(crate) async fn a_task_is_not_purged_before_others_were_told_of_its_end(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Completed;
    write.lease = LeaseChange::Release;
    write.finished = Time::In(Duration::ZERO);
    change.events = vec![event(record.task.id, 2)];
    commit(store, leased(&record), &change).await.unwrap();
    let record = load(store, record.task.id).await;
    let (zip, completed) = (record.task.task_type.clone(), TaskStatus::Completed);
    assert_eq!(
        store
            .purge(&PurgeOp::Purge(vec![ended_task(&record)]))
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        find_ended(store, &zip, completed, Duration::ZERO).await,
        [],
        "nor is it archived in vain"
    );
    store
        .outbox(OutboxOp::PublishedOf(vec![change.change_id]))
        .await
        .unwrap();
    assert_eq!(
        find_ended(store, &zip, completed, Duration::ZERO).await,
        [ended_task(&record)]
    );
    assert_eq!(
        store
            .purge(&PurgeOp::Purge(vec![ended_task(&record)]))
            .await
            .unwrap(),
        [ended_task(&record)]
    );
}

pub(crate) async fn a_task_stays_while_its_key_lives(ports: &Ports) {
    let store = &ports.store;
    let lives = ended_with(store, TaskStatus::Completed, "lives", MINUTE).await;
    let over = ended(store, TaskStatus::Completed, "over").await;
    assert_eq!(
        find_ended(store, "Zip", TaskStatus::Completed, Duration::ZERO).await,
        [ended_task(&over)]
    );
    let both = PurgeOp::Purge(vec![ended_task(&lives), ended_task(&over)]);
    assert_eq!(store.purge(&both).await.unwrap(), [ended_task(&over)]);
    let row = store
        .idempotency(&lives.task.tenant, "lives")
        .await
        .unwrap()
        .expect("its key");
    assert_eq!(row.task, lives.task.id);
}

pub(crate) async fn tombstones_are_found_by_their_tasks(ports: &Ports) {
    let store = &ports.store;
    let mut gone = Vec::new();
    for key in ["one", "two", "three"] {
        gone.push(ended(store, TaskStatus::Completed, key).await);
    }
    let stays = ended(store, TaskStatus::Completed, "four").await;
    let purge = PurgeOp::Purge(gone.iter().map(ended_task).collect());
    assert_eq!(store.purge(&purge).await.unwrap().len(), 3);
    let tombstones = async |tasks: &[&TaskRecord]| {
        let tasks = tasks.iter().map(|record| record.task.id).collect();
        let mut found = store.purge(&PurgeOp::TombstonesOf(tasks)).await.unwrap();
        found.sort_unstable_by_key(|tombstone| tombstone.task);
        found
    };
    let mut expected = [&gone[0], &gone[1]].map(|record| EndedTask {
        rev: Rev(0),
        ..ended_task(record)
    });
    expected.sort_unstable_by_key(|tombstone| tombstone.task);
    assert_eq!(tombstones(&[&gone[1], &stays, &gone[0]]).await, expected);
    assert_eq!(tombstones(&[&stays]).await, []);
    assert_eq!(tombstones(&[]).await, []);
    store
        .purge(&PurgeOp::Forget(vec![gone[0].task.id]))
        .await
        .unwrap();
    assert_eq!(
        tombstones(&[&gone[0], &gone[1]]).await,
        [EndedTask {
            rev: Rev(0),
            ..ended_task(&gone[1])
        }]
    );
}

pub(crate) async fn a_child_is_kept_until_all_tasks_above_it_have_ended(ports: &Ports) {
    let store = &ports.store;
    let (top, ids) = family(store, 1).await;
    let middle = load(store, ids[0]).await;
    let claim = claim(&middle, "one", MINUTE);
    commit(store, free(&middle), &claim).await.unwrap();
    let middle = load(store, ids[0]).await;
    let lower = child(&middle, 1, 0);
    let lower_id = lower.task_id;
    let change = submitting(&middle, vec![lower]).await;
    commit(store, leased(&middle), &change).await.unwrap();

    let end = async |task, status| ended_task(&end_of(store, task, status).await);
    let find = async || find_ended(store, "Zip", TaskStatus::Completed, Duration::ZERO).await;
    let purge = async |tasks: &[EndedTask]| {
        let mut gone = store.purge(&PurgeOp::Purge(tasks.to_vec())).await.unwrap();
        gone.sort_by_key(|task| task.task);
        gone
    };
    let lower = end(lower_id, TaskStatus::Completed).await;
    assert_eq!(find().await, []);
    // The task at the top has ended, and the one in between may yet undo the lowest.
    end(top.task.id, TaskStatus::Failed).await;
    assert_eq!(find().await, []);
    assert_eq!(purge(std::slice::from_ref(&lower)).await, []);

    let middle = end(ids[0], TaskStatus::Completed).await;
    let mut both = vec![lower.clone(), middle.clone()];
    assert_eq!(find().await, both);
    both.sort_by_key(|task| task.task);
    assert_eq!(purge(&both).await, both);
    assert_eq!(store.child_counts(top.task.id).await.unwrap(), []);
    assert_eq!(store.child_counts(middle.task).await.unwrap(), []);
}
