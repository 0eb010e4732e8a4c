//! Locks and hints on Redis: the suite, and what only a server can do: go away, hang, forget, and
//! be set up wrongly.

use crate::suite::changes::new_task;
use crate::suite::eventually;
use counterstep_adapters::finding::Finding;
use counterstep_adapters::redis::{OpenError, Redis, RedisOptions, findings, open};
use counterstep_kernel::breaker::{Admission, Standing, Ticket, Verdict};
use counterstep_kernel::ports::{Acquired, Hints, Locks, Ports};
use counterstep_testkit::servers;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);
/// For a server that is there and a machine that is busy.
const LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct Fixture {
    pub(crate) ports: Ports,
    _folder: TempDir,
}

pub(crate) async fn fixture() -> Fixture {
    let crate::embedded::Fixture { mut ports, folder } = crate::embedded::fixture().await;
    let mut options = RedisOptions::at(&servers::shared_redis().url());
    // The suite is about answers, on a machine that may be busy.
    options.limit = Duration::from_secs(10);
    let redis = open(options).await.unwrap();
    (ports.locks, ports.hints) = (redis.locks, redis.hints);
    Fixture {
        ports,
        _folder: folder,
    }
}

crate::lock_cases!(crate::redis::fixture);

/// Each with connections of its own, as two workers have.
#[tokio::test]
async fn two_processes_share_a_breaker_and_let_one_probe_through() {
    let (one, two) = (fixture().await, fixture().await);
    crate::suite::breakers::probes_between(&crate::suite::breakers::of_two(&one.ports, &two.ports))
        .await;
}

/// Milliseconds.
const TEN_YEARS: &str = "315360000000";

#[tokio::test]
async fn keys_that_end_in_ten_years_or_never_hold_a_breaker_open_no_longer_than_its_policy() {
    let (server, fixture) = (servers::shared_redis(), fixture().await);
    for ends in [&["PX", TEN_YEARS][..], &[]] {
        let [breaker, other] = crate::suite::breakers::of_two(&fixture.ports, &fixture.ports);
        let key = |rest: &str| format!("counterstep:kept:breaker:{}{rest}", breaker.key());
        let plant = async |rest: &str, value: &str| {
            let key = key(rest);
            administer(server, &[&["SET", &key, value], ends].concat()).await;
        };
        plant("", "open planted").await;
        plant(":planted:cooling", "").await;
        let Admission::Wait(left) = breaker.admit(LONG).await else {
            panic!("it is open")
        };
        assert!(left <= breaker.policy().open_for, "{left:?}");
        eventually("half-open", || async {
            (other.standing().await == Standing::HalfOpen).then_some(())
        })
        .await;

        plant(":planted:probe", "planted").await;
        assert_eq!(
            breaker.admit(LONG).await,
            Admission::Wait(breaker.policy().open_for / 2)
        );
        let probe = format!("breaker:{}:planted:probe", breaker.key());
        let left = fixture.ports.hints.left(&probe).await.unwrap().unwrap();
        assert!(
            left <= Duration::from_secs(24 * 3600),
            "a probe that never reports: {left:?}"
        );
    }
}

#[tokio::test]
async fn keys_of_junk_are_no_breaker_and_take_no_other_hint_away() {
    let (server, fixture) = (servers::shared_redis(), fixture().await);
    let long = "x".repeat(1024 * 1024);
    let name = "a".repeat(33);
    let values = [
        "",
        "open",
        "open ",
        "open ../x",
        "open a:b",
        &format!("open {name}"),
        "closed \u{e9}",
        &long,
    ];
    let mut plants: Vec<Vec<&str>> = values
        .into_iter()
        .map(|value| vec!["SET", "", value])
        .collect();
    plants.extend([
        vec!["RPUSH", "", "open", "x"],
        vec!["HSET", "", "open", "x"],
    ]);
    for mut plant in plants {
        let [breaker, _] = crate::suite::breakers::of_two(&fixture.ports, &fixture.ports);
        let (state, count) = (
            format!("counterstep:kept:breaker:{}", breaker.key()),
            breaker.key().to_owned(),
        );
        plant[1] = &state;
        administer(server, &plant).await;
        administer(
            server,
            &[
                "SET",
                &format!("counterstep:count:breaker:{count}:first"),
                "junk",
            ],
        )
        .await;
        let what: String = plant.join(" ").chars().take(100).collect();
        assert_eq!(
            breaker.admit(LONG).await,
            Admission::Go(Ticket::default()),
            "{what}"
        );
        breaker.report(Ticket::default(), Verdict::Failed).await;
        assert_eq!(
            fixture
                .ports
                .hints
                .seen("another")
                .await
                .map_err(|why| why.to_string()),
            Ok(false),
            "{what}"
        );
    }
}

fn options(server: &servers::Redis) -> RedisOptions {
    let mut options = RedisOptions::at(&server.url());
    (options.limit, options.cool_down) = (LIMIT, Duration::from_millis(50));
    options
}

async fn open_on(server: &servers::Redis) -> Redis {
    open(options(server)).await.unwrap()
}

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

/// Both ports ask the server and get an answer.
pub(crate) async fn answers(redis: &Redis) -> Result<(), String> {
    redis
        .locks
        .acquire(new_task(), LONG)
        .await
        .map_err(|error| error.to_string())?;
    redis.hints.check().await.map_err(|error| error.to_string())
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

/// Says something to a server as its administrator.
async fn administer(server: &servers::Redis, words: &[&str]) {
    let client = ::redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = ::redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async::<()>(&mut connection).await.unwrap();
}

async fn codes(options: &RedisOptions) -> Vec<&'static str> {
    findings(options)
        .await
        .unwrap()
        .into_iter()
        .map(|finding| finding.code)
        .collect()
}

