//! Requests that cannot be read, or are not what their content type says.

use crate::site::Site;
use counterstep_contracts::http::{Accepted, TaskView};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const NOTE: &str = "/api/tasks/write-note";

async fn refused(body: impl Into<Vec<u8>>, status: u16, code: &str) -> serde_json::Value {
    let site = Site::start().await;
    let problem = site.post(NOTE, body).await.problem(status, code);
    assert_eq!(site.tasks().await, 0);
    problem
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_request_is_accepted_with_its_address() {
    let site = Site::start().await;
    let reply = site.post(NOTE, r#"{"text":"hello"}"#).await;
    let accepted: Accepted = reply.json(202);
    assert_eq!(
        reply.header("location"),
        Some(&*format!("/api/tasks/{}", accepted.task_id))
    );
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("idempotency-replayed"), None);
    assert_eq!(reply.header("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_json_is_400() {
    refused("{\"text\":", 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_body_is_400() {
    refused("", 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_413_announced_or_not() {
    let site = Site::with(|api, _| api.max_json_bytes = 1000).await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(2000));
    site.post(NOTE, body.clone())
        .await
        .problem(413, "too-large");
    let chunked = format!(
        "POST {NOTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    site.raw(chunked.as_bytes()).await.problem(413, "too-large");
    assert_eq!(site.tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_depth_of_200_is_400() {
    let nested = format!("{{\"text\":{}{}}}", "[".repeat(200), "]".repeat(200));
    refused(nested, 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_depth_of_66_is_400() {
    let nested = format!("{{\"text\":{}{}}}", "[".repeat(65), "]".repeat(65));
    refused(nested, 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_stands_twice_is_400() {
    refused(r#"{"text":"a","text":"b"}"#, 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_422() {
    let problem = refused(r#"{"text":"a","txet":1}"#, 422, "invalid-request").await;
    assert_eq!(problem["pointer"], "txet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_string_is_422() {
    let problem = refused(r#"{"text":"a\u0000b"}"#, 422, "invalid-request").await;
    assert_eq!(problem["pointer"], "/text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_key_is_422() {
    refused(r#"{"text":"a","b\u0000":1}"#, 422, "invalid-request").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_surrogate_is_400() {
    refused(r#"{"text":"\ud800"}"#, 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_utf8_is_400() {
    refused(b"{\"text\":\"\xff\"}".to_vec(), 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_type_is_422() {
    let problem = refused(r#"{"text":5}"#, 422, "invalid-request").await;
    assert_eq!(problem["pointer"], "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_out_of_range_is_422_and_one_beyond_all_ranges_400() {
    refused(r#"{"text":"a","count":4294967296}"#, 422, "invalid-request").await;
    refused(r#"{"text":"a","count":-1}"#, 422, "invalid-request").await;
    refused(r#"{"text":"a","count":1e999}"#, 400, "malformed-body").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_object_is_422() {
    for body in ["[]", "1", "null", "\"text\""] {
        refused(body, 422, "invalid-request").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_content_type_is_415() {
    let site = Site::start().await;
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "json",
    ] {
        let request = site
            .request("POST", NOTE)
            .header("content-type", content_type)
            .body("{\"text\":\"a\"}");
        site.send(request)
            .await
            .problem(415, "unsupported-media-type");
    }
    let nothing = site.request("POST", NOTE).body("{\"text\":\"a\"}");
    site.send(nothing)
        .await
        .problem(415, "unsupported-media-type");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_415() {
    let site = Site::start().await;
    let request = site
        .request("POST", NOTE)
        .header("content-type", "application/json");
    let request = request.header("content-encoding", "gzip").body("{}");
    site.send(request)
        .await
        .problem(415, "unsupported-media-type");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charset_of_utf8_is_accepted() {
    let site = Site::start().await;
    let request = site
        .request("POST", NOTE)
        .header("content-type", "application/json; charset=UTF-8");
    site.send(request.body("{\"text\":\"a\"}"))
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_is_408() {
    let site = Site::with(|api, _| api.body_silence = Duration::from_millis(200)).await;
    let head = format!(
        "POST {NOTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
    );
    let problem = site
        .raw(format!("{head}{{\"text").as_bytes())
        .await
        .problem(408, "slow-body");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("200ms"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_drips_is_408_at_the_end_of_its_time() {
    let site = Site::with(|_, engine| engine.upload_timeout = Duration::from_millis(500)).await;
    let head = format!(
        "POST {NOTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
    );
    let socket = site.connect(head.as_bytes()).await;
    let (mut reads, mut writes) = socket.into_split();
    let drip = tokio::spawn(async move {
        let mut drops = tokio::time::interval(Duration::from_millis(20));
        while writes.write_all(b" ").await.is_ok() {
            drops.tick().await;
        }
    });
    let reply = crate::reply::Reply::read(&mut reads).await;
    drip.abort();
    reply.problem(408, "slow-body");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_405_and_says_which_are_right() {
    let site = Site::start().await;
    for (method, path, allow) in [
        ("PUT", "/api/tasks/write-note", "POST"),
        ("POST", "/api/tasks", "GET, HEAD"),
        ("POST", "/api/tasks/write-note/children", "GET, HEAD"),
        ("DELETE", "/api/task-types", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/readyz", "GET, HEAD"),
    ] {
        let reply = site.send(site.request(method, path)).await;
        reply.problem(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_address_is_404() {
    let site = Site::start().await;
    for path in [
        "/",
        "/api",
        "/api/",
        "/api/tasks/",
        "/api/nothing",
        "/api/tasks/a/b",
        "/%ff",
        "/../etc/passwd",
    ] {
        site.get(path).await.problem(404, "no-such-route");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_task_type_is_404() {
    let site = Site::start().await;
    for path in [
        "/api/tasks/no-such-type",
        "/api/tasks/Writenote",
        "/api/tasks/%77rite-note%00",
    ] {
        site.post(path, r#"{"text":"a"}"#)
            .await
            .problem(404, "no-such-task-type");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_no_uuid_is_400() {
    let site = Site::start().await;
    for id in [
        "1",
        "no-type",
        "0193e6a0000070008000000000000000",
        "%7B0193e6a0-0000-7000-8000-000000000000%7D",
        "%00",
    ] {
        for path in [
            format!("/api/tasks/{id}"),
            format!("/api/tasks/{id}/audit"),
            format!("/api/tasks/{id}/result/x"),
        ] {
            site.get(&path).await.problem(400, "malformed-parameter");
        }
        let delete = site.request("DELETE", &format!("/api/tasks/{id}"));
        site.send(delete).await.problem(400, "malformed-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_chunk_is_400() {
    let site = Site::start().await;
    let request = format!(
        "POST {NOTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    );
    site.raw(request.as_bytes())
        .await
        .problem(400, "malformed-body");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_type_that_is_no_object_is_posted_as_what_it_is() {
    let site = Site::start().await;
    let accepted: Accepted = site.post("/api/tasks/add-up", "[1,2,39]").await.json(202);
    let task: TaskView = site
        .get(&format!("/api/tasks/{}", accepted.task_id))
        .await
        .json(200);
    assert_eq!(task.response, Some(42.into()));
    let problem = site
        .post("/api/tasks/add-up", r#"[1,"2"]"#)
        .await
        .problem(422, "invalid-request");
    assert_eq!(problem["pointer"], "[1]");
    site.post("/api/tasks/add-up", r#"{"numbers":[1]}"#)
        .await
        .problem(422, "invalid-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_no_request_of_a_type_with_fields() {
    let problem = refused(r#"["hello",1]"#, 422, "invalid-request").await;
    assert_eq!(problem["pointer"], ".");
}
