//! What sends webhooks, against receivers that mean harm: addresses that no resolver is asked for, answers
//! without an end, and none at all.

use counterstep_adapters::http::ReqwestWebhooks;
use counterstep_kernel::webhooks::{AllowedNets, NoAnswer, WebhookSender};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn sender(allowed: &[&str]) -> ReqwestWebhooks {
    counterstep_adapters::tls::install_provider();
    let allowed = AllowedNets::parse(allowed.iter().copied()).unwrap();
    ReqwestWebhooks::open(allowed).unwrap()
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The next connection, once its request is there.
async fn asked(listener: &TcpListener) -> TcpStream {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"{}") {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0);
    }
    socket
}

async fn post(sender: &ReqwestWebhooks, url: &str) -> Result<u16, NoAnswer> {
    sender.post(url, &[], b"{}".to_vec()).await
}

#[tokio::test]
async fn an_address_that_is_not_admitted_any_more_is_not_connected_to() {
    let (listener, port) = listener().await;
    let six = TcpListener::bind(("::1", port)).await.unwrap();
    // It was when the webhook was submitted, perhaps; and no resolver is asked for any of these.
    let sender = sender(&["192.0.2.0/24"]);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        // Digits in circles.
        "%E2%91%A0%E2%91%A1%E2%91%A6.%E2%93%AA.%E2%93%AA.%E2%91%A0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        for scheme in ["http", "https"] {
            let refused = post(&sender, &format!("{scheme}://{host}:{port}/")).await;
            let why = refused.expect_err(host).to_string();
            assert!(why.contains("expected a public address"), "{host}: {why}");
        }
    }
    for listener in [listener, six] {
        let none = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(none.is_err(), "nothing was connected to");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut() {
    let (listener, port) = listener().await;
    let sender = sender(&["127.0.0.0/8"]);
    let receiver = async {
        let mut socket = asked(&listener).await;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head).await.unwrap();
        let mut chunk = b"4000\r\n".to_vec();
        chunk.extend([b'x'; 0x4000]);
        chunk.extend(b"\r\n");
        let mut sent = 0;
        // Until the sender closes the connection.
        while socket.write_all(&chunk).await.is_ok() {
            sent += 0x4000;
        }
        sent
    };
    let url = format!("http://127.0.0.1:{port}/");
    let (answer, sent) = tokio::join!(post(&sender, &url), receiver);
    assert_eq!(answer, Ok(200));
    // What the sockets of both sides hold is sent and not read.
    assert!(sent < 32 << 20, "{sent} bytes were taken");
}

#[tokio::test]
async fn of_an_answer_64_kib_are_read_and_with_one_byte_more_its_connection_is_closed() {
    const MOST: usize = 64 << 10;
    let (listener, port) = listener().await;
    let sender = sender(&["127.0.0.0/8"]);
    let url = format!("http://127.0.0.1:{port}/");
    for (bytes, is_cut) in [(MOST, false), (MOST + 1, true)] {
        let receiver = async {
            let mut socket = asked(&listener).await;
            // There is more to come, as it says.
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 2 * MOST);
            let answer = [head.into_bytes(), vec![b'x'; bytes]].concat();
            socket.write_all(&answer).await.unwrap();
            let mut end = [0];
            // Half of the time that an answer has, in which the sender waits for the rest or closes.
            let closed = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut end)).await;
            assert_eq!(closed.is_ok(), is_cut, "{bytes}: {closed:?}");
        };
        let (answer, ()) = tokio::join!(post(&sender, &url), receiver);
        assert_eq!(answer, Ok(200));
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_or_not_to_the_end_is_left_after_ten_seconds() {
    let (listener, port) = listener().await;
    let sender = sender(&["127.0.0.0/8"]);
    let url = format!("http://127.0.0.1:{port}/");
    let silent = || Err(NoAnswer::Hung(Duration::from_secs(10)));
    for (head, expected) in [
        ("", silent()),
        ("HTTP/1.1 204 No", silent()),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", Ok(200)),
    ] {
        let receiver = async {
            let mut socket = asked(&listener).await;
            socket.write_all(head.as_bytes()).await.unwrap();
            // The head is on its way: it arrives before the time is over.
            tokio::task::yield_now().await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(9)).await;
            tokio::time::advance(Duration::from_secs(2)).await;
            tokio::time::resume();
            socket
        };
        let (answer, _socket) = tokio::join!(post(&sender, &url), receiver);
        assert_eq!(answer, expected, "{head}");
    }
}
