//! Places among the tasks of a key: held once, written with the change of their task, and given back with it.

use super::a_moment_later;
use super::changes::*;
use super::children::end_of;
use counterstep_contracts::{TaskId, TaskStatus, Tenant, WaitReason};
use counterstep_kernel::change::transition::{
    IdempotencyWrite, LeaseChange, PlaceWrite, Time, Transition,
};
use counterstep_kernel::ports::{
    CommitError, First, PlaceCount, PlaceQuery, PlaceRow, Ports, Store,
};
use counterstep_kernel::record::{TaskRecord, TaskRow};
use futures::future::join_all;
use serde_json::json;
use std::time::Duration;

/// A key of this test's own.
pub(crate) fn new_key(name: &str) -> String {
    format!("Zip/{name}/{}", new_task())
}

/// The first change of a task of a key, with a place or without.
pub(crate) fn entering(key: &str, no: Option<u32>) -> Transition {
    let row = TaskRow {
        place_key: Some(key.to_owned()),
        place_no: no,
        ..row(new_task())
    };
    let place = PlaceWrite::Put {
        key: key.to_owned(),
        no,
        since: None,
    };
    Transition {
        place: Some(place),
        ..submit(row)
    }
}

pub(crate) async fn entered(store: &Store, key: &str, no: Option<u32>) -> TaskRecord {
    let change = entering(key, no);
    commit(store, NEW, &change).await.expect("a free place");
    load(store, change.task_id).await
}

/// A claim that takes this place.
fn taking(record: &TaskRecord, no: u32) -> Transition {
    let mut change = claim(record, "worker", MINUTE);
    write_of(&mut change).row.place_no = Some(no);
    change.place = Some(PlaceWrite::Put {
        key: record.task.place_key.clone().expect("a key"),
        no: Some(no),
        since: Some(record.task.created_at),
    });
    change
}

pub(crate) async fn take(
    store: &Store,
    record: &TaskRecord,
    no: u32,
) -> Result<TaskRecord, CommitError> {
    commit(store, free(record), &taking(record, no)).await?;
    Ok(load(store, record.task.id).await)
}

/// Ends a task and gives its place back.
pub(crate) async fn leave(store: &Store, record: &TaskRecord) -> TaskRecord {
    let mut change = after(record);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Completed;
    write.row.place_no = None;
    write.lease = LeaseChange::Release;
    write.finished = Time::In(Duration::ZERO);
    change.place = Some(PlaceWrite::Leave {
        key: record.task.place_key.clone().expect("a key"),
        no: record.task.place_no,
    });
    commit(store, leased(record), &change).await.unwrap();
    load(store, record.task.id).await
}

/// Ends the rest of a task: it waits for a place again.
pub(crate) async fn leave_rest(store: &Store, ended: &TaskRecord) {
    let mut change = after(ended);
    write_of(&mut change).row.status = TaskStatus::Dispatched;
    write_of(&mut change).finished = Time::Clear;
    change.place = Some(PlaceWrite::Put {
        key: ended.task.place_key.clone().expect("a key"),
        no: None,
        since: Some(ended.task.created_at),
    });
    commit(store, free(ended), &change).await.unwrap();
}

pub(crate) async fn places(store: &Store, key: &str, first: First, waiting: u32) -> Vec<PlaceRow> {
    let query = PlaceQuery::Of {
        key: key.to_owned(),
        first,
        waiting,
    };
    store.places(&query).await.unwrap()
}

async fn held(store: &Store, key: &str) -> Vec<(TaskId, Option<u32>)> {
    let rows = places(store, key, First::Oldest, 100).await;
    rows.into_iter().map(|row| (row.task, row.no)).collect()
}

pub(crate) async fn a_place_is_held_once_until_its_task_gives_it_back(ports: &Ports) {
    let store = &ports.store;
    let key = new_key("once");
    let (a, b) = (
        entered(store, &key, None).await,
        entered(store, &key, None).await,
    );
    let a = take(store, &a, 0).await.expect("a free place");
    assert_eq!(a.task.place_no, Some(0));
    let refused = take(store, &b, 0).await;
    assert!(
        matches!(refused, Err(CommitError::PlaceTaken)),
        "{refused:?}"
    );
    let unchanged = load(store, b.task.id).await;
    assert_eq!(
        (unchanged.task.rev, unchanged.task.status),
        (b.task.rev, b.task.status)
    );
    assert_eq!(
        held(store, &key).await,
        [(a.task.id, Some(0)), (b.task.id, None)]
    );
    // Of another key the number is free.
    let other = entered(store, &new_key("other"), None).await;
    take(store, &other, 0).await.expect("a free place");
    let ended = leave(store, &a).await;
    assert_eq!(ended.task.place_no, None);
    assert_eq!(ended.task.place_key.as_deref(), Some(&*key));
    let b = take(store, &b, 0).await.expect("a free place");
    assert_eq!(held(store, &key).await, [(b.task.id, Some(0))]);
}

