//! Locks and hints on Redis: the suite, and what only a server can do: go away, hang, forget, and
//! be set up wrongly.

mod outages;
mod settings;

use crate::suite::changes::new_task;
use crate::suite::eventually;
use counterstep_adapters::redis::{Redis, RedisOptions, findings, open};
use counterstep_kernel::ports::{Hints, Locks, Ports};
use counterstep_steps::breaker::{Admission, BreakerState, Ticket, Verdict};
use counterstep_testkit::servers;
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
            (other.standing().await == BreakerState::HalfOpen).then_some(())
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

/// Both ports ask the server and get an answer.
pub(crate) async fn answers(redis: &Redis) -> Result<(), String> {
    redis
        .locks
        .acquire(new_task(), LONG)
        .await
        .map_err(|error| error.to_string())?;
    redis.hints.check().await.map_err(|error| error.to_string())
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
