//! Forms with files: names, limits, and what is left of a form that does not arrive.

#[path = "uploads/broken_off.rs"]
mod broken_off;

use crate::site::{Site, file_head, text_part};
use counterstep_contracts::http::{Accepted, TaskView};

const KEEP: &str = "/api/tasks/keep-files";

fn whole(parts: &str) -> String {
    format!("{parts}--XX--\r\n")
}

fn file(headers: &str, content: &str) -> String {
    format!("{}{content}\r\n", file_head(headers))
}

fn head(length: usize) -> String {
    format!(
        "POST {KEEP} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn files_text_and_json_make_one_request() {
    let site = Site::start().await;
    let tags = "--XX\r\nContent-Disposition: form-data; name=\"tags\"\r\nContent-Type: application/json\r\n\r\n[\"a\"]\r\n";
    let body = [
        text_part("label", "größe"),
        tags.to_owned(),
        file("filename=\"a.txt\"", "abc"),
        file("filename=\"b\"", ""),
    ];
    let accepted: Accepted = site.form(KEEP, whole(&body.concat())).await.json(202);
    let view: TaskView = site
        .get(&format!("/api/tasks/{}", accepted.task_id))
        .await
        .json(200);
    let response = view.response.unwrap();
    assert_eq!(response["label"], "größe");
    assert_eq!(response["files"][0]["name"], "a.txt");
    assert_eq!(response["files"][0]["size_bytes"], 3);
    assert_eq!(response["files"][1]["size_bytes"], 0);
    assert_eq!(
        response["files"][1]["content_type"],
        "application/octet-stream"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_become_the_numbers_flags_and_nulls_that_the_type_wants() {
    let site = Site::start().await;
    for (copies, urgent, expected) in [
        ("3", "true", (Some(3), true)),
        ("", "on", (None, true)),
        ("7", "false", (Some(7), false)),
    ] {
        let texts = [
            text_part("label", "5"),
            text_part("copies", copies),
            text_part("urgent", urgent),
        ]
        .concat();
        for body in [
            texts.clone() + &file("filename=\"a.txt\"", "abc"),
            file("filename=\"a.txt\"", "abc") + &texts,
        ] {
            let accepted: Accepted = site.form(KEEP, whole(&body)).await.json(202);
            let view: TaskView = site
                .get(&format!("/api/tasks/{}", accepted.task_id))
                .await
                .json(200);
            let response = view.response.unwrap();
            assert_eq!(response["label"], "5");
            assert_eq!(
                (
                    response["copies"].as_u64(),
                    response["urgent"].as_bool().unwrap()
                ),
                expected
            );
        }
    }
    let body = text_part("copies", "many") + &file("filename=\"a.txt\"", "abc");
    assert_eq!(
        site.form(KEEP, whole(&body))
            .await
            .problem(422, "invalid-request")["pointer"],
        "copies"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_part_with_a_file_name_is_a_value_where_no_file_belongs() {
    let site = Site::start().await;
    let blob = |field: &str, json: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"blob\"\r\n\
             Content-Type: application/json\r\n\r\n{json}\r\n"
        )
    };
    // A JSON file is a file all the same.
    let body = blob("tags", "[\"a\",\"b\"]") + &blob("copies", "2") + &blob("files", "{}");
    let accepted: Accepted = site.form(KEEP, whole(&body)).await.json(202);
    let view: TaskView = site
        .get(&format!("/api/tasks/{}", accepted.task_id))
        .await
        .json(200);
    let response = view.response.unwrap();
    assert_eq!(
        (&response["tags"][1], &response["copies"]),
        (&"b".into(), &2.into())
    );
    assert_eq!(
        (
            &response["files"][0]["name"],
            &response["files"][0]["size_bytes"]
        ),
        (&"blob".into(), &2.into())
    );
    for body in [
        blob("files", "{}") + &blob("copies", "{"),
        blob("files", "{}") + &blob("nope", "1"),
    ] {
        let refused = site.form(KEEP, whole(&body)).await;
        assert!([400, 422].contains(&refused.status), "{}", refused.status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_common_clients_send_is_understood() {
    let site = Site::start().await;
    let part = reqwest::multipart::Part::bytes(vec![7; 300_000]).file_name("naïve name.bin");
    let form = reqwest::multipart::Form::new()
        .text("label", "x")
        .part("files", part);
    let accepted: Accepted = site
        .send(site.request("POST", KEEP).multipart(form))
        .await
        .json(202);
    let path = format!("/api/tasks/{}/result/first", accepted.task_id);
    assert_eq!(site.get(&path).await.body, vec![7; 300_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_names_that_could_become_paths_are_422() {
    let site = Site::start().await;
    let long = format!("filename=\"{}\"", "x".repeat(300));
    for name in [
        "filename=\"../../x\"",
        "filename=\"/etc/x\"",
        "filename=\"..\\..\\x\"",
        "filename=\"C:\\x\"",
        "filename=\"%2e%2e%2f\"",
        "filename=\"a\0b\"",
        "filename=\"a\r\nb\"",
        "filename=\"a\nb\"",
        "filename=\"a%0d%0ab\"",
        "filename=\"a\u{202e}b\"",
        "filename=\".\"",
        "filename=\"\"",
        "filename*=UTF-8''..%2f..%2fx",
        "filename=\"fine\"; filename*=UTF-8''%00",
        &long,
    ] {
        let reply = site.form(KEEP, whole(&file(name, "abc"))).await;
        reply.problem(422, "invalid-file-name");
    }
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_name_after_a_good_file_leaves_nothing() {
    let site = Site::start().await;
    let body = whole(&(file("filename=\"a\"", "abc") + &file("filename=\"../b\"", "abc")));
    site.form(KEEP, body)
        .await
        .problem(422, "invalid-file-name");
    assert_eq!((site.stored(), site.tasks().await), (Vec::new(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_name_that_is_a_path_is_422() {
    let site = Site::start().await;
    let body = text_part("output_file_name", "/etc/cron.d/x") + &file("filename=\"a\"", "abc");
    site.form(KEEP, whole(&body))
        .await
        .problem(422, "invalid-request");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_input_that_was_left_blank_is_no_part() {
    let site = Site::start().await;
    let blank = file("filename=\"\"", "");
    let one = blank.clone() + &file("filename=\"a\"", "abc") + &blank;
    let accepted: Accepted = site.form(KEEP, whole(&one)).await.json(202);
    let view: TaskView = site
        .get(&format!("/api/tasks/{}", accepted.task_id))
        .await
        .json(200);
    let files = &view.response.unwrap()["files"];
    assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
    site.form(KEEP, whole(&blank))
        .await
        .problem(422, "invalid-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_files_are_422() {
    let site = Site::start().await;
    site.form(KEEP, whole(&text_part("label", "x")))
        .await
        .problem(422, "invalid-request");
    site.form(KEEP, whole(""))
        .await
        .problem(422, "invalid-request");
    let none = site.post(KEEP, r#"{"files":[]}"#).await;
    let problem = none.problem(422, "invalid-request");
    assert_eq!(problem["pointer"], "files", "{problem}");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_only_described_is_422() {
    let site = Site::start().await;
    let forged = r#"{"files":[{"field":"files","name":"a","content_type":"","size_bytes":1,"sha256":"","bucket":
        "incoming-files","key":"t/default/x/upload/e0.1/0"}]}"#;
    site.post(KEEP, forged)
        .await
        .problem(422, "invalid-request");
    assert_eq!(site.tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_over_the_limit_is_413_and_leaves_nothing() {
    let site = Site::with(|api, _| api.max_file_bytes = 100_000).await;
    let body =
        file("filename=\"small\"", "abc") + &file("filename=\"large\"", &"x".repeat(3_000_000));
    site.form(KEEP, whole(&body))
        .await
        .problem(413, "too-large");
    assert_eq!((site.stored(), site.tasks().await), (Vec::new(), 0));
    let fits = file("filename=\"fits\"", &"x".repeat(100_000));
    site.form(KEEP, whole(&fits)).await.json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_over_the_limit_is_413_and_leaves_nothing() {
    let site = Site::with(|api, _| api.max_form_bytes = 100_000).await;
    let body = whole(&file("filename=\"a\"", &"x".repeat(200_000)));
    site.form(KEEP, body.clone())
        .await
        .problem(413, "too-large");
    let chunked = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let chunked = format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    site.raw(chunked.as_bytes()).await.problem(413, "too-large");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_parts_are_413_and_leave_nothing() {
    let site =
        Site::with(|api, _| (api.max_files, api.max_fields, api.max_field_bytes) = (3, 2, 10))
            .await;
    let files = file("filename=\"a\"", "abc").repeat(4);
    let refused = site.form(KEEP, whole(&files)).await;
    let problem = refused.problem(413, "too-large");
    assert!(
        problem["detail"].to_string().contains("3 files"),
        "{problem}"
    );
    let fields = ["a", "b", "c"].map(|name| text_part(name, "x")).concat();
    site.form(KEEP, whole(&fields))
        .await
        .problem(413, "too-large");
    site.form(KEEP, whole(&text_part("label", "more than ten")))
        .await
        .problem(413, "too-large");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_boundary_is_400() {
    let site = Site::start().await;
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
    ] {
        let request = site
            .request("POST", KEEP)
            .header("content-type", content_type)
            .body(whole(""));
        site.send(request).await.problem(400, "malformed-body");
    }
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    let request = site
        .request("POST", KEEP)
        .header("content-type", long)
        .body(whole(""));
    site.send(request).await.problem(400, "malformed-body");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_forms_are_400_and_leave_nothing() {
    let site = Site::start().await;
    let good = file("filename=\"a\"", "abc");
    for body in [
        String::new(),
        "no boundary at all".to_owned(),
        good.clone(),
        format!("{good}--XX\r\n\r\nno headers\r\n--XX--"),
        format!("{good}--XX\r\nContent-Type: text/plain\r\n\r\nno disposition\r\n--XX--"),
        format!("{good}--XX\r\nContent-Disposition: form-data\r\n\r\nno name\r\n--XX--"),
        format!("{good}--XXtrailing\r\n--XX--"),
    ] {
        site.form(KEEP, body).await.problem(400, "malformed-body");
    }
    let mut bad_text = text_part("label", "?").into_bytes();
    let at = bad_text.len() - 3;
    bad_text[at] = 0xff;
    bad_text.extend_from_slice(b"--XX--");
    site.form(KEEP, bad_text)
        .await
        .problem(400, "malformed-body");
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_break_a_rule_are_422_and_leave_nothing() {
    let site = Site::start().await;
    let good = file("filename=\"a\"", "abc");
    for body in [
        format!("{good}{}", text_part("nothing", "x")),
        format!("{}{good}", text_part("label", "a\0b")),
        format!(
            "{}{}{good}",
            text_part("label", "a"),
            text_part("label", "b")
        ),
        format!(
            "{good}--XX\r\nContent-Disposition: form-data; name=\"label\"; filename=\"l\"\r\n\r\nx\r\n"
        ),
        format!("{good}{}", text_part("files", "x")),
    ] {
        site.form(KEEP, whole(&body))
            .await
            .problem(422, "invalid-request");
    }
    site.until_nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_files_of_one_name_are_both_kept() {
    let site = Site::start().await;
    let body = file("filename=\"a\"", "first") + &file("filename=\"a\"", "second");
    let accepted: Accepted = site.form(KEEP, whole(&body)).await.json(202);
    for (index, content) in ["first", "second"].iter().enumerate() {
        let path = format!("/api/tasks/{}/result/files/{index}", accepted.task_id);
        assert_eq!(site.get(&path).await.body, content.as_bytes());
    }
}
