//! What sweeps ask: what the rows say of attempts, and whose turn it is to list.

use super::changes::*;
use super::eventually;
use counterstep_contracts::{AuditSeq, Direction, Epoch, Outcome, Rev, StepNo, TaskStatus};
use counterstep_kernel::ports::{
    AttemptRef, CommitError, IntentOp, IntentState, Leaving, ListingOp, ListingTurn, Ports, RetireOp, Store,
};
use counterstep_kernel::record::{DbTime, History, TaskRecord};
use counterstep_kernel::transition::{AttemptWrite, IdempotencyWrite, LeaseChange, Time};
use std::time::Duration;

fn asked(task: counterstep_contracts::TaskId, attempt: i32) -> AttemptRef {
    AttemptRef { task, prefix: format!("t/default/x/zip/e1.{attempt}/") }
}

async fn states(store: &dyn Store, asked: &[AttemptRef]) -> Vec<(Option<String>, &'static str)> {
    let said = store.standing(asked).await.unwrap();
    assert!(said.now > DbTime(0));
    let word = |intent: IntentState| match intent {
        IntentState::Kept => "kept",
        IntentState::Live => "live",
        IntentState::Overdue(_) => "overdue",
        IntentState::Swept => "swept",
        IntentState::Missing => "missing",
    };
    said.of.into_iter().map(|one| (one.task_type, word(one.intent))).collect()
}

pub(crate) async fn rows_say_what_becomes_of_the_objects_of_an_attempt(ports: &Ports) {
    let store = &*ports.store;
    let record = claimed(store, MINUTE).await;
    let task = record.task.id;
    let none = Duration::ZERO;
    let mut change = after(&record);
    let e1 = Epoch(1);
    change.attempts = vec![
        start(1, e1, none),
        end(1, Outcome::Succeeded, true),
        start(2, e1, none),
        end(2, Outcome::Failed, false),
        start(3, e1, MINUTE),
        end(3, Outcome::Failed, false),
        start(4, e1, none),
        start(5, e1, none),
        end(5, Outcome::Succeeded, false),
    ];
    commit(store, leased(&record), &change).await.unwrap();
    let mut receive = nothing(new_task());
    receive.attempts = vec![start(1, Epoch(0), none)];
    commit(store, NEW, &receive).await.unwrap();

    let received = AttemptRef { task: receive.task_id, prefix: "t/default/x/zip/e0.1/".to_owned() };
    let nobody = new_task();
    let all: Vec<_> = (1..=6).map(|n| asked(task, n)).chain([received, asked(nobody, 1)]).collect();
    let of = Some(record.task.task_type.clone());
    let expected = ["kept", "overdue", "live", "live", "swept", "missing"].map(|word| (of.clone(), word));
    let expected = [&expected[..], &[(None, "overdue"), (None, "missing")]].concat();
    assert_eq!(states(store, &all).await, expected);
    // In the order that was asked for, and each as often.
    assert_eq!(
        states(store, &[asked(task, 3), asked(task, 1), asked(task, 3)]).await,
        [(of.clone(), "live"), (of.clone(), "kept"), (of.clone(), "live")]
    );

    // What is overdue comes with its intent, and can be condemned.
    let said = store.standing(&[asked(task, 2)]).await.unwrap();
    let IntentState::Overdue(intent) = said.of[0].intent.clone() else { panic!("{said:?}") };
    assert_eq!(
        (intent.task, intent.step, intent.direction, intent.attempt.0),
        (task, StepNo(1), Direction::Forward, 2)
    );
    assert_eq!(store.intents(IntentOp::Condemn(vec![intent.clone()])).await.unwrap().len(), 1);
    assert_eq!(states(store, &[asked(task, 2)]).await, [(of.clone(), "overdue")]);
    store.intents(IntentOp::Swept(vec![intent])).await.unwrap();
    assert_eq!(states(store, &[asked(task, 2)]).await, [(of.clone(), "swept")]);
    let record = load(store, task).await;
    let mut change = after(&record);
    change.attempts = vec![AttemptWrite::Release { step: StepNo(1) }];
    commit(store, leased(&record), &change).await.unwrap();
    assert_eq!(states(store, &[asked(task, 1)]).await, [(of, "overdue")]);
}

