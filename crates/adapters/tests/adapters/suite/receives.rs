//! Files of requests that have no task yet: until the submission takes them, or a sweep does.

use super::changes::*;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::change::transition::{IdempotencyWrite, ReceiveWrite, Transition};
use counterstep_kernel::ports::{CommitError, Ports, Receive, ReceiveOp, Store};
use counterstep_steps::times::DbTime;
use std::time::Duration;

fn abandon(task: TaskId) -> Transition {
    Transition {
        receive: Some(ReceiveWrite::Abandoned),
        ..nothing(task)
    }
}

async fn begun(store: &Store, sweep_after: Duration) -> TaskId {
    let task = new_task();
    commit(store, NEW, &begin(task, sweep_after))
        .await
        .expect("a begin");
    task
}

async fn rows(store: &Store, op: ReceiveOp) -> Vec<Receive> {
    store.receives(&op).await.unwrap().rows
}

async fn of(store: &Store, task: TaskId) -> Option<Receive> {
    let rows = rows(store, ReceiveOp::Of(vec![task])).await;
    assert!(
        rows.len() <= 1 && rows.iter().all(|row| row.task == task),
        "{rows:?}"
    );
    rows.into_iter().next()
}

async fn overdue(store: &Store) -> Vec<TaskId> {
    rows(store, ReceiveOp::Overdue { limit: 100 })
        .await
        .into_iter()
        .map(|row| row.task)
        .collect()
}

async fn condemned(store: &Store, tasks: &[TaskId]) -> Vec<TaskId> {
    let mut tasks: Vec<_> = rows(store, ReceiveOp::Condemn(tasks.to_vec()))
        .await
        .into_iter()
        .map(|row| row.task)
        .collect();
    tasks.sort_unstable();
    tasks
}

/// A submission that is refused because its files are a sweep's, and of which nothing is there.
async fn refused(store: &Store, task: TaskId) {
    let late = commit(store, NEW, &submit_received(task)).await;
    assert!(matches!(late, Err(CommitError::Condemned)), "{late:?}");
    assert_eq!(store.load(task).await.unwrap(), None);
    assert_eq!(store.history(task).await.unwrap().changes, []);
}

pub(crate) async fn a_receive_comes_back_as_it_was_begun(ports: &Ports) {
    let store = &ports.store;
    let (task, tenant) = (new_task(), Tenant("acme".to_owned()));
    let begin = ReceiveWrite::Begun {
        tenant: tenant.clone(),
        sweep_after: MINUTE,
    };
    let begin = Transition {
        receive: Some(begin),
        ..nothing(task)
    };
    let now = commit(store, NEW, &begin).await.unwrap().now;
    let expected = Receive {
        task,
        tenant,
        is_condemned: false,
        sweep_at: now.later(MINUTE),
    };
    assert_eq!(of(store, task).await, Some(expected.clone()));
    assert_eq!(overdue(store).await, [], "its time has not come");
    assert_eq!(store.load(task).await.unwrap(), None, "it is no task");
    // The clock comes also where there is no row.
    for op in [
        ReceiveOp::Overdue { limit: 9 },
        ReceiveOp::Of(vec![new_task()]),
        ReceiveOp::Of(Vec::new()),
    ] {
        let read = store.receives(&op).await.unwrap();
        assert!(
            read.now >= now && read.now > DbTime(0) && read.rows.is_empty(),
            "{read:?}"
        );
    }
}

pub(crate) async fn a_begin_that_is_written_twice_changes_nothing(ports: &Ports) {
    let store = &ports.store;
    let task = begun(store, MINUTE).await;
    let first = of(store, task).await;
    // The answer to the first was lost.
    commit(store, NEW, &begin(task, 2 * MINUTE)).await.unwrap();
    assert_eq!(of(store, task).await, first);

    let task = begun(store, Duration::ZERO).await;
    assert_eq!(condemned(store, &[task]).await, [task]);
    commit(store, NEW, &begin(task, MINUTE)).await.unwrap();
    refused(store, task).await;
}

pub(crate) async fn a_submission_takes_its_receive(ports: &Ports) {
    let store = &ports.store;
    let (task, other) = (
        begun(store, Duration::ZERO).await,
        begun(store, MINUTE).await,
    );
    // Late, and no sweep has seen it.
    commit(store, NEW, &submit_received(task)).await.unwrap();
    assert!(store.load(task).await.unwrap().is_some());
    assert_eq!(
        (of(store, task).await, overdue(store).await),
        (None, vec![])
    );
    assert_eq!(condemned(store, &[task]).await, []);
    assert!(of(store, other).await.is_some(), "another request's");
    // The answer to the first was lost.
    let again = commit(store, NEW, &submit_received(task)).await;
    assert!(matches!(again, Err(CommitError::Stale)), "{again:?}");
}

pub(crate) async fn a_submission_of_what_a_sweep_has_condemned_writes_nothing(ports: &Ports) {
    let store = &ports.store;
    let task = begun(store, Duration::ZERO).await;
    assert_eq!(overdue(store).await, [task]);
    assert_eq!(condemned(store, &[task]).await, [task]);
    refused(store, task).await;
    let row = of(store, task).await.expect("it stays for the sweep");
    assert!(row.is_condemned, "{row:?}");
    // A sweep that died here comes back to it.
    assert_eq!(
        (overdue(store).await, condemned(store, &[task]).await),
        (vec![task], vec![task])
    );
    store.receives(&ReceiveOp::Swept(vec![task])).await.unwrap();
    assert_eq!(
        (of(store, task).await, overdue(store).await),
        (None, vec![])
    );
    refused(store, task).await;
    // What was never begun is as one that was swept.
    refused(store, new_task()).await;
}

