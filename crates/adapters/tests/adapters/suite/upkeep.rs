//! What sweeps ask: what the rows say of attempts, and whose turn it is to list.

use super::changes::*;
use super::eventually;
use counterstep_contracts::{Direction, Epoch, Outcome, StepNo};
use counterstep_kernel::ports::{AttemptRef, IntentOp, IntentState, ListingOp, ListingTurn, Ports, Store};
use counterstep_kernel::record::DbTime;
use counterstep_kernel::transition::AttemptWrite;
use std::time::Duration;

pub(crate) fn asked(task: counterstep_contracts::TaskId, attempt: i32) -> AttemptRef {
    AttemptRef { task, prefix: format!("t/default/x/zip/e1.{attempt}/") }
}

pub(crate) async fn states(store: &dyn Store, asked: &[AttemptRef]) -> Vec<(Option<String>, &'static str)> {
    let said = store.standing(asked).await.unwrap();
    assert!(said.now > DbTime(0));
    let word = |intent: IntentState| match intent {
        IntentState::Kept => "kept",
        IntentState::Live => "live",
        IntentState::Overdue(_) => "overdue",
        IntentState::Swept => "swept",
        IntentState::Missing => "missing",
        IntentState::Unreadable(_) => "unreadable",
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