fn claim_listing(every: Duration, by: &str, hold: Duration) -> ListingOp {
    ListingOp::Claim { every, by: by.to_owned(), hold }
}

fn keep(every: Duration, by: &str, cursor: Option<&str>, hold: Duration) -> ListingOp {
    ListingOp::Keep { every, by: by.to_owned(), cursor: cursor.map(str::to_owned), hold }
}

fn from(cursor: Option<&str>) -> Option<ListingTurn> {
    Some(ListingTurn { cursor: cursor.map(str::to_owned) })
}

pub(crate) async fn a_listing_is_one_callers_until_it_is_due_again(ports: &Ports) {
    let store = &*ports.store;
    let hour = 60 * MINUTE;
    assert_eq!(store.listing(&claim_listing(hour, "one", MINUTE)).await.unwrap(), from(None));
    assert_eq!(store.listing(&claim_listing(hour, "two", MINUTE)).await.unwrap(), None);
    assert_eq!(store.listing(&keep(hour, "two", Some("x"), MINUTE)).await.unwrap(), None, "it is not its turn");
    assert_eq!(store.listing(&keep(hour, "one", Some("o|a|b"), MINUTE)).await.unwrap(), from(Some("o|a|b")));
    assert_eq!(store.listing(&claim_listing(hour, "two", MINUTE)).await.unwrap(), None);
    // It lets go in the middle: another one goes on from there.
    store.listing(&keep(hour, "one", Some("o|a|c"), Duration::ZERO)).await.unwrap();
    assert_eq!(store.listing(&claim_listing(hour, "two", MINUTE)).await.unwrap(), from(Some("o|a|c")));
    assert_eq!(store.listing(&keep(hour, "one", None, MINUTE)).await.unwrap(), None, "it has lost it");
    // At its end it is nobody's until the interval is over.
    assert_eq!(store.listing(&keep(hour, "two", None, Duration::ZERO)).await.unwrap(), from(None));
    assert_eq!(store.listing(&claim_listing(hour, "one", MINUTE)).await.unwrap(), None);
    // Another interval has a row of its own, and one that is over is due again.
    let instant = Duration::from_millis(1);
    assert_eq!(store.listing(&claim_listing(instant, "one", MINUTE)).await.unwrap(), from(None));
    store.listing(&keep(instant, "one", None, Duration::ZERO)).await.unwrap();
    let again = eventually("a listing that is due again", || async {
        store.listing(&claim_listing(instant, "two", MINUTE)).await.unwrap()
    });
    assert_eq!(Some(again.await), from(None));
}

pub(crate) async fn a_listing_whose_holder_died_goes_on_where_it_was(ports: &Ports) {
    let store = &*ports.store;
    let hour = 60 * MINUTE;
    store.listing(&claim_listing(hour, "one", MINUTE)).await.unwrap();
    store.listing(&keep(hour, "one", Some("o|a|b"), Duration::from_millis(30))).await.unwrap();
    let taken = eventually("the end of the hold", || async {
        store.listing(&claim_listing(hour, "two", MINUTE)).await.unwrap()
    });
    assert_eq!(Some(taken.await), from(Some("o|a|b")));
}

pub(crate) async fn of_fifty_racing_callers_one_gets_the_listing(ports: &Ports) {
    let claims = (0..50).map(|n| {
        let store = ports.store.clone();
        tokio::spawn(async move { store.listing(&claim_listing(MINUTE, &format!("r{n}"), MINUTE)).await.unwrap() })
    });
    let claims = futures::future::join_all(claims.collect::<Vec<_>>()).await;
    assert_eq!(claims.into_iter().filter(|claim| claim.as_ref().unwrap().is_some()).count(), 1);
}

/// A task that has ended in this state, with a row of each kind.
async fn ended(store: &dyn Store, status: TaskStatus, key: &str) -> TaskRecord {
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.status = status;
    write.row.audit_seq = AuditSeq(2);
    write.lease = LeaseChange::Release;
    write.finished = Time::In(Duration::ZERO);
    change.audit = vec![audit(&write.row, "ended")];
    change.attempts = vec![start(1, Epoch(1), Duration::ZERO), end(1, Outcome::Succeeded, true)];
    let answer = serde_json::json!({"task": key});
    let (tenant, key, fingerprint) = (record.task.tenant.clone(), key.to_owned(), "f".to_owned());
    change.idempotency = Some(IdempotencyWrite::Finish { tenant, key, fingerprint, answer, expires_in: MINUTE });
    commit(store, leased(&record), &change).await.unwrap();
    load(store, record.task.id).await
}

