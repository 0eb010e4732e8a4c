//! Many dead letters on real servers: how many causes they have, and how fast those of one cause go on when it is
//! gone.

use counterstep_contracts::bulk::{BulkStatus, BulkView};
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::{Page, TaskSummary, TaskView};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::own_program::OwnProgram;
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// A service that is down at first, and how often it was asked.
#[derive(Clone, Default)]
struct Service(Arc<(AtomicBool, AtomicUsize)>);

impl Service {
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let own = self.clone();
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                own.0.1.fetch_add(1, Ordering::SeqCst);
                let up = own.0.0.load(Ordering::SeqCst);
                let _ = caller.write_all(if up { b"up" } else { b"no" }).await;
            }
        });
        address
    }

    fn repair(&self) {
        self.0.0.store(true, Ordering::SeqCst);
    }

    fn calls(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

async fn ask<T: DeserializeOwned>(api: &Api, path: &str) -> T {
    let answer = api.request(Method::GET, path).send().await;
    answer.expect("an answer").json().await.expect("JSON")
}

async fn submit(api: &Api, tasks: u32) {
    let all: Vec<_> = (0..tasks).map(|no| json!({"request": no})).collect();
    for items in all.chunks(500) {
        let batch = api.request(Method::POST, "/api/tasks/ship/batch");
        let answer = batch.json(items).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

async fn groups(api: &Api) -> DeadLetterGroups {
    ask(api, "/api/dead-letters/groups").await
}

/// The tasks in a state.
async fn all(api: &Api, status: TaskStatus) -> Vec<TaskId> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/tasks?type=Ship&status={status}&limit=200{cursor}");
        let page: Page<TaskSummary> = ask(api, &path).await;
        found.extend(page.items.into_iter().map(|it| it.task_id));
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Dead letters of three causes; those of the largest go on, from where they stood.
async fn of_three_causes(tasks: u32) {
    let service = Service::default();
    let address = service.start().await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_parks"), &[]).variable("SERVICE", &address);
    let (_api, api) = program.api();
    let _workers = [program.worker(), program.worker()];
    let began = Instant::now();
    submit(&api, tasks).await;
    let found = until("all are parked", LATER, || async {
        let found = groups(&api).await;
        (found.counted == u64::from(tasks)).then_some(found)
    })
    .await;
    let parked_in = began.elapsed();
    assert_eq!((found.groups.len(), found.complete), (3, true), "{found:?}");
    let group = &found.groups[0];
    assert_eq!(group.count, u64::from(tasks.div_ceil(3)));
    let asked = service.calls();
    assert_eq!(asked, tasks as usize);

    service.repair();
    let body = json!({"action": "redrive", "group": group.id, "note": "the bank is back"});
    let began = Instant::now();
    let started = api.request(Method::POST, "/api/bulk-operations");
    let started = started.json(&body).send().await.expect("an answer");
    let started: BulkView = started.json().await.expect("JSON");
    let of_group = usize::try_from(group.count).expect("a count");
    let (operation, completed) = until("the group has completed", LATER, || async {
        let view: BulkView = ask(&api, &format!("/api/bulk-operations/{}", started.id)).await;
        if !view.status.has_ended() {
            return None;
        }
        let completed = all(&api, TaskStatus::Completed).await;
        (completed.len() >= of_group).then_some((view, completed))
    })
    .await;
    let took = began.elapsed();
    println!(
        "{tasks} tasks parked in {parked_in:?}; {of_group} redriven and completed in {took:?}: {:.0} a second",
        of_group as f64 / took.max(Duration::from_millis(1)).as_secs_f64()
    );
    assert_eq!(operation.status, BulkStatus::Done);
    assert_eq!(
        (operation.done, operation.failed, operation.skipped),
        (group.count, 0, 0)
    );
    assert_eq!(completed.len(), of_group);
    assert_eq!(
        service.calls(),
        asked + of_group,
        "the first step of none ran again, the second once"
    );
    for task in completed.iter().step_by(of_group.div_ceil(20)) {
        let view: TaskView = ask(&api, &format!("/api/tasks/{task}")).await;
        let tries: Vec<_> = view.steps.iter().map(|step| step.attempts.0).collect();
        assert_eq!(tries, [1, 2], "{task}");
    }
    let left = groups(&api).await;
    assert_eq!(left.groups, found.groups[1..]);
    let page: Value = ask(
        &api,
        "/api/tasks?type=Ship&status=running&status=dispatched",
    )
    .await;
    assert_eq!(page["items"], json!([]));
    program.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_of_three_causes_are_three_groups_and_one_is_redriven() {
    of_three_causes(300).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; run by hand: cargo test -p counterstep-tests -- --ignored five_thousand_dead_letters --nocapture"]
async fn five_thousand_dead_letters() {
    of_three_causes(5_000).await;
}
