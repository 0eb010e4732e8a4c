//! Services over HTTP: what leaves this process, what is believed, and what of the settings is
//! never repeated.

use bytes::Bytes;
use counterstep_adapters::http::{ReqwestServices, ServiceSettings, Token};
use counterstep_kernel::ports::{
    HttpServices, Method, ServiceAnswer, ServiceError, ServiceRequest,
};
use counterstep_testkit::services::{Services, Trouble};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn request(path: &str) -> ServiceRequest {
    ServiceRequest {
        service: "echo".to_owned(),
        method: Method::Post,
        path: path.to_owned(),
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", "key-1".to_owned()),
            ("traceparent", "00-aa-bb-01".to_owned()),
        ],
        body: Some(Bytes::from_static(b"{\"a\":1}")),
        longest_answer: 10_000,
    }
}

fn open(change: impl FnOnce(&mut ServiceSettings)) -> ReqwestServices {
    let mut given = ServiceSettings::default();
    change(&mut given);
    ReqwestServices::open(&BTreeMap::from([("echo".to_owned(), given)])).unwrap()
}

fn json(answer: &ServiceAnswer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn a_request_is_sent_as_it_is_with_the_secrets_of_files_which_may_change() {
    let server = Services::start().await;
    let other = server.folder().join("other");
    std::fs::write(&other, "first-secret").unwrap();
    let services = open(|given| {
        given.url = server.url("echo") + "/";
        given.token = Some(Token::File(server.token_file()));
        given.header_files = BTreeMap::from([("X-Api-Key".to_owned(), other.clone())]);
    });
    assert!(services.knows("echo") && !services.knows("bank"));
    let answer = services.call(request("/200?x=a%26b")).await.unwrap();
    let sent = json(&answer);
    assert_eq!(
        (answer.status, answer.retry_after, answer.cut),
        (200, None, false)
    );
    assert_eq!(
        (&sent["method"], &sent["uri"]),
        (&"POST".into(), &"/echo/200?x=a%26b".into())
    );
    assert_eq!(sent["body"], "{\"a\":1}");
    let headers = &sent["headers"];
    assert_eq!(
        (&headers["idempotency-key"], &headers["traceparent"]),
        (&"key-1".into(), &"00-aa-bb-01".into())
    );
    assert_eq!(
        (&headers["authorization"], &headers["x-api-key"]),
        (&"Bearer [secret]".into(), &"[secret]".into())
    );
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(
        !text.contains(server.token()) && !text.contains("first-secret"),
        "{text}"
    );

    // Renewed under a running process; and the old one is no secret any more.
    std::fs::write(&other, "second-secret\n").unwrap();
    let text =
        String::from_utf8(services.call(request("/200")).await.unwrap().body.to_vec()).unwrap();
    assert!(text.contains("\"x-api-key\":\"[secret]\""), "{text}");
    // One that is just being written, or is gone: for now there is no answer, and the error does
    // not name its path.
    std::fs::write(&other, "").unwrap();
    let asked = async || {
        services
            .call(request("/200"))
            .await
            .unwrap_err()
            .to_string()
    };
    let empty = asked().await;
    std::fs::remove_file(&other).unwrap();
    let gone = asked().await;
    for said in [empty, gone] {
        assert!(
            said.contains("services.echo.header_files") && !said.contains("other"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_a_long_answer_is_cut() {
    let server = Services::start().await;
    let services = open(|given| given.url = server.url("echo"));
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(
            services
                .call(request(&format!("/{status}")))
                .await
                .unwrap()
                .status,
            status
        );
    }
    let cut = services
        .call(ServiceRequest {
            longest_answer: 10,
            ..request("/200")
        })
        .await
        .unwrap();
    assert_eq!((cut.body.len(), cut.cut), (10, true));
    let whole = services.call(request("/200")).await.unwrap();
    let exactly = ServiceRequest {
        longest_answer: whole.body.len(),
        ..request("/200")
    };
    assert!(!services.call(exactly).await.unwrap().cut);
}

#[tokio::test]
async fn retry_after_comes_through_as_seconds_and_as_a_date() {
    let server = Services::start().await;
    let services = open(|given| given.url = server.url("echo"));
    let answer = services.call(request("/503?retry_after=7")).await.unwrap();
    assert_eq!(
        (answer.status, answer.retry_after),
        (503, Some(Duration::from_secs(7)))
    );
    let past = "/429?retry_after=Sun,%2006%20Nov%201994%2008:49:37%20GMT";
    assert_eq!(
        services.call(request(past)).await.unwrap().retry_after,
        Some(Duration::ZERO)
    );
}

#[tokio::test]
async fn a_lost_connection_is_no_answer_and_the_next_request_gets_a_new_one() {
    let server = Services::start().await;
    let services = server.http_services();
    let charge = || ServiceRequest {
        service: "bank".to_owned(),
        body: Some(Bytes::from_static(
            b"{\"account\":\"anna\",\"amount_cents\":5}",
        )),
        ..request("/charges")
    };
    server.plant("POST /bank/charges", Trouble::CutAfter);
    let lost = services.call(charge()).await.unwrap_err();
    assert!(matches!(lost, ServiceError::Unanswered(_)), "{lost}");
    assert_eq!(services.call(charge()).await.unwrap().status, 201);
    assert_eq!(
        (
            server.balance("shop"),
            server.requests("POST /bank/charges")
        ),
        (5, 2)
    );

    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let away = open(|given| given.url = format!("http://{closed}/where"));
    let error = away.call(request("/200")).await.unwrap_err();
    assert!(
        matches!(&error, ServiceError::NotSent(why) if !why.contains("where")),
        "{error}"
    );
    let unknown = away.call(charge()).await.unwrap_err();
    assert!(
        matches!(&unknown, ServiceError::Unknown(name) if name == "bank"),
        "{unknown}"
    );
    let elsewhere = away.call(request("/../x")).await.unwrap_err();
    assert!(matches!(elsewhere, ServiceError::Refused(_)), "{elsewhere}");
}

/// `openssl s_server`, which answers with the files of its folder.
struct Https(Child);

impl Drop for Https {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn https(folder: &Path) -> (Https, u16) {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let words = format!(
        "--pdeathsig KILL openssl s_server -quiet -WWW -accept {port} -cert server.pem -key server.key"
    );
    let process = Command::new("setpriv")
        .current_dir(folder)
        .args(words.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Https(
        process.expect("this test needs the program `openssl`: install the package of that name"),
    );
    crate::suite::eventually("a server that listens", || async {
        TcpStream::connect(("127.0.0.1", port)).ok()
    })
    .await;
    (server, port)
}

#[tokio::test]
async fn a_service_with_tls_is_asked_if_and_only_if_its_certificate_is_vouched_for() {
    let folder = tempfile::tempdir().unwrap();
    crate::redis_tls::certificates(folder.path());
    std::fs::write(folder.path().join("answer"), "[1,2]").unwrap();
    let (_server, port) = https(folder.path()).await;
    let ask = async |host: &str, ca: &str| {
        let services = open(|given| {
            given.url = format!("https://{host}:{port}");
            given.ca_file = Some(folder.path().join(ca));
        });
        services
            .call(ServiceRequest {
                method: Method::Get,
                body: None,
                ..request("/answer")
            })
            .await
    };
    let answer = ask("localhost", "ca.pem").await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"[1,2]"[..]));
    for (host, ca) in [("localhost", "other.pem"), ("127.0.0.1", "ca.pem")] {
        let refused = ask(host, ca).await.unwrap_err().to_string();
        assert!(refused.contains("certificate"), "{refused}");
    }
    let empty = folder.path().join("answer");
    let given = ServiceSettings {
        url: "https://localhost".to_owned(),
        ca_file: Some(empty),
        ..Default::default()
    };
    let error = ReqwestServices::open(&BTreeMap::from([("echo".to_owned(), given)]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("services.echo") && error.contains("no certificate"),
        "{error}"
    );
}
