//! The stream of the changes of many tasks.

use super::reader::Lines;
use crate::site::Site;
use counterstep_adapters::system::LocalSignals;
use counterstep_contracts::http::ChangeEvent;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::Ports;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What a client knows: the newest revision of each task, and its place.
#[derive(Default)]
struct Client {
    known: BTreeMap<TaskId, ChangeEvent>,
    place: Option<String>,
}

impl Client {
    async fn open(&self, site: &Site, query: &str) -> Lines {
        let mut request = site.request("GET", &format!("/api/events{query}"));
        if let Some(place) = &self.place {
            request = request.header("last-event-id", place);
        }
        Lines::of(request.send().await.expect("an answer"))
    }

    /// One more event, or place.
    async fn read(&mut self, lines: &mut Lines) {
        let event = lines.next().await.expect("it goes on");
        if let Some(place) = event.strip_prefix("id: ") {
            assert!(place.parse::<i64>().is_ok(), "{event}");
            self.place = Some(place.to_owned());
        } else if let Some(data) = event.strip_prefix("data: ") {
            let change: ChangeEvent = serde_json::from_str(data).expect("a change");
            let known = self.known.insert(change.task.task_id, change.clone());
            if let Some(known) = known {
                assert!(known.revision <= change.revision, "{known:?} {change:?}");
            }
        }
    }

    async fn until(&mut self, lines: &mut Lines, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            self.read(lines).await;
        }
    }

    /// So far its place is behind this one.
    fn minutes_from(&self, place: Option<&str>) -> i64 {
        let time = |place: Option<&str>| place.map_or(0, |it| it.parse::<i64>().expect("a time"));
        (time(self.place.as_deref()) - time(place)) / 60_000_000
    }

    fn completed(&self) -> BTreeSet<TaskId> {
        let completed = self.known.values();
        let completed = completed.filter(|it| it.task.status == TaskStatus::Completed);
        completed.map(|it| it.task.task_id).collect()
    }
}

