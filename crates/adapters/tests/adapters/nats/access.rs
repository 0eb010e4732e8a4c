//! Who may connect: each kind of login, and certificates on both sides.

use super::{ack, fetch, new_task, open, publish, task_of};
use crate::suite::LIMIT;
use counterstep_adapters::client_certificate::ClientCertificate;
use counterstep_adapters::nats::{Nats, NatsAuth, NatsOpenError, NatsOptions};
use counterstep_testkit::servers;
use std::path::PathBuf;
use std::time::Duration;

/// A seed and its public half, as the documentation of NATS has them.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn options(url: String, auth: NatsAuth) -> NatsOptions {
    NatsOptions {
        auth,
        ..NatsOptions::new(url)
    }
}

async fn assert_works(nats: &Nats) {
    nats.healthy().await.unwrap();
    let task = publish(nats).await;
    let delivery = fetch(nats, 10, LIMIT).await.remove(0);
    assert_eq!(task_of(&delivery), task);
    ack(nats, &delivery).await;
}

/// Refused, and soon: the client would go on trying for as long as it lives.
async fn assert_refused(options: NatsOptions) {
    let nats = open(NatsOptions {
        timeout: Duration::from_millis(500),
        ..options
    })
    .await;
    let why = nats.healthy().await.unwrap_err();
    assert!(!why.contains("planted"), "{why}");
}

#[tokio::test]
async fn each_kind_of_login_is_let_in_and_a_wrong_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, secret: &str| -> PathBuf {
        std::fs::write(folder.path().join(name), format!("{secret}\n")).unwrap();
        folder.path().join(name)
    };
    let user = |password: &str| NatsAuth::UserPassword {
        user: "me".to_owned(),
        password_file: file(password, password),
    };
    let logins = [
        (
            "user: me, password: planted-1",
            user("planted-1"),
            user("planted-2"),
        ),
        (
            "token: planted-1",
            NatsAuth::Secret(file("t1", "planted-1")),
            NatsAuth::Secret(file("t2", "planted-2")),
        ),
        (
            &format!("users: [ {{ nkey: {PUBLIC} }} ]"),
            NatsAuth::Secret(file("seed", SEED)),
            NatsAuth::None,
        ),
    ];
    for (server, right, wrong) in logins {
        let server = servers::Nats::with_lines(&format!("authorization {{ {server} }}"));
        assert_works(&open(options(server.url(), right)).await).await;
        assert_refused(options(server.url(), wrong)).await;
    }
    let empty = Nats::open(options(
        "nats://127.0.0.1:1".to_owned(),
        NatsAuth::Secret(file("empty", "")),
    ))
    .await;
    assert!(matches!(empty, Err(NatsOpenError::File { .. })));
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_ours() {
    let folder = tempfile::tempdir().unwrap();
    crate::redis_tls::certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let server = servers::Nats::with_lines(&format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        file("server.pem"),
        file("server.key"),
        file("ca.pem")
    ));
    let url = format!("nats://localhost:{}", server.port());
    let ours = ClientCertificate {
        cert_file: file("client.pem"),
        key_file: file("client.key"),
    };
    let without = NatsOptions {
        ca_file: Some(file("ca.pem")),
        ..options(url, NatsAuth::None)
    };
    let with = NatsOptions {
        certificate: Some(ours.clone()),
        ..without.clone()
    };
    assert_works(&open(with.clone()).await).await;
    assert_refused(without).await;
    let missing = ClientCertificate {
        key_file: file("none"),
        ..ours
    };
    let unusable = Nats::open(NatsOptions {
        certificate: Some(missing),
        ..with
    })
    .await;
    assert!(matches!(unusable, Err(NatsOpenError::File { .. })));
}

#[tokio::test]
async fn an_examination_makes_nothing() {
    let server = servers::Nats::start();
    let mut options = options(server.url(), NatsAuth::None);
    options.prefix = Some(format!("t{}", new_task().0.simple()));
    let nats = Nats::look(options).await.unwrap();
    nats.examine(None).await.unwrap();
    assert_eq!(streams_of(&server.monitor_url()).await, 0);
}

/// How many streams a server has.
async fn streams_of(monitor: &str) -> u64 {
    let answer = reqwest::get(format!("{monitor}/jsz"))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["streams"].as_u64().expect("a number of streams")
}
