//! The end of a server.

use crate::site::Site;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::TaskView;
use counterstep_steps::CancelReason;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const A_DAY: Duration = Duration::from_secs(86_400);

/// A connection that has had an answer and stays open.
async fn idle(site: &Site) -> TcpStream {
    let mut connection = site
        .connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert_eq!(crate::reply::Reply::read(&mut connection).await.status, 200);
    connection
}

/// Waits until the other side closes.
async fn closed(mut connection: TcpStream) {
    let end = tokio::time::timeout(Duration::from_secs(60), connection.read_u8())
        .await
        .expect("it is closed");
    assert_eq!(
        end.expect_err("no answer without a request").kind(),
        std::io::ErrorKind::UnexpectedEof
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_no_idle_connection() {
    let mut site = Site::with(|api, _| (api.keep_alive, api.drain) = (A_DAY, A_DAY)).await;
    let connection = idle(&site).await;
    site.shutdown.cancel(CancelReason::Shutdown);
    closed(connection).await;
    let server = site.server.take().expect("it runs");
    tokio::time::timeout(Duration::from_secs(60), server)
        .await
        .expect("it ends")
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_when_it_has_been_idle_for_too_long() {
    let site = Site::with(|api, _| api.keep_alive = Duration::from_secs(1)).await;
    closed(idle(&site).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_long_polls_and_ends() {
    let mut site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    // Two requests in one write: the answer to the first says that the second has been taken. On a
    // connection of its own it could still be on its way when the server closes what is idle.
    let heads = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/tasks/{task}?wait=50s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    );
    let mut waiting = site.connect(heads.as_bytes()).await;
    assert_eq!(crate::reply::Reply::read(&mut waiting).await.status, 200);
    site.shutdown.cancel(CancelReason::Shutdown);
    // Its own wait is longer than this.
    let answer = tokio::time::timeout(
        Duration::from_secs(30),
        crate::reply::Reply::read(&mut waiting),
    );
    let view: TaskView = answer.await.expect("an answer").json(200);
    assert_eq!(view.status, TaskStatus::Dispatched);
    let server = site.server.take().expect("it runs");
    tokio::time::timeout(Duration::from_secs(30), server)
        .await
        .expect("it ends")
        .unwrap()
        .unwrap();
}
