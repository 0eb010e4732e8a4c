//! Two installations with a database each share one NATS and one Redis, apart by their prefixes;
//! and what the settings say of streams and consumers is what the server has.

use counterstep_contracts::TaskStatus;
use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::process::Process;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// An API and a worker.
struct Installation {
    api: Api,
    processes: [Process; 2],
}

/// Of a prefix, on a database of its own.
fn install(cluster: &Cluster, prefix: &str) -> Installation {
    let database = cluster.servers.postgres.database();
    let (nats, redis) = (cluster.servers.nats.url(), cluster.servers.redis.url());
    let places = [
        "--database",
        &database,
        "--nats",
        &nats,
        "--redis",
        &redis,
        "--objects",
        &cluster.objects,
    ];
    let own = ["--nats-prefix", prefix, "--events", "true"];
    let flags = [&places[..], &own, QUICK].concat();
    let migrate = ["migrate", "--database", &database];
    let migrated = Process::start(&cluster.place, &migrate).ended();
    assert!(migrated.success(), "{migrated}");
    let served = services::api(&cluster.place, &flags);
    let (worker, _) = services::worker(&cluster.place, &flags);
    Installation {
        api: served.api,
        processes: [served.process, worker],
    }
}

async fn streams(cluster: &Cluster) -> Vec<Value> {
    let url = cluster.servers.nats.monitor_url();
    let api = Api::at(url.strip_prefix("http://").expect("a URL"));
    let answer = api
        .request(Method::GET, "/jsz?consumers=true&config=true")
        .send()
        .await
        .expect("an answer");
    let answer: Value = serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON");
    answer["account_details"][0]["stream_detail"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Every key in Redis, by the words of its protocol.
fn keys(cluster: &Cluster) -> Vec<String> {
    let mut socket =
        TcpStream::connect(("127.0.0.1", cluster.servers.redis.port())).expect("Redis");
    socket
        .write_all(b"KEYS *\r\nQUIT\r\n")
        .expect("a command is sent");
    let lines = BufReader::new(socket)
        .lines()
        .map(|line| line.expect("a line"));
    lines
        .filter(|line| !line.starts_with(['*', '$', '+']))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_installations_share_one_nats_and_one_redis_without_touching_each_other() {
    let cluster = Cluster::start(&[]);
    let both = [install(&cluster, "one"), install(&cluster, "two")];
    for (seed, installation) in (1..).zip(&both) {
        let task = installation.api.submit(&Sample::pair(seed, 1_000)).await;
        assert_eq!(
            installation.api.at_rest(task).await.status,
            TaskStatus::Completed
        );
    }

    let streams = streams(&cluster).await;
    let names: BTreeSet<_> = streams
        .iter()
        .map(|stream| stream["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["one-work", "one-events", "two-work", "two-events"])
    );
    for stream in &streams {
        let name = stream["name"].as_str().expect("a name");
        let (prefix, kind) = name.split_once('-').expect("a prefix");
        let subjects = &stream["config"]["subjects"];
        assert_eq!(subjects[0], format!("{prefix}.{kind}.>"), "{stream}");
        if kind == "events" {
            assert_eq!(
                stream["config"]["max_age"], 604_800_000_000_000_u64,
                "{stream}"
            );
            assert!(
                stream["state"]["messages"]
                    .as_u64()
                    .is_some_and(|count| count > 0),
                "{stream}"
            );
        }
        for consumer in stream["consumer_detail"].as_array().into_iter().flatten() {
            assert_eq!(
                consumer["config"]["ack_wait"], 15_000_000_000_u64,
                "{consumer}"
            );
        }
    }
    let keys = keys(&cluster);
    for prefix in ["one:", "two:"] {
        assert!(
            keys.iter().any(|key| key.starts_with(prefix)),
            "{prefix} {keys:?}"
        );
    }
    assert!(
        keys.iter()
            .all(|key| key.starts_with("one:") || key.starts_with("two:")),
        "{keys:?}"
    );
    for process in both
        .into_iter()
        .flat_map(|installation| installation.processes)
    {
        let log = process.log();
        assert!(!log.contains("no such task"), "{log}");
        assert!(process.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_makes_no_stream_and_writes_no_key() {
    let cluster = Cluster::start(&[]);
    let mut doctor = cluster.process(&["doctor", "--json"]);
    doctor.ended();
    assert!(
        doctor.stdout().contains("nats_version") || doctor.stdout().contains("postgres_fsync"),
        "{}",
        doctor.log()
    );
    // It closes its own connections.
    let log = doctor.log();
    let warns = |line: &str| line.contains("WARN") && line.contains("closed");
    assert!(!log.lines().any(warns), "{log}");
    assert_eq!(streams(&cluster).await, [Value::Null; 0]);
    assert_eq!(keys(&cluster), [""; 0]);
}
