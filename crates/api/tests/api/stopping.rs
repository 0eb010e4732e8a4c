//! The end of a server.

use crate::site::Site;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::TaskView;
use counterstep_kernel::CancelReason;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_long_polls_and_ends() {
    let mut site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    // Two requests in one write: the answer to the first says that the second has been taken. On a connection of its own
    // it could still be on its way when the server closes what is idle.
    let heads =
        format!("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /api/tasks/{task}?wait=50s HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut waiting = site.connect(heads.as_bytes()).await;
    assert_eq!(crate::reply::Reply::read(&mut waiting).await.status, 200);
    site.shutdown.cancel(CancelReason::Shutdown);
    // Its own wait is longer than this.
    let answer = tokio::time::timeout(Duration::from_secs(30), crate::reply::Reply::read(&mut waiting));
    let view: TaskView = answer.await.expect("an answer").json(200);
    assert_eq!(view.status, TaskStatus::Dispatched);
    let server = site.server.take().expect("it runs");
    tokio::time::timeout(Duration::from_secs(30), server).await.expect("it ends").unwrap().unwrap();
}