pub(crate) async fn only_a_receive_whose_time_has_come_is_condemned(ports: &Ports) {
    let store = &ports.store;
    let (late, arrives) = (
        begun(store, Duration::ZERO).await,
        begun(store, MINUTE).await,
    );
    assert_eq!(condemned(store, &[arrives, late, new_task()]).await, [late]);
    // Nor is one swept that is not condemned.
    store
        .receives(&ReceiveOp::Swept(vec![arrives, late]))
        .await
        .unwrap();
    assert_eq!(
        (
            of(store, late).await,
            of(store, arrives).await.map(|row| row.is_condemned)
        ),
        (None, Some(false))
    );
    commit(store, NEW, &submit_received(arrives)).await.unwrap();
}

pub(crate) async fn an_abandoned_receive_becomes_no_task_and_is_swept_when_its_time_comes(
    ports: &Ports,
) {
    let store = &ports.store;
    let (early, late) = (
        begun(store, MINUTE).await,
        begun(store, Duration::ZERO).await,
    );
    for task in [early, late] {
        let before = of(store, task).await.expect("its row");
        commit(store, NEW, &abandon(task)).await.unwrap();
        commit(store, NEW, &abandon(task))
            .await
            .expect("once more does no harm");
        // Its time stays: what still arrives at the object store is found then.
        assert_eq!(
            of(store, task).await,
            Some(Receive {
                is_condemned: true,
                ..before
            })
        );
        refused(store, task).await;
    }
    assert_eq!(overdue(store).await, [late]);
    assert_eq!(condemned(store, &[early, late]).await, [late]);
    store.receives(&ReceiveOp::Swept(vec![late])).await.unwrap();
    assert_eq!(of(store, late).await, None);
    // Of what was never begun there is nothing to sweep.
    let never = new_task();
    commit(store, NEW, &abandon(never)).await.unwrap();
    assert_eq!(of(store, never).await, None);
}

pub(crate) async fn the_key_of_a_receive_goes_with_it(ports: &Ports) {
    let store = &ports.store;
    let begin_with = |key: &str| {
        let mut begin = begin(new_task(), Duration::ZERO);
        begin.idempotency = Some(IdempotencyWrite::Begin {
            tenant: Tenant::default(),
            key: key.to_owned(),
            owner: "api:0123456789ab".to_owned(),
            expires_in: MINUTE,
        });
        begin
    };
    let (broken_off, finished) = (begin_with("broken off"), begin_with("finished"));
    for change in [&broken_off, &finished] {
        commit(store, NEW, change).await.unwrap();
    }
    let mut submission = submit_received(finished.task_id);
    submission.idempotency = Some(IdempotencyWrite::Finish {
        tenant: Tenant::default(),
        key: "finished".to_owned(),
        fingerprint: "f".to_owned(),
        answer: serde_json::json!({}),
        expires_in: MINUTE,
    });
    commit(store, NEW, &submission).await.unwrap();
    let tasks = [broken_off.task_id, finished.task_id];
    assert_eq!(condemned(store, &tasks).await, [broken_off.task_id]);
    store
        .receives(&ReceiveOp::Swept(tasks.to_vec()))
        .await
        .unwrap();
    let tenant = Tenant::default();
    let key = async |key: &str| store.idempotency(&tenant, key).await.unwrap();
    assert_eq!(key("broken off").await, None);
    assert!(key("finished").await.is_some());
}

pub(crate) async fn a_receive_beside_a_task_that_exists_is_stale(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    let task = record.task.id;
    for late in [begin(task, Duration::ZERO), abandon(task)] {
        let late = commit(store, NEW, &late).await;
        assert!(matches!(late, Err(CommitError::Stale)), "{late:?}");
    }
    assert_eq!(
        (of(store, task).await, overdue(store).await),
        (None, vec![])
    );
    assert_eq!(load(store, task).await.task, record.task);
}

pub(crate) async fn the_oldest_receives_come_first(ports: &Ports) {
    let store = &ports.store;
    let mut expected = Vec::new();
    // No two of them can fall on the same microsecond, whatever whole milliseconds lie between the
    // commits.
    for micros in [3003, 1001, 2002] {
        let change = begin(new_task(), Duration::from_micros(micros));
        let now = commit(store, NEW, &change).await.unwrap().now;
        expected.push((now.later(Duration::from_micros(micros)), change.task_id));
    }
    expected.sort_unstable();
    let all = super::eventually("three overdue receives", || async {
        Some(rows(store, ReceiveOp::Overdue { limit: 100 }).await).filter(|found| found.len() == 3)
    });
    let all: Vec<_> = all
        .await
        .into_iter()
        .map(|row| (row.sweep_at, row.task))
        .collect();
    assert_eq!(all, expected);
    let two: Vec<_> = rows(store, ReceiveOp::Overdue { limit: 2 })
        .await
        .into_iter()
        .map(|row| (row.sweep_at, row.task))
        .collect();
    assert_eq!(two, expected[..2]);
}