fn leaving(record: &TaskRecord) -> Leaving {
    Leaving { task: record.task.id, tenant: record.task.tenant.clone(), rev: record.task.rev }
}

async fn find_ended(store: &dyn Store, task_type: &str, status: TaskStatus, before: Duration) -> Vec<Leaving> {
    let op = RetireOp::Ended { task_type: task_type.to_owned(), status, before, limit: 10 };
    store.retire(&op).await.unwrap()
}

pub(crate) async fn tasks_that_ended_are_found_by_type_state_and_age(ports: &Ports) {
    let store = &*ports.store;
    let first = ended(store, TaskStatus::Completed, "one").await;
    // The clock of a database may have milliseconds only.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let second = ended(store, TaskStatus::Completed, "two").await;
    let failed = ended(store, TaskStatus::Failed, "three").await;
    claimed(store, MINUTE).await;
    let (all, completed) = (Duration::ZERO, TaskStatus::Completed);
    assert_eq!(find_ended(store, "Zip", completed, all).await, [leaving(&first), leaving(&second)]);
    assert_eq!(find_ended(store, "Zip", TaskStatus::Failed, all).await, [leaving(&failed)]);
    assert_eq!(find_ended(store, "Zip", TaskStatus::Running, all).await, []);
    assert_eq!(find_ended(store, "Other", completed, all).await, []);
    assert_eq!(find_ended(store, "Zip", completed, MINUTE).await, []);
    assert_eq!(find_ended(store, "Zip", completed, Duration::MAX).await, []);
    let op = RetireOp::Ended { task_type: "Zip".to_owned(), status: completed, before: all, limit: 1 };
    assert_eq!(store.retire(&op).await.unwrap(), [leaving(&first)]);
}

pub(crate) async fn a_buried_task_leaves_a_tombstone_and_no_row(ports: &Ports) {
    let store = &*ports.store;
    let (one, other) =
        (ended(store, TaskStatus::Completed, "one").await, ended(store, TaskStatus::Completed, "two").await);
    let running = claimed(store, MINUTE).await;
    let stale = Leaving { rev: Rev(other.task.rev.0 - 1), ..leaving(&other) };
    let asked = vec![leaving(&one), stale, leaving(&running), Leaving { task: new_task(), ..leaving(&one) }];
    assert_eq!(store.retire(&RetireOp::Bury(asked.clone())).await.unwrap(), [leaving(&one)]);
    let (id, tenant) = (one.task.id, &one.task.tenant);
    assert_eq!(store.load(id).await.unwrap(), None);
    assert_eq!(store.history(id).await.unwrap(), History::default());
    assert_eq!(store.idempotency(tenant, "one").await.unwrap(), None, "its key is new again");
    // The others are whole.
    assert_eq!(load(store, other.task.id).await.task, other.task);
    assert_eq!(load(store, running.task.id).await.task, running.task);
    assert!(store.idempotency(tenant, "two").await.unwrap().is_some());
    assert_eq!(store.history(other.task.id).await.unwrap().audit.len(), 2);
    // Whoever decides on it still is told that it is gone.
    let late = commit(store, free(&one), &after(&one)).await;
    assert!(matches!(late, Err(CommitError::Stale | CommitError::Fenced { .. })), "{late:?}");
    // Its objects are nobody's to sweep before the tombstone is gone.
    let object = AttemptRef { task: id, prefix: "t/default/x/zip/e1.1/".to_owned() };
    assert_eq!(states(store, std::slice::from_ref(&object)).await, [(None, "live")]);
    let graves = store.retire(&RetireOp::Buried { limit: 10 }).await.unwrap();
    assert_eq!(graves, [Leaving { rev: Rev(0), ..leaving(&one) }]);
    assert_eq!(store.retire(&RetireOp::Bury(asked)).await.unwrap(), [], "it is buried once");
    store.retire(&RetireOp::Forget(vec![id])).await.unwrap();
    assert_eq!(store.retire(&RetireOp::Buried { limit: 10 }).await.unwrap(), []);
    assert_eq!(states(store, &[object]).await, [(None, "missing")]);
}