#[tokio::test]
async fn the_doctor_names_what_is_set_up_wrongly_and_writes_nothing() {
    let (server, primary) = (servers::Redis::start(), servers::Redis::start());
    let own = options(&server);
    assert_eq!(findings(&own).await.unwrap(), []);

    administer(&server, &["CONFIG", "SET", "maxmemory", "100mb"]).await;
    assert_eq!(
        findings(&own).await.unwrap(),
        [],
        "a limit without eviction is fine"
    );
    administer(
        &server,
        &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
    )
    .await;
    let found = findings(&own).await.unwrap();
    let [Finding { code, what, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(*code, "redis_may_evict");
    assert!(
        what.contains("allkeys-lru") && what.contains(&server.port().to_string()),
        "{what}"
    );
    assert_eq!(keys(&server).await, [""; 0]);

    administer(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    administer(
        &server,
        &["REPLICAOF", "127.0.0.1", &primary.port().to_string()],
    )
    .await;
    assert_eq!(codes(&own).await, ["redis_replica"]);

    let mut two = options(&primary);
    two.urls = vec![primary.url(), primary.url()];
    assert_eq!(codes(&two).await, ["redis_even_servers"]);
}

async fn keys(server: &servers::Redis) -> Vec<String> {
    let client = ::redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    ::redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_user_with_a_password_file_and_the_keys_of_its_prefix_alone_can_do_all_of_it() {
    let server = servers::Redis::start();
    administer(
        &server,
        &[
            "ACL",
            "SETUSER",
            "mine",
            "on",
            ">planted-secret",
            "~mine:*",
            "+@all",
            "-@admin",
        ],
    )
    .await;
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "planted-secret\n").unwrap();
    let options = RedisOptions {
        urls: vec![server.url().replace("redis://", "redis://mine@")],
        password_file: Some(password),
        prefix: "mine".to_owned(),
        ..options(&server)
    };
    let redis = open(options.clone()).await.unwrap();
    assert!(matches!(
        redis.locks.acquire(new_task(), LONG).await,
        Ok(Acquired::Held(_))
    ));
    redis.hints.remember("key", LONG).await.unwrap();
    assert_eq!(redis.hints.bump("key", LONG).await.unwrap(), 1);
    assert!(redis.hints.swap("key", None, "value", LONG).await.unwrap());
    assert!(
        keys(&server)
            .await
            .iter()
            .all(|key| key.starts_with("mine:")),
        "{:?}",
        keys(&server).await
    );
    // The same user is not let into another prefix, and with another password not at all.
    let elsewhere = open(RedisOptions {
        prefix: "other".to_owned(),
        ..options.clone()
    })
    .await
    .unwrap();
    assert!(elsewhere.hints.remember("key", LONG).await.is_err());
    std::fs::write(options.password_file.as_ref().unwrap(), "another").unwrap();
    let stranger = open(options).await.unwrap();
    assert!(stranger.hints.remember("key", LONG).await.is_err());
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

#[tokio::test]
async fn a_password_comes_from_its_file_and_stands_in_no_message() {
    let server = servers::Redis::start();
    administer(&server, &["CONFIG", "SET", "requirepass", "planted-secret"]).await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&server);
    options.urls = vec![
        server
            .url()
            .replace("redis://", "redis://:planted-secret-2@"),
    ];
    let wrong = open(options.clone()).await.unwrap();
    let why = answers(&wrong).await.unwrap_err();
    assert!(
        !format!("{why} {wrong:?} {options:?} {:?}", findings(&options).await).contains("planted"),
        "{why}"
    );
    let path = folder.path().join("password");
    std::fs::write(&path, "planted-secret\n").unwrap();
    options.password_file = Some(path);
    answers(&open(options.clone()).await.unwrap())
        .await
        .unwrap();
    options.password_file = Some(folder.path().join("none"));
    assert!(matches!(open(options).await, Err(OpenError::File { .. })));
}

#[tokio::test]
async fn settings_that_would_leak_or_cannot_work_are_refused() {
    let refused = |url: &str| {
        let options = RedisOptions::at(url);
        async move { open(options).await.expect_err("refused") }
    };
    for url in [
        "redis://redis.example.org",
        "redis://user:planted@10.1.2.3:7000/1",
        "redis://[2001:db8::1]",
    ] {
        let error = refused(url).await;
        assert!(matches!(error, OpenError::Plaintext { .. }), "{error}");
        assert!(!error.to_string().contains("planted"), "{error}");
    }
    let error = refused("rediss://redis.example.org/#insecure").await;
    assert!(matches!(error, OpenError::Unchecked { .. }), "{error}");
    for url in [
        "",
        "planted",
        "http://planted@localhost",
        "redis://localhost:planted",
    ] {
        let error = refused(url).await;
        assert!(matches!(error, OpenError::Url { number: 1, .. }), "{error}");
        assert!(!error.to_string().contains("planted"), "{error}");
    }
    let none = RedisOptions {
        urls: Vec::new(),
        ..RedisOptions::at("")
    };
    assert!(matches!(open(none).await, Err(OpenError::NoServer)));
    let file = tempfile::NamedTempFile::new().unwrap();
    let empty = RedisOptions {
        ca_file: Some(file.path().to_owned()),
        ..RedisOptions::at("rediss://localhost:1")
    };
    assert!(matches!(
        open(empty).await,
        Err(OpenError::Certificates { .. })
    ));
}
