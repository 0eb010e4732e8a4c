//! Streams of the events of one task, as a client sees them.

#[path = "events/limits.rs"]
mod limits;
#[path = "events/many.rs"]
mod many;
#[path = "events/reader.rs"]
mod reader;

use crate::site::{Site, eventually};
use counterstep_adapters::system::LocalSignals;
use counterstep_contracts::http::{AuditTrail, AuditView};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::Ports;
use counterstep_macros::distributed_task;
use counterstep_steps::contracts::RetryPolicy;
use counterstep_steps::{Registry, StepContext, StepError, StepResult};
use reader::{Reader, Sent};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn types(registry: Registry) -> Registry {
    registry.with::<Persist>()
}

const OFTEN: RetryPolicy = RetryPolicy::constant("1ms")
    .max_retries(1_000)
    .jitter(false);

/// How often a step fails before it succeeds, and with how long a message.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fails {
    times: i32,
    letters: usize,
}

/// Fails again and again, and succeeds in the end: a journal as long as a test needs it.
pub(crate) struct Persist;

#[distributed_task(name = "Persist", version = 1, queue = "persist", cancellable)]
impl Persist {
    type Request = Fails;
    type Response = i32;

    #[step(1, host = "worker", retry = OFTEN, no_undo = "it does nothing")]
    async fn attempt(ctx: &StepContext, fails: &Fails) -> StepResult<i32> {
        if ctx.attempt().0 <= fails.times {
            return Err(StepError::transient("x".repeat(fails.letters)));
        }
        Ok(fails.times)
    }

    fn respond(attempt: &i32) -> i32 {
        *attempt
    }
}

