//! Looking at tasks: one, many, their past, and what can be submitted.

use crate::site::{Site, eventually};
use async_trait::async_trait;
use counterstep_contracts::http::{Accepted, AuditTrail, Health, Page, TaskSummary, TaskView};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::{Attempt, LogLevel, LogPart, TaskId, TaskProgress, TaskStatus};
use counterstep_kernel::ports::{ByteStream, ObjectError, ObjectInfo, Objects};
use counterstep_kernel::status::progress;
use futures::stream::BoxStream;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_shown_with_its_steps_and_an_etag() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let path = format!("/api/tasks/{task}");
    let reply = site.get(&path).await;
    let view: TaskView = reply.json(200);
    assert_eq!(
        (view.task_id, &*view.task_type, view.status),
        (task, "WriteNote", TaskStatus::Dispatched)
    );
    assert_eq!(
        (view.progress.done, view.progress.total, view.steps.len()),
        (0, 1, 1)
    );
    assert!(
        view.created_at.ends_with('Z') && view.created_at.len() == 27,
        "{}",
        view.created_at
    );
    let etag = reply.header("etag").unwrap().to_owned();
    let unchanged = site
        .send(site.request("GET", &path).header("if-none-match", &*etag))
        .await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    for header in ["etag", "cache-control", "retry-after"] {
        assert!(
            reply.header(header).is_some() && unchanged.header(header) == reply.header(header),
            "{header}"
        );
    }
    site.run_worker();
    let done = site.until(task, TaskStatus::Completed).await;
    assert_eq!(done.response.unwrap()["length"], 5);
    assert!(done.finished_at.is_some());
    let changed = site
        .send(site.request("GET", &path).header("if-none-match", &*etag))
        .await;
    assert_ne!(changed.header("etag"), Some(&*etag));
    changed.json::<TaskView>(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_running_step_says_of_its_progress_is_shown_and_changes_the_etag() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/plod").await;
    let path = format!("/api/tasks/{task}");
    let waiting: TaskView = site.get(&path).await.json(200);
    assert_eq!(waiting.steps[0].progress, None);
    site.run_worker();
    let said = eventually("a progress", || async {
        let reply = site.get(&path).await;
        let view: TaskView = reply.json(200);
        let said = view.steps[0]
            .progress
            .clone()
            .ok_or_else(|| format!("{view:?}"))?;
        Ok::<_, String>((said, reply.header("etag").unwrap().to_owned()))
    });
    let (said, etag) = said.await;
    assert_eq!((said.done, said.total, said.percent), (3, 8, Some(37)));
    assert!(said.at.ends_with('Z'), "{}", said.at);
    let again = |etag: String| site.send(site.request("GET", &path).header("if-none-match", etag));
    assert_eq!(again(etag.clone()).await.status, 304);

    // The row stays as it is, and the answer is another one.
    let hints = &site.engine.ports.hints;
    let key = progress::key(task);
    let kept = hints.get(&key).await.unwrap().expect("it is kept");
    let mut next: TaskProgress = serde_json::from_str(&kept).unwrap();
    (next.seq, next.steps.get_mut("trudge").unwrap().total) = (next.seq + 1, 0);
    hints
        .set(
            &key,
            &serde_json::to_string(&next).unwrap(),
            Duration::from_secs(60),
        )
        .await
        .unwrap();
    let answer: TaskView = again(etag).await.json(200);
    let said = answer.steps[0].progress.clone().expect("a progress");
    assert_eq!((said.done, said.total, said.percent), (3, 0, None));

    site.send(site.request("DELETE", &path)).await;
    let cancelled = site.until(task, TaskStatus::Cancelled).await;
    assert_eq!(cancelled.steps[0].progress, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_logs_is_read_page_by_page_while_it_runs_and_after() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/plod").await;
    let path = format!("/api/tasks/{task}/log");
    let none: LogPage = site.get(&path).await.json(200);
    assert_eq!(none, LogPage::default());
    site.run_worker();
    let page = eventually("both lines", || async {
        let page: LogPage = site.get(&path).await.json(200);
        let is_all = page.lines.len() == 2;
        let seen = format!("{page:?}");
        is_all.then_some(page).ok_or(seen)
    })
    .await;
    let line = &page.lines[0];
    assert_eq!(
        (
            &*line.step,
            line.part,
            line.attempt,
            line.level,
            &*line.message
        ),
        (
            "trudge",
            LogPart::Run,
            Attempt(1),
            LogLevel::Info,
            "on the way"
        )
    );
    assert_eq!(page.lines[1].message, "it is\\nfar");
    let of = |query: String| {
        let address = format!("{path}?{query}");
        let site = &site;
        async move { site.get(&address).await.json::<LogPage>(200) }
    };
    let first = of("limit=1".to_owned()).await;
    assert_eq!(first.lines, page.lines[..1]);
    let cursor = first.cursor.expect("a cursor");
    let second = of(format!("limit=1&cursor={cursor}")).await;
    assert_eq!(second.lines, page.lines[1..]);
    let end = page.cursor.expect("a cursor");
    let nothing = of(format!("cursor={end}")).await;
    assert_eq!(
        (nothing.lines.len(), nothing.cursor.as_deref()),
        (0, Some(&*end))
    );
    site.send(site.request("DELETE", &format!("/api/tasks/{task}")))
        .await;
    site.until(task, TaskStatus::Cancelled).await;
    assert_eq!(of(String::new()).await.lines, page.lines);
    for query in ["limit=0", "limit=201", "after=1"] {
        let refused = site.get(&format!("{path}?{query}")).await;
        refused.problem(422, "invalid-request");
    }
    for cursor in ["x", "1.1", "1.1.01", "-1.1.1"] {
        let refused = site.get(&format!("{path}?cursor={cursor}")).await;
        refused.problem(400, "malformed-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_is_a_get_without_its_body() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let reply = site
        .send(site.request("HEAD", &format!("/api/tasks/{task}")))
        .await;
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert!(reply.header("etag").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_task_is_404_everywhere() {
    let site = Site::start().await;
    let path = format!("/api/tasks/{}", uuid::Uuid::from_u128(1));
    for path in [
        path.clone(),
        format!("{path}?wait=5s"),
        format!("{path}/audit"),
        format!("{path}/at?seq=1"),
        format!("{path}/children"),
        format!("{path}/result/zip"),
    ] {
        site.get(&path).await.problem(404, "no-such-task");
    }
    site.send(site.request("DELETE", &path))
        .await
        .problem(404, "no-such-task");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_ends_when_the_task_rests() {
    let site = Site::with(|api, _| api.wait_poll = Duration::from_secs(600)).await;
    let task = site.submit("/api/tasks/write-note").await;
    let path = format!("/api/tasks/{task}?wait=60s");
    site.run_worker();
    // Its next poll and the end of its time are later: what ends it is the signal.
    let answer = tokio::time::timeout(Duration::from_secs(45), site.get(&path))
        .await
        .expect("a signal wakes it");
    let view: TaskView = answer.json(200);
    assert_eq!(view.status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_ends_with_its_time() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let begun = Instant::now();
    let view: TaskView = site
        .get(&format!("/api/tasks/{task}?wait=300ms"))
        .await
        .json(200);
    assert_eq!(view.status, TaskStatus::Dispatched);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_no_duration_is_400() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    for wait in ["", "5", "-1s", "1e9s", "soon"] {
        site.get(&format!("/api/tasks/{task}?wait={wait}"))
            .await
            .problem(400, "malformed-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_shows_each_transition_and_attempt() {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit("/api/tasks/write-note").await;
    site.until(task, TaskStatus::Completed).await;
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    assert_eq!(trail.task_id, task);
    assert!(
        trail
            .entries
            .iter()
            .zip(1..)
            .all(|(entry, seq)| entry.seq.0 == seq)
    );
    assert_eq!(trail.entries.last().unwrap().to, TaskStatus::Completed);
    assert!(
        trail
            .entries
            .iter()
            .any(|entry| entry.step.as_deref() == Some("write"))
    );
    assert_eq!(trail.attempts.len(), 1);
    assert!(trail.attempts[0].ended_at.is_some());
}

async fn page(site: &Site, query: &str) -> Page<TaskSummary> {
    site.get(&format!("/api/tasks?{query}")).await.json(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_page_by_page_the_newest_first() {
    let site = Site::start().await;
    let mut submitted: Vec<TaskId> = Vec::new();
    for _ in 0..5 {
        submitted.push(site.submit("/api/tasks/write-note").await);
    }
    let other = site.submit("/api/tasks/charge-card").await;
    let mut seen = Vec::new();
    let mut query = "type=write-note&limit=2".to_owned();
    loop {
        let page = page(&site, &query).await;
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|line| line.task_id));
        let Some(cursor) = page.next_cursor else {
            break;
        };
        query = format!("type=write-note&limit=2&cursor={cursor}");
    }
    // Ids of one millisecond are in no order; all of them are there, once, and pages go on where
    // they ended.
    let mut expected = submitted.clone();
    expected.sort_by(|a, b| b.cmp(a));
    assert_eq!(seen, expected);
    let cards = page(&site, "type=ChargeCard&status=dispatched").await;
    assert_eq!(
        cards
            .items
            .iter()
            .map(|line| line.task_id)
            .collect::<Vec<_>>(),
        [other]
    );
    assert!(page(&site, "status=failed").await.items.is_empty());
    assert_eq!(page(&site, "limit=200").await.items.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_not_from_1_to_200_is_422() {
    let site = Site::start().await;
    for limit in [
        "0",
        "-1",
        "1e9",
        "1000000000",
        "201",
        "",
        "ten",
        "99999999999999999999",
    ] {
        let problem = site
            .get(&format!("/api/tasks?limit={limit}"))
            .await
            .problem(422, "invalid-request");
        assert_eq!(problem["pointer"], "limit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_does_not_exist_is_422() {
    let site = Site::start().await;
    for query in ["status=done", "stauts=failed", "limit=1&limit=2"] {
        site.get(&format!("/api/tasks?{query}"))
            .await
            .problem(422, "invalid-request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_cursor_is_400() {
    let site = Site::start().await;
    for _ in 0..2 {
        site.submit("/api/tasks/write-note").await;
    }
    let cursor = page(&site, "limit=1").await.next_cursor.unwrap();
    let other = format!("{}&status=dispatched", cursor);
    let id = uuid::Uuid::from_u128(9).simple().to_string();
    for forged in [
        "",
        "x",
        "%00",
        "../..",
        &cursor[1..],
        &id,
        &format!("{id}0011223344556677"),
        &other,
    ] {
        site.get(&format!("/api/tasks?limit=1&cursor={forged}"))
            .await
            .problem(400, "malformed-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_types_say_where_to_submit() {
    let site = Site::start().await;
    let types: Page<Value> = site.get("/api/task-types").await.json(200);
    let note = types
        .items
        .iter()
        .find(|item| item["name"] == "WriteNote")
        .unwrap();
    assert_eq!(note["submit_to"], "/api/tasks/write-note");
    assert_eq!(note["timeout"], "10m");
    assert_eq!(note["steps"][0]["name"], "write");
    let text = note["submit_to"].as_str().unwrap();
    site.post(text, r#"{"text":"a"}"#)
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_are_told() {
    let site = Site::start().await;
    let health: Health = site.get("/healthz").await.json(200);
    assert_eq!((&*health.status, health.parts.len()), ("ok", 0));
    let ready: Health = site.get("/readyz").await.json(200);
    assert_eq!(
        ready.parts.into_iter().collect::<Vec<_>>(),
        ["hints", "objects", "queue", "store"].map(|part| (part.to_owned(), "ok".to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_objects_that_takes_no_writes_is_not_ready() {
    let site = Site::start().await;
    let mut ports = site.engine.ports.clone();
    let disk = Arc::new(FullDisk {
        objects: ports.objects.clone(),
        asked: AtomicU32::new(0),
    });
    ports.objects = disk.clone();
    let full = site.beside(ports);
    // Everything that there is can still be listed and read.
    assert_eq!(full.get("/api/tasks").await.status, 200);
    let problem = full.get("/readyz").await.problem(503, "unavailable");
    assert_eq!(problem["detail"], "does not answer: objects");
    // The question writes, and any page can ask it in a loop.
    let begun = std::time::Instant::now();
    for _ in 0..50 {
        full.get("/readyz").await.problem(503, "unavailable");
    }
    let seconds = u32::try_from(begun.elapsed().as_secs()).expect("not that long");
    assert!(
        disk.asked.load(Ordering::Relaxed) <= seconds + 2,
        "once a second"
    );
}

/// Objects on a disk that is full.
#[derive(Debug)]
struct FullDisk {
    objects: Arc<dyn Objects>,
    /// How often.
    asked: AtomicU32,
}

#[async_trait]
impl Objects for FullDisk {
    async fn put(&self, _: &str, _: &str, _: ByteStream) -> Result<u64, ObjectError> {
        Err(ObjectError::Unavailable(
            "no space left on device".to_owned(),
        ))
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.objects.get(bucket, key).await
    }

    async fn check(&self) -> Result<(), ObjectError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(ObjectError::Unavailable(
            "no space left on device".to_owned(),
        ))
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        self.objects.delete_prefix(prefix).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        self.objects.list(prefix)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_its_task_where_the_client_asks_for_that() {
    let site = Site::start().await;
    let submit = |query: &str, prefer: Option<&str>| {
        let request = site.request("POST", &format!("/api/tasks/write-note{query}"));
        let request = request
            .header("content-type", "application/json")
            .body(r#"{"text":"hello"}"#);
        match prefer {
            Some(prefer) => request.header("prefer", prefer),
            None => request,
        }
    };
    // No worker runs it: the time is over first.
    for (query, prefer) in [("?wait=10ms", None), ("", Some("wait=0"))] {
        let reply = site.send(submit(query, prefer)).await;
        assert_eq!(reply.json::<Accepted>(202).status, TaskStatus::Dispatched);
        assert_eq!(reply.header("preference-applied"), prefer);
    }
    site.run_worker();
    for (query, prefer, applied) in [
        ("?wait=60s", None, None),
        ("", Some("respond-async, wait=60"), Some("wait=60")),
        ("?wait=60s", Some("wait=0"), None),
    ] {
        let reply = site.send(submit(query, prefer)).await;
        let view: TaskView = reply.json(200);
        assert_eq!(
            (view.status, &view.response.unwrap()["length"]),
            (TaskStatus::Completed, &5.into())
        );
        let address = format!("/api/tasks/{}", view.task_id);
        for header in ["location", "content-location"] {
            assert_eq!(reply.header(header), Some(&*address));
        }
        assert_eq!(reply.header("preference-applied"), applied);
    }
    let again = async |key: &str| {
        site.send(submit("?wait=60s", None).header("idempotency-key", key.to_owned()))
            .await
    };
    let first: TaskView = again("k").await.json(200);
    let second = again("k").await;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(second.json::<TaskView>(200).task_id, first.task_id);
    let tasks = site.tasks().await;
    site.send(submit("?wait=soon", None))
        .await
        .problem(400, "malformed-parameter");
    site.send(submit("?wiat=60s", None))
        .await
        .problem(422, "invalid-request");
    assert_eq!(site.tasks().await, tasks);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_id_of_its_request_and_a_given_one_is_kept() {
    let site = Site::start().await;
    let mut seen = BTreeSet::new();
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/tasks",
        "/nothing",
        "/api/tasks/x",
        "/api/tasks?wiat=1",
    ] {
        let reply = site.get(path).await;
        let id = reply
            .header("x-request-id")
            .unwrap_or_else(|| panic!("{path} has none"))
            .to_owned();
        assert!(seen.insert(id), "{path}");
    }
    let foreign = site
        .send(
            site.request("DELETE", "/api/tasks/x")
                .header("origin", "null"),
        )
        .await;
    assert_eq!(
        (foreign.status, foreign.header("x-request-id").is_some()),
        (403, true)
    );
    let given = async |id: &str| {
        let reply = site
            .send(
                site.request("GET", "/healthz")
                    .header("x-request-id", id.to_owned()),
            )
            .await;
        reply.header("x-request-id").unwrap() == id
    };
    assert!(given("7f3c-a:b/c+d=@_.9").await);
    for other in ["a b", "", "<script>", &"x".repeat(129)] {
        assert!(!given(other).await, "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_shown_as_it_stood_at_each_entry_of_its_audit() {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit("/api/tasks/write-note").await;
    let now = site.until(task, TaskStatus::Completed).await;
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let at = async |seq: i64| {
        let path = format!("/api/tasks/{task}/at?seq={seq}");
        site.get(&path).await
    };
    let mut revision = 0;
    for entry in &trail.entries {
        let then: TaskView = at(entry.seq.0).await.json(200);
        assert!(then.revision >= revision, "{entry:?}");
        revision = then.revision;
        // A change has several entries: the task stands behind the last of them.
        let last = trail
            .entries
            .iter()
            .rfind(|it| it.change_id == entry.change_id);
        assert_eq!(then.status, last.expect("itself").to, "{entry:?}");
        assert_eq!(
            then.response.is_some(),
            then.status == TaskStatus::Completed
        );
    }
    let last: TaskView = at(trail.entries.len() as i64).await.json(200);
    assert_eq!((last.steps, last.finished_at), (now.steps, now.finished_at));
    let none = at(trail.entries.len() as i64 + 1).await;
    assert_eq!(none.problem(404, "no-such-entry")["pointer"], "seq");
    at(0).await.problem(422, "invalid-request");
}
