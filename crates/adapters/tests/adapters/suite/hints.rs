//! Hints: what was seen, counters, small states.

use super::eventually;
use counterstep_kernel::ports::Ports;
use futures::future::join_all;
use std::time::Duration;
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

/// Of no other case: a server may be shared.
fn key() -> String {
    Uuid::now_v7().to_string()
}

pub(crate) async fn what_is_remembered_was_seen_until_its_time_is_over(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert!(!hints.seen(&key).await.unwrap());
    hints.remember(&key, LONG).await.unwrap();
    assert!(hints.seen(&key).await.unwrap());
    hints.remember(&key, SHORT).await.unwrap();
    eventually("the end of a memory", || async {
        (!hints.seen(&key).await.unwrap()).then_some(())
    })
    .await;
}

pub(crate) async fn a_counter_counts_every_addition_once(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    let mut counts: Vec<_> = join_all((0..50).map(|_| hints.bump(&key, LONG)))
        .await
        .into_iter()
        .map(|count| count.unwrap())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=50).collect::<Vec<u64>>());
}

pub(crate) async fn a_window_ends_however_many_additions_there_are(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert_eq!(hints.bump(&key, SHORT).await.unwrap(), 1);
    // Were it prolonged by each addition, the count would never start anew.
    eventually("a new window", || async {
        (hints.bump(&key, SHORT).await.unwrap() == 1).then_some(())
    })
    .await;
}

pub(crate) async fn a_state_is_kept_until_its_time_is_over(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert_eq!(hints.get(&key).await.unwrap(), None);
    hints.set(&key, "open \u{e9}\n", LONG).await.unwrap();
    assert_eq!(
        hints.get(&key).await.unwrap().as_deref(),
        Some("open \u{e9}\n")
    );
    hints.set(&key, "", SHORT).await.unwrap();
    eventually("the end of a state", || async {
        hints.get(&key).await.unwrap().is_none().then_some(())
    })
    .await;
}

pub(crate) async fn a_state_is_swapped_only_from_what_it_is(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert!(
        !hints
            .swap(&key, Some("closed"), "open", LONG)
            .await
            .unwrap()
    );
    assert!(!hints.swap(&key, Some(""), "open", LONG).await.unwrap());
    assert!(hints.swap(&key, None, "closed", LONG).await.unwrap());
    assert!(!hints.swap(&key, None, "open", LONG).await.unwrap());
    assert!(!hints.swap(&key, Some("open"), "half", LONG).await.unwrap());
    assert_eq!(hints.get(&key).await.unwrap().as_deref(), Some("closed"));
    assert!(
        hints
            .swap(&key, Some("closed"), "open", SHORT)
            .await
            .unwrap()
    );
    eventually("the end of a state", || async {
        hints
            .swap(&key, None, "new", LONG)
            .await
            .unwrap()
            .then_some(())
    })
    .await;
}

pub(crate) async fn a_state_that_is_swapped_for_no_time_is_gone_at_once(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert!(hints.swap(&key, None, "probe", LONG).await.unwrap());
    let none = Duration::ZERO;
    assert!(!hints.swap(&key, Some("other"), "", none).await.unwrap());
    assert!(hints.swap(&key, Some("probe"), "", none).await.unwrap());
    assert_eq!(hints.get(&key).await.unwrap(), None);
    assert!(hints.swap(&key, None, "next", LONG).await.unwrap());
}

pub(crate) async fn a_state_says_how_much_longer_it_is_kept(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    assert_eq!(hints.left(&key).await.unwrap(), None);
    hints.set(&key, "open", LONG).await.unwrap();
    let left = hints.left(&key).await.unwrap().unwrap();
    assert!(!left.is_zero() && left <= LONG, "{left:?}");
    hints.set(&key, "open", SHORT).await.unwrap();
    assert!(
        hints
            .left(&key)
            .await
            .unwrap()
            .is_none_or(|left| left <= SHORT)
    );
    eventually("the end of a state", || async {
        hints.left(&key).await.unwrap().is_none().then_some(())
    })
    .await;
}

pub(crate) async fn of_fifty_racing_swaps_one_wins(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    for was in [None, Some("closed")] {
        let value = if was.is_none() { "closed" } else { "open" };
        let answers = join_all((0..50).map(|_| hints.swap(&key, was, value, LONG))).await;
        assert_eq!(
            answers
                .into_iter()
                .filter(|answer| *answer.as_ref().unwrap())
                .count(),
            1
        );
    }
}

pub(crate) async fn the_kinds_of_keys_do_not_meet(ports: &Ports) {
    let (hints, key) = (&*ports.hints, key());
    hints.set(&key, "text", LONG).await.unwrap();
    assert!(!hints.seen(&key).await.unwrap());
    assert_eq!(hints.bump(&key, LONG).await.unwrap(), 1);
    hints.remember(&key, LONG).await.unwrap();
    assert_eq!(hints.get(&key).await.unwrap().as_deref(), Some("text"));
}
