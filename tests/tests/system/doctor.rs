//! `counterstep doctor` names what the configured servers cannot keep.

use counterstep_testkit::servers::{Azurite, S3};
use counterstep_tests::cluster::Cluster;
use counterstep_tests::command::{counterstep, run, to_its_end};
use counterstep_tests::place::Place;
use counterstep_tests::process::{can_shift_clocks, wrong_clock};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The codes of the findings, and the whole text for a failure.
fn findings(cluster: &Cluster, more: &[&str]) -> (BTreeSet<String>, String) {
    let mut process = cluster.process(&[&["doctor", "--json"], more].concat());
    let status = process.ended();
    let text = process.stdout();
    let found: Vec<Value> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", process.log()));
    assert_eq!(status.code(), Some(i32::from(!found.is_empty())), "{text}");
    for finding in &found {
        for part in ["what", "why", "to_do"] {
            assert!(
                finding[part].as_str().is_some_and(|text| !text.is_empty()),
                "{finding}"
            );
        }
    }
    (
        found
            .iter()
            .map(|finding| finding["code"].as_str().expect("a code").to_owned())
            .collect(),
        text,
    )
}

fn tell_redis(cluster: &Cluster, command: &str) {
    let mut socket =
        TcpStream::connect(("127.0.0.1", cluster.servers.redis.port())).expect("Redis");
    socket
        .write_all(format!("{command}\r\n").as_bytes())
        .expect("a command is sent");
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+OK\r\n", "{command}");
}

#[test]
fn without_servers_nothing_is_found_and_a_note_names_what_a_file_means() {
    let place = Place::new();
    let ended = run(place.path(), &["doctor"]);
    ended.assert_code(0);
    for text in ["a lost disk loses every task", "Nothing was found"] {
        assert!(ended.stdout.contains(text), "{ended:?}");
    }
    let json = run(place.path(), &["doctor", "--json"]);
    json.assert_code(0);
    assert_eq!(json.stdout.trim(), "[]");
}