impl Site {
    async fn persist(&self, times: i32, letters: usize) -> TaskId {
        let body = format!(r#"{{"times":{times},"letters":{letters}}}"#);
        let accepted = self.post("/api/tasks/persist", body).await;
        accepted
            .json::<counterstep_contracts::http::Accepted>(202)
            .task_id
    }

    async fn audit(&self, task: TaskId) -> Vec<AuditView> {
        let path = format!("/api/tasks/{task}/audit");
        self.get(&path).await.json::<AuditTrail>(200).entries
    }
}

/// Looks for changes often, where none is announced.
async fn site() -> Site {
    Site::with(|api, _| api.event_poll = Duration::from_millis(50)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_brings_the_audit_as_it_grows_and_ends_with_the_task() {
    let site = site().await;
    let task = site.submit("/api/tasks/write-note").await;
    let mut stream = Reader::open(&site, task, None).await;
    let first = stream.entry().await.expect("it was submitted");
    assert_eq!(first.entry.event, "submitted");
    assert_eq!(first.status, TaskStatus::Submitted);
    site.run_worker();
    let mut seen = vec![first];
    while let Some(event) = stream.entry().await {
        assert_eq!(event.status, event.entry.to);
        seen.push(event);
    }
    assert_eq!(seen.last().unwrap().status, TaskStatus::Completed);
    let seen: Vec<_> = seen.into_iter().map(|event| event.entry).collect();
    assert_eq!(seen, site.audit(task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_twenty_times_sees_each_event_once_on_two_servers() {
    let site = site().await;
    // Nothing that the first one announces reaches the other.
    let deaf = Ports {
        signals: Arc::new(LocalSignals::new()),
        ..site.engine.ports.clone()
    };
    let sites = [site.beside(deaf), site];
    let task = sites[1].persist(60, 10).await;
    sites[1].run_worker();
    let (mut seen, mut cuts) = (Vec::<AuditView>::new(), 0_usize);
    'task: loop {
        let last = seen.last().map(|entry| entry.seq.0.to_string());
        let opened = Reader::reopen(&sites[cuts % 2], task, last.as_deref()).await;
        let Some(mut stream) = opened else { break };
        for _ in 0..4 {
            match stream.entry().await {
                Some(event) => seen.push(event.entry),
                None => break 'task,
            }
        }
        cuts += 1;
    }
    assert!(cuts >= 20, "only {cuts} cuts");
    assert_eq!(seen, sites[0].audit(task).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_hears_of_what_was_announced_nowhere() {
    let site = site().await;
    let deaf = Ports {
        signals: Arc::new(LocalSignals::new()),
        ..site.engine.ports.clone()
    };
    let other = site.beside(deaf);
    let task = site.submit("/api/tasks/write-note").await;
    let mut stream = Reader::open(&other, task, None).await;
    assert_eq!(stream.entry().await.unwrap().entry.event, "submitted");
    site.run_worker();
    let mut last = None;
    while let Some(event) = stream.entry().await {
        last = Some(event);
    }
    assert_eq!(last.expect("more").status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_hears_of_a_change_by_its_signal() {
    let site = Site::with(|api, _| api.event_poll = Duration::from_secs(600)).await;
    let task = site.submit("/api/tasks/write-note").await;
    let mut stream = Reader::open(&site, task, None).await;
    assert_eq!(stream.entry().await.unwrap().entry.event, "submitted");
    site.run_worker();
    while stream.entry().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_comes_late_to_a_long_audit_gets_all_of_it() {
    let site = site().await;
    // Parked, so that the streams go on.
    let task = site.submit("/api/tasks/asks-a-person").await;
    let mut early = Reader::open(&site, task, None).await;
    site.run_worker();
    let parked = site.until(task, TaskStatus::DeadLettered).await;
    assert_eq!(parked.status, TaskStatus::DeadLettered);
    for _ in 0..12 {
        let body = r#"{"note":"again","actor":"anna"}"#;
        let retried = site.post(&format!("/api/tasks/{task}/retry"), body).await;
        assert_eq!(retried.status, 200);
        site.until(task, TaskStatus::DeadLettered).await;
    }
    let audit = site.audit(task).await;
    assert!(audit.len() > 30, "{}", audit.len());
    let seen = early.entries(audit.len()).await;
    assert_eq!(seen, audit);
    let mut late = Reader::open(&site, task, None).await;
    assert_eq!(late.entries(audit.len()).await, audit);
    let from = audit.len() / 2;
    let mut later = Reader::open(&site, task, Some(&from.to_string())).await;
    assert_eq!(later.entries(audit.len() - from).await, audit[from..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reads_nothing_for_long_gets_everything_in_the_end() {
    let site = site().await;
    let task = site.persist(200, 2_000).await;
    let mut slow = Reader::open_slowly(&site, task).await;
    let mut other = Reader::open(&site, task, None).await;
    site.run_worker();
    while other.entry().await.is_some() {}
    let audit = site.audit(task).await;
    let text: usize = audit.iter().map(|it| it.details.to_string().len()).sum();
    assert!(text > 400_000, "it fits into the buffers between: {text}");
    let mut seen = Vec::new();
    while let Some(event) = slow.entry().await {
        seen.push(event.entry);
    }
    assert_eq!(seen, audit);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_running_step_is_an_event_without_an_id() {
    let site = site().await;
    let task = site.submit("/api/tasks/plod").await;
    site.run_worker();
    eventually("a progress", || async {
        let view: counterstep_contracts::http::TaskView =
            site.get(&format!("/api/tasks/{task}")).await.json(200);
        let said = view.steps[0].progress.clone();
        said.ok_or_else(|| format!("{view:?}"))
    })
    .await;
    // What was said before the stream began, too.
    let mut stream = Reader::open(&site, task, None).await;
    let progress = loop {
        match stream.next().await.expect("it goes on") {
            Sent::Progress(progress) => break progress,
            Sent::Entry(..) | Sent::Comment => {}
        }
    };
    let said = &progress.steps["trudge"];
    assert_eq!((said.done, said.total, said.percent), (3, 8, Some(37)));
    site.send(site.request("DELETE", &format!("/api/tasks/{task}")))
        .await;
    let mut last = None;
    while let Some(event) = stream.entry().await {
        last = Some(event);
    }
    assert_eq!(last.expect("its end").status, TaskStatus::Cancelled);
}
