//! Webhooks of real processes on the embedded set: the secret that an API makes for itself, a receiver on
//! loopback that the operator allows, a restart between the end of a task and its webhook.

use counterstep_contracts::TaskId;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::webhook::{DeliveryView, WebhookSecretsView};
use counterstep_tests::api::Api;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services;
use counterstep_tests::wait::{SOON, until};
use reqwest::Method;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const ALLOW: &[&str] = &["--webhook-allow", "127.0.0.0/8"];

/// A receiver at an address, which answers 200 and passes on what it got.
fn receive(listener: TcpListener) -> Receiver<String> {
    let (to, from) = channel();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let mut text = String::new();
            let mut bytes = [0; 4096];
            // The body is the last of it, and one line of JSON.
            while !text.ends_with('}') {
                match socket.read(&mut bytes) {
                    Ok(count @ 1..) => text += &String::from_utf8_lossy(&bytes[..count]),
                    _ => break,
                }
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(answer.as_bytes());
            if to.send(text).is_err() {
                return;
            }
        }
    });
    from
}

async fn read<T: DeserializeOwned>(api: &Api, path: &str) -> T {
    let answer = api.request(Method::GET, path).send().await;
    answer.expect("an answer").json().await.expect("a body")
}

async fn submit(api: &Api, receiver: SocketAddr) -> TaskId {
    let sample = Sample::pair(3, 1_000);
    let form = sample
        .iter()
        .fold(reqwest::multipart::Form::new(), |form, it| {
            let part =
                reqwest::multipart::Part::bytes(it.bytes.to_vec()).file_name(it.name.clone());
            form.part("files", part)
        });
    let request = api.request(Method::POST, "/api/tasks/create-zip-from-files");
    let request = request.header("counterstep-webhook", format!("http://{receiver}/hook"));
    let answer = request.multipart(form).send().await.expect("an answer");
    assert_eq!(answer.status(), 202);
    answer.json::<Accepted>().await.expect("a body").task_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_comes_after_a_restart_gets_the_webhook_of_before() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let receiver = listener.local_addr().expect("an address");
    drop(listener);
    let dev = services::dev(&place, ALLOW);
    let shown: WebhookSecretsView = read(&dev.api, "/api/webhook-secrets").await;
    let file = place.data().join("webhook-secret");
    let mode = std::fs::metadata(&file)
        .expect("the secret")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let task = submit(&dev.api, receiver).await;
    let path = format!("/api/tasks/{task}/webhooks");
    let tried = until("a first attempt", SOON, || async {
        let page: Page<DeliveryView> = read(&dev.api, &path).await;
        page.items.into_iter().find(|it| it.last.is_some())
    });
    assert_eq!(tried.await.attempts, 1);
    assert!(dev.process.stop().success());
    let got = receive(TcpListener::bind(receiver).expect("the port is free"));
    let dev = services::dev(&place, ALLOW);
    let again: WebhookSecretsView = read(&dev.api, "/api/webhook-secrets").await;
    assert_eq!(again, shown, "the secret is that of the file");
    let url = dev.api.url().to_owned();
    let listed = run(
        place.path(),
        &["tasks", "--url", &url, "webhooks", &task.to_string()],
    );
    assert!(
        listed.assert_code(0).stdout.contains("task.completed"),
        "{listed:?}"
    );
    let id = format!("{}_", task);
    let webhook = listed
        .stdout
        .split_whitespace()
        .find(|it| it.starts_with(&id));
    let webhook = webhook.expect("its id").to_owned();
    // Of both ids their endings are enough, once a person confirms what they are of.
    let (task_part, part) = (&task.to_string()[28..], &webhook[30..]);
    let send = [
        "tasks", "--url", &url, "webhooks", task_part, "--send", part,
    ];
    run(place.path(), &send)
        .assert_code(2)
        .assert_says(&task.to_string())
        .assert_says(&format!("{part} is {webhook} (task.completed, "))
        .assert_says("give the whole id, or --yes");
    run(place.path(), &[&send[..], &["--yes"]].concat())
        .assert_code(0)
        .assert_says(&webhook);
    let text = tokio::task::spawn_blocking(move || got.recv_timeout(SOON)).await;
    let text = text.expect("a thread").expect("a webhook");
    assert!(
        text.contains(&format!("webhook-id: {webhook}\r\n")),
        "{text}"
    );
    assert!(text.contains("\r\nwebhook-signature: v1,"), "{text}");
    assert!(text.contains(r#""type":"task.completed""#), "{text}");
    assert!(dev.process.stop().success());
}
