//! The time of a database: a test's clock moves that of its own database, and no function of another
//! schema moves that of any other.

use super::{database, open, options, raw};
use crate::suite::changes::*;
use counterstep_testkit::TestClock;

#[tokio::test]
async fn an_advance_ends_a_lease_of_the_database() {
    let (url, clock) = (database().await, TestClock::new());
    clock.drive_postgres(&url);
    let store = open(&url, options()).await;
    let held = claimed(&store, MINUTE).await;
    assert!(held.lease_is_live());
    clock.advance("1m");
    let later = load(&store, held.task.id).await;
    assert!(later.lease_has_expired());
    assert!(later.now.after(held.now) >= MINUTE);
}

#[tokio::test]
async fn a_database_that_comes_later_has_the_time_of_its_clock() {
    let (first, second) = (database().await, database().await);
    let clock = TestClock::new();
    clock.drive_postgres(&first);
    clock.advance("1h");
    clock.drive_postgres(&second);
    let now = async |url: &str| {
        let store = open(url, options()).await;
        claimed(&store, MINUTE).await.now
    };
    let (before, after) = (now(&first).await, now(&second).await);
    assert!(after.after(before) < MINUTE && before.after(after) < MINUTE);
}

#[tokio::test]
async fn a_function_of_another_schema_does_not_take_the_place_of_the_servers_time() {
    let url = database().await;
    let function = "CREATE FUNCTION public.now() RETURNS TIMESTAMPTZ LANGUAGE sql STABLE
        AS $$ SELECT TIMESTAMPTZ '2001-01-01 00:00:00Z' $$";
    raw(&url)
        .await
        .batch_execute(function)
        .await
        .expect("a function");
    let store = open(&url, options()).await;
    let held = claimed(&store, MINUTE).await;
    let year_2020 = 1_577_836_800_000_000;
    assert!(held.now.0 > year_2020, "{:?}", held.now);
}
