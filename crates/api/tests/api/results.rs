//! Stored files handed back.

use crate::site::Site;
use counterstep_contracts::TaskStatus;

#[tokio::test(flavor = "multi_thread")]
async fn an_html_file_comes_back_as_an_attachment() {
    let site = Site::start().await;
    let page = "<script>alert(1)</script>";
    let task = site.keep("pagé.html", "text/html", page).await;
    let path = format!("/api/tasks/{task}/result/first");
    let reply = site.get(&path).await;
    assert_eq!((reply.status, &*reply.body), (200, page.as_bytes()));
    for (header, value) in [
        ("content-type", "text/html"),
        ("content-length", &*page.len().to_string()),
        (
            "content-disposition",
            "attachment; filename=\"pag_.html\"; filename*=UTF-8''pag%C3%A9.html",
        ),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
    ] {
        assert_eq!(reply.header(header), Some(value), "{header}");
    }
    let etag = reply.header("etag").unwrap().to_owned();
    assert_eq!(etag.len(), 66);
    let unchanged = site
        .send(site.request("GET", &path).header("if-none-match", etag))
        .await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    for header in [
        "etag",
        "content-disposition",
        "content-security-policy",
        "accept-ranges",
    ] {
        assert_eq!(unchanged.header(header), reply.header(header), "{header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_list_is_found_by_its_index() {
    let site = Site::start().await;
    let task = site.keep("a.txt", "text/plain", "abc").await;
    assert_eq!(
        site.get(&format!("/api/tasks/{task}/result/files/0"))
            .await
            .body,
        b"abc"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_stored_file_of_the_task_is_404() {
    let site = Site::start().await;
    let task = site.keep("a.txt", "text/plain", "abc").await;
    for name in [
        "nothing",
        "label",
        "files",
        "files/1",
        "files/x",
        "..%2f..%2ffirst",
        "elsewhere",
        "%00",
    ] {
        site.get(&format!("/api/tasks/{task}/result/{name}"))
            .await
            .problem(404, "no-such-result");
    }
    let deeper = format!("/api/tasks/{task}/result/files/0/key");
    site.get(&deeper).await.problem(404, "no-such-route");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_has_changed_in_its_store_is_never_handed_over_whole() {
    let site = Site::start().await;
    let task = site.keep("a.txt", "text/plain", "abc").await;
    for object in site.stored() {
        std::fs::write(object, "abd").expect("the object is written over");
    }
    let request = site.request("GET", &format!("/api/tasks/{task}/result/first"));
    let received = async { request.send().await?.bytes().await }.await;
    assert!(received.is_err(), "{received:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_not_completed_is_409() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    site.get(&format!("/api/tasks/{task}/result/zip"))
        .await
        .problem(409, "not-completed");
    site.until(task, TaskStatus::Dispatched).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_file_is_answered_as_a_part() {
    let site = Site::start().await;
    let task = site.keep("a.txt", "text/plain", "0123456789").await;
    let path = format!("/api/tasks/{task}/result/first");
    let whole = site.get(&path).await;
    let etag = whole.header("etag").unwrap().to_owned();
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    for (range, part, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
    ] {
        for if_range in [None, Some(&etag)] {
            let mut request = site.request("GET", &path).header("range", range);
            if let Some(known) = if_range {
                request = request.header("if-range", known);
            }
            let reply = site.send(request).await;
            assert_eq!(
                (reply.status, &*reply.body),
                (206, part.as_bytes()),
                "{range}"
            );
            assert_eq!(reply.header("content-range"), Some(content_range));
            assert_eq!(reply.header("etag"), Some(&*etag));
        }
    }
    for (name, value) in [
        ("range", "bytes=0-1,3-4"),
        ("range", "lines=1-2"),
        ("range", "bytes=x"),
        ("if-range", "\"other\""),
    ] {
        let request = site.request("GET", &path).header(name, value);
        let request = if name == "if-range" {
            request.header("range", "bytes=0-1")
        } else {
            request
        };
        let reply = site.send(request).await;
        assert_eq!(
            (reply.status, &*reply.body),
            (200, &b"0123456789"[..]),
            "{value}"
        );
    }
    let outside = site
        .send(site.request("GET", &path).header("range", "bytes=10-"))
        .await;
    outside.problem(416, "range-not-satisfiable");
    assert_eq!(outside.header("content-range"), Some("bytes */10"));
}