#[test]
fn each_wrong_setting_is_named() {
    let cluster = Cluster::start(&[]);
    let (first, _) = findings(&cluster, &[]);
    println!("{first:?}");
    // The servers of tests do not wait for their disks.
    for code in ["postgres_fsync", "postgres_full_page_writes"] {
        assert!(first.contains(code), "{code}: {first:?}");
    }
    let new = |more: &[&str]| -> BTreeSet<String> {
        let (now, _) = findings(&cluster, more);
        now.difference(&first).cloned().collect()
    };
    assert!(new(&[]).is_empty());
    // 200 connections, three of them the superuser's.
    assert!(new(&["--processes", "8"]).is_empty());
    assert_eq!(
        new(&["--processes", "9"]),
        BTreeSet::from(["postgres_connections".to_owned()])
    );
    assert!(new(&["--processes", "9", "--database-connections", "21"]).is_empty());
    assert!(
        new(&[
            "--processes",
            "9",
            "--database-prepared-statements",
            "false"
        ])
        .iter()
        .all(|code| code != "postgres_connections")
    );

    let url = &cluster.database;
    let name = url.rsplit('/').next().expect("a name");
    let alter = |setting: &str| {
        let sql = format!("ALTER DATABASE \"{name}\" SET {setting}");
        cluster
            .servers
            .postgres
            .run_sql(url, &sql)
            .expect("the database takes a setting");
    };
    alter("synchronous_commit = off");
    assert_eq!(
        new(&[]),
        BTreeSet::from(["postgres_synchronous_commit".to_owned()])
    );
    alter("synchronous_commit = on");
    assert!(new(&[]).is_empty());

    tell_redis(&cluster, "CONFIG SET maxmemory 100mb");
    tell_redis(&cluster, "CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(new(&[]), BTreeSet::from(["redis_may_evict".to_owned()]));
    tell_redis(&cluster, "CONFIG SET maxmemory 0");

    // More copies than there are servers: a process starts, and says so as well.
    let copies = ["--nats-replicas", "3"];
    assert_eq!(new(&copies), BTreeSet::from(["nats_replicas".to_owned()]));
    let mut api = cluster.process(&["api", "--listen", "127.0.0.1:0", "--nats-replicas", "3"]);
    api.says("where it listens", |said| {
        said.contains("address=").then_some(())
    });
    assert!(api.log().contains("nats_replicas"), "{}", api.log());
    assert!(api.stop().success());

    cluster.servers.nats.stop();
    assert!(new(&[]).contains("nats_unreachable"));
    cluster.servers.nats.begin();
    cluster.servers.redis.stop();
    assert!(
        new(&[]).iter().any(|code| code.starts_with("redis")),
        "{:?}",
        new(&[])
    );
    cluster.servers.redis.begin();

    cluster.servers.postgres.stop();
    assert!(new(&[]).contains("postgres_unreachable"));
    cluster.servers.postgres.begin();

    let mut cluster = cluster;
    cluster.objects = cluster.objects.replace("s3://store", "s3://nowhere");
    let (now, text) = findings(&cluster, &[]);
    assert!(
        now.contains("objects_unreachable") && text.contains("nowhere"),
        "{text}"
    );
}

#[test]
fn the_object_store_answers_a_host_whose_clock_is_ten_minutes_off() {
    assert!(can_shift_clocks(), "the package `faketime` is missing");
    let server = S3::start(&["store"]);
    let place = Place::new();
    let credentials = place.path().join("credentials");
    let (key, secret) = (server.access_key(), server.secret_key());
    std::fs::write(
        &credentials,
        format!("aws_access_key_id = {key}\naws_secret_access_key = {secret}\n"),
    )
    .expect("a file with credentials");
    let objects = |bucket: &str| {
        format!(
            "s3://{bucket}?endpoint={}&credentials_file={}",
            server.endpoint(),
            credentials.display()
        )
    };
    let examined = |bucket: &str, seconds: i64| {
        let mut doctor = counterstep();
        doctor
            .args(["doctor", "--json", "--objects", &objects(bucket)])
            .envs(wrong_clock(seconds));
        to_its_end(place.path(), doctor).stdout
    };
    for seconds in [-600, 600] {
        let found = examined("store", seconds);
        assert!(
            !found.contains("objects_unreachable"),
            "{seconds} s: {found}"
        );
        // The store was asked, and not only for the other findings.
        assert!(
            examined("nowhere", seconds).contains("there is no bucket `nowhere`"),
            "{seconds} s"
        );
    }
    // A clock that no store accepts is named.
    let found = examined("store", -3_600);
    assert!(found.contains("objects_unreachable"), "{found}");
}

#[test]
fn a_container_of_azure_is_looked_at() {
    let (server, place) = (Azurite::start(), Place::new());
    server.make_container("results");
    let examined = |container: &str| {
        let (account, endpoint) = (server.account(), server.endpoint());
        let url =
            format!("az://{container}/prod?account={account}&endpoint={endpoint}&retry_for_s=5");
        let mut doctor = counterstep();
        doctor
            .args(["doctor", "--json", "--objects", &url])
            .env("AZURE_STORAGE_ACCOUNT_KEY", server.key());
        to_its_end(place.path(), doctor)
    };
    let found = examined("results").stdout;
    assert!(!found.contains("objects_unreachable"), "{found}");
    let found = examined("nowhere").assert_code(1).stdout.clone();
    assert!(
        found.contains("objects_unreachable") && found.contains("there is no bucket `nowhere`"),
        "{found}"
    );
}

#[test]
fn a_wrong_url_of_azure_is_refused_with_what_is_expected() {
    let place = Place::new();
    for (url, expected) in [
        ("azure://results", "expected file://… or s3://… or az://…"),
        ("az://", "az://CONTAINER/PREFIX?account=NAME"),
        (
            "az://results@example.blob.core.windows.net",
            "az://CONTAINER/PREFIX?account=NAME",
        ),
        ("az://results", "account=NAME"),
        (
            "az://results?account=example&sig=open-sesame",
            "a password stands in the command line",
        ),
    ] {
        let ended = run(place.path(), &["doctor", "--objects", url]);
        ended.assert_code(78).assert_says(expected);
        assert!(!format!("{ended:?}").contains("open-sesame"), "{ended:?}");
    }
}
