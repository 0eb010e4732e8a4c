//! Servers that stop, hang, forget, are full, or are lost one by one: what the ports say meanwhile,
//! and that they use a server again.

use super::{LIMIT, LONG, administer, answers, codes, open_on, options};
use crate::suite::changes::new_task;
use crate::suite::eventually;
use counterstep_adapters::redis::{Redis, RedisOptions, open};
use counterstep_kernel::ports::{Acquired, Hints, Locks};
use counterstep_testkit::servers;
use std::process::Command;
use std::time::Duration;

/// Each call ends in an error; of all of them, one for each of the two ports asks the server, and
/// the others know.
async fn assert_away(redis: &Redis) {
    let mut errors = Vec::new();
    for _ in 0..20 {
        errors.push(
            redis
                .locks
                .acquire(new_task(), LONG)
                .await
                .unwrap_err()
                .to_string(),
        );
        errors.push(redis.hints.seen("key").await.unwrap_err().to_string());
        errors.push(
            redis
                .hints
                .remember("key", LONG)
                .await
                .unwrap_err()
                .to_string(),
        );
        errors.push(redis.hints.bump("key", LONG).await.unwrap_err().to_string());
        errors.push(redis.hints.get("key").await.unwrap_err().to_string());
        errors.push(
            redis
                .hints
                .set("key", "", LONG)
                .await
                .unwrap_err()
                .to_string(),
        );
        errors.push(
            redis
                .hints
                .swap("key", None, "", LONG)
                .await
                .unwrap_err()
                .to_string(),
        );
    }
    let asked: Vec<_> = errors
        .iter()
        .filter(|why| !why.contains("it is away: "))
        .collect();
    assert!(
        asked.len() <= 2,
        "{} of {} calls asked a server that is away: {asked:?}",
        asked.len(),
        errors.len()
    );
}

async fn assert_used_again(redis: &Redis) {
    eventually("a server that is used again", || async {
        answers(redis).await.ok()
    })
    .await;
    let task = new_task();
    assert!(matches!(
        redis.locks.acquire(task, LONG).await.unwrap(),
        Acquired::Held(_)
    ));
    assert_eq!(
        redis.locks.acquire(task, LONG).await.unwrap(),
        Acquired::Elsewhere
    );
    redis.hints.remember("again", LONG).await.unwrap();
    assert!(redis.hints.seen("again").await.unwrap());
}

#[tokio::test]
async fn a_server_that_stops_costs_little_and_is_used_again_when_it_is_back() {
    let server = servers::Redis::start();
    let redis = open_on(&server).await;
    answers(&redis).await.unwrap();
    let task = new_task();
    let Acquired::Held(tag) = redis.locks.acquire(task, LONG).await.unwrap() else {
        panic!("a new task's lock")
    };
    server.stop();
    assert_away(&redis).await;
    assert!(redis.locks.extend(task, &tag, LONG).await.is_err());
    assert!(redis.locks.release(task, &tag).await.is_err());
    server.begin();
    assert_used_again(&redis).await;
    assert!(
        !redis.locks.extend(task, &tag, LONG).await.unwrap(),
        "it forgot the lock"
    );
}

#[tokio::test]
async fn a_server_that_hangs_costs_one_limit_and_is_used_again_when_it_goes_on() {
    let server = servers::Redis::start();
    let redis = open_on(&server).await;
    let signal = |name: &str| {
        let pid = server.pid().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-STOP");
    assert_away(&redis).await;
    signal("-CONT");
    assert_used_again(&redis).await;
}

#[tokio::test]
async fn a_lock_that_is_granted_too_late_does_not_stay_behind() {
    let server = servers::Redis::start();
    // Below the client's own limit, behind which it no longer waits for the grant that is to be
    // undone.
    let short = RedisOptions {
        limit: Duration::from_millis(300),
        ..options(&server)
    };
    let redis = open(short).await.unwrap();
    let task = new_task();
    let pid = server.pid().unwrap().to_string();
    let signal = |name: &str| {
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        )
    };
    signal("-STOP");
    assert!(redis.locks.acquire(task, LONG).await.is_err());
    signal("-CONT");
    eventually("the lock's release", || async {
        matches!(redis.locks.acquire(task, LONG).await, Ok(Acquired::Held(_))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_at_first_is_used_when_it_comes() {
    let server = servers::Redis::start();
    server.stop();
    let redis = open_on(&server).await;
    assert_away(&redis).await;
    assert_eq!(codes(&options(&server)).await, ["redis_unreachable"]);
    server.begin();
    assert_used_again(&redis).await;
}

#[tokio::test]
async fn a_flush_loses_the_lock_and_nothing_else() {
    let server = servers::Redis::start();
    let redis = open_on(&server).await;
    let task = new_task();
    let Acquired::Held(tag) = redis.locks.acquire(task, LONG).await.unwrap() else {
        panic!("a new task's lock")
    };
    redis.hints.remember("key", LONG).await.unwrap();
    server.flush();
    assert!(!redis.locks.extend(task, &tag, LONG).await.unwrap());
    redis.locks.release(task, &tag).await.unwrap();
    assert!(!redis.hints.seen("key").await.unwrap());
    assert_used_again(&redis).await;
}

#[tokio::test]
async fn of_three_servers_one_may_be_lost_and_two_may_not() {
    let all = [
        servers::Redis::start(),
        servers::Redis::start(),
        servers::Redis::start(),
    ];
    let mut several = options(&all[0]);
    several.urls = all.iter().map(servers::Redis::url).collect();
    several.limit = 10 * LIMIT;
    let redis = open(several).await.unwrap();
    all[2].stop();
    let task = new_task();
    let Acquired::Held(tag) = redis.locks.acquire(task, LONG).await.unwrap() else {
        panic!("two of three grant it")
    };
    assert_eq!(
        redis.locks.acquire(task, LONG).await.unwrap(),
        Acquired::Elsewhere
    );
    assert!(redis.locks.extend(task, &tag, LONG).await.unwrap());
    redis.locks.release(task, &tag).await.unwrap();
    all[1].stop();
    assert!(
        redis.locks.acquire(new_task(), LONG).await.is_err(),
        "one of three grants nothing, and blocks nothing"
    );
    assert!(
        !redis.hints.seen("key").await.unwrap(),
        "hints live on the first one"
    );
    all[1].begin();
    eventually("a majority", || async {
        matches!(
            redis.locks.acquire(new_task(), LONG).await,
            Ok(Acquired::Held(_))
        )
        .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_never_looks_like_a_lock_held_elsewhere() {
    let server = servers::Redis::start();
    let redis = open_on(&server).await;
    // Full: what reads still works.
    administer(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;
    for _ in 0..3 {
        assert!(redis.locks.acquire(new_task(), LONG).await.is_err());
    }
    administer(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_used_again(&redis).await;
}
