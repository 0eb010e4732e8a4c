//! Settings of the server and of ours: what doctor says of the server's, whom it lets in, and which
//! of ours are refused.

use super::{LONG, administer, answers, codes, options};
use crate::suite::changes::new_task;
use counterstep_adapters::finding::Finding;
use counterstep_adapters::redis::{OpenError, RedisOptions, findings, open};
use counterstep_kernel::ports::{Acquired, Hints, Locks};
use counterstep_testkit::servers;

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