async fn site() -> Site {
    Site::with(|api, _| {
        api.event_poll = Duration::from_millis(20);
        api.event_heartbeat = Duration::from_millis(200);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_of_open_tasks_first_and_then_of_each_that_changes() {
    let site = site().await;
    let before = site.submit("/api/tasks/write-note").await;
    let mut client = Client::default();
    let mut lines = client.open(&site, "").await;
    client.until(&mut lines, |it| it.place.is_some()).await;
    assert_eq!(client.known[&before].task.status, TaskStatus::Dispatched);
    let after = site.submit("/api/tasks/charge-card").await;
    client
        .until(&mut lines, |it| it.known.contains_key(&after))
        .await;
    site.run_worker();
    client
        .until(&mut lines, |it| it.completed().len() == 2)
        .await;
    let task = site.until(after, TaskStatus::Completed).await;
    assert_eq!(client.known[&after].revision, task.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_about_the_tasks_that_are_asked_for() {
    let site = site().await;
    let note = site.submit("/api/tasks/write-note").await;
    let card = site.submit("/api/tasks/charge-card").await;
    let labelled = site
        .request("POST", "/api/tasks/write-note")
        .header("content-type", "application/json")
        .header("counterstep-label", "order=4711");
    let labelled = site.send(labelled.body(r#"{"text":"hello"}"#)).await;
    let labelled = labelled
        .json::<counterstep_contracts::http::Accepted>(202)
        .task_id;
    let told = async |query: &str, count: usize| {
        let mut client = Client::default();
        let mut lines = client.open(&site, query).await;
        client.until(&mut lines, |it| it.place.is_some()).await;
        site.run_worker();
        client
            .until(&mut lines, |it| it.completed().len() >= count)
            .await;
        client.known.into_keys().collect::<BTreeSet<_>>()
    };
    let open = async |query: &str| {
        let mut client = Client::default();
        let mut lines = client.open(&site, query).await;
        client.until(&mut lines, |it| it.place.is_some()).await;
        client.known.into_keys().collect::<BTreeSet<_>>()
    };
    assert_eq!(open("?type=ChargeCard").await, [card].into());
    assert_eq!(open("?label=order=4711").await, [labelled].into());
    assert_eq!(open("?status=running&status=waiting").await, [].into());
    assert_eq!(
        open("?status=dispatched&type=write-note").await,
        [note, labelled].into()
    );
    assert_eq!(
        told("?status=completed", 3).await,
        [note, card, labelled].into()
    );
    for (query, code) in [
        ("?type=a&type=b", "invalid-request"),
        ("?status=done", "invalid-request"),
        ("?state=running", "invalid-request"),
        ("?label=x", "invalid-label"),
    ] {
        site.get(&format!("/api/events{query}"))
            .await
            .problem(422, code);
    }
    let request = site.request("GET", "/api/events");
    site.send(request.header("last-event-id", "soon"))
        .await
        .problem(400, "malformed-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_begin_and_end_between_two_looks_are_told_of() {
    let site = Site::with(|api, _| api.event_poll = Duration::from_secs(2)).await;
    let mut client = Client::default();
    let mut lines = client.open(&site, "?status=completed").await;
    client.until(&mut lines, |it| it.place.is_some()).await;
    site.run_worker();
    let mut tasks = BTreeSet::new();
    for _ in 0..3 {
        let task = site.submit("/api/tasks/write-note").await;
        site.until(task, TaskStatus::Completed).await;
        tasks.insert(task);
    }
    client
        .until(&mut lines, |it| it.completed().len() == tasks.len())
        .await;
    assert_eq!(client.completed(), tasks);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_again_and_again_learns_of_the_end_of_every_task() {
    let site = site().await;
    let deaf = Ports {
        signals: Arc::new(LocalSignals::new()),
        ..site.engine.ports.clone()
    };
    let other = site.beside(deaf);
    let sites = [&site, &other];
    let mut client = Client::default();
    let mut first = client.open(&site, "").await;
    client.until(&mut first, |it| it.place.is_some()).await;
    drop(first);
    site.run_worker();
    let mut tasks = BTreeSet::new();
    // While it is cut off, tasks begin and end.
    for round in 0..20 {
        for _ in 0..3 {
            tasks.insert(site.submit("/api/tasks/write-note").await);
        }
        if round % 3 == 0 {
            for task in &tasks {
                site.until(*task, TaskStatus::Completed).await;
            }
        }
        let mut lines = client.open(sites[round % 2], "").await;
        for _ in 0..2 {
            client.read(&mut lines).await;
        }
    }
    let mut last = client.open(&other, "").await;
    client
        .until(&mut last, |it| it.completed().len() == tasks.len())
        .await;
    assert_eq!(client.completed(), tasks);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_reads_what_does_not_fit_is_not_silent() {
    let site = Site::with(|api, _| {
        api.event_poll = Duration::from_millis(20);
        api.event_heartbeat = Duration::from_millis(1);
    })
    .await;
    let item = serde_json::json!({"request": {"text": "hello"}});
    let batch = serde_json::json!(vec![item; 1000]);
    for _ in 0..3 {
        let sent = site.post("/api/tasks/write-note/batch", batch.to_string());
        sent.await.assert_status(200);
    }
    // Late enough that none of them has changed since the place below.
    site.clock.advance("2m");
    let mut client = Client::default();
    let mut first = client.open(&site, "").await;
    let place = client.place.clone();
    client.until(&mut first, |it| it.place != place).await;
    let mut lines = client.open(&site, "").await;
    let mut comments = 0;
    loop {
        let sent = lines.next().await.expect("it goes on");
        comments += usize::from(sent.starts_with(':'));
        if sent.starts_with("id: ") {
            break;
        }
    }
    assert!(comments > 1, "{comments}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_reads_what_has_ended_tells_how_far_it_is() {
    let site = site().await;
    let mut client = Client::default();
    let mut lines = client.open(&site, "").await;
    client.until(&mut lines, |it| it.place.is_some()).await;
    let before = client.place.clone();
    site.run_worker();
    let task = site.submit("/api/tasks/write-note").await;
    site.until(task, TaskStatus::Completed).await;
    // The next stream is live at a place that is far behind the task's end.
    site.clock.advance("10m");
    client
        .until(&mut lines, |it| it.minutes_from(before.as_deref()) >= 5)
        .await;
    client = Client {
        place: before.clone(),
        ..Client::default()
    };
    let mut lines = client.open(&site, "").await;
    client.until(&mut lines, |it| it.place != before).await;
    assert_eq!(client.completed(), [task].into());
    assert_eq!(client.minutes_from(before.as_deref()), 0);
    // One that goes on from behind it is not told of that place again.
    let mut ahead = Client {
        place: before.map(|place| (place.parse::<i64>().expect("a time") + 30_000_000).to_string()),
        ..Client::default()
    };
    let from = ahead.place.clone();
    let mut lines = ahead.open(&site, "").await;
    ahead.until(&mut lines, |it| it.place != from).await;
    assert_eq!(ahead.completed(), [task].into());
    let told = ahead.minutes_from(from.as_deref());
    assert!(told >= 5, "{told}");
}