pub(crate) async fn of_twenty_racing_claims_of_a_place_one_wins(ports: &Ports) {
    let store = &ports.store;
    let key = new_key("race");
    let new = |_| entered(store, &key, None);
    let tasks = join_all((0..20).map(new)).await;
    let taken = join_all(tasks.iter().map(|task| take(store, task, 3))).await;
    let won: Vec<_> = taken.iter().filter_map(|it| it.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    let lost = taken.iter().filter_map(|it| it.as_ref().err());
    for error in lost {
        assert!(matches!(error, CommitError::PlaceTaken), "{error:?}");
    }
    let rows = places(store, &key, First::Oldest, 100).await;
    assert_eq!(
        (rows[0].task, rows[0].no, rows.len()),
        (won[0].task.id, Some(3), 20)
    );
}

pub(crate) async fn a_submission_whose_place_is_taken_leaves_nothing(ports: &Ports) {
    let store = &ports.store;
    let key = new_key("refused");
    let first = entered(store, &key, Some(0)).await;
    assert_eq!(first.task.place_no, Some(0));
    let client_key = format!("order-{}", new_task());
    let tenant = Tenant::default();
    let again = Transition {
        idempotency: Some(IdempotencyWrite::Finish {
            tenant: tenant.clone(),
            key: client_key.clone(),
            fingerprint: "print".to_owned(),
            answer: json!({}),
            expires_in: MINUTE,
        }),
        ..entering(&key, Some(0))
    };
    let refused = commit(store, NEW, &again).await;
    assert!(
        matches!(refused, Err(CommitError::PlaceTaken)),
        "{refused:?}"
    );
    assert_eq!(store.load(again.task_id).await.unwrap(), None);
    assert_eq!(store.idempotency(&tenant, &client_key).await.unwrap(), None);
    // A commit whose answer was lost is sent again: it is there, and refused as such.
    let sent = entering(&key, Some(1));
    let sent = recorded(store, sent, None);
    store.commit(NEW, sent.clone()).await.expect("a free place");
    let twice = store.commit(NEW, sent.clone()).await;
    assert!(matches!(twice, Err(CommitError::Stale)), "{twice:?}");
}

pub(crate) async fn those_that_wait_stand_in_the_order_of_their_submissions(ports: &Ports) {
    let store = &ports.store;
    let key = new_key("line");
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(entered(store, &key, None).await);
        a_moment_later(store).await;
    }
    let holder = take(store, &tasks[1], 5).await.unwrap();
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.task.id).collect();
    let of = async |first, waiting| {
        let rows = places(store, &key, first, waiting).await;
        rows.into_iter().map(|row| row.task).collect::<Vec<_>>()
    };
    assert_eq!(of(First::Oldest, 2).await, [ids[1], ids[0], ids[2]]);
    assert_eq!(of(First::Newest, 2).await, [ids[1], ids[3], ids[2]]);
    assert_eq!(of(First::Oldest, 0).await, [ids[1]]);
    let row = &places(store, &key, First::Oldest, 0).await[0];
    let expected = PlaceRow {
        key: key.clone(),
        task: ids[1],
        no: Some(5),
        since: holder.task.created_at,
        status: TaskStatus::Running,
        waiting: None,
        cancel_requested: false,
    };
    assert_eq!(*row, expected);
    // One that waits for a version of its host keeps no other waiting.
    let mut change = after(&tasks[0]);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Waiting;
    write.row.waiting = Some(WaitReason::Version);
    write.due = Time::In(MINUTE);
    commit(store, free(&tasks[0]), &change).await.unwrap();
    assert_eq!(of(First::Oldest, 9).await, [ids[1], ids[2], ids[3]]);
    let some = store
        .places(&PlaceQuery::Tasks(vec![ids[0], new_task()]))
        .await
        .unwrap();
    assert_eq!(some.len(), 1);
    assert_eq!(some[0].waiting, Some(WaitReason::Version));
}

pub(crate) async fn keys_are_counted_page_by_page(ports: &Ports) {
    let store = &ports.store;
    let mut keys = [new_key("a"), new_key("b"), new_key("c")];
    keys.sort();
    for key in &keys {
        entered(store, key, None).await;
    }
    let task = entered(store, &keys[1], None).await;
    take(store, &task, 0).await.unwrap();
    let mut found: Vec<PlaceCount> = Vec::new();
    loop {
        let after = found.last().map(|count| count.key.clone());
        let page = store.place_counts(after.as_deref(), 2).await.unwrap();
        let is_last = page.len() < 2;
        found.extend(page);
        if is_last {
            break;
        }
    }
    found.retain(|count| keys.contains(&count.key));
    let counted: Vec<_> = found
        .iter()
        .map(|count| (&count.key, count.held, count.waiting))
        .collect();
    assert_eq!(
        counted,
        [(&keys[0], 0, 1), (&keys[1], 1, 1), (&keys[2], 0, 1)]
    );
}

pub(crate) async fn a_task_that_leaves_its_rest_stands_in_line_where_it_stood(ports: &Ports) {
    let store = &ports.store;
    let key = new_key("again");
    let old = entered(store, &key, None).await;
    a_moment_later(store).await;
    let new = entered(store, &key, None).await;
    let old = take(store, &old, 0).await.unwrap();
    let ended = leave(store, &old).await;
    assert_eq!(held(store, &key).await, [(new.task.id, None)]);
    leave_rest(store, &ended).await;
    assert_eq!(
        held(store, &key).await,
        [(old.task.id, None), (new.task.id, None)]
    );
}

pub(crate) async fn a_task_that_sleeps_for_a_place_is_woken(ports: &Ports) {
    let store = &ports.store;
    let task = entered(store, &new_key("asleep"), None).await;
    let mut change = after(&task);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Waiting;
    write.row.waiting = Some(WaitReason::Concurrency);
    write.due = Time::In(MINUTE);
    commit(store, free(&task), &change).await.unwrap();
    assert!(store.wake(task.task.id).await.unwrap().is_some());
    assert!(load(store, task.task.id).await.due_in().is_zero());
    // The rows of tasks that are gone at once leave none behind.
    let gone = entered(store, &new_key("gone"), None).await;
    let key = gone.task.place_key.clone().unwrap();
    let gone = take(store, &gone, 0).await.unwrap();
    leave(store, &gone).await;
    end_of(store, task.task.id, TaskStatus::Cancelled).await;
    assert_eq!(held(store, &key).await, []);
}
