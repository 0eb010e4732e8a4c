//! Bounds of requests that no setting moves, each from both sides; and what lists take.

use crate::reply::Reply;
use crate::site::{Site, eventually, file_head, text_part};
use counterstep_api::ApiSettings;
use counterstep_contracts::http::{Accepted, Page, TaskSummary};
use counterstep_contracts::schedule::ScheduleView;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_16_kib_is_refused_and_one_that_does_not_arrive_is_408() {
    let usual = ApiSettings::default().head_timeout;
    assert_eq!(usual, Duration::from_secs(10));
    let site = Site::with(|api, _| api.head_timeout = Duration::from_secs(1)).await;
    let head = |length: usize| {
        let long = "x".repeat(length);
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n")
    };
    let address = |length: usize| {
        let long = "x".repeat(length - "/healthz?".len());
        format!("GET /healthz?{long} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    };
    for (bytes, status, code) in [
        (head(16 << 10), 431, "header-too-large"),
        (head(64 << 10), 431, "header-too-large"),
        (address(16 << 10), 414, "address-too-long"),
    ] {
        let refused = site.raw(bytes.as_bytes()).await;
        refused.problem(status, code);
    }
    for (bytes, status) in [
        (head(15 << 10), 200),
        (address((16 << 10) - 1), 200),
        (head(128 << 10), 431),
        // It ends nowhere.
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n".to_owned(),
            408,
        ),
    ] {
        assert_eq!(site.raw(bytes.as_bytes()).await.status, status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_name_has_200_bytes_and_a_file_name_255() {
    let site = Site::start().await;
    let form = async |name: &str, file: &str| {
        let part = file_head(&format!("filename=\"{file}\""));
        let body = format!("{}{part}x\r\n--XX--\r\n", text_part(name, "x"));
        site.form("/api/tasks/keep-files", body).await
    };
    let told = |reply: &Reply| {
        let problem = reply.problem(422, "invalid-request");
        problem["detail"].as_str().expect("a detail").to_owned()
    };
    // Up to its bound a name is only one that the type does not have.
    let unknown = told(&form(&"n".repeat(200), "a").await);
    assert!(unknown.contains("no field of this name"), "{unknown}");
    for name in [&*"n".repeat(201), &*"ä".repeat(101), "", "a\tb"] {
        let refused = told(&form(name, "a").await);
        assert!(refused.contains("1 to 200 bytes"), "{refused}");
    }
    form("label", &"f".repeat(255)).await.json::<Accepted>(202);
    for file in ["f".repeat(256), "f".repeat(300), "ä".repeat(128)] {
        form("label", &file).await.problem(422, "invalid-file-name");
    }
    assert_eq!((site.tasks().await, site.stored().len()), (1, 1));
}

/// They were settings: `settings upgrade` and http.md name these values.
#[test]
fn limits_that_no_setting_changes() {
    let usual = ApiSettings::default();
    assert_eq!(usual.body_silence, Duration::from_secs(30));
    assert_eq!((usual.max_files, usual.event_streams), (1_000, 10_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_100_streams_and_100_uploads_where_callers_are_not_authenticated() {
    let usual = ApiSettings::default();
    assert_eq!(
        (usual.streams_per_caller, usual.uploads_per_caller),
        (100, 100)
    );
    let site = Site::with(|api, _| {
        api.streams_per_caller = 2;
        api.uploads_per_caller = 2;
        api.event_heartbeat = Duration::from_millis(50);
    })
    .await;
    let open = || site.request("GET", "/api/events").send();
    let streams = [
        open().await.expect("an answer"),
        open().await.expect("an answer"),
    ];
    assert_eq!(
        streams.each_ref().map(|it| it.status().as_u16()),
        [200, 200]
    );
    let refused = site.get("/api/events").await;
    let problem = refused.problem(429, "too-many-requests");
    assert!(
        problem["detail"].to_string().contains("2 streams"),
        "{problem}"
    );
    drop(streams);
    eventually("their places are free", || async {
        let status = site.status(site.request("GET", "/api/events")).await;
        if status == 200 { Ok(()) } else { Err(status) }
    })
    .await;

    let body = format!("{}x\r\n--XX--\r\n", file_head("filename=\"a\""));
    let head = format!(
        "POST /api/tasks/keep-files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let (uploads, refused) = eventually("both arrive", || async {
        // Anew each time: where the form was before them, one of them was refused.
        let uploads = [
            site.connect(head.as_bytes()).await,
            site.connect(head.as_bytes()).await,
        ];
        let reply = site.form("/api/tasks/keep-files", body.clone()).await;
        if reply.status == 429 {
            Ok((uploads, reply))
        } else {
            Err(reply.status)
        }
    })
    .await;
    let problem = refused.problem(429, "too-many-requests");
    assert!(
        problem["detail"].to_string().contains("2 forms"),
        "{problem}"
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Requests without files are no uploads.
    site.submit("/api/tasks/write-note").await;
    drop(uploads);
    eventually("their places are free", || async {
        let reply = site.form("/api/tasks/keep-files", body.clone()).await;
        if reply.status == 202 {
            Ok(())
        } else {
            Err(reply.status)
        }
    })
    .await;
}

/// Each route that takes a note, with what else it needs.
const NOTED: [(&str, &str, &str); 12] = [
    ("POST", "/api/tasks/ID/resolve", r#"{"as":"skipped"}"#),
    ("POST", "/api/tasks/ID/retry", "{}"),
    (
        "POST",
        "/api/tasks/ID/recoveries",
        r#"{"recovery_attempts":0}"#,
    ),
    ("POST", "/api/task-types/write-note/disable", "{}"),
    ("POST", "/api/task-types/write-note/enable", "{}"),
    ("POST", "/api/queues/notes/pause", "{}"),
    ("POST", "/api/queues/notes/resume", "{}"),
    ("PUT", "/api/limits/bank", r#"{"at_once":1}"#),
    ("POST", "/api/limits/bank/reset", "{}"),
    (
        "POST",
        "/api/bulk-operations",
        r#"{"action":"redrive","filter":{}}"#,
    ),
    (
        "POST",
        "/api/bulk-operations",
        r#"{"action":"redrive","group":"0123456789abcdef"}"#,
    ),
    (
        "POST",
        "/api/bulk-operations",
        r#"{"action":"redrive","filter":{},"preview":true}"#,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_note_has_4000_characters_and_an_actor_100_on_every_route() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await.to_string();
    let send = async |(method, path, body): (&str, &str, &str), note: &str, actor: &str| {
        let mut body: Value = serde_json::from_str(body).expect("JSON");
        (body["note"], body["actor"]) = (json!(note), json!(actor));
        let request = site
            .request(method, &path.replace("ID", &task))
            .header("content-type", "application/json")
            .body(body.to_string());
        site.send(request).await
    };
    let (note, actor) = ("ä".repeat(4_000), "ö".repeat(100));
    for route in NOTED {
        for (note, actor, at) in [
            (&*"ä".repeat(4_001), "kim", "note"),
            ("", "kim", "note"),
            (" \n", "kim", "note"),
            ("a\rb", "kim", "note"),
            ("\u{1b}[2J", "kim", "note"),
            ("why", &*"ö".repeat(101), "actor"),
            ("why", " ", "actor"),
            ("why", "kim\nlee", "actor"),
        ] {
            let refused = send(route, note, actor).await;
            let problem = refused.problem(422, "invalid-request");
            assert_eq!(problem["pointer"], at, "{route:?}: {problem}");
        }
        // Whatever becomes of it, it is not refused for these.
        let reply = send(route, &note, &actor).await;
        let text = String::from_utf8_lossy(&reply.body);
        assert!(
            reply.status < 300 || reply.status == 409 || reply.status == 404,
            "{route:?}: {text}"
        );
    }
}

/// Every list, and whether it has pages.
const LISTS: [(&str, bool); 13] = [
    ("/api/tasks", true),
    ("/api/dead-letters", true),
    ("/api/schedules", true),
    ("/api/tasks/ID/children", true),
    ("/api/dead-letters/groups", false),
    ("/api/open-effects", true),
    ("/api/open-effects/sums", false),
    ("/api/bulk-operations", false),
    ("/api/tasks/ID/webhooks", false),
    ("/api/task-types", false),
    ("/api/queues", false),
    ("/api/limits", false),
    ("/api/keys", false),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_list_takes_a_limit_out_of_bounds_or_a_forged_cursor() {
    let site = Site::start().await;
    let mut task = String::new();
    for number in 0..2 {
        task = site.submit("/api/tasks/write-note").await.to_string();
        let schedule = r#"{"type":"write-note","cron":"@yearly","request":{"text":"a"}}"#;
        let request = site
            .request("PUT", &format!("/api/schedules/s{number}"))
            .header("content-type", "application/json")
            .body(schedule);
        site.send(request).await.json::<ScheduleView>(201);
    }
    let tasks: Page<TaskSummary> = site.get("/api/tasks?limit=1").await.json(200);
    let schedules: Page<ScheduleView> = site.get("/api/schedules?limit=1").await.json(200);
    let of_tasks = tasks.next_cursor.expect("there is more");
    let of_schedules = schedules.next_cursor.expect("there is more");
    let longer = format!("{of_tasks}0");
    let endless = "f".repeat(5_000);
    let forged = [
        "",
        "x",
        "%00",
        "..%2f..",
        "1.0.0123456789abcdef",
        "s0~0123456789abcdef",
    ];
    for (path, has_pages) in LISTS {
        let path = path.replace("ID", &task);
        for limit in ["0", "-1", "1000000000", "1e9", "201", ""] {
            let reply = site.get(&format!("{path}?limit={limit}")).await;
            let problem = reply.problem(422, "invalid-request");
            assert_eq!(problem["pointer"], "limit", "{path}: {limit}");
        }
        let of_others = [&*longer, &*endless];
        let of_others = of_others
            .into_iter()
            .chain((path != "/api/tasks").then_some(&*of_tasks))
            .chain((path != "/api/schedules").then_some(&*of_schedules));
        for cursor in forged.into_iter().chain(of_others) {
            let reply = site.get(&format!("{path}?cursor={cursor}")).await;
            let (status, code) = match has_pages {
                true => (400, "malformed-parameter"),
                false => (422, "invalid-request"),
            };
            let problem = reply.problem(status, code);
            assert_eq!(problem["pointer"], "cursor", "{path}: {cursor}");
        }
    }
}
