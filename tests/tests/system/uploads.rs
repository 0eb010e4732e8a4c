//! Requests that do not arrive in time, over a real connection.

use counterstep_contracts::ProblemCode;
use counterstep_tests::api::{Answer, ROUTE};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::{Chance, Sample};
use counterstep_tests::services;
use counterstep_tests::wait::{SOON, until};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use std::io::Write;
use std::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_the_server_takes_too_slowly_are_not_blamed_on_a_client_that_went_away() {
    let place = Place::new();
    // Far less than writing the sample to disk takes.
    let dev = services::dev(&place, &["--upload-timeout", "50ms", "--every", "1s"]);
    let samples = [Sample::random("large.bin", &mut Chance::new(8), 200 << 20)];
    for _ in 0..5 {
        match dev.api.try_submit(&samples, None).await.expect("an answer") {
            // Whichever of the two took more of the time.
            Answer::Refused(_, problem) => {
                let slow =
                    [ProblemCode::SlowBody, ProblemCode::Unavailable].contains(&problem.code);
                assert!(slow, "{problem:?}");
            }
            Answer::Accepted(accepted) => panic!("200 MiB were stored in 50 ms: {accepted:?}"),
        }
    }
    let rows = Rows::of(&place).await;
    assert_eq!(rows.tasks().await, []);
    rows.assert_no_orphans().await;
    assert!(dev.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_upload_whose_process_was_killed_is_free_once_the_process_counts_as_lost() {
    let place = Place::new();
    let flags = ["--test-time", "lost_after=1s"];
    let killed = services::api(&place, &flags);
    let head = "--XX\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a\"\r\n\r\n";
    let request = format!(
        "POST {ROUTE} HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: 1000000\r\n\r\n{head}abc"
    );
    let address = killed.api.url().trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket
        .write_all(request.as_bytes())
        .expect("the server reads");
    let other = services::api(&place, &flags);
    let samples = [Sample::random("a", &mut Chance::new(3), 100)];
    let repeat = async || {
        other
            .api
            .try_submit(&samples, Some("k"))
            .await
            .expect("an answer")
    };
    until("the first file's place", SOON, || async {
        let incoming = place.data().join("objects").join("incoming-files");
        incoming.exists().then_some(())
    })
    .await;
    match repeat().await {
        Answer::Refused(_, problem) => assert_eq!(problem.code, ProblemCode::InProgress),
        Answer::Accepted(accepted) => panic!("the first request still arrives: {accepted:?}"),
    }
    killed.process.kill();
    until("the key is free", SOON, || async {
        match repeat().await {
            Answer::Accepted(accepted) => Some(accepted),
            Answer::Refused(_, problem) => {
                assert_eq!(problem.code, ProblemCode::InProgress);
                None
            }
        }
    })
    .await;
    assert_eq!(Rows::of(&place).await.tasks().await.len(), 1);
    assert!(other.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_request_that_failed_has_the_id_of_its_answer() {
    let place = Place::new();
    let mut served = services::api(&place, &[]);
    let objects = place.data().join("objects");
    std::fs::remove_dir_all(&objects).expect("the folder of the objects");
    std::fs::write(&objects, "no folder").expect("a file in its place");
    let form = Form::new().part("files", Part::bytes(vec![7; 100]).file_name("a"));
    let request = served
        .api
        .request(Method::POST, ROUTE)
        .header("x-request-id", "one-of-a-kind")
        .multipart(form);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["x-request-id"], "one-of-a-kind");
    served
        .process
        .says("why the request failed, with its id", |said| {
            said.lines()
                .any(|line| line.contains("one-of-a-kind") && line.contains("want of a server"))
                .then_some(())
        });
    assert!(served.process.stop().success());
}
